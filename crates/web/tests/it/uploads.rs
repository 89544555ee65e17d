//! Resources of a site's own that take a body.

use std::time::Duration;

use proto::Now;
use testkit::in_memory::{flush, session};
use web::HttpOptions;

use crate::site::{BODY_MAX, ask, now, server, statuses};

fn put(fields: &str, body: &str) -> String {
    format!("PUT /own/name HTTP/1.1\r\nHost: h\r\nX-Token: t\r\n{fields}\r\n{body}")
}

const NEXT: &str = "GET /own/a HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn a_body_ends_where_its_length_says() {
    let server = server();
    let longest = "x".repeat(BODY_MAX);
    for body in ["", "a", "GET / HTTP/1.1\r\n\r\n", &longest] {
        let request = put(&format!("Content-Length: {}\r\n", body.len()), body);
        let (replies, transcript) = ask(&server, &(request + NEXT));
        assert_eq!((statuses(&replies), transcript.is_closed), (vec!["201", "200"], false), "{replies}");
        assert!(replies.contains(&format!("\r\n\r\nname={body}HTTP/1.1 200 OK\r\n")), "{replies}");
    }
    let (replies, transcript) = ask(&server, &put("", NEXT));
    assert_eq!((statuses(&replies), transcript.is_closed), (vec!["201", "200"], false), "no length is no body");
}

#[test]
fn a_body_that_cannot_be_read_is_refused_by_its_head() {
    let server = server();
    for (fields, status) in [
        (format!("Content-Length: {}\r\n", BODY_MAX + 1), "413"),
        (format!("Content-Length: {}\r\n", u64::MAX), "413"),
        ("Transfer-Encoding: gzip, chunked\r\n".into(), "501"),
        (format!("Content-Length: {}0\r\n", u64::MAX), "400"),
        ("Content-Length: -1\r\n".into(), "400"),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n".into(), "400"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n".into(), "400"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n".into(), "400"),
        ("Transfer-Encoding: chunked, gzip\r\n".into(), "400"),
    ] {
        let (replies, transcript) = ask(&server, &put(&format!("{fields}Expect: 100-continue\r\n"), NEXT));
        assert_eq!((statuses(&replies), transcript.is_lingering), (vec![status], true), "{fields}");
        assert!(replies.contains("Connection: close\r\n"), "{replies}");
    }
}

/// Encodes a body in chunks of this length, the first with an extension, and with a trailer behind them.
fn chunks(body: &str, len: usize) -> String {
    let chunk = |piece: &[u8]| format!("{:x};first\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece));
    let chunks: String = body.as_bytes().chunks(len).map(chunk).collect();
    format!("{chunks}0\r\nX-Trailer: of no interest\r\n\r\n")
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

#[test]
fn a_chunked_body_ends_where_its_coding_says() {
    let server = server();
    let longest = "x".repeat(BODY_MAX);
    for body in ["", "a", "GET / HTTP/1.1\r\n\r\n", "0\r\n\r\n", &longest] {
        for len in [1, 7, BODY_MAX] {
            let (replies, transcript) = ask(&server, &(put(CHUNKED, &chunks(body, len)) + NEXT));
            assert_eq!(
                (statuses(&replies), transcript.is_closed),
                (vec!["201", "200"], false),
                "{body} by {len}: {replies}"
            );
            assert!(replies.contains(&format!("\r\n\r\nname={body}HTTP/1.1 200 OK\r\n")), "{replies}");
        }
    }
}

#[test]
fn a_malformed_chunked_body_closes_the_connection() {
    let server = server();
    let too_long = chunks(&"x".repeat(BODY_MAX + 1), 100);
    for (body, status) in [
        (&*too_long, "413"),
        ("zz\r\n", "400"),
        ("1\r\nab\r\n0\r\n\r\n", "400"),
        ("1\na\n0\n\n", "400"),
        ("-1\r\n", "400"),
    ] {
        let (replies, transcript) = ask(&server, &put(CHUNKED, &format!("{body}{NEXT}")));
        assert_eq!((statuses(&replies), transcript.is_lingering), (vec![status], true), "{body}");
        assert!(replies.contains("Connection: close\r\n"), "{replies}");
    }
    // HTTP/1.0 has no such coding: a proxy on the way may have taken the body for something else.
    let (replies, _) = ask(&server, &put(CHUNKED, &chunks("a", 1)).replace("HTTP/1.1", "HTTP/1.0"));
    assert_eq!(statuses(&replies), ["400"]);
}

#[test]
fn the_site_may_refuse_a_body_it_has_read() {
    let request = "POST /own/conflict HTTP/1.1\r\nHost: h\r\nX-Token: t\r\nContent-Length: 1\r\n\r\na";
    let (replies, transcript) = ask(&server(), &format!("{request}{NEXT}"));
    assert_eq!((statuses(&replies), transcript.is_closed), (vec!["409", "200"], false));
}

#[test]
fn connections_persist_as_the_client_asked() {
    let server = server();
    let (replies, transcript) = ask(&server, &put("Content-Length: 1\r\nConnection: close\r\n", "a"));
    assert_eq!((statuses(&replies), transcript.is_closed, transcript.is_lingering), (vec!["201"], true, false));
    let (replies, transcript) = ask(&server, &put("Content-Length: 1\r\nConnection: close\r\n", &format!("a{NEXT}")));
    assert_eq!((statuses(&replies), transcript.is_lingering), (vec!["201"], true));
    let old = put("Content-Length: 1\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n", "a");
    let (replies, transcript) = ask(&server, &old.replace("HTTP/1.1", "HTTP/1.0"));
    assert_eq!((statuses(&replies), transcript.is_closed), (vec!["201"], false), "no 100 for HTTP/1.0");
    assert!(replies.contains("Connection: keep-alive\r\n"));
}

/// The client may hold its body back until it gets one.
#[test]
fn a_client_that_expects_100_gets_it_before_the_body() {
    let (server, now) = (server(), now());
    let (mut session, mut bytes) = (session(&server, now), Vec::new());
    session.feed(&server, put("Content-Length: 3\r\nExpect: 100-Continue\r\n", "").as_bytes(), now);
    flush(&mut session, &mut bytes, usize::MAX);
    assert_eq!(bytes, b"HTTP/1.1 100 Continue\r\n\r\n");
    session.feed(&server, b"abc", now);
    flush(&mut session, &mut bytes, usize::MAX);
    assert!(bytes.ends_with(b"\r\n\r\nname=abc"));
}

/// A body must be complete in time, however steadily it trickles in. The next request has the usual time.
#[test]
fn slow_bodies_time_out() {
    let (server, begin) = (server(), now());
    let HttpOptions { upload_timeout, idle_timeout, .. } = HttpOptions::default();
    let later = |time: Duration| Now { instant: begin.instant + time, unix: begin.unix + time };
    let step = upload_timeout / 4;
    let (mut slow, mut bytes) = (session(&server, begin), Vec::new());
    slow.feed(&server, put("Content-Length: 9\r\n", "").as_bytes(), begin);
    for part in 0..4 {
        slow.feed(&server, b"a", later(step * part));
        assert_eq!(slow.deadline(&server), Some(begin.instant + upload_timeout), "absolute from the head");
        slow.tick(&server, later(step * part), proto::Uptake::none);
        assert!(!slow.is_done());
    }
    slow.tick(&server, later(upload_timeout), proto::Uptake::none);
    flush(&mut slow, &mut bytes, usize::MAX);
    assert!(bytes.starts_with(b"HTTP/1.1 408 ") && slow.begin_lingering(later(upload_timeout)));

    let mut fast = session(&server, begin);
    fast.feed(&server, put("Content-Length: 1\r\n", "").as_bytes(), begin);
    fast.feed(&server, b"a", later(step));
    flush(&mut fast, &mut bytes, usize::MAX);
    fast.tick(&server, later(step + idle_timeout / 2), proto::Uptake::none);
    assert_eq!(fast.deadline(&server), Some(begin.instant + step + idle_timeout));
}
