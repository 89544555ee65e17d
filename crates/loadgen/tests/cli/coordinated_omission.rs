//! Coordinated omission: a server process is stopped for a while, and an open loop must measure the whole stall.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::support::{
    Run,
    null_server::NullServer,
    socket_server::{Act, Server, ok},
};

const RATE: f64 = 5_000.0;
const SECONDS: f64 = 4.0;
const STALL: Duration = Duration::from_millis(400);
/// Few against the requests of the run, of which only these see the stall in their service time; many against those that
/// wait for its end, which would otherwise take a time of their own to be answered.
const LANES: [&str; 4] = ["-c", "4", "-P", "16"];
/// The machine may stop us, too: then the stall is not the only one, and another attempt is made.
const ATTEMPTS: usize = 3;

/// Stops the process, after some time, for about [`STALL`]. Returns for how long it was stopped: from the one signal to
/// the other, by our own clock.
fn stall(pid: Pid) -> Duration {
    std::thread::sleep(Duration::from_millis(1_500));
    let begin = Instant::now();
    kill_process(pid, Signal::STOP).expect("it runs");
    std::thread::sleep(STALL);
    kill_process(pid, Signal::CONT).expect("it is there");
    begin.elapsed()
}

/// Requests that fall due in a stall of length S wait for the rest of it, and all others hardly: of the requests of a time
/// T, evenly due, the share that waits longer than x is (S - x) / T, so that the 99th percentile is S - T / 100.
#[test]
fn response_time_has_the_whole_stall_and_service_time_has_not() {
    // Both engines wait for the clock most of the time, and can do that side by side.
    std::thread::scope(|scope| {
        for engine in ["epoll", "uring"] {
            scope.spawn(move || {
                let failures: Vec<String> = (0..ATTEMPTS).map_while(|_| one_stall(engine).err()).collect();
                assert!(failures.len() < ATTEMPTS, "{engine}: {failures:#?}");
            });
        }
    });
}

/// Runs an open loop with one stall, and returns the law that did not hold, if any.
fn one_stall(engine: &str) -> Result<(), String> {
    let null = NullServer::start("http", "127.0.0.1:0", &[]);
    let pid = null.pid();
    let stopper = std::thread::spawn(move || stall(pid));
    let (rate, duration) = (RATE.to_string(), format!("{SECONDS}s"));
    let options = ["-R", &rate, "-d", &duration, "--warmup", "0s", "--engine", engine];
    let run = Run::http(&format!("http://{}/", null.address), &[&LANES[..], &options].concat());
    let stopped_us = stopper.join().expect("it sleeps").as_secs_f64() * 1e6;
    run.assert_errors(&[]);
    let response = run.result.latency_us;
    let service = run.result.service_us.expect("an open loop has both");
    let lag = run.result.lag_us.expect("an open loop has a lag");
    let hundredth_us = SECONDS / 100.0 * 1e6;
    let expected_us = stopped_us - hundredth_us;
    let conditions = [
        ("the whole stall is seen", response.max > 0.99 * stopped_us),
        ("its 99th percentile is the analytic one", (response.p99 / expected_us - 1.0).abs() < 0.05),
        ("which is not the maximum", response.max - response.p99 > 0.5 * hundredth_us),
        // Sixty-four of twenty thousand were under way when it began: only they saw it.
        ("service time has it as its maximum", service.max > 0.9 * stopped_us),
        ("service time does not show it", service.p99 < 0.5 * expected_us),
        ("waiting for the server is not the generator's fault", lag.p99 < 0.5 * expected_us),
    ];
    match conditions.iter().find(|(_, holds)| !holds) {
        None => Ok(()),
        Some((law, _)) => Err(format!(
            "not so: {law}: stopped for {stopped_us} µs, expected {expected_us} µs of {response:?}, {service:?}, {lag:?}"
        )),
    }
}

#[test]
fn a_closed_loop_gets_corrected_samples() {
    // One connection, 100 requests of 5 ms, and one of them takes 500 ms: its place would have been taken by about 50 others,
    // with 490, 480, … ms left to wait.
    let server = Server::start(|n| {
        std::thread::sleep(Duration::from_millis(if n == 50 { 500 } else { 5 }));
        Act::Say(ok("x"))
    });
    let run = Run::http(&server.url(), &["-c", "1", "-n", "100"]);
    run.assert_errors(&[]);
    let corrected = run.result.corrected_us.expect("a closed loop has it");
    assert!(run.result.latency_us.p90 < 200_000.0, "{:?}", run.result.latency_us);
    assert!(corrected.p90 >= 200_000.0 && corrected.max >= 500_000.0, "{corrected:?}");
}
