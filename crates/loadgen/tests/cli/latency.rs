//! Measured times against known ones. Lower bounds are exact; upper bounds leave room for a loaded machine.

use std::{
    sync::{Arc, RwLock},
    time::{Duration, Instant},
};

use super::support::{
    Run, loadgen,
    socket_server::{Act, Server, ok},
};

#[test]
fn a_known_service_time_is_measured() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(20));
        Act::Say(ok("x"))
    });
    let run = Run::http(&server.url(), &["-c", "4", "-n", "100"]);
    run.assert_errors(&[]);
    let latency = run.result.latency_us;
    assert!(latency.min >= 20_000.0 && latency.p50 < 40_000.0, "{latency:?}");
    // Four connections, 20 ms each: more than 200 a second would be a lie.
    assert!(run.result.throughput_rps <= 200.0, "{}", run.result.throughput_rps);
}

/// Starts a server that answers nothing during one stall, as a stopped process would.
fn stalling_server(after: Duration, stall: Duration) -> Server {
    let gate = Arc::new(RwLock::new(()));
    let keeper = Arc::clone(&gate);
    let (started, start) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if start.recv().is_ok() {
            std::thread::sleep(after);
            let closed = keeper.write();
            std::thread::sleep(stall);
            drop(closed);
        }
    });
    Server::start(move |n| {
        if n == 0 {
            // The other end waits for exactly this.
            let _ = started.send(());
        }
        drop(gate.read());
        Act::Say(ok("x"))
    })
}

#[test]
fn an_open_loop_sees_a_stall() {
    // Stalled for S = 400 ms of T = 2 s, requests that fall due in the stall wait between S and 0: the q-quantile of
    // all response times is S - (1 - q) T, so 300 ms at 95 % and 380 ms at 99 %.
    let server = stalling_server(Duration::from_millis(700), Duration::from_millis(400));
    let options = ["-c", "8", "-R", "1000", "-d", "2s", "--warmup", "0s"];
    let run = Run::http(&server.url(), &options);
    run.assert_errors(&[]);
    assert_eq!(run.result.requests, 2_000);
    let response = run.result.latency_us;
    let near = |measured: f64, expected: f64| (measured - expected).abs() < 0.15 * expected;
    assert!(near(response.p99, 380_000.0), "{response:?}");
    assert!(near(response.max, 400_000.0), "{response:?}");
    assert!(response.p50 < 100_000.0, "{response:?}");
    // What a closed loop would have reported: only the eight requests in flight noticed.
    let service = run.result.service_us.expect("an open loop has both");
    assert!(service.p99 < 100_000.0 && service.max >= 300_000.0, "{service:?}");
}

/// Renders a stored result as text, and returns its backlog's columns of the CSV.
fn shown(out: &str) -> (String, String) {
    let report = |format: &str| String::from_utf8(loadgen(&["report", "--format", format, out]).stdout).expect("UTF-8");
    let csv = report("csv");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let of = |name: &str| rows[1][rows[0].iter().position(|column| *column == name).expect("a column")];
    (report("text"), ["backlog_max", "backlog_p99", "backlog_p50"].map(of).join(","))
}

#[test]
fn requests_due_in_a_stall_are_its_backlog() {
    for engine in ["epoll", "uring"] {
        // One request is under way, and 1,000 a second fall due for 200 ms.
        let server = stalling_server(Duration::from_millis(300), Duration::from_millis(200));
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path().to_str().expect("UTF-8");
        let options = ["-c", "1", "-R", "1000", "-d", "800ms", "--warmup", "0s", "--engine", engine, "--out", out];
        let run = Run::http(&server.url(), &options);
        run.assert_errors(&[]);
        let backlog = run.result.backlog.expect("an open loop");
        // The stall may be longer than it should, but not shorter.
        assert!((180..600).contains(&backlog.max), "{engine}: {backlog:?}");
        assert!(backlog.p50 <= backlog.p99 && backlog.p99 <= backlog.max, "{engine}: {backlog:?}");
        let every =
            loadgen::histogram::decode(&run.result.backlog_histogram.expect("an open loop")).expect("a histogram");
        assert_eq!((every.len(), every.max()), (run.result.requests, backlog.max));
        let (text, csv) = shown(out);
        assert!(text.contains("requests that waited for a connection, ") && text.contains(" at most"), "{text}");
        assert_eq!(csv, format!("{},{},{}", backlog.max, backlog.p99, backlog.p50));
    }
}

#[test]
fn a_server_that_keeps_up_has_no_backlog() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    // More connections than there are requests, and all open when the window begins.
    let options = ["-c", "60", "-R", "100", "-d", "400ms", "--warmup", "500ms", "--out", out];
    let run = Run::http(&server.url(), &options);
    run.assert_errors(&[]);
    let backlog = run.result.backlog.expect("an open loop");
    assert_eq!((backlog.p50, backlog.p99, backlog.max), (0, 0, 0));
    let (text, csv) = shown(out);
    assert!(!text.contains("waited for a connection"), "{text}");
    assert_eq!(csv, "0,0,0");
    assert_eq!(Run::http(&server.url(), &["-c", "1", "-n", "3"]).result.backlog, None, "a closed loop has none");
}

#[test]
fn a_stall_at_the_end_is_measured_in_full() {
    // Everything that falls due after 0.5 s is answered at 1.3 s, after the window has ended at 1 s.
    let server = stalling_server(Duration::from_millis(500), Duration::from_millis(800));
    let options = ["-c", "4", "-R", "200", "-d", "1s", "--warmup", "0s"];
    let run = Run::http(&server.url(), &options);
    run.assert_errors(&[]);
    assert_eq!(run.result.requests, 200);
    assert!(run.result.latency_us.max >= 700_000.0, "{:?}", run.result.latency_us);
    assert!(run.result.duration_s >= 1.25, "{}", run.result.duration_s);
}

#[test]
fn an_overloaded_server_is_late() {
    // One connection that takes 10 ms can do 100 a second; 200 a second are asked for during 1 s: the last of them
    // waits for about a second, and the throughput is that of the server.
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Act::Say(ok("x"))
    });
    let run = Run::http(&server.url(), &["-c", "1", "-R", "200", "-d", "1s", "--warmup", "0s"]);
    run.assert_errors(&[]);
    assert_eq!(run.result.requests, 200);
    assert!(run.result.throughput_rps <= 100.0, "{}", run.result.throughput_rps);
    assert!(run.result.latency_us.max >= 1_000_000.0, "{:?}", run.result.latency_us);
}

#[test]
fn the_warm_up_is_not_counted() {
    // The first 300 ms are slow, and all of them are warm-up.
    let begin = Instant::now();
    let slow_until = begin + Duration::from_millis(300);
    let server = Server::start(move |_| {
        if Instant::now() < slow_until {
            std::thread::sleep(Duration::from_millis(250));
        }
        std::thread::sleep(Duration::from_millis(2));
        Act::Say(ok("x"))
    });
    let run = Run::http(&server.url(), &["-c", "2", "-d", "400ms", "--warmup", "800ms"]);
    run.assert_errors(&[]);
    assert!(run.result.latency_us.max < 250_000.0, "{:?}", run.result.latency_us);
    assert!(run.result.duration_s >= 0.4, "{}", run.result.duration_s);
}

#[test]
fn the_first_request_of_a_schedule_is_due_at_once() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let run = Run::http(&server.url(), &["-c", "1", "-R", "0.001", "-n", "1"]);
    run.assert_errors(&[]);
    assert_eq!(run.result.ok, 1);
}

#[test]
fn poisson_arrivals_keep_the_rate_and_follow_the_seed() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let requests = |seed: &str| {
        let options = ["-c", "8", "-R", "1000", "--arrivals", "poisson", "-d", "1s", "--warmup", "0s", "--seed", seed];
        let run = Run::http(&server.url(), &options);
        run.assert_errors(&[]);
        run.result.requests
    };
    // A Poisson count of mean 1000 has a standard deviation of 32.
    let first = requests("7");
    assert!((850..1150).contains(&first), "{first}");
    assert_eq!(requests("7"), first);
}
