use proptest::{collection::vec, prelude::*};

use crate::file::{
    Dialect, Framed, Original, Status,
    client::{DecodeError, Eof, Event, FramedReplies, OriginalAnswer, OriginalReply},
};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reply {
    status: Status,
    body: Vec<u8>,
}

fn replies() -> impl Strategy<Value = Reply> {
    prop_oneof![
        vec(any::<u8>(), 0..300).prop_map(|body| Reply { status: Status::Found, body }),
        (1..Status::ALL.len()).prop_map(|index| Reply { status: Status::ALL[index], body: Vec::new() }),
    ]
}

fn write(replies: &[Reply]) -> Vec<u8> {
    let mut stream = Vec::new();
    for Reply { status, body } in replies {
        Framed::head(*status, body.len() as u64, &mut stream);
        stream.extend_from_slice(body);
    }
    stream
}

/// Returns complete replies, and the state at the end of the stream.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Reply>, Result<Eof, DecodeError>) {
    let (mut decoder, mut replies, mut current) = (FramedReplies::default(), Vec::new(), None);
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece) {
                Ok(Event::Head { status, body_bytes }) => {
                    current = Some((Reply { status, body: Vec::new() }, body_bytes));
                }
                Ok(Event::Body(bytes)) => {
                    assert!(!bytes.is_empty());
                    current.as_mut().expect("a head before the body").0.body.extend_from_slice(bytes);
                }
                Ok(Event::End) => {
                    let (reply, announced) = current.take().expect("a head before the end");
                    assert_eq!(reply.body.len() as u64, announced);
                    replies.push(reply);
                }
                Ok(Event::NeedMore) => break,
                Err(broken) => return (replies, Err(broken)),
            }
        }
        assert!(piece.is_empty());
    }
    (replies, Ok(decoder.eof()))
}

#[test]
fn heads_are_nine_bytes() {
    for (status, length, expected) in [
        (Status::Found, 0, [0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (Status::Found, 0x0102_0304_0506_0708, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (Status::Missing, 0, [1, 0, 0, 0, 0, 0, 0, 0, 0]),
        (Status::Malformed, 0, [2, 0, 0, 0, 0, 0, 0, 0, 0]),
        (Status::Unavailable, 0, [3, 0, 0, 0, 0, 0, 0, 0, 0]),
        (Status::Failed, 0, [4, 0, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        let mut out = Vec::new();
        Framed::head(status, length, &mut out);
        assert_eq!(out, expected);
    }
    let mut refusal = Vec::new();
    Framed::head(Status::Unavailable, 0, &mut refusal);
    assert_eq!(Framed::refusal(), refusal);
}

#[test]
fn bytes_and_statuses_are_the_same_set() {
    for byte in 0..=u8::MAX {
        assert_eq!(Status::from_byte(byte).map(Status::byte), (byte < 5).then_some(byte));
    }
    assert_eq!(Status::ALL.iter().map(|status| status.byte()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn the_original_head_is_one_nul_or_nothing() {
    for &status in Status::ALL {
        let mut out = Vec::new();
        Original::head(status, 0, &mut out);
        assert_eq!(out, if status == Status::Found { b"".as_slice() } else { b"\0" });
    }
    assert_eq!(Original::refusal(), b"\0");
}

#[test]
fn malformed_replies_are_refused_at_once() {
    let found = write(&[Reply { status: Status::Found, body: b"abc".to_vec() }]);
    assert_eq!(read([[&found[..], b"\x05"].concat().as_slice()]).1, Err(DecodeError::Status(5)));
    assert_eq!(read([b"HTTP/1.1 200 OK".as_slice()]).1, Err(DecodeError::Status(b'H')));
    assert_eq!(read([b"\x01\0\0\0\0\0\0\0\x01x".as_slice()]).1, Err(DecodeError::Body(Status::Missing)));
    let (replies, end) = read([[&found[..], &found[..4]].concat().as_slice()]);
    assert_eq!((replies.len(), end), (1, Ok(Eof::InHead)));
    assert_eq!(read([&found[..11]]), (vec![], Ok(Eof::InBody)));
    assert_eq!(read([&found[..9]]), (vec![], Ok(Eof::InBody)));
    assert_eq!(read([]), (vec![], Ok(Eof::Between)));
}

#[test]
fn a_body_may_be_longer_than_all_memory() {
    let mut head = Vec::new();
    Framed::head(Status::Found, u64::MAX, &mut head);
    assert_eq!(read([&head[..], &[7; 100]]), (vec![], Ok(Eof::InBody)));
}

#[test]
fn an_original_answer_is_all_bytes_before_the_end() {
    for (pieces, answer) in [
        (&[][..], OriginalAnswer::Empty),
        (&[b"".as_slice()][..], OriginalAnswer::Empty),
        (&[b"\0".as_slice()], OriginalAnswer::Missing),
        (&[b"\0".as_slice(), b""], OriginalAnswer::Missing),
        (&[b"".as_slice(), b"\0"], OriginalAnswer::Missing),
        (&[b"x".as_slice()], OriginalAnswer::Bytes(1)),
        (&[b"\0".as_slice(), b"\0"], OriginalAnswer::Bytes(2)),
        (&[b"\0\0".as_slice()], OriginalAnswer::Bytes(2)),
        (&[b"x".as_slice(), b"\0"], OriginalAnswer::Bytes(2)),
    ] {
        let mut reply = OriginalReply::default();
        pieces.iter().for_each(|piece| reply.feed(piece));
        assert_eq!(reply.answer(), answer, "{pieces:?}");
    }
}

proptest! {
    #[test]
    fn a_client_reads_what_a_server_writes(replies in vec(replies(), 0..8), size in 1_usize..400) {
        let stream = write(&replies);
        prop_assert_eq!(read(stream.chunks(size)), (replies, Ok(Eof::Between)));
    }

    #[test]
    fn replies_do_not_depend_on_fragmentation(
        stream in vec(prop_oneof![4 => Just(0_u8), 1 => 0_u8..4, 1 => any::<u8>()], 0..200),
        size in 1_usize..40,
    ) {
        prop_assert_eq!(read(stream.chunks(size)), read([&stream[..]]));
    }
}
