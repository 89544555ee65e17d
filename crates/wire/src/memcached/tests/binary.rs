//! The binary protocol, both directions.

use proptest::{collection::vec, prelude::*};

use super::{parse_to_text, parse_torn_to_text};
use crate::memcached::{
    Direction, Expiry, ITEM_OVERHEAD_BYTES, KEY_BYTES_MAX, Limits, Parsed, Request, RequestParser, StoreMode,
    binary::{
        self, Command, Head, Opcode, ReturnedParts, SASL_BYTES_MAX, SaslStep, Status,
        client::{DecodeError, Reply, RequestBody, decode},
        reply,
    },
};

const SMALL: Limits = Limits { item_bytes_max: 80, line_bytes_max: 30, keys_line_bytes_max: 60 };

fn write(opcode: u8, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    binary::client::request(&mut out, opcode, 0xdead_beef, cas, &RequestBody { extras, key, value });
    out
}

fn parse(input: &[u8]) -> binary::Request<'_> {
    match RequestParser::default().parse(input, &Limits::default()) {
        Ok(Parsed::Complete { request: Request::Binary(request), consumed }) => {
            assert_eq!(consumed, input.len());
            assert_eq!(request.head, Head { opcode: input[1], opaque: 0xdead_beef });
            request
        }
        other => panic!("{other:?}"),
    }
}

fn command(input: &[u8]) -> Command<'_> {
    parse(input).command
}

#[test]
fn every_number_is_that_of_one_command() {
    let mut known = 0;
    for number in 0..=u8::MAX {
        let Some((opcode, is_quiet)) = Opcode::from_number(number) else { continue };
        let written = if is_quiet { opcode.quiet_number() } else { Some(opcode.number()) };
        assert_eq!(written, Some(number));
        known += 1;
    }
    let quiet = Opcode::ALL.iter().filter(|opcode| opcode.quiet_number().is_some()).count();
    assert_eq!(known, Opcode::ALL.len() + quiet);
}

#[test]
fn requests_have_the_meaning_of_the_specification() {
    let key = b"k".as_slice();
    let eight = [0, 0, 0, 7, 0, 0, 0, 9];
    let store = |mode, flags, expiry| Command::Store { mode, key, flags, expiry, value: b"v" };
    assert_eq!(command(&write(0x01, 0, &eight, key, b"v")), store(StoreMode::Set, 7, Expiry::In(9)));
    assert_eq!(command(&write(0x12, 0, &eight, key, b"v")), store(StoreMode::Add, 7, Expiry::In(9)));
    assert_eq!(command(&write(0x03, 5, &eight, key, b"v")), store(StoreMode::Cas(5), 7, Expiry::In(9)));
    assert_eq!(command(&write(0x0e, 5, b"", key, b"v")), store(StoreMode::Append, 0, Expiry::Never));
    let get = |touch, parts| Command::Get { key, touch, parts };
    assert_eq!(command(&write(0x00, 0, b"", key, b"")), get(None, ReturnedParts::Value));
    assert_eq!(command(&write(0x0d, 0, b"", key, b"")), get(None, ReturnedParts::KeyAndValue));
    assert_eq!(command(&write(0x1c, 0, &[0; 4], key, b"")), get(Some(Expiry::Never), ReturnedParts::Nothing));
    // Times have no sign here: the year 2106.
    let late = Some(Expiry::At(i64::from(u32::MAX)));
    assert_eq!(command(&write(0x24, 0, &[0xff; 4], key, b"")), get(late, ReturnedParts::KeyAndValue));
    let extras = [[0, 0, 0, 0, 0, 0, 0, 2].as_slice(), &[0, 0, 0, 0, 0, 0, 0, 40], &[0xff; 4]].concat();
    let arithmetic = Command::Arithmetic { key, direction: Direction::Decrement, delta: 2, initial: 40, vivify: None };
    assert_eq!(command(&write(0x06, 0, &extras, key, b"")), arithmetic);
    assert_eq!(command(&write(0x08, 0, b"", b"", b"")), Command::Flush { delay: Expiry::Never });
    assert_eq!(command(&write(0x18, 0, &[0, 0, 0, 3], b"", b"")), Command::Flush { delay: Expiry::In(3) });
    assert_eq!(command(&write(0x10, 0, b"", b"items", b"")), Command::Stat { name: b"items" });
    let sasl = Command::Sasl(SaslStep::Start { mechanism: b"PLAIN", response: b"\0u\0p" });
    assert_eq!(command(&write(0x21, 0, b"", b"PLAIN", b"\0u\0p")), sasl);
    assert!(parse(&write(0x11, 0, &eight, key, b"v")).is_quiet && !parse(&write(0x01, 0, &eight, key, b"v")).is_quiet);
}

/// Requests that break a rule, and are told so before their bodies have come.
#[test]
fn malformed_requests_end_the_connection() {
    let long = [b'k'; KEY_BYTES_MAX + 1];
    let mut lying = write(0x00, 0, b"", b"key", b"");
    lying[3] = 4; // A key longer than the body.
    let sasl = [0; SASL_BYTES_MAX + 1];
    for (input, status) in [
        (lying, Status::UnknownCommand),
        (write(0x00, 0, b"", &long, b""), Status::Invalid),
        (write(0x99, 0, b"", &long, b""), Status::Invalid),
        (write(0x00, 0, b"", b"", b""), Status::Invalid),
        (write(0x00, 0, b"", b"k", b"v"), Status::Invalid),
        (write(0x00, 0, &[0; 4], b"k", b""), Status::Invalid),
        (write(0x01, 0, &[0; 4], b"k", b"v"), Status::Invalid),
        (write(0x05, 0, &[0; 8], b"k", b""), Status::Invalid),
        (write(0x08, 0, &[0; 2], b"", b""), Status::Invalid),
        (write(0x0a, 0, b"", b"k", b""), Status::Invalid),
        (write(0x1c, 0, b"", b"k", b""), Status::Invalid),
        (write(0x21, 0, b"", b"PLAIN", &sasl), Status::Invalid),
    ] {
        let parsed = RequestParser::default().parse(&input[..24], &Limits::default());
        let Ok(Parsed::Complete { request: Request::Binary(request), .. }) = parsed else { panic!("{parsed:?}") };
        assert_eq!(request.command, Command::Malformed(status), "{}", input.escape_ascii());
    }
    assert_eq!(parse_to_text(b"\x80", &Limits::default()), "…");
    let noop = write(0x0a, 0, b"", b"", b"");
    let text = parse_to_text(&[&noop, b"get a\r\n".as_slice()].concat(), &Limits::default());
    assert!(text.contains("Noop") && text.ends_with(" | †"), "{text}");
}

#[test]
fn what_is_refused_is_skipped_with_its_value() {
    let (noop, extras) = (write(0x0a, 0, b"", b"", b""), [0; 8]);
    let value = vec![b'x'; Limits::default().item_bytes_max - ITEM_OVERHEAD_BYTES - 1];
    let fits = write(0x01, 0, &extras, b"k", &value);
    assert!(matches!(command(&fits), Command::Store { .. }));
    for (opcode, outdated) in [(0x01, "Some"), (0x02, "None"), (0x0e, "None")] {
        let extras = if opcode == 0x0e { &[][..] } else { &extras };
        let longer = write(opcode, 0, extras, b"kk", &value);
        let text = parse_to_text(&[longer, noop.clone()].concat(), &Limits::default());
        assert!(text.contains(&format!("TooLarge {{ outdated: {outdated}")) && text.contains(" | "), "{text}");
        assert!(text.ends_with("command: Noop }"), "{text}");
    }
    let unknown = write(0x77, 0, &extras, b"kk", &value);
    let text = parse_to_text(&[unknown, noop].concat(), &Limits::default());
    assert!(text.contains("Unknown") && text.ends_with("command: Noop }"), "{text}");
}

#[test]
fn replies_are_read_as_they_were_written() {
    let head = Head { opcode: 9, opaque: 77 };
    let mut out = Vec::new();
    reply::value_header(&mut out, head, 5, 3, b"key", 2);
    out.extend_from_slice(b"ab");
    reply::number(&mut out, head, 6, 40);
    reply::error(&mut out, head, Status::NotFound);
    reply::stat(&mut out, head, b"pid", b"1");
    reply::missing_key(&mut out, head, b"key");
    let plain = Reply { opcode: 9, status: 0, opaque: 77, cas: 0, extras: b"", key: b"", value: b"" };
    let mut rest = &out[..];
    for wanted in [
        Reply { cas: 5, extras: &[0, 0, 0, 3], key: b"key", value: b"ab", ..plain },
        Reply { cas: 6, value: &[0, 0, 0, 0, 0, 0, 0, 40], ..plain },
        Reply { status: 1, value: b"Not found", ..plain },
        Reply { key: b"pid", value: b"1", ..plain },
        Reply { status: 1, key: b"key", ..plain },
    ] {
        for end in 0..24 {
            assert_eq!(decode(&rest[..end]), Ok(None));
        }
        let (reply, length) = decode(rest).unwrap().unwrap();
        assert_eq!(reply, wanted);
        assert_eq!(decode(&rest[..length - 1]), Ok(None));
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    assert_eq!(decode(b"\x80"), Err(DecodeError::Magic));
    let mut lying = out;
    (lying[2], lying[3]) = (0xff, 0xff);
    assert_eq!(decode(&lying), Err(DecodeError::Lengths));
    (lying[2], lying[8]) = (0, 0xff);
    assert_eq!(decode(&lying), Err(DecodeError::TooLong));
}

/// Whole requests of all commands, and bytes that may confuse a parser.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let whole = (
        prop_oneof![4 => 0_u8..0x26, 1 => any::<u8>()],
        any::<u64>(),
        prop::sample::select(vec![0_usize, 4, 8, 20, 3]),
        vec(any::<u8>(), 0..5),
        vec(any::<u8>(), 0..40),
    );
    let whole = whole.prop_map(|(opcode, cas, extras, key, value)| {
        let value = if opcode % 3 == 0 { &[][..] } else { &value };
        write(opcode, cas, &[1; 20][..extras], &key, value)
    });
    let broken = vec(prop::sample::select(vec![0x80, 0x81, 0, 1, 4, 250, 255]), 0..30);
    vec(prop_oneof![8 => whole, 1 => broken], 0..8).prop_map(|pieces| {
        let mut stream = pieces.concat();
        if let Some(first) = stream.first_mut() {
            *first = 0x80;
        }
        stream
    })
}

proptest! {
    #[test]
    fn requests_do_not_depend_on_fragmentation(input in stream(), sizes in vec(1_usize..30, 1..5), small: bool) {
        let limits = if small { SMALL } else { Limits::default() };
        prop_assert_eq!(parse_to_text(&input, &limits), parse_torn_to_text(&input, &sizes, &limits));
    }

    #[test]
    fn a_set_is_read_as_it_was_written(
        key in vec(any::<u8>(), 1..=KEY_BYTES_MAX), flags: u32, expiry: u32, value in vec(any::<u8>(), 0..100),
    ) {
        let mut input = Vec::new();
        binary::client::set(&mut input, 0xdead_beef, &key, flags, expiry, &value);
        let wanted = Command::Store {
            mode: StoreMode::Set, key: &key, flags, expiry: Expiry::from_unsigned(expiry), value: &value,
        };
        prop_assert_eq!(command(&input), wanted);
    }
}
