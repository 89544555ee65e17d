use proptest::prelude::*;

use super::*;

#[test]
fn requests_of_every_shape() {
    let ok = |path, fifo, status_fifo| Ok(Request { path, fifo, status_fifo });
    for (message, expected) in [
        (&b"/data/x;reply"[..], ok(&b"/data/x"[..], &b"reply"[..], None)),
        (b"x;reply\0", ok(b"x", b"reply", None)),
        (b"x;reply\0garbage;behind;it;all", ok(b"x", b"reply", None)),
        (b"a b/\xff;reply;status", ok(b"a b/\xff", b"reply", Some(&b"status"[..]))),
        (b"", Err(RequestError::Empty)),
        (b"\0x;reply", Err(RequestError::Empty)),
        (b"x", Err(RequestError::Malformed)),
        (b"x;", Err(RequestError::Malformed)),
        (b";reply", Err(RequestError::Malformed)),
        (b";", Err(RequestError::Malformed)),
        (b"x;reply;", Err(RequestError::Malformed)),
        (b"x;reply;reply", Err(RequestError::Malformed)),
        (b"x;a;b;c", Err(RequestError::Malformed)),
        (b"x;../reply", Err(RequestError::Malformed)),
        (b"x;/tmp/reply", Err(RequestError::Malformed)),
        (b"x;.", Err(RequestError::Malformed)),
        (b"x;..", Err(RequestError::Malformed)),
        (b"x;reply;a/b", Err(RequestError::Malformed)),
    ] {
        assert_eq!(Request::parse(message), expected, "{}", message.escape_ascii());
    }
}

#[test]
fn names_too_long_for_file_systems_are_oversized() {
    let (path, name) = (vec![b'p'; PATH_BYTES_MAX + 1], vec![b'n'; NAME_BYTES_MAX + 1]);
    assert!(Request::new(&path[1..], &name[1..], None).is_ok());
    assert_eq!(Request::new(&path, b"f", None), Err(RequestError::Oversized));
    assert_eq!(Request::new(b"p", &name, None), Err(RequestError::Oversized));
    assert_eq!(Request::new(b"p", b"f", Some(&name)), Err(RequestError::Oversized));
    assert_eq!(Request::new(b"p;", b"f", None), Err(RequestError::Malformed));
    assert_eq!(Request::new(b"p\0", b"f", None), Err(RequestError::Malformed));
}

#[test]
fn every_status_has_a_byte_and_a_name_of_its_own() {
    for (index, &status) in Status::ALL.iter().enumerate() {
        assert_eq!((usize::from(status.byte()), Status::from_byte(status.byte())), (index, Some(status)));
        assert!(Status::ALL[..index].iter().all(|other| other.name() != status.name()));
    }
    assert_eq!(Status::from_byte(12), None);
}

#[test]
fn a_header_is_what_the_documentation_shows() {
    let header = Header { status: Status::FileChanged, length: 0x0102_0304 };
    let bytes = *b"MSV1\x04\0\0\0\0\0\0\0\x01\x02\x03\x04";
    assert_eq!((header.encode(), Header::decode(&bytes)), (bytes, Ok(header)));
    let changed = |at: usize, byte| {
        let mut bytes = bytes;
        bytes[at] = byte;
        Header::decode(&bytes)
    };
    assert_eq!(changed(3, b'2'), Err(HeaderError::Magic));
    assert_eq!(changed(4, 200), Err(HeaderError::Status(200)));
    assert_eq!(changed(7, 1), Err(HeaderError::Reserved));
}

fn field(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(b';'), Just(b'/'), Just(b'.'), Just(0), any::<u8>()], 0..max)
}

proptest! {
    /// Every message that can be built is parsed as it was, with or without a NUL behind it.
    #[test]
    fn an_encoded_message_is_parsed(path in field(40), fifo in field(9), status in prop::option::of(field(9)), tail in field(9)) {
        if let Ok(request) = Request::new(&path, &fifo, status.as_deref()) {
            let mut message = Vec::new();
            request.encode(&mut message);
            prop_assert_eq!(Request::parse(&message), Ok(request));
            message.push(0);
            message.extend_from_slice(&tail);
            prop_assert_eq!(Request::parse(&message), Ok(request));
        }
    }

    /// Every message that is accepted names entries of one directory and nothing beyond it.
    #[test]
    fn arbitrary_messages_never_name_another_directory(message in field(60)) {
        if let Ok(request) = Request::parse(&message) {
            for name in [Some(request.fifo), request.status_fifo].into_iter().flatten() {
                prop_assert!(!name.is_empty() && !name.contains(&b'/') && name != b"." && name != b"..");
            }
            prop_assert_eq!(Request::new(request.path, request.fifo, request.status_fifo), Ok(request));
        }
    }

    #[test]
    fn headers_survive(index in 0..Status::ALL.len(), length: u64, bytes: [u8; HEADER_BYTES]) {
        let header = Header { status: Status::ALL[index], length };
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }
}
