//! Requests in pieces, requests of clients, and hostile requests.

use proptest::{collection::vec, prelude::*};

use super::requests::parse_to_text;
use crate::resp::{
    Args, FAST_BYTES_MAX, FastRequest, Parsed, ProtocolError, RequestLimits, RequestParser, client, parse_fast,
};

/// Returns the [`parse_to_text`] of input that arrives in pieces, each offered after the unread part of earlier ones.
fn parse_torn_to_text(input: &[u8], sizes: &[usize], limits: &RequestLimits) -> String {
    let mut parser = RequestParser::default();
    let (mut start, mut end, mut parts) = (0, 0, Vec::new());
    let mut sizes = sizes.iter().cycle();
    'arrival: while end < input.len() {
        end = input.len().min(end + sizes.next().unwrap_or(&1));
        while start < end {
            let mut args = Args::new();
            let consumed = match parser.parse(&input[start..end], limits, &mut args) {
                Ok(Parsed::Complete { consumed }) => consumed,
                Ok(Parsed::Quoted { consumed }) => {
                    args = parser.quoted();
                    consumed
                }
                Ok(Parsed::Incomplete { need }) => {
                    assert!(args.is_empty());
                    assert!(need == 0 || need <= limits.bulk_bytes_max + 2);
                    continue 'arrival;
                }
                Err(error) => {
                    parts.push(error.to_string());
                    return parts.join(" ");
                }
            };
            assert!(!parser.is_mid_request());
            if !args.is_empty() {
                parts.push(args.iter().map(|arg| format!("[{}]", arg.escape_ascii())).collect());
            }
            start += consumed;
        }
    }
    if start < end {
        parts.push("…".to_owned());
    }
    parts.join(" ")
}

/// Bytes that may confuse a parser, and whole requests between them.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => vec(vec(any::<u8>(), 0..12), 1..12).prop_map(|args| {
            let mut out = Vec::new();
            client::command(&mut out, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
            out
        }),
        2 => "(GET|SET|ECHO)( [a-z\"'\\\\ ]{0,9}){0,3}\r?\n".prop_map(String::into_bytes),
        2 => "[*$][-0-9]{0,4}\r\n".prop_map(String::into_bytes),
        1 => vec(prop::sample::select(b"*$\r\n\0\"'1 a".to_vec()), 0..9),
        1 => vec(any::<u8>(), 0..9),
    ];
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

const SMALL: RequestLimits =
    RequestLimits { bulk_bytes_max: 40, args_max: 20, inline_bytes_max: 30, is_authenticated: true };

proptest! {
    #[test]
    fn requests_do_not_depend_on_fragmentation(input in stream(), sizes in vec(1_usize..20, 1..5), small: bool) {
        let limits = if small { SMALL } else { RequestLimits::default() };
        prop_assert_eq!(parse_to_text(&input, &limits), parse_torn_to_text(&input, &sizes, &limits));
    }

    #[test]
    fn commands_are_read_as_they_were_written(args in vec(vec(any::<u8>(), 0..40), 1..30)) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        client::command(&mut out, &args);
        let mut parsed = Args::new();
        let outcome = RequestParser::default().parse(&out, &RequestLimits::default(), &mut parsed);
        prop_assert_eq!(outcome, Ok(Parsed::Complete { consumed: out.len() }));
        prop_assert_eq!(&parsed[..], &args[..]);
    }

    #[test]
    fn the_short_cut_agrees_with_the_parser(
        verb in "[GgSs][Ee][Tt]",
        args in vec(vec(any::<u8>(), 0..200), 1..4),
        cut in any::<prop::sample::Index>(),
        flip in any::<prop::sample::Index>(),
        change in prop_oneof![3 => Just(0), 1 => any::<u8>()],
    ) {
        let mut input = Vec::new();
        let args: Vec<&[u8]> = std::iter::once(verb.as_bytes()).chain(args.iter().map(Vec::as_slice)).collect();
        client::command(&mut input, &args);
        let at = flip.index(input.len());
        input[at] ^= change;
        input.extend_from_slice(b"*1\r\n");
        check_fast(&input)?;
        check_fast(&input[..cut.index(input.len())])?;
    }
}

/// The parser reads every request that the short cut recognises in the same way.
fn check_fast(input: &[u8]) -> Result<(), TestCaseError> {
    let mut args = Args::new();
    let outcome = RequestParser::default().parse(input, &RequestLimits::default(), &mut args);
    let Some((request, consumed)) = parse_fast(input) else { return Ok(()) };
    prop_assert_eq!(outcome, Ok(Parsed::Complete { consumed }));
    match request {
        FastRequest::Get { key } => {
            prop_assert!(args[0].eq_ignore_ascii_case(b"get"));
            prop_assert_eq!(&args[1..], &[key][..]);
        }
        FastRequest::Set { key, value } => {
            prop_assert!(args[0].eq_ignore_ascii_case(b"set"));
            prop_assert_eq!(&args[1..], &[key, value][..]);
        }
    }
    Ok(())
}

#[test]
fn the_short_cut_takes_canonical_requests() {
    let (key, value) = ([b'k'; 1000], vec![b'v'; FAST_BYTES_MAX]);
    for key_length in [0, 1, 2, 9, 10, 99, 100, 999, 1000] {
        let key = &key[..key_length];
        let mut input = Vec::new();
        client::command(&mut input, &[b"gEt", key]);
        assert_eq!(parse_fast(&input), Some((FastRequest::Get { key }, input.len())));
        for value_length in [0, 1, 9, 10, 999, 100_000, FAST_BYTES_MAX] {
            let value = &value[..value_length];
            input.clear();
            client::command(&mut input, &[b"set", key, value]);
            assert_eq!(parse_fast(&input), Some((FastRequest::Set { key, value }, input.len())));
            assert_eq!(parse_fast(&input[..input.len() - 1]), None);
        }
    }
    let mut longer = Vec::new();
    client::command(&mut longer, &[b"SET", b"k", &vec![b'v'; FAST_BYTES_MAX + 1]]);
    assert_eq!(parse_fast(&longer), None);
}

#[test]
fn the_short_cut_takes_nothing_else() {
    for input in [
        b"*2\r\n$3\r\nGET\r\n$01\r\nk\r\n".as_slice(),
        b"*2\r\n$3\r\nGET\r\n$1\r\nkxx",
        b"*2\r\n$3\r\nGET\r\n$1\rxk\r\n",
        b"*2\r\n$3\r\nGET\r\n$-1\r\nk\r\n",
        b"*2\r\n$3\r\nGET\r\n$99999999999999999999\r\nk\r\n",
        b"*3\r\n$3\r\nGET\r\n$1\r\nk\r\n$1\r\nv\r\n",
        b"*2\r\n$3\r\nSET\r\n$1\r\nk\r\n",
        b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nNX\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n:1\r\nv\r\n",
        b"GET k\r\nGET kkkkkkkkkkkk\r\n",
    ] {
        assert_eq!(parse_fast(input), None, "{}", input.escape_ascii());
    }
}

/// A megabyte in a thousand pieces: parts that have been parsed are not read again, or this would never end.
#[test]
fn a_torn_request_is_read_once() {
    let args = vec![b"0123456789".as_slice(); 100_000];
    let mut input = Vec::new();
    client::command(&mut input, &args);
    let (mut parser, mut parsed) = (RequestParser::default(), Args::new());
    for end in (1..input.len()).step_by(16) {
        let outcome = parser.parse(&input[..end], &RequestLimits::default(), &mut parsed);
        assert!(matches!(outcome, Ok(Parsed::Incomplete { .. })));
    }
    let outcome = parser.parse(&input, &RequestLimits::default(), &mut parsed);
    assert_eq!(outcome, Ok(Parsed::Complete { consumed: input.len() }));
    assert_eq!(&parsed[..], &args[..]);
}

#[test]
fn the_number_of_missing_bytes_is_reported() {
    let mut parser = RequestParser::default();
    let outcome = parser.parse(b"*2\r\n$3\r\nGET\r\n$100\r\nab", &RequestLimits::default(), &mut Args::new());
    assert_eq!(outcome, Ok(Parsed::Incomplete { need: 100 }));
    let outcome = parser.parse(b"*2\r\n$3\r\nGET\r\n$100\r\nabcd", &RequestLimits::default(), &mut Args::new());
    assert_eq!(outcome, Ok(Parsed::Incomplete { need: 98 }));
}

/// An announced argument costs nothing until it arrives.
#[test]
fn announced_lengths_allocate_nothing() {
    let mut args = Args::new();
    for input in
        [b"*2147483647\r\n".as_slice(), b"*2147483647\r\n$536870912\r\n", b"*2\r\n$3\r\nSET\r\n$536870912\r\nabc"]
    {
        let outcome = RequestParser::default().parse(input, &RequestLimits::default(), &mut args);
        assert!(matches!(outcome, Ok(Parsed::Incomplete { .. })));
        assert!(!args.spilled());
    }
    let boundless = RequestLimits { bulk_bytes_max: usize::MAX, args_max: usize::MAX, ..RequestLimits::default() };
    for input in [b"*9223372036854775807\r\n".as_slice(), b"*1\r\n$9223372036854775807\r\na"] {
        let outcome = RequestParser::default().parse(input, &boundless, &mut args);
        assert!(matches!(outcome, Ok(Parsed::Incomplete { .. })));
    }
    let outcome = RequestParser::default().parse(b"*1\r\n$9223372036854775808\r\n", &boundless, &mut args);
    assert_eq!(outcome, Err(ProtocolError::InvalidBulkLength));
}

#[test]
fn an_unusual_request_keeps_no_memory() {
    let mut input = Vec::new();
    client::command(&mut input, &[b"a".as_slice(); 5000]);
    let (mut parser, mut args) = (RequestParser::default(), Args::new());
    assert!(matches!(parser.parse(&input, &RequestLimits::default(), &mut args), Ok(Parsed::Complete { .. })));
    assert_eq!((args.len(), args.spilled()), (5000, true));
    assert!(matches!(parser.parse(b"ECHO 'a'\n", &RequestLimits::default(), &mut args), Ok(Parsed::Quoted { .. })));
    assert_eq!((args.len(), args.spilled(), parser.quoted().len()), (0, false, 2));
    assert!(matches!(parser.parse(b"PING\n", &RequestLimits::default(), &mut args), Ok(Parsed::Complete { .. })));
    assert_eq!((args.len(), parser.quoted().len()), (1, 0));
}
