use proptest::{collection::vec, prelude::*};

use crate::file::{Dialect, FileId, Framed, ID_BYTES_MAX, Original, Request, client};

const KNOWN: &[u8] = b"ABCD2345";

fn id(bytes: &[u8]) -> FileId {
    FileId::new(bytes).expect("an id")
}

fn ids() -> impl Strategy<Value = FileId> {
    vec(1_u8.., 1..=40).prop_map(|bytes| id(&bytes))
}

#[test]
fn an_id_is_some_bytes_without_nul() {
    for bytes in [b"a".as_slice(), b"a/b.pdf", b"\xff\n ", &[b'x'; ID_BYTES_MAX]] {
        assert_eq!(id(bytes).as_bytes(), bytes);
    }
    for bytes in [b"".as_slice(), b"\0", b"a\0b", b"ab\0", &[b'x'; ID_BYTES_MAX + 1]] {
        assert_eq!(FileId::new(bytes), None, "{}", bytes.escape_ascii());
    }
}

#[test]
fn an_original_id_is_eight_capitals_and_digits() {
    for bytes in [KNOWN, b"AAAAAAAA", b"ZZZZ0000", b"99999999"] {
        assert_eq!(FileId::original(bytes), FileId::new(bytes));
        assert!(id(bytes).is_original());
    }
    for bytes in [b"ABCD234".as_slice(), b"ABCD23456", b"abcd2345", b"ABCD/345", b"ABCD 345", b"ABCD23\xc3\x84"] {
        assert_eq!(FileId::original(bytes), None, "{}", bytes.escape_ascii());
        assert!(!id(bytes).is_original());
    }
}

#[test]
fn a_displayed_id_has_no_control_characters() {
    for (bytes, shown) in [
        (b"ABCD2345".as_slice(), "ABCD2345"),
        ("größe 'x' \"y\"".as_bytes(), "größe 'x' \"y\""),
        (b"a\x1b[2J\r\n\\", "a\\u{1b}[2J\\r\\n\\\\"),
        (b"a\xffb", "a\u{fffd}b"),
        ("\u{202e}gpj".as_bytes(), "\\u{202e}gpj"),
    ] {
        assert_eq!(id(bytes).to_string(), shown);
    }
}

#[test]
fn an_original_request_is_eight_characters() {
    let get = Request::Get { id: id(KNOWN), consumed: 8 };
    assert_eq!(Original::request(KNOWN), get);
    assert_eq!(Original::request(b"ABCD2345 and more"), get);
    for have in 0..8 {
        assert_eq!(Original::request(&KNOWN[..have]), Request::Incomplete { need: 8 - have });
        // Even a request that cannot become valid is complete only with its last byte.
        assert_eq!(Original::request(&b"../../.."[..have]), Request::Incomplete { need: 8 - have });
    }
    for malformed in [b"../../..".as_slice(), b"abcd2345", b"\0\0\0\0\0\0\0\0", b"ABCD234\n"] {
        assert_eq!(Original::request(malformed), Request::Malformed { consumed: 8, fatal: true });
    }
}

#[test]
fn a_framed_request_is_a_length_and_an_id() {
    assert_eq!(Framed::request(b"\0\x03abc\0\x01"), Request::Get { id: id(b"abc"), consumed: 5 });
    let longest = [&[4, 0][..], &[b'x'; 1024]].concat();
    assert_eq!(Framed::request(&longest), Request::Get { id: id(&[b'x'; 1024]), consumed: 1026 });
    for (input, need) in [(b"".as_slice(), 3), (b"\0", 2), (b"\0\x01", 1), (b"\0\x03ab", 1), (b"\x04\0", 1024)] {
        assert_eq!(Framed::request(input), Request::Incomplete { need }, "{}", input.escape_ascii());
    }
    for (input, consumed, fatal) in
        [(b"\0\0".as_slice(), 2, true), (b"\x04\x01", 2, true), (b"\xff\xffx", 2, true), (b"\0\x03a\0bc", 5, false)]
    {
        assert_eq!(Framed::request(input), Request::Malformed { consumed, fatal }, "{}", input.escape_ascii());
    }
}

/// Reads a stream in pieces, each after the unread part of earlier ones, and checks the `need` of incomplete requests.
fn read<D: Dialect>(pieces: &[&[u8]]) -> (Vec<Request>, usize) {
    let (mut pending, mut requests, mut total) = (Vec::new(), Vec::new(), 0);
    for piece in pieces {
        pending.extend_from_slice(piece);
        loop {
            let request = D::request(&pending);
            let (consumed, is_over) = match request {
                Request::Incomplete { need } => {
                    assert!(need > 0);
                    break;
                }
                Request::Malformed { consumed, fatal } => (consumed, fatal),
                Request::Get { consumed, .. } => (consumed, !D::IS_PERSISTENT),
            };
            assert!(0 < consumed && consumed <= pending.len());
            pending.drain(..consumed);
            total += consumed;
            requests.push(request);
            if is_over {
                return (requests, total);
            }
        }
    }
    (requests, total)
}

fn torn<'a>(mut stream: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        let (piece, rest) = stream.split_at((*size).min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

proptest! {
    #[test]
    fn a_server_reads_what_a_client_writes(ids in vec(ids(), 1..10), sizes in vec(1_usize..20, 1..10)) {
        let mut stream = Vec::new();
        for id in &ids {
            client::write_framed_request(&mut stream, id);
        }
        let asked: Vec<_> =
            ids.iter().map(|id| Request::Get { id: id.clone(), consumed: 2 + id.as_bytes().len() }).collect();
        prop_assert_eq!(read::<Framed>(&torn(&stream, &sizes)), (asked, stream.len()));
    }

    #[test]
    fn a_server_reads_original_requests_of_a_client(id in "[A-Z0-9]{8}", sizes in vec(1_usize..9, 1..9)) {
        let id = FileId::original(id.as_bytes()).expect("an original id");
        let mut stream = Vec::new();
        client::write_original_request(&mut stream, &id);
        let asked = vec![Request::Get { id, consumed: 8 }];
        prop_assert_eq!(read::<Original>(&torn(&stream, &sizes)), (asked, 8));
    }

    #[test]
    fn requests_do_not_depend_on_fragmentation(
        stream in vec(prop_oneof![0_u8..4, any::<u8>()], 0..200),
        sizes in vec(1_usize..20, 1..10),
    ) {
        prop_assert_eq!(read::<Framed>(&torn(&stream, &sizes)), read::<Framed>(&[&stream]));
        prop_assert_eq!(read::<Original>(&torn(&stream, &sizes)), read::<Original>(&[&stream]));
    }

    #[test]
    fn with_fewer_bytes_than_needed_a_request_stays_incomplete(stream in vec(prop_oneof![0_u8..4, any::<u8>()], 0..60)) {
        for end in 0..stream.len() {
            for request in [Framed::request, Original::request] {
                if let Request::Incomplete { need } = request(&stream[..end]) {
                    let too_few = (end + need - 1).min(stream.len());
                    let says = request(&stream[..too_few]);
                    let is_early = matches!(says, Request::Get { .. } | Request::Malformed { fatal: false, .. });
                    prop_assert!(!is_early, "{says:?}");
                }
            }
        }
    }
}
