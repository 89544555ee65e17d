//! `loadgen http` against faulty servers: every outcome has its own class, and the sums are exact.

use super::support::{
    Run, loadgen,
    socket_server::{Act, Server, http_request, ok, reply},
};

/// One connection, so that the order of requests is known.
const ONE: &[&str] = &["-c", "1", "-n", "10"];

#[test]
fn a_good_server_makes_no_errors() {
    let server = Server::start(|_| Act::Say(ok("hello")));
    let run = Run::http(&server.url(), &["-c", "3", "-n", "100", "-P", "4"]);
    run.assert_errors(&[]);
    assert_eq!((run.result.requests, run.result.reconnects), (100, 0));
    assert_eq!(run.result.bytes_in, 100 * ok("hello").len() as u64);
    assert!(run.result.latency_us.min > 0.0 && run.result.service_us.is_none());
}

#[test]
fn without_keep_alive_every_request_has_a_connection() {
    for closes in [true, false] {
        let server = Server::answering(http_request, move |_, request| {
            let is_told = String::from_utf8_lossy(request).contains("\r\nConnection: close\r\n");
            match (is_told, closes) {
                (true, true) => Act::SayAndClose(reply("200 OK", "Connection: close\r\n", 3, "yes")),
                (true, false) => Act::Say(ok("yes")),
                (false, _) => Act::Say(reply("400 Not told", "", 2, "no")),
            }
        });
        let run = Run::http(&server.url(), &["-c", "3", "-n", "50", "--no-keep-alive"]);
        run.assert_errors(&[]);
        assert_eq!((run.result.ok, run.result.reconnects), (50, 0), "a connection of one's own is no reconnection");
        // The probe, one for each request, and at most one for each of three that was opened before the end was known.
        assert!((51..=54).contains(&server.connections()), "{}", server.connections());
        assert_eq!(run.result.config["keep_alive"], false);
    }
}

#[test]
fn a_wrong_status_is_counted_and_the_connection_kept() {
    let server = Server::start(|n| Act::Say(if n % 5 == 4 { reply("500 Oops", "", 2, "no") } else { ok("yes") }));
    let run = Run::http(&server.url(), ONE);
    run.assert_errors(&[("status", 2)]);
    assert_eq!((run.result.ok, server.connections()), (8, 2));
}

#[test]
fn a_body_of_another_length_is_counted() {
    let server = Server::start(|n| Act::Say(ok(if n == 3 { "longer" } else { "short" })));
    Run::http(&server.url(), ONE).assert_errors(&[("length", 1)]);
    let server = Server::start(|n| Act::Say(ok(if n == 3 { "longer" } else { "short" })));
    Run::http(&server.url(), &["-c", "1", "-n", "10", "--verify", "status"]).assert_errors(&[]);
}

#[test]
fn a_body_with_another_content_is_counted() {
    let server = Server::start(|n| Act::Say(ok(if n == 3 { "wrong" } else { "right" })));
    Run::http(&server.url(), ONE).assert_errors(&[("content", 1)]);
    let server = Server::start(|n| Act::Say(ok(if n == 3 { "wrong" } else { "right" })));
    Run::http(&server.url(), &["-c", "1", "-n", "10", "--verify", "length"]).assert_errors(&[]);
}

#[test]
fn a_body_in_another_coding_is_counted() {
    let coded = |coding: &str| reply("200 OK", &format!("Content-Encoding: {coding}\r\n"), 4, "body");
    for (first, other) in [("br", "gzip"), ("identity", "gzip"), ("br", "identity"), ("br", "br, gzip"), ("odd", "br")]
    {
        let replies = [coded(first), coded(other)];
        for verify in ["length", "content"] {
            let replies = replies.clone();
            let server = Server::start(move |n| Act::Say(replies[usize::from(n % 5 == 3)].clone()));
            let run = Run::http(&server.url(), &["-c", "1", "-n", "10", "--verify", verify]);
            run.assert_errors(&[("encoding", 2)]);
            let seen = &run.result.bodies[0];
            assert_eq!((seen.bytes, seen.coding.replace("other", "odd").as_str()), (4, first), "{verify}");
            assert_eq!(seen.sha256.is_some(), verify == "content");
            assert!(run.stderr.contains("another Content-Encoding than before (encoding)"), "{}", run.stderr);
        }
        let server = Server::start(move |n| Act::Say(replies[usize::from(n == 3)].clone()));
        Run::http(&server.url(), &["-c", "1", "-n", "10", "--verify", "status"]).assert_errors(&[]);
    }
}

/// SHA-256 of `/a.css`.
const DIGEST: &str = "265f8008c1916ae641379b374ea46e86863036e8cf1d674376602b9a30f042ef";

#[test]
fn paths_of_a_file_are_asked_for_in_turn() {
    let server = Server::answering(http_request, |_, request| {
        let path = String::from_utf8_lossy(request).split(' ').nth(1).unwrap_or_default().to_owned();
        let coding = if path.ends_with(".css") { "Content-Encoding: br\r\n" } else { "" };
        Act::Say(reply("200 OK", coding, path.len(), &path))
    });
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "# what a browser asks for\n/index.html\n/a.css\n\nGET /b.png\n").expect("written");
    let paths = file.path().to_str().expect("UTF-8");
    let run = Run::http(&server.url(), &["-c", "2", "-n", "300", "--paths", paths]);
    run.assert_errors(&[]);
    let seen: Vec<_> = run.result.bodies.iter().map(|body| (&*body.request, body.bytes, &*body.coding)).collect();
    let expected = [("GET /index.html", 11, "identity"), ("GET /a.css", 6, "br"), ("GET /b.png", 6, "identity")];
    assert_eq!(seen, expected);
    assert_eq!(run.result.bodies[1].sha256.as_deref(), Some(DIGEST));
    assert_eq!(run.result.config["paths"], paths);
    let text = loadgen(&["http", "-n", "30", "--paths", paths, &server.url()]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains("of 6 to 11 bytes: 1 br, 2 identity"), "{text}");
    // Each path as often as the others, whichever thread asks.
    let asked = run.result.bytes_out;
    assert_eq!(asked % 100, 0, "{asked}");
}

#[test]
fn a_file_of_paths_that_is_none_is_bad_usage() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let paths = file.path().to_str().expect("UTF-8");
    for (text, more, said) in [
        ("/a\n", &[][..], "line 1"),
        ("", &["http://127.0.0.1:1/"][..], "there is no path and no URL in it"),
        ("/a\n/b c\n", &["http://127.0.0.1:1/"], "line 2"),
        ("/a\n", &["http://127.0.0.1:1/", "http://127.0.0.1:1/b"], "--paths goes with one URL"),
    ] {
        std::fs::write(file.path(), text).expect("written");
        let ended = loadgen(&[&["http", "--paths", paths], more].concat());
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.code() == Some(2) && stderr.contains(said) && stderr.lines().count() == 1, "{stderr}");
    }
}

#[test]
fn bodies_that_differ_between_threads_are_found() {
    // Two threads with one connection each: a barrier lets each get one of the first two requests.
    let barrier = std::sync::Barrier::new(2);
    let server = Server::start(move |n| {
        if n < 2 {
            barrier.wait();
        }
        Act::Say(ok(if n % 2 == 0 { "even" } else { "odds" }))
    });
    let run = Run::http(&server.url(), &["-c", "2", "-n", "2", "--threads", "2"]);
    run.assert_errors(&[("content", 1)]);
}

#[test]
fn a_truncated_body_is_short() {
    let server = Server::start(|n| {
        if n == 3 { Act::SayAndClose(reply("200 OK", "", 100, "too little")) } else { Act::Say(ok("x")) }
    });
    let run = Run::http(&server.url(), ONE);
    run.assert_errors(&[("short_body", 1)]);
    assert_eq!(run.result.ok, 9);
    // Behind it in the pipeline are requests that were never answered at all.
    let server = Server::start(|n| {
        if n == 1 { Act::SayAndClose(reply("200 OK", "", 100, "too little")) } else { Act::Say(ok("x")) }
    });
    let run = Run::http(&server.url(), &["-c", "1", "-n", "8", "-P", "8"]);
    run.assert_errors(&[("eof_early", 6), ("short_body", 1)]);
}

#[test]
fn a_close_before_or_inside_the_head_is_an_early_eof() {
    for bytes in ["", "HTTP/1.1 200"] {
        let server = Server::start(move |n| if n == 3 { Act::SayAndClose(bytes.into()) } else { Act::Say(ok("x")) });
        Run::http(&server.url(), ONE).assert_errors(&[("eof_early", 1)]);
    }
}

#[test]
fn a_close_inside_a_pipeline_fails_the_requests_behind() {
    // The third reply is followed by a close that nobody announced: the other seven were sent in vain.
    let server = Server::start(|n| if n == 2 { Act::SayAndClose(ok("x")) } else { Act::Say(ok("x")) });
    let run = Run::http(&server.url(), &["-c", "1", "-n", "10", "-P", "10"]);
    run.assert_errors(&[("eof_early", 7)]);
    assert_eq!(run.result.ok, 3);
}

#[test]
fn a_reset_is_a_reset() {
    let server = Server::start(|n| if n == 3 { Act::SayAndReset(Vec::new()) } else { Act::Say(ok("x")) });
    Run::http(&server.url(), ONE).assert_errors(&[("reset", 1)]);
}

#[test]
fn invalid_http_is_a_protocol_error() {
    let babble: [&[u8]; 4] = [
        b"220 smtp.example ready\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n",
    ];
    for bytes in babble {
        let server = Server::start(move |n| Act::Say(if n == 3 { bytes.to_vec() } else { ok("x") }));
        Run::http(&server.url(), ONE).assert_errors(&[("protocol", 1)]);
    }
}

#[test]
fn a_surplus_reply_is_a_protocol_error() {
    let server = Server::start(|n| {
        let mut bytes = ok("x");
        if n == 3 {
            bytes.extend(ok("x"));
        }
        Act::Say(bytes)
    });
    let run = Run::http(&server.url(), ONE);
    run.assert_errors(&[("protocol", 1)]);
    // It is the reply before it that pays, so that there are as many outcomes as requests.
    assert_eq!(run.result.requests, 10);
}

#[test]
fn silence_is_a_timeout() {
    let server = Server::start(|n| if n == 3 { Act::FallSilent } else { Act::Say(ok("x")) });
    let run = Run::http(&server.url(), &["-c", "1", "-n", "10", "--timeout", "700ms"]);
    run.assert_errors(&[("timeout", 1)]);
    assert_eq!(run.result.ok, 9);
}

#[test]
fn timeouts_count_when_a_duration_is_the_limit() {
    let server = Server::start(|_| Act::FallSilent);
    let options = ["-c", "2", "-d", "100ms", "--warmup", "0s", "--timeout", "300ms"];
    Run::http(&server.url(), &options).assert_errors(&[("timeout", 2)]);
    let open = [&options[..], &["-R", "50"]].concat();
    let run = Run::http(&server.url(), &open);
    // The fifth falls due while both connections wait, and finds none before the run ends.
    run.assert_errors(&[("not_sent", 1), ("timeout", 4)]);
}

#[test]
fn an_announced_close_is_no_error() {
    let server = Server::start(|_| Act::SayAndClose(reply("200 OK", "Connection: close\r\n", 1, "x")));
    let run = Run::http(&server.url(), &["-c", "2", "-n", "20"]);
    run.assert_errors(&[]);
    assert_eq!((run.result.ok, run.result.reconnects), (20, 20));
}

#[test]
fn requests_behind_an_announced_close_are_sent_again() {
    let server = Server::start(|n| {
        if n % 3 == 2 { Act::SayAndClose(reply("200 OK", "Connection: close\r\n", 1, "x")) } else { Act::Say(ok("x")) }
    });
    let run = Run::http(&server.url(), &["-c", "1", "-n", "30", "-P", "8"]);
    run.assert_errors(&[]);
    assert_eq!((run.result.ok, run.result.reconnects), (30, 10));
}

#[test]
fn a_body_that_ends_with_the_connection_is_complete() {
    let server = Server::start(|_| Act::SayAndClose(b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec()));
    let run = Run::http(&server.url(), ONE);
    run.assert_errors(&[]);
    assert_eq!(run.result.ok, 10);
}

#[test]
fn a_vanished_server_is_connect_refused() {
    let (listener, url) = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        (listener, url)
    };
    // It accepts the probe and one connection, and is gone; what has come meanwhile is reset.
    let server = std::thread::spawn(move || {
        let probe = listener.accept().expect("a probe");
        let connection = listener.accept().expect("a connection");
        drop((listener, probe, connection));
    });
    let run = Run::http(&url, &["-c", "1", "-n", "5", "--timeout", "2s"]);
    server.join().expect("the server ends");
    assert_eq!(run.result.ok, 0);
    assert_eq!(run.errors("connect_refused") + run.errors("reset") + run.errors("eof_early"), 5, "{}", run.stderr);
    assert!(run.errors("connect_refused") > 0, "{}", run.stderr);
}

#[test]
fn a_unix_listener_that_never_accepts_ends_in_timeouts() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("full.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a free path");
    // A queue of 2 at most: the other connections find it full and have nothing to wait on.
    rustix::net::listen(&listener, 1).expect("bound");
    let url = format!("unix:{}", path.display());
    let run = Run::http(&url, &["-c", "6", "-n", "6", "--timeout", "200ms"]);
    assert_eq!(run.errors("timeout") + run.errors("connect_timeout"), 6, "{}", run.stderr);
    assert!(run.errors("connect_timeout") > 0, "{}", run.stderr);
}

#[test]
fn running_out_of_descriptors_has_its_own_class() {
    let server = Server::start(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        Act::Say(ok("x"))
    });
    let script = format!("ulimit -n 24; exec '{}' \"$@\"", env!("CARGO_BIN_EXE_loadgen"));
    let output = std::process::Command::new("sh")
        .args(["-c", &script, "sh", "http", "-c", "64", "-n", "300", "--format", "json", "-t", "1", &server.url()])
        .output()
        .expect("a shell");
    let result: loadgen::result::RunResult = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!(output.status.code(), Some(3));
    assert!(result.ok > 0 && result.errors["fd_limit"] > 0, "{result:?}");
    assert_eq!((result.errors.len(), result.requests), (1, 300), "{result:?}");
}

#[test]
fn a_reply_may_come_byte_by_byte() {
    // Every byte in its own segment, head and body torn everywhere.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || {
                use std::io::{Read as _, Write as _};
                let mut socket = socket;
                socket.set_nodelay(true).expect("a TCP socket");
                let mut buffer = [0; 4096];
                while socket.read(&mut buffer).is_ok_and(|length| length > 0) {
                    for byte in ok("drip") {
                        if socket.write_all(&[byte]).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    let run = Run::http(&url, &["-c", "2", "-n", "20"]);
    run.assert_errors(&[]);
    assert_eq!(run.result.ok, 20);
}

#[test]
fn a_method_and_a_body_are_sent_as_given() {
    /// A head, and ten bytes.
    fn framing(input: &[u8]) -> Option<usize> {
        http_request(input).map(|head| head + 10).filter(|&end| input.len() >= end)
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), b"\r\n\r\nq=1\0\xff\n").expect("written");
    let path = file.path().to_str().expect("text");
    for (options, start, body) in [
        (&["--body", "0123456789"][..], &b"POST /"[..], &b"0123456789"[..]),
        (&["-X", "PUT", "--body-file", path], b"PUT /", b"\r\n\r\nq=1\0\xff\n"),
    ] {
        let server = Server::answering(framing, move |number, request| {
            let is_right = request.starts_with(start)
                && request.ends_with(body)
                && request.windows(20).any(|window| window == b"Content-Length: 10\r\n");
            Act::Say(if is_right && number != 5 { ok("done") } else { reply("400 Bad Request", "", 2, "no") })
        });
        let run = Run::http(&server.url(), &[&["-c", "1", "-n", "12", "-P", "3"], options].concat());
        run.assert_errors(&[("status", 1)]);
        assert_eq!(run.result.config["body_bytes"], 10);
    }
    for options in [&["-X", "HEAD"][..], &["-X", "no method"], &["--body", "x", "--body-file", path]] {
        let refused = loadgen(&[&["http", "http://127.0.0.1:1/"], options].concat());
        assert_eq!(refused.status.code(), Some(2), "{options:?}");
    }
}
