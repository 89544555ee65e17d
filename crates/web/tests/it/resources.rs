//! Resources of a site's own that need no body.

use std::{os::fd::AsFd, sync::atomic::Ordering};

use proto::{Flow, NextWrite, Now, Outbox, Peer, Protocol};
use testkit::in_memory::{flush, session};
use web::HttpOptions;

use crate::site::{ask, now, server, statuses};

#[test]
fn own_resources_go_before_files() {
    let server = server();
    for (request, status, has_body) in [
        ("GET /own/a", "200", true),
        ("HEAD /own/a", "200", false),
        ("PUT /own/a", "401", true),
        ("DELETE /own/a", "405", true),
        ("OPTIONS /own/a", "204", false),
        ("GET /small.txt", "200", true),
        ("GET /other", "404", true),
    ] {
        let (replies, transcript) = ask(&server, &format!("{request} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!((statuses(&replies), transcript.is_closed), (vec![status], false), "{request}");
        assert_eq!(!replies.ends_with("\r\n\r\n"), has_body, "{request}: {replies}");
        assert_eq!(replies.contains("WWW-Authenticate: Bearer\r\n"), status == "401");
    }
}

const NEXT: &str = "GET /own/a HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn a_connection_survives_a_small_body_for_nobody() {
    let server = server();
    let body = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
    let length = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for (request, status) in [
        ("GET /small.txt", "200"),
        ("HEAD /small.txt", "200"),
        ("GET /own/a", "200"),
        ("POST /own/a", "401"),
        ("POST /small.txt", "405"),
        ("DELETE /own/a", "405"),
        ("OPTIONS *", "204"),
        ("BREW /small.txt", "501"),
    ] {
        for body in [&length, &chunked] {
            let (replies, transcript) = ask(&server, &format!("{request} HTTP/1.1\r\nHost: h\r\n{body}{NEXT}"));
            assert_eq!((statuses(&replies), transcript.is_closed), (vec![status, "200"], false), "{request} {replies}");
            let (replies, transcript) =
                ask(&server, &format!("{request} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{body}{NEXT}"));
            assert_eq!((statuses(&replies), transcript.is_lingering), (vec![status], true), "{request} {replies}");
        }
    }
}

/// The request is answered at once, and its body left unread.
#[test]
fn a_long_body_for_nobody_closes_the_connection() {
    let server = server();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    for request in ["GET /own/a", "POST /own/a", "DELETE /own/a"] {
        for (fields, body) in [
            ("Content-Length: 65537\r\n", "abc".to_owned()),
            ("Transfer-Encoding: chunked\r\n", chunk.repeat(17) + "0\r\n\r\n"),
            ("Transfer-Encoding: chunked\r\n", chunk.repeat(17) + "malformed"),
        ] {
            let (replies, transcript) =
                ask(&server, &format!("{request} HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}{NEXT}"));
            assert_eq!((statuses(&replies).len(), transcript.is_lingering), (1, true), "{replies}");
            assert!(replies.contains("Connection: close\r\n") && !replies.contains(" 400 "), "{replies}");
        }
    }
}

#[test]
fn a_malformed_body_for_nobody_is_400() {
    let server = server();
    for request in ["GET /small.txt", "HEAD /small.txt", "GET /own/a", "OPTIONS *", "POST /small.txt", "GET /missing"] {
        for body in ["zz\r\n", "1\r\nab\r\n0\r\n\r\n", "1\na\n0\n\n", "-1\r\n", "3\r\nabc0\r\n\r\n", "0\r\n\rx"] {
            let input = format!("{request} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}{NEXT}");
            let (replies, transcript) = ask(&server, &input);
            assert_eq!((statuses(&replies), transcript.is_lingering), (vec!["400"], true), "{request} {body:?}");
            assert_eq!(replies.ends_with("\r\n\r\n"), request.starts_with("HEAD"), "{replies}");
        }
    }
}

/// A final response instead of a 100 spares it its body.
#[test]
fn a_client_that_waits_for_100_is_answered_at_once() {
    let server = server();
    for request in ["GET /own/a", "POST /own/a", "PUT /small.txt"] {
        for framing in ["Content-Length: 3", "Content-Length: 99999999999", "Transfer-Encoding: chunked"] {
            let head = format!("{request} HTTP/1.1\r\nHost: h\r\n{framing}\r\nExpect: 100-continue\r\n\r\n");
            for body in ["", "abc", "GET /own/a HTTP/1.1\r\nHost: h\r\n\r\n"] {
                let (replies, transcript) = ask(&server, &format!("{head}{body}"));
                assert_eq!((statuses(&replies).len(), transcript.is_lingering), (1, true), "{replies}");
                assert!(replies.contains("Connection: close\r\n") && !replies.contains("100 Continue"), "{replies}");
            }
        }
    }
}

/// A request is answered by then, or it never will be: only the one whose framing is to be judged gets a 408.
#[test]
fn a_body_for_nobody_must_arrive_in_time() {
    let (server, begin) = (server(), now());
    let later = Now { instant: begin.instant + HttpOptions::default().upload_timeout, ..begin };
    for (framing, statuses_wanted) in [("Content-Length: 3", &["200"][..]), ("Transfer-Encoding: chunked", &["408"])] {
        let (mut session, mut bytes) = (session(&server, begin), Vec::new());
        let head = format!("GET /own/a HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n1");
        session.feed(&server, head.as_bytes(), begin);
        flush(&mut session, &mut bytes, usize::MAX);
        session.tick(&server, later, proto::Uptake::none);
        flush(&mut session, &mut bytes, usize::MAX);
        assert_eq!(statuses(&String::from_utf8(bytes).unwrap()), statuses_wanted);
        assert!(session.begin_lingering(later));
    }
}

#[test]
fn all_responses_and_bytes_are_counted() {
    let server = server();
    let input = "GET /own/a HTTP/1.1\r\nHost: h\r\n\r\n\
        PUT /own/a HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc\
        GET /large.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1,5-5000\r\n\r\n\
        GET /large.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=9000-\r\n\r\n";
    let (replies, _) = ask(&server, input);
    assert_eq!(statuses(&replies), ["200", "100", "201", "206", "416"]);
    let statistics = server.statistics();
    assert_eq!((statistics.responses, statistics.bytes), ([1, 3, 0, 1, 0], replies.len() as u64));
    assert_eq!(
        server.hosts().default_host().site.responses.load(Ordering::Relaxed),
        4,
        "a 100 is not the final response"
    );
}

#[test]
fn the_last_response_of_an_old_connection_says_so() {
    let (server, stdin) = (server(), std::io::stdin());
    let mut conn = server.open(Peer::unknown(stdin.as_fd(), 0), now());
    let mut out = Outbox::default();
    assert_eq!(server.on_input(&mut conn, b"GET /own/a HT", now(), &mut out).flow, Flow::Open);
    assert!(!server.retire(&mut conn), "a request is arriving");
    let step = server.on_input(&mut conn, b"GET /own/a HTTP/1.1\r\nHost: h\r\n\r\n", now(), &mut out);
    let Some(NextWrite::Memory(pieces, count)) = out.front() else { panic!("no response") };
    let said: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.to_vec()).collect();
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 ") && said.contains("Connection: close\r\n"), "{said}");
    assert_eq!(step.flow, Flow::Linger);
    assert!(server.retire(&mut conn), "none is");
}
