//! Replies, written and read.

use proptest::{collection::vec, prelude::*};

use crate::memcached::{
    Limits, MetaFlags, MetaKey, Parsed, Request, RequestParser,
    client::{DecodeError, LINE_BYTES_MAX, Reply, ReplyDecoder},
    reply::{self, Code, Item, MetaFields},
};

fn meta<'a>(line: &'a [u8]) -> (MetaKey<'a>, MetaFlags<'a>) {
    match RequestParser::default().parse(line, &Limits::default()) {
        Ok(Parsed::Complete { request: Request::MetaGet { key, flags }, .. }) => (key, flags),
        other => panic!("{other:?}"),
    }
}

/// Replies that memcached 1.6.18 was observed to send.
#[test]
fn meta_replies_repeat_the_requested_flags() {
    let item = Item { length: 3, flags: 7, cas: 27, ..Item::default() };
    let claimed = Item { is_stale: true, is_claimed: true, ..item };
    let won = Item { is_stale: true, is_won: true, ttl_seconds: Some(30), cas: 29, ..item };
    for (request, item, expected) in [
        ("mg a s v f t c l h k O9 q\r\n", item, "VA 3 s3 f7 t-1 c27 l0 h0 ka O9\r\n"),
        ("mg a v c t\r\n", won, "VA 3 c29 t30 X W\r\n"),
        ("mg a v\r\n", claimed, "VA 3 Z X\r\n"),
        ("mg Zm9v k b v\r\n", item, "VA 3 kZm9v b\r\n"),
        ("mg Zm9= b k v\r\n", item, "VA 3 kZm8= b\r\n"),
    ] {
        let (key, flags) = meta(request.as_bytes());
        let mut out = Vec::new();
        reply::meta_value_header(&mut out, 3, &key, &flags, MetaFields::Item(&item));
        assert_eq!(out.escape_ascii().to_string(), expected.escape_default().to_string());
    }
    let (key, flags) = meta(b"mg zz s O123 k c\r\n");
    let mut out = Vec::new();
    reply::meta(&mut out, Code::Miss, &key, &flags, MetaFields::Nothing);
    reply::meta(&mut out, Code::Done, &key, &flags, MetaFields::Item(&item));
    assert_eq!(out, b"EN O123 kzz\r\nHD s3 O123 kzz c27\r\n");
}

/// `ms` and `ma` leave out the flags that only `mg` returns.
#[test]
fn each_meta_command_returns_its_flags() {
    let (key, flags) = meta(b"mg zz s f t c l h k\r\n");
    for (about, expected) in [
        (MetaFields::Nothing, "HD kzz\r\n"),
        (MetaFields::Stored { cas: 9 }, "HD c9 kzz\r\n"),
        (MetaFields::Number { cas: 23, ttl_seconds: None }, "HD t-1 c23 kzz\r\n"),
    ] {
        let mut out = Vec::new();
        reply::meta(&mut out, Code::Done, &key, &flags, about);
        assert_eq!(out, expected.as_bytes());
    }
}

#[test]
fn every_kind_of_reply_is_understood() {
    for (input, expected) in [
        (b"STORED\r\n".as_slice(), Reply::Line(b"STORED")),
        (b"42\r\n", Reply::Line(b"42")),
        (b"END\r\n", Reply::End),
        (b"VALUE a 7 3\r\na\r\n\r\n", Reply::Value { key: b"a", flags: 7, cas: None, value: b"a\r\n" }),
        (b"VALUE a 7 0 9\r\n\r\n", Reply::Value { key: b"a", flags: 7, cas: Some(9), value: b"" }),
        (b"VA 1 ka t-1\r\nx\r\n", Reply::MetaValue { flags: b"ka t-1", value: b"x" }),
        (b"VA 1\r\nx\r\n", Reply::MetaValue { flags: b"", value: b"x" }),
        (b"HD c7 O1\r\n", Reply::Meta { code: *b"HD", flags: b"c7 O1" }),
        (b"EN\r\n", Reply::Meta { code: *b"EN", flags: b"" }),
        (b"OK\r\n", Reply::Line(b"OK")),
        (b"ERROR\r\n", Reply::Error(b"ERROR")),
        (b"CLIENT_ERROR bad data chunk\r\n", Reply::Error(b"CLIENT_ERROR bad data chunk")),
        (b"SERVER_ERROR object too large for cache\r\n", Reply::Error(b"SERVER_ERROR object too large for cache")),
    ] {
        let decoded = ReplyDecoder::default().decode(input);
        assert_eq!(decoded, Ok(Some((expected, input.len()))), "{}", input.escape_ascii());
        let mut decoder = ReplyDecoder::default();
        for end in 0..input.len() {
            assert_eq!(decoder.decode(&input[..end]), Ok(None), "{}", input[..end].escape_ascii());
        }
        assert_eq!(decoder.decode(input), decoded);
    }
}

#[test]
fn bytes_that_are_no_reply_are_refused() {
    for (input, expected) in [
        (b"END\n".as_slice(), DecodeError::Line),
        (b"VALUE a 0\r\n", DecodeError::Line),
        (b"VALUE a 0 1 x\r\n", DecodeError::Line),
        (b"VA x\r\n", DecodeError::Line),
        (b"VA 9999999999\r\n", DecodeError::Value),
        (b"VA 1\r\nxyz", DecodeError::Value),
    ] {
        assert_eq!(ReplyDecoder::default().decode(input), Err(expected), "{}", input.escape_ascii());
    }
    assert_eq!(ReplyDecoder::default().decode(&[b'E'; LINE_BYTES_MAX]), Err(DecodeError::LineTooLong));
}

proptest! {
    #[test]
    fn values_are_decoded_from_pieces(
        values in vec(("[!-~]{1,20}", any::<u32>(), vec(any::<u8>(), 0..50), any::<Option<u64>>()), 0..6),
        size in 1_usize..40,
    ) {
        let (mut input, mut expected) = (Vec::new(), Vec::new());
        for (key, flags, value, cas) in &values {
            reply::value(&mut input, key.as_bytes(), *flags, value, *cas);
            expected.push(Reply::Value { key: key.as_bytes(), flags: *flags, cas: *cas, value });
        }
        reply::end(&mut input);
        reply::number(&mut input, 7);
        reply::stat(&mut input, "pid", "1");
        expected.extend([Reply::End, Reply::Line(b"7"), Reply::Line(b"STAT pid 1")]);
        let (mut decoder, mut start, mut end, mut found) = (ReplyDecoder::default(), 0, 0, Vec::new());
        while end < input.len() {
            end = input.len().min(end + size);
            while let Some((reply, length)) = decoder.decode(&input[start..end]).unwrap() {
                found.push(reply);
                start += length;
            }
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(input in vec(prop_oneof![any::<u8>(), prop::sample::select(b"VALUE HD019\r\n".to_vec())], 0..60)) {
        let whole = ReplyDecoder::default().decode(&input);
        let mut decoder = ReplyDecoder::default();
        let torn = (0..=input.len()).map(|end| decoder.decode(&input[..end])).find(|outcome| *outcome != Ok(None));
        prop_assert_eq!(whole, torn.unwrap_or(Ok(None)));
    }
}
