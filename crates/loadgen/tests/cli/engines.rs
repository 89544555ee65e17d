//! `--engine`: both engines see the same outcomes in the same classes. (QUINTET_TEST_ENGINE runs all tests on one.)

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use super::support::{
    Run,
    null_server::NullServer,
    socket_server::{Act, Server, ok, reply},
};

const ENGINES: [&str; 2] = ["epoll", "uring"];

fn both(check: impl Fn(&[&str])) {
    for engine in ENGINES {
        check(&["--engine", engine]);
    }
}

#[test]
fn every_outcome_has_its_class_on_both() {
    type Behave = fn(u64) -> Act;
    let cases: [(&str, Behave); 8] = [
        ("reset", |n| if n == 3 { Act::SayAndReset(Vec::new()) } else { Act::Say(ok("x")) }),
        ("eof_early", |n| if n == 3 { Act::SayAndClose(Vec::new()) } else { Act::Say(ok("x")) }),
        ("short_body", |n| {
            if n == 3 { Act::SayAndClose(reply("200 OK", "", 100, "too little")) } else { Act::Say(ok("x")) }
        }),
        ("protocol", |n| Act::Say(if n == 3 { b"220 smtp\r\n".to_vec() } else { ok("x") })),
        ("status", |n| Act::Say(if n == 3 { reply("500 Oops", "", 2, "no") } else { ok("x") })),
        ("length", |n| Act::Say(ok(if n == 3 { "longer" } else { "short" }))),
        ("content", |n| Act::Say(ok(if n == 3 { "wrong" } else { "right" }))),
        ("timeout", |n| if n == 3 { Act::FallSilent } else { Act::Say(ok("x")) }),
    ];
    both(|engine| {
        for (class, behave) in cases {
            for load in [&["-n", "10", "-c", "1"][..], &["-n", "10", "-R", "500", "-c", "2"]] {
                let server = Server::start(behave);
                let run = Run::http(&server.url(), &[&["--timeout", "500ms"], engine, load].concat());
                run.assert_errors(&[(class, 1)]);
                assert_eq!(run.result.ok, 9, "{engine:?} {class} {load:?}");
            }
        }
    });
}

#[test]
fn heavy_loads_are_verified_on_both() {
    both(|engine| {
        for (body, load) in [
            ("128", &["-c", "300", "-n", "6000", "-P", "16", "--threads", "2"][..]),
            ("1000000", &["-c", "5", "-n", "60", "-P", "3"]),
            ("128", &["-c", "1", "-n", "2000", "-P", "2000"]),
            ("128", &["-c", "20", "-n", "500", "--no-keep-alive"]),
        ] {
            let null = NullServer::start("http", "127.0.0.1:0", &["--body-size", body]);
            let run = Run::http(&format!("http://{}/", null.address), &[engine, load].concat());
            run.assert_errors(&[]);
            assert!(run.result.bytes_in >= run.result.ok * body.parse::<u64>().expect("a number"));
            assert!(run.result.bytes_out > run.result.ok * 30, "{:?}", run.result);
        }
        let null = NullServer::start("resp", "127.0.0.1:0", &["--value-size", "12"]);
        let options =
            [engine, &["-c", "7", "-n", "70000", "-P", "100", "--constant-values", "--keys", "1000"]].concat();
        let run = Run::kv(&null.address, &options);
        run.assert_errors(&[]);
        assert_eq!(run.result.hits, Some(70_000));
    });
}

#[test]
fn a_server_that_reads_slowly_gets_every_byte_on_both() {
    both(|engine| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).expect("a socket");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        let server = std::thread::spawn(move || {
            drop(listener.accept().expect("a probe"));
            let (mut socket, _) = listener.accept().expect("a connection");
            let (mut inbox, mut answered) = (Vec::new(), 0);
            let mut buffer = [0; 3000];
            while let Ok(length @ 1..) = socket.read(&mut buffer) {
                std::thread::sleep(Duration::from_micros(200));
                inbox.extend_from_slice(&buffer[..length]);
                if inbox.ends_with(b"\r\n\r\n") {
                    let seen = inbox.windows(4).filter(|window| window == b"\r\n\r\n").count();
                    socket.write_all(&ok("x").repeat(seen - answered)).expect("read");
                    answered = seen;
                }
            }
            inbox
        });
        // More than the socket's buffers hold, so that the rest has to wait.
        let header = format!("X-Padding: {}", "p".repeat(6_000));
        let run = Run::http(&url, &[engine, &["-c", "1", "-n", "400", "-P", "400", "-H", &header]].concat());
        run.assert_errors(&[]);
        let inbox = server.join().expect("it ends with the connection");
        assert_eq!(inbox.len() % 400, 0);
        assert!(inbox.chunks(inbox.len() / 400).all(|request| request == &inbox[..inbox.len() / 400]));
        assert_eq!(run.result.bytes_out, inbox.len() as u64);
    });
}

#[test]
fn the_first_byte_has_a_limit_of_its_own() {
    both(|engine| {
        let limits = ["-c", "1", "-n", "10", "--timeout", "10s", "--first-byte-timeout", "300ms"];
        let server = Server::start(|n| if n == 3 { Act::FallSilent } else { Act::Say(ok("x")) });
        Run::http(&server.url(), &[engine, &limits].concat()).assert_errors(&[("timeout_first_byte", 1)]);
    });
    // A reply that has begun has until the other limit.
    let server = Server::start(|n| Act::Say(if n == 3 { b"HTTP/1.1 200 OK\r\n".to_vec() } else { ok("x") }));
    let limits = ["-c", "1", "-n", "10", "--timeout", "600ms", "--first-byte-timeout", "200ms"];
    Run::http(&server.url(), &limits).assert_errors(&[("timeout", 1)]);
}

#[test]
fn connecting_has_a_limit_of_its_own() {
    both(|engine| {
        // A queue of one, which the probe and the first connections fill: the kernel drops what comes behind them.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        rustix::net::listen(&listener, 0).expect("bound");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        let limits = ["-c", "6", "-n", "6", "--timeout", "1500ms", "--connect-timeout", "200ms"];
        let run = Run::http(&url, &[engine, &limits].concat());
        assert_eq!(run.errors("timeout") + run.errors("connect_timeout"), 6, "{}", run.stderr);
        assert!(run.errors("connect_timeout") > 0, "{}", run.stderr);
    });
}

#[test]
fn a_request_is_stamped_when_it_leaves() {
    let null = NullServer::start("http", "127.0.0.1:0", &[]);
    let options = ["--engine", "epoll", "-c", "256", "--threads", "1", "-d", "500ms", "--warmup", "200ms"];
    // Little's law: requests under way on average. Were a request stamped when the reply before it was read, a connection
    // would always have one; measured are four of five, and nineteen of twenty where the machine is crowded.
    let under_way = || {
        let run = Run::http(&format!("http://{}/", null.address), &options);
        let latency = &run.result.latency_us;
        run.result.ok as f64 * latency.mean / 1e6 / run.result.duration_s / 256.0
    };
    let least = [0; 3].map(|_| under_way()).into_iter().fold(f64::INFINITY, f64::min);
    assert!((0.1..0.97).contains(&least), "{least}");
}
