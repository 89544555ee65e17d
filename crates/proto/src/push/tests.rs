use std::{
    sync::atomic::{AtomicUsize, Ordering},
    task::Wake,
    thread,
};

use super::*;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn connected(bytes_max: usize) -> (Pusher, Outbox) {
    let (pusher, mut out) = (Pusher::new(bytes_max), Outbox::default());
    out.take_pushes_of(&pusher);
    (pusher, out)
}

fn push(pusher: &Pusher, bytes: impl Into<Vec<u8>>) -> Result<(), Closed> {
    pusher.push(&Bytes::from(bytes.into()))
}

/// Writes all there is.
fn written(out: &mut Outbox) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let n = match out.front() {
            Some(crate::NextWrite::Memory(pieces, count)) => {
                pieces[..count].iter().for_each(|piece| all.extend_from_slice(piece));
                pieces[..count].iter().map(|piece| piece.len()).sum()
            }
            _ => return all,
        };
        out.advance(n);
    }
}

#[test]
fn pushes_leave_in_their_order_behind_what_is_queued() {
    let (pusher, mut out) = connected(1 << 20);
    out.inline().extend_from_slice(b"reply,");
    let large = vec![b'x'; 3 * COPY_MAX];
    for bytes in [&b"a,"[..], b"", b"b,", &large, b",c"] {
        assert_eq!(push(&pusher, bytes), Ok(()));
    }
    assert!(out.collect_pushes() && !out.collect_pushes() && !out.has_pushes());
    assert_eq!(written(&mut out), [b"reply,a,b,", &large[..], b",c"].concat());
}

/// Pushes that there is no room for stay in the mailbox, and its limit counts only those.
#[test]
fn a_full_outbox_takes_nothing_more() {
    let (pusher, mut out) = connected(600_000);
    let piece = vec![b'x'; 100_000];
    (0..5).for_each(|_| push(&pusher, &piece[..]).unwrap());
    assert!(out.collect_pushes() && out.is_full() && out.has_pushes());
    (0..3).for_each(|_| push(&pusher, &piece[..]).unwrap());
    let source = out.source().unwrap();
    assert_eq!(source.poll_news(Room::None, None), Poll::Pending);
    push(&pusher, &piece[..]).unwrap_err();
    assert_eq!(out.source().unwrap().poll_news(Room::None, None), Poll::Ready(Err(Overrun)));
    assert!(pusher.is_closed() && !out.has_pushes(), "it holds no memory from then on");
}

#[test]
fn a_wake_is_neither_lost_nor_repeated() {
    let (pusher, mut out) = connected(1_000);
    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(Arc::clone(&wakes));
    let woken = || wakes.0.load(Ordering::Relaxed);
    push(&pusher, "a").unwrap();
    assert_eq!(out.source().unwrap().poll_news(Room::Some, Some(&waker)), Poll::Ready(Ok(())));
    assert!(out.collect_pushes());
    assert_eq!(out.source().unwrap().poll_news(Room::Some, Some(&waker)), Poll::Pending);
    push(&pusher, "b").unwrap();
    push(&pusher, "c").unwrap();
    assert_eq!(woken(), 1, "the first one has woken");
    // Without room, only the end is worth a wake.
    assert_eq!(out.source().unwrap().poll_news(Room::None, Some(&waker)), Poll::Pending);
    push(&pusher, "d").unwrap();
    assert_eq!(woken(), 1);
    push(&pusher, [0; 3_000]).unwrap_err();
    assert_eq!(woken(), 2);
}

#[test]
fn the_end_of_a_connection_closes_its_handle() {
    let (pusher, mut out) = connected(1_000);
    push(&pusher, "before").unwrap();
    assert_eq!(out.source().unwrap().poll_news(Room::Ending { is_full: false }, None), Poll::Ready(Ok(())));
    assert_eq!(push(&pusher, "after"), Err(Closed));
    assert!(out.collect_pushes());
    assert_eq!(written(&mut out), b"before");
    let (pusher, out) = connected(1_000);
    drop(out);
    assert_eq!(push(&pusher, "gone"), Err(Closed));
}

/// An outbox that follows another is told of what is pushed there, once, and takes nothing.
#[test]
fn a_following_outbox_has_turns_alone() {
    let (pusher, mut inner) = connected(1_000);
    let mut outer = Outbox::default();
    outer.follow_pushes(&inner);
    push(&pusher, "a").unwrap();
    assert!(!outer.collect_pushes() && !outer.has_pushes());
    assert_eq!(outer.source().unwrap().poll_news(Room::Some, None), Poll::Ready(Ok(())));
    assert_eq!(outer.source().unwrap().poll_news(Room::Some, None), Poll::Pending);
    assert!(inner.collect_pushes());
    push(&pusher, "b").unwrap();
    pusher.move_all(&mut inner);
    assert_eq!(written(&mut inner), b"ab");
    push(&pusher, "c").unwrap();
    pusher.discard();
    assert!(!inner.collect_pushes());
}

#[test]
fn threads_may_push_at_the_same_time() {
    let (pusher, mut out) = connected(1 << 20);
    thread::scope(|scope| {
        for letter in [b'a', b'b', b'c'] {
            let pusher = pusher.clone();
            scope.spawn(move || (0..500).for_each(|_| push(&pusher, [letter; 10]).unwrap()));
        }
        let mut got = Vec::new();
        while got.len() < 3 * 500 * 10 {
            out.collect_pushes();
            got.extend(written(&mut out));
            thread::yield_now();
        }
        assert!(got.chunks(10).all(|push| push.iter().all(|byte| *byte == push[0])), "each push is whole");
    });
}
