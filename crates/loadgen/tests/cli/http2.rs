//! `http --http2`: streams whose replies come in any order, and ends that only HTTP/2 has.

use std::{
    process::{Child, Command},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use wire::{
    hpack::push_field,
    http2::{
        ErrorCode, Setting, push_data_header, push_goaway, push_headers, push_ping, push_rst_stream, push_window_update,
    },
};

use super::support::{
    Run,
    http2_server::{head, serve},
    loadgen,
};

const FRAME: usize = 1 << 14;

/// Runs with one connection, so many requests, and so many streams, on each engine.
fn on_both(url: &str, requests: &str, streams: &str, options: &[&str], check: impl Fn(&Run)) {
    for engine in ["epoll", "uring"] {
        let common = ["--http2", "-c", "1", "-n", requests, "--streams", streams, "--engine", engine];
        check(&Run::http(url, &[&common, options].concat()));
    }
}

#[test]
fn replies_of_streams_are_matched_in_any_order() {
    let url = serve(&[], |_, peer| {
        loop {
            let requests = peer.requests(8);
            if requests.is_empty() {
                return;
            }
            // Each path has a body of its own.
            requests.iter().rev().for_each(|(stream, path)| peer.reply(*stream, path.as_bytes()));
        }
    });
    let other = format!("{url}/other");
    on_both(&format!("{url}/one"), "64", "8", &[&other], |run| {
        run.assert_errors(&[]);
        let config = &run.result.config;
        assert_eq!((run.result.ok, &config["http2"], &config["streams"]), (64, &true.into(), &8.into()));
        let bodies: Vec<_> = run.result.bodies.iter().map(|body| (body.request.as_str(), body.bytes)).collect();
        assert_eq!(bodies, [("GET /other", 6), ("GET /one", 4)]);
    });
}

#[test]
fn each_stream_has_a_latency_of_its_own() {
    let url = serve(&[], |_, peer| {
        let Some((held, _)) = peer.request() else { return };
        for _ in 0..20 {
            let Some((stream, _)) = peer.request() else { return };
            std::thread::sleep(std::time::Duration::from_millis(20));
            peer.reply(stream, b"body");
        }
        peer.reply(held, b"body");
    });
    let run = Run::http(&url, &["--http2", "-c", "1", "-n", "21", "--streams", "2"]);
    run.assert_errors(&[]);
    // The first reply comes last: it alone has taken all of the 400 ms.
    assert!(run.result.latency_us.max >= 395_000.0, "{:?}", run.result.latency_us);
}

#[test]
fn one_wrong_body_among_many_streams_is_found() {
    let url = serve(&[], |_, peer| {
        for number in 0.. {
            let Some((stream, _)) = peer.request() else { return };
            peer.reply(stream, if number == 37 { b"righT" } else { b"right" });
        }
    });
    on_both(&url, "200", "16", &[], |run| run.assert_errors(&[("content", 1)]));
}

#[test]
fn goaway_sends_what_was_not_read_again() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let url = serve(&[], move |_, peer| {
        count.fetch_add(1, Ordering::SeqCst);
        // Five of the eight that are sent.
        let requests = peer.requests(5);
        if let Some((last, _)) = requests.last() {
            peer.say(|out| push_goaway(*last, ErrorCode::NoError, out));
        }
        requests.iter().for_each(|(stream, _)| peer.reply(*stream, b"read"));
    });
    on_both(&url, "40", "8", &["--timeout", "3s"], |run| {
        run.assert_errors(&[]);
        assert_eq!(run.result.ok, 40);
    });
    assert_eq!(connections.load(Ordering::SeqCst), 16, "eight for each engine");
}

#[test]
fn goaway_with_an_error_is_a_failure() {
    let url = serve(&[], |number, peer| {
        let requests = peer.requests(4);
        if number % 4 == 0 {
            peer.say(|out| push_goaway(0, ErrorCode::EnhanceYourCalm, out));
            return;
        }
        for (stream, _) in requests {
            peer.reply(stream, b"calm");
        }
        while let Some((stream, _)) = peer.request() {
            peer.reply(stream, b"calm");
        }
    });
    let run = Run::http(&url, &["--http2", "-c", "1", "-n", "12", "--streams", "4"]);
    run.assert_errors(&[("stream_reset", 4)]);
    assert_eq!(run.result.error_details["stream_reset"]["GOAWAY, ENHANCE_YOUR_CALM"], 4);
}

#[test]
fn a_refused_stream_is_repeated_and_a_reset_one_fails() {
    let reset = |code: ErrorCode, every: usize| {
        serve(&[], move |_, peer| {
            for number in 1.. {
                let Some((stream, _)) = peer.request() else { return };
                if number % every == 0 {
                    peer.say(|out| push_rst_stream(stream, code, out));
                } else {
                    peer.reply(stream, b"whole");
                }
            }
        })
    };
    on_both(&reset(ErrorCode::RefusedStream, 3), "60", "4", &[], |run| run.assert_errors(&[]));
    on_both(&reset(ErrorCode::InternalError, 10), "60", "4", &[], |run| {
        run.assert_errors(&[("stream_reset", 6)]);
        assert_eq!(run.result.error_details["stream_reset"]["RST_STREAM, INTERNAL_ERROR"], 6);
    });
    on_both(&reset(ErrorCode::RefusedStream, 1), "5", "1", &[], |run| run.assert_errors(&[("stream_reset", 5)]));
}

#[test]
fn no_more_streams_are_open_than_the_server_allows() {
    let most = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&most);
    let url = serve(&[Setting::MaxConcurrentStreams(2)], move |_, peer| {
        // Those of before the settings had arrived.
        let early = peer.requests(8);
        early.iter().for_each(|(stream, _)| peer.reply(*stream, b"few"));
        loop {
            let requests = peer.requests(2);
            if requests.len() < 2 {
                return;
            }
            seen.lock().expect("a lock").push(peer.is_quiet());
            requests.iter().for_each(|(stream, _)| peer.reply(*stream, b"few"));
        }
    });
    let run = Run::http(&url, &["--http2", "-c", "1", "-n", "20", "--streams", "8"]);
    run.assert_errors(&[]);
    let seen = most.lock().expect("a lock");
    assert!(seen.len() == 6 && seen.iter().all(|is_quiet| *is_quiet), "{seen:?}");
}

#[test]
fn a_server_that_never_allows_a_stream_times_out() {
    let url = serve(&[Setting::MaxConcurrentStreams(0)], |_, peer| {
        // Those of before the settings had arrived.
        while let Some((stream, _)) = peer.request() {
            peer.say(|out| push_rst_stream(stream, ErrorCode::RefusedStream, out));
        }
    });
    on_both(&url, "3", "2", &["--timeout", "200ms"], |run| run.assert_errors(&[("timeout", 3)]));
}

#[test]
fn bodies_of_requests_keep_within_small_windows() {
    const DATA: u8 = 0x0;
    let overruns = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&overruns);
    let url = serve(&[Setting::InitialWindowSize(10), Setting::HeaderTableSize(0)], move |_, peer| {
        let (mut allowed, mut got) = (std::collections::HashMap::new(), std::collections::HashMap::new());
        while let Some((header, payload)) = peer.frame() {
            if header.kind != DATA {
                continue;
            }
            let allowed = allowed.entry(header.stream).or_insert(10_usize);
            let got: &mut Vec<u8> = got.entry(header.stream).or_default();
            got.extend_from_slice(&payload);
            // The first stream began before the settings had arrived.
            seen.fetch_add(usize::from(header.stream > 1 && got.len() > *allowed), Ordering::SeqCst);
            if header.flags & 1 != 0 {
                let echo = got.clone();
                peer.reply(header.stream, &echo);
            } else if !payload.is_empty() {
                *allowed += 7;
                peer.say(|out| {
                    push_window_update(header.stream, 7, out);
                    push_window_update(0, payload.len() as u32, out);
                });
            }
        }
    });
    let body = "a body that is longer than the window of ten bytes";
    on_both(&url, "12", "1", &["--body", body], |run| {
        run.assert_errors(&[]);
        assert_eq!(run.result.bodies[0].bytes, body.len() as u64);
    });
    assert_eq!(overruns.load(Ordering::SeqCst), 0);
}

#[test]
fn everything_that_a_reply_may_have_is_understood() {
    let url = serve(&[], |_, peer| {
        while let Some((stream, _)) = peer.request() {
            peer.say(|out| {
                push_ping(*b"are you?", false, out);
                push_headers(stream, &head("103"), false, FRAME, out);
                // In pieces of three bytes, and with a field that goes into the table.
                let mut block = head("200");
                block.extend_from_slice(b"\x40\x05x-new\x05value\xbe");
                push_field(b"content-length", b"6", &mut block);
                push_headers(stream, &block, false, 3, out);
                // Padding of four bytes: a frame without it, its length, flag, and padding.
                push_data_header(stream, 3 + 5, false, out);
                let flags = out.len() - 5;
                out[flags] |= 0x8;
                out.extend_from_slice(b"\x04abc\0\0\0\0");
                push_data_header(stream, 0, false, out);
                push_data_header(stream, 3, false, out);
                out.extend_from_slice(b"def");
                let mut trailers = Vec::new();
                push_field(b"x-checksum", b"1", &mut trailers);
                push_headers(stream, &trailers, true, FRAME, out);
            });
        }
    });
    on_both(&url, "30", "3", &[], |run| {
        run.assert_errors(&[]);
        assert_eq!(run.result.bodies[0].bytes, 6);
    });
}

#[test]
fn a_late_stream_fails_alone() {
    let url = serve(&[], |_, peer| {
        for number in 0.. {
            let Some((stream, _)) = peer.request() else { return };
            if number != 5 {
                peer.reply(stream, b"in time");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    });
    let run = Run::http(&url, &["--http2", "-c", "1", "-n", "100", "--streams", "4", "--timeout", "400ms"]);
    run.assert_errors(&[("timeout", 1)]);
    assert_eq!(run.result.reconnects, 0);
}

#[test]
fn the_end_of_a_connection_fails_each_stream_by_its_progress() {
    let url = serve(&[], |number, peer| {
        let requests = peer.requests(3);
        if number == 0 {
            peer.reply(requests[0].0, b"whole");
            return peer.say(|out| {
                push_headers(requests[1].0, &head("200"), false, FRAME, out);
                push_data_header(requests[1].0, 5, true, out);
                out.extend_from_slice(b"who");
            });
        }
        requests.iter().for_each(|(stream, _)| peer.reply(*stream, b"whole"));
        while let Some((stream, _)) = peer.request() {
            peer.reply(stream, b"whole");
        }
    });
    let run = Run::http(&url, &["--http2", "-c", "1", "-n", "12", "--streams", "3"]);
    assert_eq!(run.errors("short_body"), 1, "{}", run.stderr);
    assert!((1..=2).contains(&run.errors("eof_early")), "{}", run.stderr);
}

#[test]
fn a_server_without_http2_is_named_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let run = Run::http(&url, &["--http2", "-c", "1", "-n", "3"]);
    run.assert_errors(&[("protocol", 3)]);
    assert!(run.stderr.contains("leave --http2 out"), "{}", run.stderr);
}

#[test]
fn options_of_http_1_do_not_go_with_http2() {
    for (options, word) in [
        (&["--http2", "-P", "2"][..], "--streams N"),
        (&["--http2", "--no-keep-alive"], "--no-keep-alive"),
        (&["--streams", "2"], "--http2"),
        (&["--http2", "--streams", "0"], "--streams"),
        (&["--http2", "-H", "Connection: close"], "connection"),
    ] {
        let output = loadgen(&[&["http", "-n", "1"], options, &["http://127.0.0.1:1/"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && stderr.contains(word), "{options:?}: {stderr}");
    }
}

/// nginx with HTTP/2 on a plain port and on one with TLS.
struct Nginx {
    process: Child,
    plain: u16,
    tls: u16,
    directory: tempfile::TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port()
}

impl Nginx {
    /// Starts it; `None` where it is not installed.
    fn start() -> Option<Self> {
        let program = testkit::installed_program("nginx").expect("nginx, if it must be there")?;
        let directory = tempfile::tempdir().expect("a directory");
        let (plain, tls, path) = (free_port(), free_port(), directory.path().display().to_string());
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let certificate = certificate.self_signed(&key).expect("a certificate");
        let files: [(&str, Vec<u8>); 4] = [
            ("cert.pem", certificate.pem().into_bytes()),
            ("key.pem", key.serialize_pem().into_bytes()),
            ("small", vec![b's'; 128]),
            ("large", (0..300_000_u32).map(|at| (at % 251) as u8).collect()),
        ];
        for (name, content) in files {
            std::fs::write(directory.path().join(name), content).expect("written");
        }
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {path}/{name}; "))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid {path}/pid; error_log {path}/log; events {{}} http {{ access_log off; {temporary} \
             keepalive_requests 700; ssl_certificate {path}/cert.pem; ssl_certificate_key {path}/key.pem; \
             server {{ listen 127.0.0.1:{plain} http2; listen 127.0.0.1:{tls} ssl http2; root {path}; \
             location /echo {{ return 200 taken; }} }} }}"
        );
        std::fs::write(directory.path().join("conf"), config).expect("written");
        let process = Command::new(program)
            .args(["-c", &format!("{path}/conf"), "-e", &format!("{path}/log")])
            .spawn()
            .expect("it runs");
        let nginx = Self { process, plain, tls, directory };
        for _ in 0..500 {
            if std::net::TcpStream::connect(("127.0.0.1", tls)).is_ok() {
                return Some(nginx);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("nginx does not listen");
    }
}

#[test]
fn nginx_is_driven_over_http2_plain_and_over_tls() {
    let Some(nginx) = Nginx::start() else { return };
    let directory = nginx.directory.path().to_str().expect("UTF-8");
    let authority = nginx.directory.path().join("cert.pem");
    let authority = authority.to_str().expect("UTF-8");
    for (origin, tls) in [
        (format!("http://localhost:{}", nginx.plain), &[][..]),
        (format!("https://localhost:{}", nginx.tls), &["--tls-ca", authority]),
    ] {
        let large = format!("{origin}/large");
        for engine in ["epoll", "uring"] {
            let common = [&["--http2", "--streams", "32", "-c", "2", "--engine", engine], tls].concat();
            // More than a connection may have: nginx says GOAWAY meanwhile.
            let options = [&["-n", "3000", "--verify", "sha256", "--content-dir", directory, &large], &common[..]];
            let run = Run::http(&format!("{origin}/small"), &options.concat());
            run.assert_errors(&[]);
            assert!(run.result.ok == 3000 && run.result.reconnects > 0, "{:?}", run.result.reconnects);
            let options = [&["-n", "200", "-R", "2000"], &common[..]].concat();
            Run::http(&format!("{origin}/small"), &options).assert_errors(&[]);
            let body = "b".repeat(100_000);
            let options = [&["-n", "50", "--body", &body], &common[..]].concat();
            let run = Run::http(&format!("{origin}/echo"), &options);
            run.assert_errors(&[]);
            assert_eq!(run.result.handshakes.is_some(), !tls.is_empty());
        }
        Run::http(&format!("{origin}/none"), &[&["--http2", "-n", "5"], tls].concat()).assert_errors(&[("status", 5)]);
    }
}
