use proptest::{collection::vec, prelude::*};

use super::{
    Parsed, Refusal, Request, RequestLimits, RequestParser, TooLong,
    client::{self, Reply, ReplyDecoder},
    reply,
};
use crate::{Detected, Detector, detect};

#[test]
fn requests_are_read() {
    for (line, expected) in [
        (b"GET key".as_slice(), Request::Get { key: b"key" }),
        (b"DEL key", Request::Del { key: b"key" }),
        (b"SET key value", Request::Set { key: b"key", value: b"value" }),
        (b"SET key  a b\r\n\0c ", Request::Set { key: b"key", value: b" a b\r\n\0c " }),
        (b"SET key ", Request::Set { key: b"key", value: b"" }),
        (b"MULTI", Request::Multi),
        (b"EXEC", Request::Exec),
        (b"DISCARD", Request::Discard),
        (b"GET k\n", Request::Get { key: b"k\n" }),
        (b"", Request::Refused(Refusal::Unparsable)),
        (b"GET", Request::Refused(Refusal::Unparsable)),
        (b"PING", Request::Refused(Refusal::Unparsable)),
        (b"GET ", Request::Refused(Refusal::Malformed)),
        (b"GET a b", Request::Refused(Refusal::Malformed)),
        (b"SET a", Request::Refused(Refusal::Malformed)),
        (b"SET  a", Request::Refused(Refusal::Malformed)),
        (b"get key", Request::Refused(Refusal::Unknown)),
        (b"GETX key", Request::Refused(Refusal::Unknown)),
    ] {
        let input = [line, b"\x1fGET next"].concat();
        let parsed = RequestParser::default().parse(&input, &RequestLimits::default());
        let expected = Parsed::Complete { request: expected, consumed: line.len() + 1 };
        assert_eq!(parsed, Ok(expected), "{}", line.escape_ascii());
    }
}

#[test]
fn answers_are_those_of_the_original() {
    let mut out = Vec::new();
    reply::ok(&mut out);
    reply::nil(&mut out);
    reply::value(&mut out, b"a b");
    reply::key_missing(&mut out);
    reply::error(&mut out, Refusal::Unparsable);
    reply::error(&mut out, Refusal::Malformed);
    reply::error(&mut out, Refusal::Unknown);
    let expected = "OK\x1f(nil)\x1fa b\x1fERROR: Key does not exist\x1fERROR: Unable to parse request\x1f\
        ERROR: Invalid command format\x1fERROR: Unknown command\x1f";
    assert_eq!(out, expected.as_bytes());
}

#[test]
fn a_request_without_an_end_is_refused() {
    let limits = RequestLimits { request_bytes_max: 9 };
    let mut parser = RequestParser::default();
    assert_eq!(parser.parse(b"SET k val", &limits), Ok(Parsed::Incomplete { need: 0 }));
    assert_eq!(parser.parse(b"SET k valu", &limits), Err(TooLong));
    assert!(matches!(RequestParser::default().parse(b"SET k val\x1f", &limits), Ok(Parsed::Complete { .. })));
    assert_eq!(RequestParser::default().parse(b"SET k value\x1f", &limits), Err(TooLong));
}

#[test]
fn the_first_line_end_tells_the_protocols_apart() {
    for (input, expected) in [
        (b"".as_slice(), Detected::Unknown),
        (b"*", Detected::Resp),
        (b"*1\x1f", Detected::Resp),
        (b"GET key", Detected::Unknown),
        (b"GET key\x1f\n", Detected::Us),
        (b"PING\r\n\x1f", Detected::Resp),
        (b"\n", Detected::Resp),
        (b"\x1f", Detected::Us),
        (b" *\x1f", Detected::Us),
    ] {
        assert_eq!(detect(input), expected, "{}", input.escape_ascii());
    }
}

proptest! {
    #[test]
    fn detection_does_not_depend_on_fragmentation(input in vec(prop_oneof![Just(b'*'), Just(b'\n'), Just(0x1f), any::<u8>()], 0..20)) {
        let mut detector = Detector::default();
        let torn = (0..=input.len()).map(|end| detector.detect(&input[..end])).find(|found| *found != Detected::Unknown);
        prop_assert_eq!(detect(&input), torn.unwrap_or(Detected::Unknown));
    }

    #[test]
    fn requests_are_decoded_from_pieces(
        requests in vec(("[a-z\n]{1,9}", prop::option::of(vec(any::<u8>().prop_filter("a separator", |byte| *byte != 0x1f), 0..40))), 0..9),
        size in 1_usize..30,
    ) {
        let mut input = Vec::new();
        for (key, value) in &requests {
            match value {
                Some(value) => client::set(&mut input, key.as_bytes(), value),
                None => client::get(&mut input, key.as_bytes()),
            }
        }
        let (mut parser, mut start, mut end, mut found) = (RequestParser::default(), 0, 0, Vec::new());
        while end < input.len() {
            end = input.len().min(end + size);
            while let Parsed::Complete { request, consumed } = parser.parse(&input[start..end], &RequestLimits::default()).unwrap() {
                found.push(request);
                start += consumed;
            }
        }
        let expected: Vec<_> = requests.iter().map(|(key, value)| match value {
            Some(value) => Request::Set { key: key.as_bytes(), value },
            None => Request::Get { key: key.as_bytes() },
        }).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(start, input.len());
    }

    #[test]
    fn answers_are_decoded_from_pieces(values in vec("[a-z ]{0,20}", 0..9), size in 1_usize..30) {
        let (mut input, mut expected) = (Vec::new(), Vec::new());
        for value in &values {
            reply::value(&mut input, value.as_bytes());
            reply::nil(&mut input);
            expected.extend([Reply::Value(value.as_bytes()), Reply::Nil]);
        }
        let (mut decoder, mut start, mut end, mut found) = (ReplyDecoder::default(), 0, 0, Vec::new());
        while end < input.len() {
            end = input.len().min(end + size);
            while let Some((reply, length)) = decoder.decode(&input[start..end]) {
                found.push(reply);
                start += length;
            }
        }
        prop_assert_eq!(found, expected);
    }
}
