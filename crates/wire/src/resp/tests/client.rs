//! Replies, written and read.

use proptest::{collection::vec, prelude::*};

use crate::resp::{
    Version,
    client::{DecodeError, LINE_BYTES_MAX, NESTING_MAX, Reply, ReplyDecoder},
    reply,
};

fn decode(input: &[u8]) -> Result<Option<(Reply<'_>, usize)>, DecodeError> {
    ReplyDecoder::default().decode(input)
}

fn written(write: impl Fn(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    out.escape_ascii().to_string()
}

#[test]
fn replies_follow_the_specification() {
    use Version::{Resp2, Resp3};
    for (write, resp2, resp3) in [
        ((|out, version| reply::null(out, version)) as fn(&mut Vec<u8>, Version), "$-1\r\n", "_\r\n"),
        (reply::null_array, "*-1\r\n", "_\r\n"),
        (|out, version| reply::map(out, 2, version), "*4\r\n", "%2\r\n"),
        (|out, version| reply::set(out, 2, version), "*2\r\n", "~2\r\n"),
        (|out, version| reply::push(out, 2, version), "*2\r\n", ">2\r\n"),
        (|out, version| reply::boolean(out, true, version), ":1\r\n", "#t\r\n"),
        (|out, version| reply::boolean(out, false, version), ":0\r\n", "#f\r\n"),
        (|out, version| reply::double(out, 0.1, version), "$3\r\n0.1\r\n", ",0.1\r\n"),
        (|out, version| reply::double(out, 3.0, version), "$1\r\n3\r\n", ",3\r\n"),
        (|out, version| reply::double(out, -1e300, version), "$6\r\n-1e300\r\n", ",-1e300\r\n"),
        (|out, version| reply::double(out, f64::INFINITY, version), "$3\r\ninf\r\n", ",inf\r\n"),
        (|out, version| reply::double(out, f64::NEG_INFINITY, version), "$4\r\n-inf\r\n", ",-inf\r\n"),
        (|out, version| reply::double(out, f64::NAN, version), "$3\r\nnan\r\n", ",nan\r\n"),
        (|out, version| reply::verbatim(out, *b"txt", b"hi", version), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
    ] {
        assert_eq!(written(|out| write(out, Resp2)), resp2.escape_default().to_string());
        assert_eq!(written(|out| write(out, Resp3)), resp3.escape_default().to_string());
    }
    assert_eq!(written(|out| reply::integer(out, i64::MIN)), r":-9223372036854775808\r\n");
    assert_eq!(written(|out| reply::bulk(out, b"")), r"$0\r\n\r\n");
    assert_eq!(written(|out| reply::simple(out, "OK")), r"+OK\r\n");
}

#[test]
fn an_error_reply_is_one_line() {
    let mut out = Vec::new();
    reply::error(&mut out, "ERR unknown command 'a\r\n+OK\r\n'");
    reply::error(&mut out, "ERR no\r\n\n");
    assert_eq!(out, b"-ERR unknown command 'a  +OK  '\r\n-ERR no\r\n");
}

#[test]
fn every_kind_of_reply_is_understood() {
    for (input, expected) in [
        (b"+OK\r\n".as_slice(), Reply::Simple(b"OK")),
        (b"-ERR no\r\n", Reply::Error(b"ERR no")),
        (b":-7\r\n", Reply::Integer(-7)),
        (b"$3\r\na\r\n\r\n", Reply::Bulk(b"a\r\n")),
        (b"$0\r\n\r\n", Reply::Bulk(b"")),
        (b"$-1\r\n", Reply::Null),
        (b"*-1\r\n", Reply::Null),
        (b"_\r\n", Reply::Null),
        (b"*0\r\n", Reply::Array(vec![])),
        (
            b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
            Reply::Array(vec![Reply::Array(vec![Reply::Integer(1)]), Reply::Bulk(b"a")]),
        ),
        (b"%1\r\n+a\r\n*0\r\n", Reply::Map(vec![(Reply::Simple(b"a"), Reply::Array(vec![]))])),
        (b"~1\r\n:1\r\n", Reply::Set(vec![Reply::Integer(1)])),
        (b">1\r\n+invalidate\r\n", Reply::Push(vec![Reply::Simple(b"invalidate")])),
        (b",0.5\r\n", Reply::Double(0.5)),
        (b",inf\r\n", Reply::Double(f64::INFINITY)),
        (b"#t\r\n", Reply::Boolean(true)),
        (b"(123456789012345678901234567890\r\n", Reply::BigNumber(b"123456789012345678901234567890")),
        (b"=6\r\ntxt:hi\r\n", Reply::Verbatim { format: *b"txt", text: b"hi" }),
        (
            b"|1\r\n+ttl\r\n:9\r\n:1\r\n",
            Reply::Attribute {
                about: vec![(Reply::Simple(b"ttl"), Reply::Integer(9))],
                reply: Box::new(Reply::Integer(1)),
            },
        ),
    ] {
        assert_eq!(decode(input), Ok(Some((expected, input.len()))), "{}", input.escape_ascii());
        for end in 0..input.len() {
            assert_eq!(decode(&input[..end]), Ok(None), "{}", input[..end].escape_ascii());
        }
    }
}

#[test]
fn bytes_that_are_no_reply_are_refused() {
    for (input, expected) in [
        (b"OK\r\n".as_slice(), DecodeError::Kind(b'O')),
        (b"+OK\n", DecodeError::Line),
        (b":x\r\n", DecodeError::Line),
        (b":\r\n", DecodeError::Line),
        (b"$-2\r\n", DecodeError::Line),
        (b"$?\r\n", DecodeError::Line),
        (b"*99999999999\r\n", DecodeError::Line),
        (b"#x\r\n", DecodeError::Line),
        (b"_x\r\n", DecodeError::Line),
        (b"=2\r\nhi\r\n", DecodeError::Line),
        (b"$1\r\nabc", DecodeError::StringEnd),
    ] {
        assert_eq!(decode(input), Err(expected), "{}", input.escape_ascii());
    }
    assert_eq!(decode(&[b'+'; LINE_BYTES_MAX + 3]), Err(DecodeError::LineTooLong));
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels| [b"*1\r\n".repeat(levels), b":1\r\n".to_vec()].concat();
    assert!(matches!(decode(&nested(NESTING_MAX)), Ok(Some(_))));
    assert_eq!(decode(&nested(NESTING_MAX + 1)), Err(DecodeError::Nesting));
    assert_eq!(decode(&b"*4294967295\r\n".repeat(1000)), Err(DecodeError::Nesting));
}

/// Writes replies that a seed describes, at most three deep.
fn write_reply(seed: &mut impl Iterator<Item = u8>, depth: u8, out: &mut Vec<u8>) {
    let mut next = || seed.next().unwrap_or(0);
    let (kind, size) = (next() % if depth < 3 { 13 } else { 8 }, usize::from(next() % 5));
    match kind {
        0 => reply::simple(out, "OK"),
        1 => reply::error(out, "ERR no"),
        2 => reply::integer(out, i64::from(next()) - 100),
        3 | 4 => reply::bulk(out, &[next(); 300][..size * 60]),
        5 => reply::null(out, Version::Resp3),
        6 => reply::double(out, f64::from(next()) / 7.0, Version::Resp3),
        7 => reply::verbatim(out, *b"txt", b"a\r\nb", Version::Resp3),
        8 => reply::array(out, size),
        9 => reply::map(out, size, Version::Resp3),
        10 => reply::set(out, size, Version::Resp3),
        11 => reply::push(out, size, Version::Resp3),
        _ => reply::null_array(out, Version::Resp2),
    }
    let children = match kind {
        8 | 10 | 11 => size,
        9 => 2 * size,
        _ => 0,
    };
    for _ in 0..children {
        write_reply(seed, depth + 1, out);
    }
}

proptest! {
    #[test]
    fn replies_do_not_depend_on_fragmentation(seed in vec(any::<u8>(), 0..200), sizes in vec(1_usize..30, 1..5)) {
        let (mut input, mut ends, mut seed) = (Vec::new(), Vec::new(), seed.into_iter().peekable());
        while seed.peek().is_some() {
            write_reply(&mut seed, 0, &mut input);
            ends.push(input.len());
        }
        let (mut decoder, mut start, mut end, mut found) = (ReplyDecoder::default(), 0, 0, Vec::new());
        for size in sizes.iter().cycle() {
            end = input.len().min(end + size);
            while let Some((reply, length)) = decoder.decode(&input[start..end]).unwrap() {
                prop_assert_eq!(decode(&input[start..]).unwrap(), Some((reply, length)));
                start += length;
                found.push(start);
            }
            if end == input.len() {
                break;
            }
        }
        prop_assert_eq!(found, ends);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(input in vec(prop_oneof![any::<u8>(), prop::sample::select(b"+-:$*_,#(=%~>|\r\n0123".to_vec())], 0..60)) {
        let whole = decode(&input);
        let mut decoder = ReplyDecoder::default();
        let torn = (0..=input.len()).map(|end| decoder.length(&input[..end])).find(|outcome| *outcome != Ok(None));
        prop_assert_eq!(whole.map(|found| found.map(|(_, length)| length)), torn.unwrap_or(Ok(None)));
    }
}
