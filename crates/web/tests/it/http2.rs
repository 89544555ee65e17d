//! HTTP/2 by the code that answers HTTP/1: the same requests get the same responses, however they are torn and mixed.

use proptest::prelude::*;
use testkit::{
    http2::{
        ClientSetting, ErrorCode, Received, Response, data, get, greeting, greeting_with, headers, request,
        window_update,
    },
    in_memory::{Chunking, Transcript, exchange, flush, session},
};
use web::HttpOptions;

use crate::site::{BODY_MAX, now, server};

/// Sends frames behind the greeting. Returns what came back, and how the connection ended.
fn ask(frames: &[Vec<u8>], chunking: Chunking) -> (Received, Transcript) {
    let transcript = exchange(&server(), &[greeting(), frames.concat()].concat(), chunking, now());
    let mut received = Received::default();
    received.feed(&transcript.bytes).expect("frames of a server");
    (received, transcript)
}

/// Returns the only response to these frames.
fn one(frames: &[Vec<u8>]) -> Response {
    let (received, transcript) = ask(frames, Chunking::UNLIMITED);
    assert!(received.responses.len() == 1 && !transcript.is_closed, "{received:?}");
    received.responses[&1].clone()
}

fn large() -> Vec<u8> {
    (0..9_000).map(|at| b'a' + (at % 23) as u8).collect()
}

#[test]
fn both_versions_say_the_same() {
    for (method, path, fields) in [
        ("GET", "/small.txt", ""),
        ("HEAD", "/large.txt", ""),
        ("GET", "/large.txt", "Range: bytes=10-8000"),
        ("GET", "/small.txt", "Range: bytes=300-"),
        ("GET", "/missing", ""),
        ("GET", "/small.txt", "If-Modified-Since: Sat, 29 Oct 2033 19:43:31 GMT"),
        ("POST", "/small.txt", ""),
        ("OPTIONS", "/small.txt", ""),
        ("PURGE", "/small.txt", ""),
        ("GET", "/own/a", ""),
        ("HEAD", "/own/a", ""),
        ("PUT", "/own/a", ""),
        ("GET", "/%zz", ""),
    ] {
        let line = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
        let (old, _) = crate::site::ask(&server(), &format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{line}\r\n"));
        let (head, body) = old.split_once("\r\n\r\n").unwrap();
        let lower = fields.to_ascii_lowercase();
        let field = lower.split_once(": ").map(|(name, _)| (name, fields.split_once(": ").unwrap().1));
        let new = one(&[request(1, method, path, field.as_slice(), true)]);
        let (status, lines) = head.split_once("\r\n").unwrap();
        let lines: Vec<(String, String)> = lines
            .split("\r\n")
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .filter(|(name, _)| name != "date" && name != "connection")
            .collect();
        assert!(new.is_whole && status.contains(&format!(" {} ", new.status())), "{method} {path}: {new:?}");
        assert_eq!((new.fields, String::from_utf8(new.body).unwrap()), (lines, body.to_owned()), "{method} {path}");
    }
}

#[test]
fn bodies_are_read_with_and_without_a_length() {
    let put = |fields: &[(&str, &str)]| request(1, "PUT", "/own/a", &[&[("x-token", "t")], fields].concat(), false);
    let body = vec![b'b'; BODY_MAX];
    for frames in [
        vec![put(&[("content-length", "5000")]), data(1, &body, true)],
        vec![put(&[]), data(1, &body[..4999], false), data(1, b"", false), data(1, b"b", true)],
        vec![put(&[]), data(1, &body, false), headers(1, &[("x-trailer", "t")], true)],
    ] {
        let response = one(&frames);
        assert_eq!((response.status(), response.body.len()), (201, BODY_MAX + 2), "{frames:?}");
    }
    let response = one(&[put(&[]), data(1, b"", true)]);
    assert_eq!((response.status(), &response.body[..]), (201, &b"a="[..]));
    let response = one(&[put(&[("expect", "100-continue"), ("content-length", "1")]), data(1, b"x", true)]);
    assert_eq!((&response.statuses[..], &response.body[..]), (&[100, 201][..], &b"a=x"[..]));
}

/// A body that is too long is refused, by its length or by itself, and its client told to stop.
#[test]
fn a_body_that_is_too_long_is_not_read_on() {
    let put = |fields: &[(&str, &str)]| request(1, "PUT", "/own/a", &[&[("x-token", "t")], fields].concat(), false);
    for frames in [
        vec![put(&[("content-length", "5001")])],
        vec![put(&[]), data(1, &[b'x'; BODY_MAX], false), data(1, b"x", false)],
    ] {
        let response = one(&frames);
        assert_eq!((response.status(), response.reset), (413, Some(ErrorCode::NoError as u32)));
    }
}

/// A request can turn out to be malformed at the end of its body, and so one that nobody wants is read first.
#[test]
fn a_body_for_nobody_is_read_before_the_answer() {
    let post = |length| request(1, "POST", "/small.txt", &[("content-length", length)], false);
    assert_eq!(one(&[post("3"), data(1, b"abc", true)]).status(), 405);
    let response = one(&[post("3"), data(1, b"abcd", true)]);
    assert_eq!((response.status(), response.reset), (0, Some(ErrorCode::ProtocolError as u32)));
    let response = one(&[post("70000")]);
    assert_eq!((response.status(), response.reset), (405, Some(ErrorCode::NoError as u32)));
}

#[test]
fn a_head_that_is_too_large_is_answered_with_431() {
    let value = "v".repeat(1000);
    let fields: Vec<_> = (0..33).map(|_| ("x-large", &value[..])).collect();
    assert_eq!(one(&[request(1, "GET", "/small.txt", &fields, true)]).status(), 431);
    let path = format!("/{}", "p".repeat(9000));
    assert_eq!(one(&[get(1, &path)]).status(), 414);
}

#[test]
fn windows_hold_bodies_back_and_nothing_else() {
    let first = [greeting_with(&[ClientSetting::InitialWindowSize(1000)]), get(1, "/large.txt"), get(3, "/missing")];
    let (server, now, mut bytes) = (server(), now(), Vec::new());
    let mut session = session(&server, now);
    let mut talk = |input: &[u8]| {
        session.feed(&server, input, now);
        while flush(&mut session, &mut bytes, usize::MAX) > 0 {
            session.resume(&server, now);
        }
        let mut received = Received::default();
        received.feed(&bytes).unwrap();
        received
    };
    let received = talk(&first.concat());
    assert_eq!((received.responses[&1].body.len(), received.responses[&1].is_whole), (1000, false));
    assert!(received.responses[&3].is_whole && received.responses[&3].status() == 404);
    assert_eq!(talk(&window_update(1, 1)).responses[&1].body.len(), 1001);
    let received = talk(&window_update(1, 1 << 20));
    assert_eq!((&received.responses[&1].body[..], received.responses[&1].is_whole), (&large()[..], true));
}

/// Neither what HTTP/1 would be asked nor what it would be told is told to a client of HTTP/2 where it is off.
#[test]
fn without_http2_the_preface_is_no_request() {
    let options = HttpOptions { http2: false, ..HttpOptions::default() };
    let server = web::WebServer::new(crate::site::TestSite::new(), options);
    let transcript = exchange(&server, &greeting(), Chunking::UNLIMITED, now());
    assert!(transcript.bytes.starts_with(b"HTTP/1.1 ") && transcript.is_closed);
}

/// Input that is no HTTP at all is no HTTP/1 either.
#[test]
fn a_client_of_neither_version_is_sent_away() {
    let transcript = exchange(&server(), b"INVALID CONNECTION PREFACE\r\n\r\n", Chunking::UNLIMITED, now());
    let mut received = Received::default();
    received.feed(&transcript.bytes).unwrap();
    assert_eq!((received.goaways, transcript.is_closed), (vec![(0, ErrorCode::ProtocolError as u32)], true));
}

/// HTTP/1 refuses a line without a method at its first byte, before it is seen what the line says.
#[test]
fn a_line_that_is_refused_before_its_end_is_so_however_it_arrives() {
    for chunking in [Chunking::UNLIMITED, Chunking { input_bytes: 1, ..Chunking::UNLIMITED }] {
        let transcript = exchange(&server(), b"  HTT\r\n", chunking, now());
        let reply = String::from_utf8_lossy(&transcript.bytes).into_owned();
        assert!(reply.starts_with("HTTP/1.1 400 ") && transcript.is_closed, "{reply:?}");
    }
}

/// Requests with their bodies, each on a stream of its own.
fn frames(picks: &[usize]) -> Vec<Vec<u8>> {
    let token = ("x-token", "t");
    let frames = picks.iter().zip((1..).step_by(2)).map(|(pick, stream)| match pick {
        0 => get(stream, "/small.txt"),
        1 => get(stream, "/large.txt"),
        2 => request(stream, "GET", "/large.txt", &[("range", "bytes=-4000,0-0,17-17")], true),
        3 => [request(stream, "PUT", "/own/b", &[token], false), data(stream, &[b'x'; 700], true)].concat(),
        4 => [request(stream, "PUT", "/own/b", &[token], false), data(stream, &[b'x'; BODY_MAX + 1], true)].concat(),
        5 => [request(stream, "POST", "/small.txt", &[], false), data(stream, b"abc", true)].concat(),
        6 => request(stream, "GET", "/small.txt", &[("Upper", "x")], true),
        _ => get(stream, "/missing"),
    });
    frames.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The order of frames of different streams is not promised; what is on each of them is.
    #[test]
    fn responses_do_not_depend_on_fragmentation(
        picks in proptest::collection::vec(0..8_usize, 0..40),
        input_bytes in 1..200_usize,
        output_bytes in 1..20_000_usize,
    ) {
        let frames = frames(&picks);
        let (whole, end) = ask(&frames, Chunking::UNLIMITED);
        let (torn, torn_end) = ask(&frames, Chunking { input_bytes, output_bytes });
        prop_assert_eq!(whole.responses.len(), picks.len());
        // Multipart boundaries are the server's own.
        let bare = |received: &Received| {
            received.responses.values().map(|response| (response.status(), response.body.len(), response.reset)).collect::<Vec<_>>()
        };
        prop_assert_eq!(bare(&whole), bare(&torn));
        prop_assert_eq!(end.is_closed, torn_end.is_closed);
    }

    #[test]
    fn any_frames_are_answered_or_end_the_connection(
        frames in proptest::collection::vec((0..10_u8, any::<u8>(), 0..6_u32, proptest::collection::vec(any::<u8>(), 0..30)), 0..40),
        input_bytes in 1..50_usize,
    ) {
        let frames: Vec<_> = frames.iter().map(|(kind, flags, stream, payload)| testkit::http2::frame(*kind, *flags, *stream, payload)).collect();
        let (whole, end) = ask(&frames, Chunking::UNLIMITED);
        let (torn, torn_end) = ask(&frames, Chunking { input_bytes, output_bytes: usize::MAX });
        prop_assert_eq!((whole.goaways, end.is_closed), (torn.goaways, torn_end.is_closed));
    }
}
