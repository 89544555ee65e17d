//! The table of the README, row by row.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use http_server::SiteOptions;
use proto::{Flow, Protocol};
use testkit::http2::{Received, get, greeting};
use web::{CgiOptions, Programs, Settings};

use crate::{
    common::World,
    probes::{grow_tree, probes},
};

fn world() -> World {
    let world = World::new(SiteOptions::default());
    grow_tree(&world.root);
    world
}

#[test]
fn every_probe_is_answered_as_the_table_says() {
    let world = world();
    for round in ["opened", "cached"] {
        for probe in probes() {
            let answer = world.exchange(probe.request.as_bytes(), probe.request.len());
            let responses = answer.responses(&[probe.method()]);
            assert_eq!((responses.len(), answer.is_closed), (1, probe.closes), "{round}: {:?}", probe.shown());
            probe.check(&responses[0]);
        }
    }
}

#[test]
fn a_file_comes_with_its_type_length_and_validators() {
    let world = world();
    for _ in ["opened", "cached"] {
        for (target, media_type, body) in [
            ("/", "text/html; charset=utf-8", &b"<p>home"[..]),
            ("/a.txt", "text/plain; charset=utf-8", b"0123456789"),
            ("/sub/b.css", "text/css; charset=utf-8", b"b{}"),
            ("/empty/nothing.bin", "application/octet-stream", b""),
            ("/with%20space&%C3%a9.json", "application/json", b"{}"),
            ("/100%2541.txt", "text/plain; charset=utf-8", b"percent"),
            ("/middle.bin", "application/octet-stream", &[b'm'; 7_000]),
            ("/large.bin", "application/octet-stream", &[b'l'; 100_000]),
        ] {
            let got = world.get(target);
            assert_eq!((got.status, &got.body[..]), (200, body), "{target}");
            assert_eq!(got.field("content-type"), Some(media_type));
            assert_eq!(got.field("last-modified").map(str::len), Some(29));
            let etag = got.field("etag").unwrap();
            assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 3, "{etag}");
            let head = world.ask(&format!("HEAD {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            assert_eq!(head, testkit::http::Response { body: vec![], ..got }, "HEAD is GET without the body: {target}");
        }
    }
}

/// The name of a file that contains a `%` is not a path with an escape in it.
#[test]
fn a_cached_name_is_not_taken_for_an_escape() {
    let world = world();
    assert_eq!(world.get("/100%2541.txt").status, 200);
    assert_eq!(world.get("/100%41.txt").status, 404);
}

#[test]
fn a_directory_without_its_slash_redirects_to_itself() {
    let world = world();
    std::fs::create_dir(world.root.join("a b?c")).unwrap();
    std::fs::create_dir(world.root.join("evil.example")).unwrap();
    for (target, location) in [
        ("/sub", "/sub/"),
        ("/sub?q=%20&r", "/sub/?q=%20&r"),
        ("/./x/../sub", "/sub/"),
        ("/a%20b%3fc", "/a%20b%3Fc/"),
        ("//evil.example", "/evil.example/"),
    ] {
        let got = world.get(target);
        assert_eq!((got.status, got.field("location")), (301, Some(location)), "{target}");
    }
}

#[test]
fn preconditions_save_the_body_or_refuse() {
    let world = world();
    for target in ["/a.txt", "/large.bin"] {
        let full = world.get(target);
        let (etag, modified) = (full.field("etag").unwrap(), full.field("last-modified").unwrap());
        for (fields, status) in [
            (format!("If-None-Match: {etag}\r\n"), 304),
            (format!("If-None-Match: \"x\", W/{etag}\r\n"), 304),
            ("If-None-Match: *\r\n".into(), 304),
            ("If-None-Match: \"x\"\r\n".into(), 200),
            (format!("If-Modified-Since: {modified}\r\n"), 304),
            ("If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\r\n".into(), 304),
            ("If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n".into(), 200),
            (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}\r\n"), 200),
            (format!("If-Match: {etag}\r\n"), 200),
            ("If-Match: \"zz\"\r\n".into(), 412),
            ("If-Unmodified-Since: Fri, 01 Jan 1999 00:00:00 GMT\r\n".into(), 412),
            (format!("If-Unmodified-Since: {modified}\r\n"), 200),
        ] {
            let got = world.get_with(target, &fields);
            assert_eq!(got.status, status, "{target} {fields:?}");
            if status == 304 {
                assert_eq!((got.field("etag"), got.field("last-modified")), (Some(etag), Some(modified)));
                assert!(got.body.is_empty() && got.field("content-length").is_none());
            }
        }
    }
}

#[test]
fn unreadable_files_are_forbidden() {
    use std::os::unix::fs::PermissionsExt;
    let world = world();
    let path = world.root.join("a.txt");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads everything; the mapping of EACCES is then checked in the site's own tests.
    let want = if std::fs::File::open(&path).is_ok() { 200 } else { 403 };
    assert_eq!(world.get("/a.txt").status, want);
}

#[test]
fn http_1_0_clients_are_told_that_the_connection_stays() {
    let world = world();
    for _ in ["opened", "cached"] {
        let got = world.ask("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!((got.field("connection"), &got.body[..]), (Some("keep-alive"), &b"0123456789"[..]));
        assert_eq!(world.get("/a.txt").field("connection"), None);
    }
}

#[test]
fn nothing_is_answered_after_the_last_response() {
    let world = world();
    let next = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    for first in [
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 65537\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
    ] {
        let answer = world.exchange(format!("{first}{next}").as_bytes(), usize::MAX);
        assert_eq!(
            (answer.responses(&[]).len(), answer.is_lingering),
            (1, true),
            "unread input needs a lingering close"
        );
    }
    let alone = world.exchange(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", usize::MAX);
    assert!(alone.is_closed && !alone.is_lingering, "a client that has said all is not waited for");
}

/// A request must be whole in time, however steadily its bytes trickle in; between requests silence is allowed longer.
#[test]
fn slow_requests_time_out_and_idle_connections_are_closed() {
    let mut world = world();
    let (request_timeout, idle_timeout) = (Duration::from_secs(10), Duration::from_secs(60));
    let (mut session, mut bytes) = (world.session(), Vec::new());
    let begin = world.now.instant;
    for &byte in b"GET /a.tx" {
        session.feed(&world.server, &[byte], world.now);
        assert_eq!(session.deadline(&world.server), Some(begin + request_timeout), "absolute from the first byte");
        world.pass(Duration::from_secs(1));
        session.tick(&world.server, world.now, proto::Uptake::none);
        assert!(!session.is_done());
    }
    world.pass(Duration::from_secs(1));
    session.tick(&world.server, world.now, proto::Uptake::none);
    testkit::in_memory::flush(&mut session, &mut bytes, usize::MAX);
    assert!(bytes.starts_with(b"HTTP/1.1 408 ") && session.begin_lingering(world.now));

    let (mut session, mut bytes) = (world.session(), Vec::new());
    session.feed(&world.server, b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n\r\n", world.now);
    testkit::in_memory::flush(&mut session, &mut bytes, usize::MAX);
    let answered = bytes.len();
    world.pass(idle_timeout - Duration::from_secs(1));
    session.tick(&world.server, world.now, proto::Uptake::none);
    assert!(!session.is_done());
    world.pass(Duration::from_secs(1));
    session.tick(&world.server, world.now, proto::Uptake::none);
    testkit::in_memory::flush(&mut session, &mut bytes, usize::MAX);
    assert_eq!((session.is_done(), bytes.len()), (true, answered));
}

#[test]
fn a_full_server_says_so_in_a_whole_response() {
    let world = world();
    let refusal = String::from_utf8(world.server.refusal().to_vec()).unwrap();
    let (head, body) = refusal.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())) && head.contains("Connection: close"));
}

#[test]
fn responses_and_bytes_are_counted() {
    let world = world();
    let mut sent = 0;
    for target in ["/a.txt", "/a.txt", "/large.bin", "/missing", "/sub", "/%zz"] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        sent += world.exchange(request.as_bytes(), 7).bytes.len() as u64;
    }
    let statistics = world.server.statistics();
    assert_eq!((statistics.responses, statistics.bytes), ([0, 3, 1, 2, 0], sent));
    assert_eq!((statistics.cache_hits, statistics.file_opens), (1, 2));
    let step = world.server.on_input(&mut world.server.new_connection(), b"", world.now, &mut Default::default());
    assert_eq!((step.consumed, step.flow), (0, Flow::Open));
}

/// A program for which there is no thread is answered before its promise has been looked at, as one is that ends while the
/// thread of the connection rests.
#[test]
fn what_is_known_at_once_is_answered_in_the_place_of_its_promise() {
    let (directory, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = directory.path().join("program");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let options = CgiOptions {
        directory: directory.path().to_owned(),
        timeout: Duration::from_secs(1),
        output_bytes_max: 1,
        processes_max: 0,
    };
    let programs = Programs::open(&options, root.path()).unwrap();
    let settings = Settings { programs: Some(programs), ..Settings::default() };
    let world = World::with_settings(SiteOptions::default(), settings);
    let old = world.get("/cgi-bin/program");
    assert_eq!(old.status, 503);

    let frames = [greeting(), get(1, "/cgi-bin/program"), get(3, "/cgi-bin/program")].concat();
    for chunk in [frames.len(), 1] {
        let mut received = Received::default();
        received.feed(&world.exchange(&frames, chunk).bytes).expect("frames of a server");
        assert_eq!(received.responses.len(), 2, "{received:?}");
        for response in received.responses.values() {
            assert_eq!((response.status(), response.reset, response.is_whole), (503, None, true), "{response:?}");
            assert_eq!(response.body, old.body);
        }
    }
}
