//! Requests in pieces, requests of clients, and hostile requests.

use proptest::{collection::vec, prelude::*};

use super::{parse_to_text, parse_torn_to_text};
use crate::memcached::{Expiry, Limits, Parsed, Request, RequestParser, StoreMode, client};

const SMALL: Limits = Limits { item_bytes_max: 80, line_bytes_max: 30, keys_line_bytes_max: 60 };

/// Bytes that may confuse a parser, and whole requests between them.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => "(set|add|cas|append) [a-c]{1,3} [0-9]{1,2} -?[0-9]{1,2} [0-9]{1,2}( 7)?( noreply)?\r\n".prop_map(String::into_bytes),
        3 => ("[a-z]{1,9}", vec(any::<u8>(), 0..30), "(noreply)?").prop_map(|(key, value, noreply)| {
            let line = format!("set {key} 0 0 {} {noreply}\r\n", value.len());
            [line.as_bytes(), &value, b"\r\n"].concat()
        }),
        3 => ("[a-z]{1,9}", vec(any::<u8>(), 0..30), "( [qkIbvM]| T[0-9x]| MA| O123){0,4}").prop_map(|(key, value, flags)| {
            let line = format!("ms {key} {}{flags}\r\n", value.len());
            [line.as_bytes(), &value, b"\r\n"].concat()
        }),
        3 => "m[gdaenx] [a-z]{1,9}( [qkIbvtMN]| T[0-9x]| MD| O123){0,4}\r\n".prop_map(String::into_bytes),
        2 => "(get|gets|gat 0)( [a-z]{1,9}){0,12}\r?\n".prop_map(String::into_bytes),
        2 => "(incr|touch|delete|verbosity|flush_all|quit|stats)( [a-z0-9]{1,9}){0,3}( noreply)?\r\n".prop_map(String::into_bytes),
        1 => vec(prop::sample::select(b"\r\n\0 gets01-".to_vec()), 0..9),
        1 => vec(any::<u8>(), 0..9),
    ];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn requests_do_not_depend_on_fragmentation(input in stream(), sizes in vec(1_usize..20, 1..5), small: bool) {
        let limits = if small { SMALL } else { Limits::default() };
        prop_assert_eq!(parse_to_text(&input, &limits), parse_torn_to_text(&input, &sizes, &limits));
    }

    #[test]
    fn requests_are_read_as_they_were_written(
        key in "[!-~]{1,250}",
        flags: u32,
        exptime in 0_i64..4_000_000_000,
        value in vec(any::<u8>(), 0..100),
    ) {
        let (key, mut input) = (key.as_bytes(), Vec::new());
        client::set(&mut input, key, flags, exptime, &value);
        let request = Request::Store {
            mode: StoreMode::Set, key, flags, expiry: Expiry::from(exptime), value: &value, noreply: false,
        };
        let parsed = RequestParser::default().parse(&input, &Limits::default());
        prop_assert_eq!(parsed, Ok(Parsed::Complete { request, consumed: input.len() }));

        input.clear();
        client::meta_set(&mut input, key, format!("T{exptime} F{flags} k").as_bytes(), &value);
        match RequestParser::default().parse(&input, &Limits::default()) {
            Ok(Parsed::Complete { request: Request::MetaSet { key: read, mode: StoreMode::Set, flags: read_flags, value: read_value }, consumed }) => {
                prop_assert_eq!(read.raw, key);
                prop_assert_eq!(read_value, &value);
                prop_assert_eq!((read_flags.expiry(), read_flags.client_flags()), (Some(Expiry::from(exptime)), flags));
                prop_assert!(read_flags.has(b'k') && !read_flags.has(b'q') && consumed == input.len());
            }
            other => prop_assert!(false, "{:?}", other),
        }

        input.clear();
        client::get(&mut input, &[key, b"other"]);
        match RequestParser::default().parse(&input, &Limits::default()) {
            Ok(Parsed::Complete { request: Request::Get { keys, with_cas: false }, consumed }) => {
                prop_assert_eq!(keys.into_iter().collect::<Vec<_>>(), vec![key, b"other"]);
                prop_assert_eq!(consumed, input.len());
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn the_number_of_missing_bytes_is_reported() {
    let mut parser = RequestParser::default();
    assert_eq!(parser.parse(b"set a 0 0 100\r\nab", &Limits::default()), Ok(Parsed::Incomplete { need: 100 }));
    assert_eq!(parser.parse(b"set a 0 0 100\r\nabcd", &Limits::default()), Ok(Parsed::Incomplete { need: 98 }));
}

/// A get of a hundred thousand keys in a thousand pieces: bytes that have been searched are not searched again.
#[test]
fn a_torn_line_is_searched_once() {
    let input = [b"get".as_slice(), &b" 0123456789".repeat(90_000), b"\r\n"].concat();
    let mut parser = RequestParser::default();
    for end in (1..input.len()).step_by(16) {
        assert_eq!(parser.parse(&input[..end], &Limits::default()), Ok(Parsed::Incomplete { need: 0 }));
    }
    match parser.parse(&input, &Limits::default()) {
        Ok(Parsed::Complete { request: Request::Get { keys, .. }, consumed }) => {
            assert_eq!((keys.into_iter().count(), consumed), (90_000, input.len()));
        }
        other => panic!("{other:?}"),
    }
}
