//! Failed runs: what the server answered and what to try, on standard error and in the result.

use std::net::TcpListener;

use rustix::process::{Signal, kill_process};

use super::support::{
    Run, loadgen,
    null_server::NullServer,
    queue_server::QueueServer,
    socket_server::{Act, Server, ok, reply},
};

/// Runs of three requests over one connection.
const THREE: &[&str] = &["-c", "1", "-n", "3"];

/// Says the same to every request.
fn always(bytes: &'static [u8]) -> Server {
    Server::start(move |_| Act::Say(bytes.to_vec()))
}

#[test]
fn a_status_is_named_with_what_to_try() {
    let server = Server::start(|_| Act::Say(reply("404 Whatever", "", 0, "")));
    let run = Run::http(&format!("{}page?a=b", server.url()), THREE);
    run.assert_errors(&[("status", 3)]);
    assert_eq!(run.stderr, "404 Not Found for every request, 3 in all: is there a file at /page?a=b?\n");
    assert_eq!(run.result.error_details["status"]["404 Not Found"], 3);
    let text = loadgen(&[&["http"], THREE, &[&server.url()]].concat());
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    let row = text.lines().find(|line| line.starts_with("  status")).expect("a row");
    assert!(row.ends_with(" 3 404 Not Found"), "{text}");
    // No number stands for a status without words.
    let run = Run::http(&always(b"HTTP/1.1 599 x\r\nContent-Length: 0\r\n\r\n").url(), THREE);
    assert!(run.stderr.starts_with("599 for every request"), "{}", run.stderr);
}

#[test]
fn a_server_without_tls_is_named_as_such() {
    let silent = Server::start(|_| Act::FallSilent);
    let plain = Server::of(|input| (!input.is_empty()).then_some(input.len()), |_| Act::Say(ok("x")));
    for server in [silent, plain] {
        let url = format!("https://{}/", server.address());
        let output = loadgen(&["http", "-n", "1", "--connect-timeout", "300ms", "--tls-insecure", &url]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.ends_with("; does the server speak TLS there?\n") && !stderr.contains("os error"), "{stderr}");
    }
}

#[test]
fn several_causes_are_listed_with_their_counts() {
    let server = Server::start(|n| {
        Act::Say(match n % 10 {
            1..=3 => reply("404 Not Found", "", 0, ""),
            5 => reply("503 Service Unavailable", "", 0, ""),
            _ => ok("x"),
        })
    });
    let run = Run::http(&server.url(), &["-c", "1", "-n", "20"]);
    assert_eq!(run.code, Some(3));
    let lines: Vec<_> = run.stderr.lines().collect();
    assert_eq!(lines[0], "8 of 20 requests failed:");
    assert_eq!(lines[1], "  6  404 Not Found: is there a file at /?");
    assert!(lines[2].starts_with("  2  503 Service Unavailable: ") && lines.len() == 3, "{}", run.stderr);
}

#[test]
fn details_count_requests_of_the_window_only() {
    let server = Server::start(|_| Act::Say(reply("500 Oops", "", 0, "")));
    for threads in ["1", "3"] {
        let options = ["-c", "3", "-d", "200ms", "--warmup", "200ms", "--threads", threads];
        let run = Run::http(&server.url(), &options);
        let details = &run.result.error_details["status"];
        assert_eq!(details.values().sum::<u64>(), run.errors("status"), "{details:?}");
    }
}

#[test]
fn what_is_not_http_is_quoted() {
    let run = Run::http(&always(b"-ERR unknown command 'GET'\r\n").url(), &["-c", "1", "-n", "1"]);
    run.assert_errors(&[("protocol", 1)]);
    let said = "the only request failed: a reply that is not HTTP/1.1, `-ERR unknown command 'GET'\\r\\n` (protocol): ";
    assert!(run.stderr.starts_with(said), "{}", run.stderr);
    let run = Run::http(&always(b"\x15\x03\x01\x00\x02\x02\x46").url(), &["-c", "1", "-n", "1"]);
    assert!(run.stderr.contains("does the URL begin with https?"), "{}", run.stderr);
}

#[test]
fn a_queue_servers_status_is_named() {
    let server = QueueServer::deaf(1);
    let run = Run::mq(&server, &["--clients", "1", "-n", "1", "--timeout", "100ms"]);
    run.assert_errors(&[("timeout", 1)]);
    assert!(run.stderr.contains("is a server running on this queue"), "{}", run.stderr);
}

#[test]
fn connections_that_were_never_opened_are_failures() {
    // Nobody accepts, and the queue is full with a few.
    let url = |listener: &TcpListener| format!("http://{}/", listener.local_addr().expect("bound"));
    for engine in ["epoll", "uring"] {
        let options = ["-c", "40", "-d", "200ms", "--warmup", "0", "--timeout", "500ms", "--engine", engine];
        let listener = listener_with_backlog(1);
        let run = Run::http(&url(&listener), &options);
        let opened = run.result.connections_opened.expect("they are kept open");
        assert!(opened < 40, "{engine}: {opened}");
        assert_eq!(run.result.missing_connections(), Some((40, opened)));
        let said = format!("40 connections asked for, {opened} opened");
        assert!(run.code == Some(3) && run.stderr.contains(&said), "{}", run.stderr);
        // Each of them failed in some way, and once at least.
        assert!(run.result.requests >= 40, "{engine}: {:?}", run.result.errors);
        let listener = listener_with_backlog(1);
        let text = loadgen(&[&["http"], &options[..], &[&url(&listener)]].concat());
        let text = String::from_utf8(text.stdout).expect("UTF-8");
        assert!(text.contains("of 40 opened"), "{text}");
    }
}

/// Listens with a queue of that length.
fn listener_with_backlog(backlog: i32) -> TcpListener {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let socket = socket.expect("a socket");
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    rustix::net::listen(&socket, backlog).expect("it listens");
    socket.into()
}

#[test]
fn connections_not_reached_in_time_are_a_class_of_their_own() {
    // Each reply takes longer than the run, and only a hundred connections are opened without one.
    let server = Server::start(|_| Act::FallSilent);
    let options = ["-c", "3000", "-d", "1ms", "--warmup", "0", "--timeout", "300ms"];
    let run = Run::http(&server.url(), &options);
    let opened = run.result.connections_opened.expect("they are kept open");
    assert!(run.errors("not_opened") > 0, "{:?}", run.result.errors);
    assert!(run.errors("not_opened") <= 3_000 - opened, "{opened}: {:?}", run.result.errors);
    assert!(run.stderr.contains("--ramp"), "{}", run.stderr);
    // Few requests need few connections: nothing is missing.
    let server = Server::start(|_| Act::Say(ok("x")));
    let run = Run::http(&server.url(), &["-c", "1000", "-n", "3"]);
    run.assert_errors(&[]);
    assert_eq!(run.result.missing_connections(), None);
}

/// A server process that is stopped as by Ctrl-Z, until this is dropped.
struct Stopped(NullServer);

impl Stopped {
    fn start() -> Self {
        let server = Self(NullServer::start("http", "127.0.0.1:0", &[]));
        kill_process(server.0.pid(), Signal::STOP).expect("it runs");
        server
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0.pid(), Signal::CONT);
    }
}

/// Panics unless all `total` requests failed, of which `silent` connections or clients were given one or two each, and the
/// others were never sent.
fn assert_never_answered(run: &Run, total: u64, silent: u64) {
    assert_eq!((run.result.ok, run.result.requests), (0, total), "{}", run.stderr);
    let (timeouts, unsent) = (run.errors("timeout"), run.errors("not_sent"));
    assert_eq!(timeouts + unsent, total, "{}", run.stderr);
    assert!((silent..=2 * silent).contains(&timeouts), "{}", run.stderr);
    assert!(run.stderr.contains("due, but never sent (not_sent)"), "{}", run.stderr);
}

#[test]
fn an_open_loop_ends_though_the_server_is_stopped() {
    for engine in ["epoll", "uring"] {
        let server = Stopped::start();
        let url = format!("http://{}/", server.0.address);
        let options = ["-c", "2", "-R", "100", "-d", "500ms", "--warmup", "0", "--timeout", "1s", "--engine", engine];
        assert_never_answered(&Run::http(&url, &options), 50, 2);
    }
}

#[test]
fn a_run_waits_for_replies_one_timeout_at_most() {
    for engine in ["epoll", "uring"] {
        // The first two requests keep both connections for a second. The next two are answered in time for themselves,
        // but long after the run had to end.
        let server = Server::start(|n| {
            if n < 2 {
                return Act::FallSilent;
            }
            std::thread::sleep(std::time::Duration::from_millis(900));
            Act::Say(ok("x"))
        });
        let options = ["-c", "2", "-R", "100", "-d", "200ms", "--warmup", "0", "--timeout", "1s", "--engine", engine];
        assert_never_answered(&Run::http(&server.url(), &options), 20, 2);
    }
}

#[test]
fn requests_with_connections_of_their_own_end_in_time() {
    let server = Server::start(|_| Act::FallSilent);
    for engine in ["epoll", "uring"] {
        let options = ["-c", "2", "-R", "50", "-d", "200ms", "--warmup", "0", "--timeout", "1s", "--engine", engine];
        let run = Run::http(&server.url(), &[&options[..], &["--no-keep-alive"]].concat());
        assert_never_answered(&run, 10, 2);
    }
}

#[test]
fn queue_clients_end_though_nobody_answers() {
    let server = QueueServer::deaf(10);
    let options = ["--clients", "2", "-R", "50", "-d", "200ms", "--warmup", "0", "--timeout", "1s"];
    assert_never_answered(&Run::mq(&server, &options), 10, 2);
}

#[test]
fn the_result_fits_eighty_columns() {
    let server = Server::start(|n| Act::Say(if n % 3 == 0 { reply("404 Not Found", "", 0, "") } else { ok("x") }));
    let (url, pid) = (server.url(), std::process::id().to_string());
    for options in [
        &["-d", "1s", "--warmup", "100ms", "--server-pid", &pid, "--self-check=on"][..],
        &["-d", "200ms", "-R", "100", "--arrivals", "poisson"],
        &["-d", "100ms", "-R", "100,200", "--warmup", "0"],
        &["-n", "50", "--rate-sweep", "10%..20%"],
    ] {
        let output = loadgen(&[&["http", "-c", "2"], options, &[&url]].concat());
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        // A table of times has one unit, which stands above it.
        let units: Vec<_> = ["latency in ", "response time in "].iter().filter(|unit| text.contains(**unit)).collect();
        assert_eq!(units.len(), 1, "{text}");
    }
}

#[test]
fn a_missing_queue_says_which_server_to_start() {
    let directory = super::support::private_directory();
    let path = directory.path().to_str().expect("UTF-8");
    let output = loadgen(&["mq", "--fifo-dir", path, "-n", "1", "/quintet-no-such-queue", "f"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("is a server running on it?") && stderr.matches("os error").count() <= 1, "{stderr}");
}
