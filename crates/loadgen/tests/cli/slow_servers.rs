//! Stalls, drips and silence, in every protocol and on both engines.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::support::{
    Run,
    documents::{Documents, framed},
    socket_server::{Act, Server, framed_request, http_request, ok, resp_request},
};

const BODY: &[u8] = b"the body of the document";

/// Runs ten requests, one after the other, of which the fourth is treated as `fourth` says, in each protocol and on each engine.
/// `check` sees the results.
fn each(options: &[&str], fourth: fn(Vec<u8>) -> Act, check: impl Fn(&str, &Run)) {
    let documents = Documents::with([BODY.to_vec()]);
    let behave = move |answer: Vec<u8>| {
        move |number: u64| if number == 3 { fourth(answer.clone()) } else { Act::Say(answer.clone()) }
    };
    for engine in ["epoll", "uring"] {
        let options = [options, &["-c", "1", "-n", "10", "--engine", engine]].concat();
        let server = Server::of(http_request, behave(ok("x")));
        check(&format!("http {engine}"), &Run::http(&server.url(), &options));
        let server = Server::of(resp_request, behave(b"$12\r\nxxxxxxxxxxxx\r\n".to_vec()));
        let kv = [&options[..], &["--constant-values", "--keys", "100"]].concat();
        check(&format!("kv {engine}"), &Run::kv(&server.address(), &kv));
        let server = Server::of(framed_request, behave(framed(0, BODY)));
        let file = [&options[..], &["--protocol", "framed", "--layout", "flat"]].concat();
        check(&format!("file {engine}"), &Run::file(&server.address(), documents.path(), &file));
    }
}

#[test]
fn a_reply_that_drips_in_time_is_right() {
    let drip = |answer| Act::Drip(answer, Duration::from_millis(5));
    each(&[], drip, |which, run| {
        run.assert_errors(&[]);
        // At least eighteen bytes and a pause behind each but the last.
        assert!(run.result.ok == 10 && run.result.latency_us.max >= 85_000.0, "{which}: {:?}", run.result.latency_us);
    });
}

#[test]
fn a_reply_that_drips_too_long_is_a_timeout() {
    let drip = |answer| Act::Drip(answer, Duration::from_millis(60));
    each(&["--timeout", "400ms", "--first-byte-timeout", "300ms"], drip, |which, run| {
        run.assert_errors(&[("timeout", 1)]);
        assert_eq!((run.result.requests, run.result.ok), (10, 9), "{which}");
    });
}

#[test]
fn silence_is_a_timeout_of_whichever_limit_is_first() {
    for (options, class) in [
        (&["--timeout", "5s", "--first-byte-timeout", "200ms"][..], "timeout_first_byte"),
        (&["--timeout", "200ms", "--first-byte-timeout", "5s"], "timeout"),
    ] {
        each(
            options,
            |_| Act::FallSilent,
            |which, run| {
                run.assert_errors(&[(class, 1)]);
                assert_eq!((run.result.requests, run.result.ok), (10, 9), "{which}");
            },
        );
    }
}

#[test]
fn a_stall_that_ends_in_time_is_no_error() {
    let stall = |answer| {
        std::thread::sleep(Duration::from_millis(150));
        Act::Say(answer)
    };
    each(&["--timeout", "5s"], stall, |which, run| {
        run.assert_errors(&[]);
        assert!(run.result.latency_us.max >= 150_000.0, "{which}: {:?}", run.result.latency_us);
    });
}

#[test]
fn a_stopped_generator_reads_before_it_judges_lateness() {
    const HELD_UP: Duration = Duration::from_millis(1_200);
    for engine in ["epoll", "uring"] {
        let (asked, was_asked) = std::sync::mpsc::sync_channel(100);
        // Whenever it is stopped a request is under way.
        let server = Server::start(move |_| {
            let _ = asked.try_send(());
            std::thread::sleep(Duration::from_millis(50));
            Act::Say(ok("x"))
        });
        let child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .args(["http", "-c", "1", "-n", "12", "--timeout", "700ms", "--format", "json", "--engine", engine])
            .arg(server.url())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        for _ in 0..3 {
            was_asked.recv().expect("requests come");
        }
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).expect("it runs");
        std::thread::sleep(HELD_UP);
        kill_process(pid, Signal::CONT).expect("it is there");
        let run = Run::of(&child.wait_with_output().expect("it ends"));
        run.assert_errors(&[]);
        // What it cost is said all the same.
        assert!(run.result.latency_us.max >= 1_100_000.0, "{engine}: {:?}", run.result.latency_us);
    }
}
