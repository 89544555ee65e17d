//! `loadgen mq` against faulty servers: every outcome has its own class, and the sums are exact.

use sha2::{Digest as _, Sha256};
use wire::mserve::Status;

use super::support::{
    Run, loadgen,
    queue_server::{Act, QueueServer, header},
};

const BODY: &[u8] = b"the body of the file";
const WRONG: &[u8] = b"the body of a failure";
const OTHER: &[u8] = b"the body of the faun";

/// One client, so that the order of requests is known.
const ONE: &[&str] = &["--clients", "1", "-n", "10", "--timeout", "400ms"];

fn hex(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Panics unless ten requests, of which the fourth is treated badly, have these error classes: with a digest to compare with, without
/// one, and with the bytes unseen. No error is "".
fn check(form: &[&str], good: &Act, cases: &[(Act, [&str; 3])]) {
    let digest = hex(BODY);
    for (place, (bad, classes)) in cases.iter().enumerate() {
        let levels: [&[&str]; 3] = [&["--expect-sha256", &digest], &[], &["--sink", "splice"]];
        for (options, class) in levels.iter().zip(classes) {
            let (good, bad) = (good.clone(), bad.clone());
            let server = QueueServer::start(move |number, _| if number == 3 { bad.clone() } else { good.clone() });
            let run = Run::mq(&server, &[ONE, form, options].concat());
            let expected: Vec<_> = [(*class, 1)].into_iter().filter(|(class, _)| !class.is_empty()).collect();
            run.assert_errors(&expected);
            assert_eq!(
                (run.result.requests, run.result.ok),
                (10, 10 - expected.len() as u64),
                "{form:?} {place} {options:?}"
            );
            assert_eq!(server.received(), 10);
        }
    }
}

#[test]
fn faults_of_a_bare_server_are_classed_by_the_bytes() {
    check(
        &[],
        &Act::say(BODY),
        &[
            (Act::say(BODY), ["", "", ""]),
            (Act::say(b""), ["eof_early", "eof_early", "eof_early"]),
            (Act::say(&BODY[..9]), ["short_body", "short_body", "short_body"]),
            (Act::say(WRONG), ["length", "length", "length"]),
            (Act::say(OTHER), ["content", "", ""]),
            (Act::default(), ["timeout", "timeout", "timeout"]),
            (Act { holds: true, ..Act::say(BODY) }, ["timeout", "timeout", "timeout"]),
        ],
    );
}

#[test]
fn faults_of_a_framed_server_are_classed() {
    let good = Act::framed(Status::Ok, BODY.len(), BODY);
    check(
        &["--framed"],
        &good,
        &[
            (good.clone(), ["", "", ""]),
            (Act::framed(Status::FileMissing, 0, b""), ["status", "status", "status"]),
            (Act::say(b""), ["eof_early", "eof_early", "eof_early"]),
            (Act::say(&header(Status::Ok, 20)[..7]), ["eof_early", "eof_early", "eof_early"]),
            (Act::say(&[b'x'; 36]), ["protocol", "protocol", "protocol"]),
            (Act::framed(Status::Ok, BODY.len(), &BODY[..5]), ["short_body", "short_body", "short_body"]),
            (Act::framed(Status::Ok, 5, BODY), ["protocol", "protocol", "protocol"]),
            (Act::framed(Status::Ok, WRONG.len(), WRONG), ["length", "length", "length"]),
            (Act::framed(Status::Ok, OTHER.len(), OTHER), ["content", "", ""]),
        ],
    );
}

#[test]
fn faults_told_by_a_status_fifo_are_classed() {
    let good = Act::say(BODY).with_status(Status::Ok, BODY.len());
    check(
        &["--status-fifo"],
        &good,
        &[
            (good.clone(), ["", "", ""]),
            // The FIFO of the file is never opened, or closed at once.
            (Act::default().with_status(Status::FileMissing, 0), ["status", "status", "status"]),
            (Act::say(b"").with_status(Status::Overloaded, 0), ["status", "status", "status"]),
            (Act::say(&BODY[..4]).with_status(Status::FileChanged, 4), ["status", "status", "status"]),
            (Act::say(&BODY[..4]).with_status(Status::Ok, BODY.len()), ["short_body", "short_body", "short_body"]),
            (Act::say(BODY), ["timeout", "timeout", "timeout"]),
            (Act { status: Some(Vec::new()), ..Act::say(BODY) }, ["eof_early", "eof_early", "eof_early"]),
            (Act { status: Some(vec![0; 16]), ..Act::say(BODY) }, ["protocol", "protocol", "protocol"]),
        ],
    );
}

#[test]
fn a_queue_that_nobody_reads_times_out_and_fills_up() {
    let server = QueueServer::deaf(2);
    let run = Run::mq(&server, &["--clients", "1", "-n", "5", "--timeout", "50ms"]);
    run.assert_errors(&[("queue_full", 3), ("timeout", 2)]);
    assert_eq!((run.result.requests, run.result.latency_us.max, run.result.first_byte_us), (5, 0.0, None));
}

#[test]
fn a_late_answer_is_not_taken_for_the_next() {
    // Every second answer comes when its request has timed out.
    let server = QueueServer::start(|number, _| {
        if number % 2 == 1 {
            std::thread::sleep(std::time::Duration::from_millis(150));
        }
        Act::say(BODY)
    });
    let digest = hex(BODY);
    let run = Run::mq(&server, &["--clients", "1", "-n", "6", "--timeout", "100ms", "--expect-sha256", &digest]);
    let classes: Vec<_> = run.result.errors.keys().map(String::as_str).collect();
    assert!(classes.iter().all(|class| *class == "timeout"), "{:?}", run.result.errors);
    assert!(run.errors("timeout") >= 3, "{:?}", run.result.errors);
}

#[test]
fn sums_are_exact_with_many_clients_of_either_kind() {
    for spawn in ["thread", "process"] {
        let server = QueueServer::start(|number, request| {
            assert_eq!(request.path, b"file.bin");
            match number % 4 {
                0 => Act::say(b""),
                1 => Act::say(&BODY[..5]),
                _ => Act::say(BODY),
            }
        });
        let digest = hex(BODY);
        let options = ["--clients", "8", "-n", "100", "--spawn", spawn, "--expect-sha256", &digest];
        let run = Run::mq(&server, &options);
        // A digest says nothing of the length: what is shorter has another.
        let wrong = run.errors("content") + run.errors("short_body");
        assert_eq!((run.result.ok, run.errors("eof_early"), wrong), (50, 25, 25), "{:?}", run.result.errors);
        assert_eq!(run.result.bytes_in, 50 * BODY.len() as u64 + 25 * 5, "{spawn}");
        assert_eq!(server.received(), 100);
    }
}

#[test]
fn a_message_too_long_for_the_queue_is_refused() {
    let server = QueueServer::deaf(1);
    let path = "x".repeat(500);
    let output = loadgen(&["mq", "-n", "1", "--fifo-dir", server.fifos(), &server.name(), &path]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("messages of up to 512 bytes"), "{stderr}");
    assert!(server.left().is_empty());
}
