//! Resources of a site's own that need no body.

use std::{os::fd::AsFd, sync::atomic::Ordering};

use proto::{Flow, NextWrite, Outbox, Peer, Protocol};

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

/// Its end would have to be found before the next request.
#[test]
fn an_unwanted_body_closes_the_connection() {
    let server = server();
    for request in ["GET /own/a", "POST /own/a", "DELETE /own/a"] {
        let head = format!("{request} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
        let (replies, transcript) = ask(&server, &format!("{head}abcGET /own/a HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!((statuses(&replies).len(), transcript.is_lingering), (1, true), "{replies}");
        assert!(replies.contains("Connection: close\r\n") && !replies.contains("100 Continue"), "{replies}");
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
    let mut conn = server.open(Peer::new(stdin.as_fd(), 0), now());
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
