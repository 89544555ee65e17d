use proptest::prelude::*;

use super::*;

const LIMITS: HeadLimits = HeadLimits { line_bytes_max: 200, head_bytes_max: 1000, is_http2: false };

/// Result of a parse, with everything borrowed made owned.
#[derive(Debug, PartialEq)]
enum Outcome {
    Torn,
    Refused(Refusal),
    Whole(String),
}

/// Offers `input` as it grows by the given steps, as a session would.
fn parse_torn(input: &[u8], mut cuts: impl Iterator<Item = usize>) -> Outcome {
    let mut parser = HeadParser::default();
    let mut end = 0;
    loop {
        end = input.len().min(end + cuts.next().unwrap_or(input.len()));
        match parser.parse(&input[..end], &LIMITS) {
            Ok(Some(request)) => return Outcome::Whole(format!("{request:?}")),
            Err(refusal) => return Outcome::Refused(refusal),
            Ok(None) if end == input.len() => return Outcome::Torn,
            Ok(None) => {}
        }
    }
}

fn parse(input: &[u8]) -> Outcome {
    parse_torn(input, std::iter::empty())
}

fn whole(head: &str) -> Request<'_> {
    let mut parser = HeadParser::default();
    let request = parser.parse(head.as_bytes(), &HeadLimits::default()).expect("valid").expect("whole");
    assert!(!parser.is_mid_request() && request.head_len == head.len());
    request
}

/// Pieces of likely and unlikely heads.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"GET / HTTP/1.1\r\n".to_vec()),
        Just(b"HEAD http://h/a?b%zz HTTP/1.0\r\n".to_vec()),
        Just(b"GET /x HTTP/1.9\r\n".to_vec()),
        Just(b"Host: h\r\n".to_vec()),
        Just(b"Content-Length: 5\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        Just(b"Connection: close, keep-alive\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b" ".to_vec()),
        Just(vec![b'a'; 190]),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// The result depends on the bytes of a head and not on the pieces in which they arrive, and no bytes panic.
    #[test]
    fn the_result_does_not_depend_on_fragmentation(input in pieces(), cuts in proptest::collection::vec(1..60_usize, 0..40)) {
        prop_assert_eq!(parse_torn(&input, cuts.into_iter()), parse(&input));
        prop_assert_eq!(parse_torn(&input, std::iter::repeat(1)), parse(&input));
        check_usual(&input);
    }

    /// Bytes behind a head do not change its result.
    #[test]
    fn bytes_behind_a_head_do_not_matter(rest in proptest::collection::vec(any::<u8>(), 0..100)) {
        let head = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
        prop_assert_eq!(parse(&[head, &rest[..]].concat()), parse(head));
    }
}

#[test]
fn every_part_of_a_head_is_parsed() {
    let request = whole(
        "GET /a%20b?c=%d HTTP/1.1\r\nHOST: [::1]:80\r\nAccept: x\r\nconnection: Foo , Close\r\nIf-None-Match: \"q\"\r\nAccept:  y \r\n\r\n",
    );
    assert_eq!(request.target, Target::Path { path: b"/a%20b", query: Some(b"c=%d"), is_encoded: true });
    assert_eq!((request.method, request.version, request.body), (Method::Get, Version::Http11, Body::Empty));
    assert!(request.is_conditional && !request.should_keep_alive);
    assert_eq!(request.values("accept").collect::<Vec<_>>(), [b"x", b"y"]);
    assert_eq!(request.values("If-None-Match").collect::<Vec<_>>(), [b"\"q\""]);
    assert_eq!(request.values("missing").count(), 0);
}

#[test]
fn persistence_follows_version_and_connection_field() {
    for (version, field, keep) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        ("1.9", "", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: close\r\nConnection: keep-alive\r\n", false),
    ] {
        let head = format!("GET / HTTP/{version}\r\nHost: h\r\n{field}\r\n");
        assert_eq!(whole(&head).should_keep_alive, keep, "{head:?}");
    }
}

#[test]
fn targets_come_in_four_forms() {
    let path = |path| Target::Path { path, query: None, is_encoded: false };
    for (line, want) in [
        ("GET /a", path(b"/a")),
        ("GET /a%zz", Target::Path { path: b"/a%zz", query: None, is_encoded: true }),
        ("GET /a?%zz", Target::Path { path: b"/a", query: Some(b"%zz"), is_encoded: false }),
        ("GET /\u{e9}", path("/\u{e9}".as_bytes())),
        ("GET http://h/a", path(b"/a")),
        ("GET HTTPS://h:1", path(b"/")),
        ("GET http://h?q", Target::Path { path: b"/", query: Some(b"q"), is_encoded: false }),
        ("OPTIONS *", Target::Server),
        ("OPTIONS http://h", Target::Server),
        ("CONNECT h:443", Target::Authority(b"h:443")),
    ] {
        assert_eq!(whole(&format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n")).target, want, "{line}");
    }
}

#[test]
fn faulty_heads_are_refused() {
    let after_line = |rest: &str| format!("GET / HTTP/1.1\r\n{rest}\r\n");
    let line = |line: &str| format!("{line}\r\nHost: h\r\n\r\n");
    let fields = |n| after_line(&format!("Host: h\r\n{}", "a: b\r\n".repeat(n)));
    use Refusal::*;
    for (head, refusal) in [
        (after_line(""), Malformed),
        (after_line("Host: a\r\nHost: a\r\n"), Malformed),
        (after_line("Host: a b\r\n"), Malformed),
        (after_line("Host: a/\r\n"), Malformed),
        (after_line("Host:\r\n"), Malformed),
        (after_line("Host: :80\r\n"), Malformed),
        (after_line("Host: [::1\r\n"), Malformed),
        (after_line("Host: %zz\r\n"), Malformed),
        (after_line("Host: u:p@x\r\n"), Malformed),
        (line("GET http://u:p@x/ HTTP/1.1"), Malformed),
        (line("GET http://:80/ HTTP/1.1"), Malformed),
        (line("CONNECT :80 HTTP/1.1"), Malformed),
        (after_line("Host : a\r\n"), Malformed),
        (after_line("Host: a\r\n folded\r\n"), Malformed),
        (after_line("Host: a\r\nno colon\r\n"), Malformed),
        (after_line("Host: a\r\nx: a\rb\r\n"), Malformed),
        (after_line("Host: a\r\nx: a\0b\r\n"), Malformed),
        (after_line("Host: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n"), Malformed),
        (after_line("Host: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n"), Malformed),
        (after_line("Host: a\r\nContent-Length: +5\r\n"), Malformed),
        (after_line("Host: a\r\nContent-Length: 5, 5\r\n"), Malformed),
        (after_line("Host: a\r\nContent-Length:\r\n"), Malformed),
        (after_line("Host: a\r\nContent-Length: 18446744073709551616\r\n"), Malformed),
        (after_line("Host: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n"), Malformed),
        (after_line("Host: a\r\nTransfer-Encoding: gzip, chunked\r\n"), UnknownCoding),
        (after_line("Host: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), UnknownCoding),
        (after_line("Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), Malformed),
        (after_line("Host: a\r\nTransfer-Encoding: chunked, gzip\r\n"), Malformed),
        (after_line("Host: a\r\nTransfer-Encoding: gzip\r\n"), UnknownCoding),
        ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".into(), Malformed),
        ("GET / HTTP/1.1\nHost: h\n\n".into(), Malformed),
        ("GET / HTTP/1.1\r\nHost: h\n\r\n".into(), Malformed),
        ("\nGET / HTTP/1.1\r\n".into(), Malformed),
        // Before the client has sent more than this.
        ("\x16\x03\x01".into(), Malformed),
        ("GET /\r\n".into(), Malformed),
        (line("GET  / HTTP/1.1"), Malformed),
        (line("GET /a b HTTP/1.1"), Malformed),
        (line("GET /#a HTTP/1.1"), Malformed),
        (line("GET a HTTP/1.1"), Malformed),
        (line("GET * HTTP/1.1"), Malformed),
        (line("GET ftp://h/ HTTP/1.1"), Malformed),
        (line("GET http:///a HTTP/1.1"), Malformed),
        (line("GET /\t HTTP/1.1"), Malformed),
        (line("G(T / HTTP/1.1"), Malformed),
        (line(" / HTTP/1.1"), Malformed),
        (line("GET / http/1.1"), Malformed),
        (line("GET / HTTP/1.10"), Malformed),
        (line("GET / HTTP/2.0"), UnsupportedVersion),
        (line("GET / HTTP/0.9"), UnsupportedVersion),
        (line(&format!("GET /{} HTTP/1.1", "a".repeat(9000))), TargetTooLong),
        (format!("GET /{}", "a".repeat(9000)), TargetTooLong),
        (after_line(&format!("Host: h\r\nx: {}\r\n", "a".repeat(9000))), FieldsTooLarge),
        (after_line(&format!("Host: h\r\n{}", format!("x: {}\r\n", "a".repeat(8000)).repeat(5))), FieldsTooLarge),
        (fields(FIELDS_MAX), FieldsTooLarge),
        (fields(2000), FieldsTooLarge),
    ] {
        let verdict = HeadParser::default().parse(head.as_bytes(), &HeadLimits::default());
        assert_eq!(verdict.map(|_| ()), Err(refusal), "{:?}", &head[..head.len().min(80)]);
    }
    whole(&fields(FIELDS_MAX - 1));
    whole(&line(&format!("GET /{} HTTP/1.1", "a".repeat(8192 - "GET / HTTP/1.1".len()))));
}

#[test]
fn bodies_are_framed_by_length_or_chunks() {
    for (field, body) in [
        ("Content-Length: 0", Body::Empty),
        ("Content-Length: 007", Body::Length(7)),
        ("Transfer-Encoding: Chunked", Body::Chunked),
    ] {
        assert_eq!(whole(&format!("POST / HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n")).body, body);
    }
}

#[test]
fn methods_are_case_sensitive_tokens() {
    for (name, method) in
        [("GET", Method::Get), ("get", Method::Unknown), ("BREW", Method::Unknown), ("PATCH", Method::Patch)]
    {
        assert_eq!(whole(&format!("{name} / HTTP/1.1\r\nHost: h\r\n\r\n")).method, method);
    }
}

/// A head that arrives byte by byte is not searched again from its start each time.
#[test]
fn a_torn_head_is_searched_once() {
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\nx: {}", "a".repeat(150));
    let mut parser = HeadParser::default();
    for end in 1..=head.len() {
        assert!(parser.parse(&head.as_bytes()[..end], &LIMITS).unwrap().is_none());
        assert!(parser.is_mid_request());
        assert_eq!(parser.scan.searched(), end);
    }
}

#[test]
fn only_whole_empty_lines_are_skipped() {
    for (input, skipped) in [("\r\n\r\nGET", 4), ("\r", 0), ("\nGET", 0), ("GET\r\n", 0), ("", 0)] {
        assert_eq!(empty_lines_len(input.as_bytes()), skipped);
    }
    let mut parser = HeadParser::default();
    assert!(parser.parse(b"\r", &LIMITS).unwrap().is_none());
    assert!(!parser.is_mid_request(), "it may be skipped yet");
}

const USUAL: &str = "GET /a%20b?c HTTP/1.1\r\nHost: h.example:80\r\nUser-Agent:\t Mozilla/5.0 (X11; \u{fc}) \r\n\
    Accept-Encoding: br,\tgzip\r\nConnection: close\r\nRange: bytes=0-1\r\nIf-Match: *\r\nX:\r\n\r\n";

/// Asks both parsers: what the one for usual requests takes, the other takes as the same request. Returns true if it was
/// taken.
fn check_usual(input: &[u8]) -> bool {
    [LIMITS, HeadLimits::default()].iter().fold(false, |taken, limits| {
        let Some(request) = usual::parse(input, limits) else { return taken };
        let any = HeadParser::default().parse_any(input, limits).expect("a usual head is valid").expect("and whole");
        assert_eq!(format!("{request:?}"), format!("{any:?}"), "{}", input.escape_ascii());
        true
    })
}

#[test]
fn usual_heads_are_read_in_one_pass() {
    assert!(check_usual(USUAL.as_bytes()));
    assert!(check_usual(&[USUAL, "behind"].concat().into_bytes()));
    assert!(!check_usual(&USUAL.as_bytes()[..USUAL.len() - 1]), "torn");
    let fields = |n: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a:\r\n".repeat(n - 1));
    assert!(check_usual(fields(FIELDS_MAX).as_bytes()));
    assert!(!check_usual(fields(FIELDS_MAX + 1).as_bytes()));
}

#[test]
fn a_head_changed_in_one_byte_means_the_same_to_both_parsers() {
    let usual = USUAL.as_bytes();
    let mut taken = 0;
    for at in 0..usual.len() {
        for byte in 0..=u8::MAX {
            let (before, behind) = (&usual[..at], &usual[at..]);
            taken += usize::from(check_usual(&[before, &[byte], &behind[1..]].concat()));
            taken += usize::from(check_usual(&[before, &[byte], behind].concat()));
        }
        check_usual(&[&usual[..at], &usual[at + 1..]].concat());
    }
    assert!(taken > 20_000, "{taken}");
}
