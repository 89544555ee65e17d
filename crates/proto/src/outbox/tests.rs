use std::{os::fd::AsFd, sync::Arc, task::Waker};

use super::*;
use crate::MappedFile;

fn file(len: u64) -> FileRegion {
    let file = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    FileRegion { file: file.into(), offset: 7, len }
}

fn mapped(bytes: &'static [u8]) -> MappedRegion {
    let of = MappedFile { bytes: bytes.into(), file: file(0).file, fallbacks: Arc::default() };
    MappedRegion::new(&Arc::new(of), 0..bytes.len() as u64).expect("a range of it")
}

/// Memory, file, memory: the borrowing view shows them in order and says when more follows.
#[test]
fn front_follows_the_order_of_the_pushes() {
    let mut out = Outbox::default();
    out.inline().extend_from_slice(b"head");
    out.push_file(file(10));
    out.inline().extend_from_slice(b"tail");
    assert!(out.has_more_after_memory());
    assert!(matches!(out.front(), Some(NextWrite::Memory(iov, 1)) if &*iov[0] == b"head"));
    out.advance(4);
    out.advance(6);
    assert!(matches!(out.front(), Some(NextWrite::File(FileRegion { offset: 13, len: 4, .. }))));
    out.advance(4);
    assert!(!out.has_more_after_memory());
    assert!(matches!(out.front(), Some(NextWrite::Memory(iov, 1)) if &*iov[0] == b"tail"));
    out.advance(4);
    assert!(out.front().is_none() && out.is_idle());
}

/// A driver may go over from borrowing to taking in the middle of a piece.
#[test]
fn taking_goes_on_where_borrowing_stopped() {
    let mut out = Outbox::default();
    out.inline().extend_from_slice(b"0123456789");
    out.push_shared(&Bytes::from(vec![b'x'; 5000]));
    out.advance(4);
    let Taken::Segment(first) = out.take() else { panic!("memory") };
    assert_eq!(first.memory(), Some(&b"456789"[..]));
    out.recycle(first);
    out.advance(1000);
    let Taken::Segment(second) = out.take() else { panic!("memory") };
    assert_eq!(second.memory().map(<[u8]>::len), Some(4000));
    assert!(!out.is_idle(), "still in flight");
    out.recycle(second);
    assert!(out.is_idle() && matches!(out.take(), Taken::Nothing));
}

/// One vectored write carries queued memory and the inline bytes behind it.
#[test]
fn inline_bytes_leave_with_the_memory_before_them() {
    let mut out = Outbox::default();
    out.push_shared(&Bytes::from(vec![b'x'; 5000]));
    out.inline().extend_from_slice(b"next");
    assert!(matches!(out.front(), Some(NextWrite::Memory(iov, 2)) if &*iov[1] == b"next"));
    out.advance(5002);
    assert!(matches!(out.front(), Some(NextWrite::Memory(iov, 1)) if &*iov[0] == b"xt"));
}

/// Both marks stop a protocol, and a flush starts it again.
#[test]
fn the_high_water_marks_are_kept() {
    let mut out = Outbox::default();
    out.inline().resize(HIGH_WATER, 0);
    assert!(out.is_full());
    out.advance(HIGH_WATER);
    assert!(!out.is_full());
    for _ in 0..QUEUE_MAX {
        out.push_file(file(1));
    }
    assert!(out.is_full());
}

/// A promise dropped behind settled ones cuts off everything after it, and only that.
#[test]
fn a_cut_keeps_the_account_right() {
    let mut out = Outbox::default();
    let (kept, dropped) = (out.defer(), out.defer());
    out.push_shared(&Bytes::from(vec![b'x'; 5000]));
    let mut answer = Outbox::default();
    answer.inline().extend_from_slice(b"kept");
    kept.fulfil(answer);
    drop(dropped);
    assert!(matches!(out.front(), Some(NextWrite::Memory(iov, 1)) if &*iov[0] == b"kept"));
    assert_eq!((out.held_bytes(), out.is_broken()), (4, false));
    out.advance(4);
    assert!(out.is_broken() && out.is_full() && out.front().is_none());
}

/// Every segment costs so much of a queue.
#[test]
fn a_segment_is_small() {
    assert!(size_of::<Segment>() <= 40, "{} bytes", size_of::<Segment>());
}

/// A layer that has no room for input says so without being full of output, and only while a promise will tell it more.
#[test]
fn input_is_held_until_a_promise_is_settled() {
    let mut out = Outbox::default();
    out.hold_input();
    assert!(!out.is_full(), "nothing would end it");
    let promise = out.defer();
    out.hold_input();
    assert!(out.is_full() && out.poll_reply(Waker::noop()).is_pending() && out.is_full());
    promise.fulfil(Outbox::default());
    assert!(out.poll_reply(Waker::noop()).is_ready() && !out.is_full() && out.is_idle());
    let promise = out.defer();
    out.hold_input();
    drop(promise);
    assert!(out.front().is_none() && out.is_full() && out.is_broken(), "nothing follows a broken promise");
}

/// A layer reads memory and files in their order, as far as nothing comes first that cannot be read, and may stop anywhere.
#[test]
fn readable_output_ends_at_what_cannot_be_read() {
    let mut out = Outbox::default();
    let text = |out: &mut Outbox| {
        let piece = |piece: Readable<'_>| match piece {
            Readable::Memory(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Readable::File(region) => format!("{}+{}", region.offset, region.len),
        };
        out.readable().map(piece).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(text(&mut out), "");
    out.inline().extend_from_slice(b"head");
    out.push_file(file(10));
    out.push_uncopied(&Bytes::from_static(b"shared"));
    out.inline().extend_from_slice(b"tail");
    out.advance(1);
    assert_eq!(text(&mut out), "ead 7+10 shared tail");
    out.advance(3 + 4);
    assert_eq!(text(&mut out), "11+6 shared tail");
    out.advance(6 + 1);
    assert_eq!(text(&mut out), "hared tail", "across a file");
    let (promise, mut answer) = (out.defer(), Outbox::default());
    out.inline().extend_from_slice(b"end");
    assert_eq!(text(&mut out), "hared tail");
    answer.push_mapped(mapped(b"mapped"));
    promise.fulfil(answer);
    assert_eq!(text(&mut out), "hared tail");
    out.advance(5 + 4);
    assert_eq!(text(&mut out), "");
    out.advance(6);
    assert_eq!(text(&mut out), "end");
}

/// A mapping that is half sent goes on as a file where it stopped, and nothing else changes.
#[test]
fn a_mapping_falls_back_to_its_file() {
    let mut out = Outbox::default();
    assert!(!out.fall_back_from_mappings());
    out.push_mapped(mapped(b"first"));
    out.inline().extend_from_slice(b"head");
    out.push_mapped(mapped(b"second"));
    out.advance(3);
    assert!(out.fall_back_from_mappings() && !out.fall_back_from_mappings());
    assert!(matches!(out.front(), Some(NextWrite::File(FileRegion { offset: 3, len: 2, .. }))));
    out.advance(2);
    assert!(matches!(out.front(), Some(NextWrite::Memory(iov, 1)) if &*iov[0] == b"head"));
    out.advance(4);
    assert!(matches!(out.front(), Some(NextWrite::File(FileRegion { offset: 0, len: 6, .. }))));
    out.advance(6);
    assert!(out.is_idle());
}

/// Segments that a completion driver could not send are in front again, before what was queued meanwhile.
#[test]
fn segments_that_are_put_back_keep_their_order() {
    let mut out = Outbox::default();
    out.inline().extend_from_slice(b"head");
    out.push_mapped(mapped(b"body"));
    let (Taken::Segment(head), Taken::Segment(body)) = (out.take(), out.take()) else { panic!("two segments") };
    out.inline().extend_from_slice(b"next");
    out.put_back(body);
    out.put_back(head);
    assert!(!out.has_in_flight());
    out.advance(2);
    let Some(NextWrite::Memory(iov, 3)) = out.front() else { panic!("three pieces") };
    assert_eq!([&*iov[0], &*iov[1], &*iov[2]], [&b"ad"[..], b"body", b"next"]);
    out.advance(10);
    assert!(out.is_idle() && out.held_bytes() == 0);
}

/// Pieces of any kind are moved in their order, in part or whole, and nothing beyond a promise.
#[test]
fn a_part_of_another_outbox_is_moved() {
    let (mut from, mut to) = (Outbox::default(), Outbox::default());
    from.inline().extend_from_slice(b"0123");
    from.push_shared(&Bytes::from(vec![b'x'; 5000]));
    from.push_file(file(10));
    let promise = from.defer();
    from.inline().extend_from_slice(b"end");
    assert_eq!(to.push_from(&mut from, 3), 3);
    assert!(matches!(to.front(), Some(NextWrite::Memory(iov, 1)) if &*iov[0] == b"012"));
    to.advance(3);
    assert_eq!((to.push_from(&mut from, 4001), from.unsent_bytes()), (4001, 1000 + 10 + 1 + 3));
    to.inline().push(b'|');
    assert!(matches!(to.front(), Some(NextWrite::Memory(iov, 3)) if iov[0].len() == 1 && iov[1].len() == 4000));
    to.advance(4002);
    assert_eq!(to.push_from(&mut from, u64::MAX), 1010, "and no more before the promise is settled");
    assert_eq!((to.unsent_bytes(), to.is_idle()), (1010, false));
    to.advance(1004);
    assert!(matches!(to.front(), Some(NextWrite::File(FileRegion { offset: 11, len: 6, .. }))));
    to.advance(6);
    promise.fulfil(Outbox::default());
    assert!(from.poll_reply(Waker::noop()).is_ready());
    assert_eq!((to.push_from(&mut from, 9), from.is_idle(), to.unsent_bytes()), (3, true, 3));
}

/// A protocol whose replies may overtake a promise takes it back, writes, and puts it behind everything.
#[test]
fn a_promise_is_overtaken_by_what_is_written_while_it_is_withdrawn() {
    let mut out = Outbox::default();
    assert!(out.withdraw_promise().is_none());
    let promise = out.defer();
    let reply = out.withdraw_promise().expect("it is the last");
    assert!(out.is_idle() && !out.has_pending_replies());
    out.inline().extend_from_slice(b"sooner");
    out.restore_promise(reply);
    assert!(matches!(out.front(), Some(NextWrite::Memory(iov, 1)) if &*iov[0] == b"sooner"));
    out.advance(6);
    assert!(out.is_blocked_on_reply() && out.poll_reply(Waker::noop()).is_pending());
    out.inline().push(b'!');
    assert!(out.withdraw_promise().is_none(), "something waits for it");
    promise.fulfil(Outbox::default());
    assert!(matches!(out.front(), Some(NextWrite::Memory(iov, 1)) if &*iov[0] == b"!"));
}
