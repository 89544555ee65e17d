//! Replies of streams, without a socket.

use proptest::prelude::*;
use wire::{
    hpack::push_field,
    http2::{PREFACE, Setting, push_goaway, push_ping, push_rst_stream, push_settings, push_window_update},
};

use super::*;

/// Outcomes in their order: the stream, and its fate; and how the connection ended.
type Seen = (Vec<(u32, Fate)>, Result<(), ErrorClass>);

fn client(streams: usize) -> Http2Client {
    let spec = |path: &str| {
        let mut block = Vec::new();
        push_field(b":path", path.as_bytes(), &mut block);
        let message = Http2Message { name: format!("GET {path}"), block, body: Vec::new() };
        Http2Spec { message, expectation: Expectation::Nothing }
    };
    Http2Client::new(&[spec("/one"), spec("/two")], HttpVerify::Content, 0, streams)
}

/// Gives these pieces to a connection with so many requests in flight, of streams 1, 3, 5 and so on.
fn seen<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, requests: u64) -> Seen {
    let mut client = client(requests as usize);
    let mut conn = client.open();
    let mut sent = Vec::new();
    for _ in 0..requests {
        let request = client.next(&mut conn, 1);
        client.encode(request, &mut sent);
    }
    let mut answers = Vec::new();
    let mut end = Ok(());
    for piece in pieces {
        end = client.decode_any(&mut conn, piece, 0, &mut answers);
        if end.is_err() {
            break;
        }
    }
    (answers.into_iter().map(|answer| (answer.request.stream, answer.fate)).collect(), end)
}

fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| push_field(name.as_bytes(), value.as_bytes(), &mut block));
    block
}

fn push_reply(stream: u32, fields: &[(&str, &str)], body: &[u8], out: &mut Vec<u8>) {
    push_headers(stream, &head(fields), false, 1 << 14, out);
    push_data_header(stream, body.len(), true, out);
    out.extend_from_slice(body);
}

fn settings() -> Vec<u8> {
    let mut out = Vec::new();
    push_settings(&[Setting::MaxConcurrentStreams(7)], &mut out);
    out
}

/// Output of a server with five requests: good replies, a wrong one, a refusal, a short body.
fn conversation() -> Vec<u8> {
    let mut out = settings();
    push_ping(*b"12345678", false, &mut out);
    push_reply(9, &[(":status", "200")], b"first", &mut out);
    // In parts of two bytes, with a field that changes the table.
    let block = [head(&[(":status", "200")]), b"\x40\x03x-a\x03abc\xbe".to_vec()].concat();
    push_headers(3, &block, false, 2, &mut out);
    push_window_update(0, 1000, &mut out);
    push_rst_stream(5, ErrorCode::RefusedStream, &mut out);
    push_reply(1, &[(":status", "200")], b"firsT", &mut out);
    let padded = out.len();
    push_data_header(3, 6 + 1 + 2, true, &mut out);
    out[padded + 4] |= 0x8;
    out.extend_from_slice(b"\x02second\0\0");
    push_reply(7, &[(":status", "200"), ("content-length", "9")], b"secon", &mut out);
    push_goaway(9, ErrorCode::NoError, &mut out);
    out
}

#[test]
fn streams_have_outcomes_of_their_own() {
    let settled = |outcome| Fate::Settled { outcome, detail: None };
    let (fates, end) = seen([&conversation()[..]], 5);
    let expected = [
        (9, settled(Ok(()))),
        (5, Fate::Unread),
        (1, settled(Err(ErrorClass::Content))),
        (3, settled(Ok(()))),
        (7, settled(Err(ErrorClass::ShortBody))),
    ];
    assert_eq!((fates, end), (expected.to_vec(), Ok(())));
}

#[test]
fn outcomes_do_not_depend_on_one_split() {
    let bytes = conversation();
    let whole = seen([&bytes[..]], 5);
    for at in 0..=bytes.len() {
        let (one, other) = bytes.split_at(at);
        assert_eq!(seen([one, other], 5), whole, "split at {at}");
    }
    assert_eq!(seen(bytes.chunks(1), 5), whole);
}

/// A frame that is mostly right.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = 0..7_u32;
    let block = proptest::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        (stream.clone(), any::<bool>(), 1..20_usize).prop_map(|(stream, is_last, size)| {
            let mut out = Vec::new();
            push_headers(stream * 2 + 1, &head(&[(":status", "200"), ("server", "x")]), is_last, size, &mut out);
            out
        }),
        (stream.clone(), any::<bool>(), block.clone()).prop_map(|(stream, is_last, data)| {
            let mut out = Vec::new();
            push_data_header(stream * 2 + 1, data.len(), is_last, &mut out);
            [out, data].concat()
        }),
        (0..12_u8, any::<u8>(), stream, block).prop_map(|(kind, flags, stream, payload)| {
            let header = [0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream as u8];
            [&header[..], &payload].concat()
        }),
    ]
}

proptest! {
    #[test]
    fn outcomes_do_not_depend_on_fragmentation(
        frames in proptest::collection::vec(any_frame(), 0..12),
        cuts in proptest::collection::vec(1..40_usize, 1..60),
    ) {
        let bytes = [settings(), frames.concat()].concat();
        let whole = seen([&bytes[..]], 4);
        let (mut rest, mut pieces) = (&bytes[..], Vec::new());
        for length in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at(rest.len().min(*length));
            pieces.push(piece);
            rest = behind;
        }
        prop_assert_eq!(seen(pieces, 4), whole);
    }
}

#[test]
fn a_connection_begins_with_preface_and_settings() {
    let mut client = client(1);
    let mut conn = client.open();
    let mut out = Vec::new();
    client.flush(&mut conn, &mut out);
    assert!(out.starts_with(PREFACE) && out[PREFACE.len() + 3] == 4, "{out:?}");
    out.clear();
    client.decode_any(&mut conn, &settings(), 0, &mut Vec::new()).expect("settings");
    client.flush(&mut conn, &mut out);
    assert_eq!(out, [0, 0, 0, 4, 1, 0, 0, 0, 0], "they are acknowledged");
    assert_eq!(Http2Client::room(&conn), 7);
}

#[test]
fn what_is_no_http2_breaks_the_connection() {
    for input in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"\0\0\0\x04\x01\0\0\0\0", b"\0\0\0\x06\0\0\0\0\0"] {
        assert_eq!(seen([input], 1), (vec![], Err(ErrorClass::Protocol)), "{input:?}");
    }
    let promised = [settings(), b"\0\0\x05\x05\x04\0\0\0\x01\0\0\0\x02\x88".to_vec()].concat();
    assert_eq!(seen([&promised[..]], 1).1, Err(ErrorClass::Protocol), "a push that was not allowed");
}

#[test]
fn a_malformed_head_fails_its_stream_alone() {
    for fields in [
        &[("server", "x")][..],
        &[(":status", "20")],
        &[(":status", "200"), (":status", "200")],
        &[("server", "x"), (":status", "200")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("Server", "x")],
        &[(":status", "200"), ("content-length", "+1")],
        &[(":status", "101")],
    ] {
        let mut bytes = settings();
        push_reply(1, fields, b"", &mut bytes);
        push_reply(3, &[(":status", "200")], b"good", &mut bytes);
        let (fates, end) = seen([&bytes[..]], 2);
        assert_eq!(end, Ok(()));

        let failed = Fate::Settled { outcome: Err(ErrorClass::Protocol), detail: None };
        assert_eq!(fates, [(1, failed), (3, Fate::Settled { outcome: Ok(()), detail: None })], "{fields:?}");
    }
}

#[test]
fn an_equal_block_means_what_the_table_says_now() {
    // `:status` with a value that goes into the table, and what was added last.
    let added = |status: &str| [b"\x48\x03", status.as_bytes()].concat();
    let newest = b"\xbe".to_vec();
    let mut bytes = settings();
    let blocks = [added("200"), added("200"), newest.clone(), newest.clone(), newest.clone(), added("404"), newest];
    for (stream, block) in (1..).step_by(2).zip(blocks) {
        push_headers(stream, &block, true, 1 << 14, &mut bytes);
    }
    let (fates, end) = seen([&bytes[..]], 7);
    let (good, missing) = (Ok(()), Err(ErrorClass::Status));
    let expected = [good, good, good, good, good, missing, missing];
    let outcomes: Vec<_> = fates
        .into_iter()
        .map(|(_, fate)| match fate {
            Fate::Settled { outcome, .. } => outcome,
            Fate::Unread => panic!("nothing was refused"),
        })
        .collect();
    assert_eq!((outcomes, end), (expected.to_vec(), Ok(())));
}
