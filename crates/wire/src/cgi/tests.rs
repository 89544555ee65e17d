use proptest::prelude::*;

use super::*;

fn document(output: &str) -> Document<'_> {
    match parse(output.as_bytes()) {
        Ok(CgiResponse::Document(document)) => document,
        other => panic!("{output:?}: {other:?}"),
    }
}

#[test]
fn a_document_has_a_type_and_by_default_200() {
    for output in ["Content-Type: text/plain\n\nabc", "content-type:text/plain\r\nContent-Length: 3\r\n\r\nabc"] {
        let got = document(output);
        assert_eq!((got.code, got.reason, got.body), (200, &b"OK"[..], &b"abc"[..]));
        assert_eq!(got.fields, [(&b"Content-Type"[..], &b"text/plain"[..])]);
    }
    let got = document("X-A: b\nStatus: 404 Not Here\nDate: today\nContent-Type: a/b\nSet-Cookie: c\n\n");
    assert_eq!((got.code, got.reason), (404, &b"Not Here"[..]));
    let names: Vec<&[u8]> = got.fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [&b"X-A"[..], b"Set-Cookie", b"Content-Type"], "the date is the server's");
    let got = document("Status: 204\n\n");
    assert_eq!((got.code, got.reason, got.body), (204, &b""[..], &b""[..]));
}

#[test]
fn a_document_is_written_with_the_fields_of_the_server() {
    let head = |output, connection| {
        let mut head = Vec::new();
        document(output).push_head(connection, Duration::from_secs(784_111_777), &mut head);
        String::from_utf8(head).unwrap()
    };
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(
        head("Content-Type: a/b\nX: y\n\nabc", Connection::Close),
        format!(
            "HTTP/1.1 200 OK\r\n{date}\r\nConnection: close\r\nX: y\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\n"
        )
    );
    assert_eq!(head("Status: 204\n\n", Connection::Implied), format!("HTTP/1.1 204 No Content\r\n{date}\r\n\r\n"));
    let reset = head("Status: 205 Reset\n\n", Connection::Implied);
    assert_eq!(
        reset,
        format!("HTTP/1.1 205 Reset\r\n{date}\r\nContent-Length: 0\r\n\r\n"),
        "it does not end by itself"
    );
    assert!(head("Status: 418 Teapot\n\n", Connection::Implied).starts_with("HTTP/1.1 418 Teapot\r\n"));
}

#[test]
fn redirects_are_local_or_of_the_client() {
    for local in ["/a?b=c", "/"] {
        assert_eq!(
            parse(format!("Location: {local}\n\n").as_bytes()),
            Ok(CgiResponse::LocalRedirect(local.as_bytes())),
            "{local}"
        );
    }
    for (output, code) in [
        ("Location: http://other/x\n\n", 302),
        ("Location: mailto:a@b\n\n", 302),
        ("Status: 303 See Other\nLocation: /a\n\n", 303),
        ("Status: 301\nLocation: https://x/\nContent-Type: text/plain\n\nmoved", 301),
        ("Location: https://x/\nContent-Type: text/plain\n\nmoved", 302),
    ] {
        let got = document(output);
        assert!(got.code == code && got.fields.iter().any(|(name, _)| *name == b"Location"), "{output:?}");
    }
    for bad in ["//evil/x", "relative", "", "http:", "/a b", "1x://y", "/a\tb"] {
        let output = format!("Location: {bad}\n\n");
        assert_eq!(parse(output.as_bytes()), Err(CgiError::InvalidLocation), "{bad}");
    }
}

#[test]
fn output_that_is_no_response_is_refused() {
    use CgiError::*;
    for (output, error) in [
        ("", Empty),
        ("Content-Type: a/b\n", Unterminated),
        ("Content-Type: a/b", Unterminated),
        ("hello, world", Unterminated),
        ("hello, world\n\n", MalformedField),
        ("Content-Type : a/b\n\n", MalformedField),
        (" Content-Type: a/b\n\n", MalformedField),
        ("Content-Type: a/b\n folded\n\n", MalformedField),
        ("Content-Type: a/b\rX: y\n\n", MalformedField),
        ("Content-Type: a\0b\n\n", MalformedField),
        (": a\n\n", MalformedField),
        ("HTTP/1.1 200 OK\nContent-Type: a/b\n\n", MalformedField),
        ("Content-Type: a/b\ncontent-type: c/d\n\n", Repeated),
        ("Status: 200\nStatus: 200\n\n", Repeated),
        ("Location: /\nLocation: /\n\n", Repeated),
        ("Content-Length: 0\nContent-Length: 0\nStatus: 200\n\n", Repeated),
        ("Status: OK\n\n", InvalidStatus),
        ("Status: 100 Continue\n\n", InvalidStatus),
        ("Status: 999\n\n", InvalidStatus),
        ("Status: 2000\n\n", InvalidStatus),
        ("Status: \n\n", InvalidStatus),
        ("Content-Type: a/b\nContent-Length: 4\n\nabc", WrongLength),
        ("Content-Type: a/b\nContent-Length: +3\n\nabc", WrongLength),
        ("Content-Type: a/b\nTransfer-Encoding: chunked\n\n0\n\n", HopByHop),
        ("Content-Type: a/b\nCONNECTION: close\n\n", HopByHop),
        ("Content-Type: a/b\nUpgrade: x\n\n", HopByHop),
        ("Status: 200 OK\n\nabc", NoContentType),
        ("Content-Type:\n\nabc", NoContentType),
        ("Status: 304\nContent-Type: a/b\n\nabc", BodyNotAllowed),
        ("X-A: b\n\n", NoCgiField),
        ("\n\nabc", NoContentType),
        ("\n", NoCgiField),
    ] {
        assert_eq!(parse(output.as_bytes()), Err(error), "{output:?}");
    }
}

#[test]
fn a_header_block_is_limited() {
    let lines = |count| "X: y\n".repeat(count) + "Status: 200\n\n";
    assert!(parse(lines(FIELDS_MAX - 1).as_bytes()).is_ok());
    assert_eq!(parse(lines(FIELDS_MAX).as_bytes()), Err(CgiError::TooLarge));
    let long = |length| format!("Status: 200 {}\n\n", "x".repeat(length));
    assert!(parse(long(HEAD_BYTES_MAX - 14).as_bytes()).is_ok());
    assert_eq!(parse(long(HEAD_BYTES_MAX - 13).as_bytes()), Err(CgiError::TooLarge));
    assert_eq!(parse(&vec![b'x'; 1 << 20]), Err(CgiError::TooLarge), "a flood without a line end");
}

proptest! {
    /// A field of a program's cannot end its line, and never frames a message.
    #[test]
    fn what_is_passed_on_cannot_change_the_framing(
        output in "((Status: [0-9]{1,4}|Content-Type: a/b|Location: [/a-z:?]{0,6}|[A-Za-z-]{1,9}:[ a-z\\r\u{e9}]{0,5}|Content-Length: [0-9])\r?\n){0,6}(\r?\n)?[a-z\n]{0,9}"
    ) {
        if let Ok(CgiResponse::Document(document)) = parse(output.as_bytes()) {
            prop_assert!((200..=599).contains(&document.code) && output.as_bytes().ends_with(document.body));
            for (name, value) in document.fields {
                prop_assert!(!name.is_empty() && name.iter().all(|&byte| is_token_byte(byte)));
                prop_assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
                prop_assert!(!is_one_of(name, &HOP_BY_HOP) && !is_one_of(name, &OF_THE_SERVER));
            }
        }
    }

    #[test]
    fn no_output_panics(output in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&output);
    }
}
