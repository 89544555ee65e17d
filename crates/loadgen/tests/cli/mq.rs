//! `loadgen mq` against right servers, and its end.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::support::{
    Run, loadgen,
    null_server::NullServer,
    private_directory,
    queue_server::{Act, QueueServer},
};

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory with files, one of them larger than a pipe.
fn files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    for (name, content) in [("large", &large[..]), ("small", b"a small file"), ("empty", b"")] {
        std::fs::write(directory.path().join(name), content).expect("written");
    }
    directory
}

#[test]
fn the_null_server_is_verified_in_every_way_to_ask() {
    let (files, fifos) = (files(), private_directory());
    let root = files.path().to_str().expect("text");
    let fifo_dir = fifos.path().to_str().expect("text");
    let queue = format!("mq:/loadgen-null-{}", std::process::id());
    let null = NullServer::start("mq", &queue, &["--root", root, "--fifo-dir", fifo_dir]);
    assert_eq!(null.address, queue);
    let content = ["--content", root];
    for options in [
        &["--spawn", "thread", "--buffer-size", "1000"][..],
        &["--spawn", "process"],
        &["--sink", "splice"],
        &["-R", "2000", "--arrivals", "poisson"],
    ] {
        let options = [
            &["-n", "40", "--clients", "5", "--fifo-dir", fifo_dir],
            &content[..],
            options,
            &[&queue, "large", "empty"],
        ];
        let run = Run::new("mq", "small", &options.concat());
        run.assert_errors(&[]);
        assert_eq!(run.result.ok, 40, "{options:?}");
        let first = run.result.first_byte_us.expect("bytes came");
        assert!(first.max <= run.result.latency_us.max, "{:?}", run.result);
        assert_eq!(run.result.service_us.is_some(), run.result.config["mode"] == "open");
        // Nobody saw the bytes, and that is said.
        assert_eq!(run.stderr.contains("only the lengths"), run.result.config["sink"] == "splice", "{}", run.stderr);
    }
    // A file that is not there: the reference never answers.
    let missing = ["mq", "-n", "1", "--timeout", "50ms", "--fifo-dir", fifo_dir, &queue, "missing"];
    assert_eq!(loadgen(&missing).status.code(), Some(3));
    assert_eq!(null.stop(), Some(0));
    assert_eq!(std::fs::read_dir(fifos.path()).expect("a directory").count(), 0);
    let gone = loadgen(&["mq", "-n", "1", "--fifo-dir", fifo_dir, &queue, "small"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("cannot open the queue"), "{}", text(&gone.stderr));
}

#[test]
fn only_the_queue_of_a_dead_null_server_is_taken_over() {
    let (files, fifos) = (files(), private_directory());
    let queue = format!("mq:/loadgen-stale-{}", std::process::id());
    let root = files.path().to_str().expect("text");
    let options = ["--root", root, "--fifo-dir", fifos.path().to_str().expect("text")];
    // Killed, not stopped.
    drop(NullServer::start("mq", &queue, &options));
    let null = NullServer::start("mq", &queue, &options);
    let second = loadgen(&[&["null", "--protocol", "mq", "--listen", &queue], &options[..]].concat());
    assert_eq!(second.status.code(), Some(1), "{}", text(&second.stderr));
    assert_eq!(null.stop(), Some(0));
}

#[test]
fn the_first_byte_has_a_latency_of_its_own() {
    const PAUSE: Duration = Duration::from_millis(40);
    let server = QueueServer::start(|_, _| Act {
        data: Some(vec![b"first".to_vec(), b"last".to_vec()]),
        between: PAUSE,
        ..Act::default()
    });
    let run = Run::mq(&server, &["--clients", "2", "-n", "6"]);
    let first = run.result.first_byte_us.expect("bytes came");
    assert!(run.result.latency_us.mean - first.mean >= 0.95 * PAUSE.as_secs_f64() * 1e6, "{:?}", run.result);
    // One after the other: three turns of two clients.
    assert!(run.result.duration_s >= 3.0 * PAUSE.as_secs_f64(), "{:?}", run.result);
}

#[test]
fn a_stall_shows_in_the_response_times() {
    const STALL: Duration = Duration::from_millis(300);
    for spawn in ["thread", "process"] {
        let server = QueueServer::start(|number, _| {
            if number == 0 {
                std::thread::sleep(STALL);
            }
            Act::say(b"x")
        });
        let run = Run::mq(&server, &["--clients", "1", "-n", "60", "-R", "200", "--spawn", spawn]);
        run.assert_errors(&[]);
        let (response, service) = (run.result.latency_us, run.result.service_us.expect("an open loop"));
        // 60 requests in 300 ms: on average they waited for half of that, though only one was long under way.
        assert!(response.p50 > 100_000.0, "{response:?}");
        assert!(service.max >= 290_000.0 && service.p50 < response.p50 / 2.0, "{service:?}");
        // One was asked at once, and what fell due during its 300 ms had to wait: 60 in all, if the rest is quick.
        let backlog = run.result.backlog.expect("an open loop");
        assert!((50..60).contains(&backlog.max) && backlog.p50 <= backlog.p99, "{spawn}: {backlog:?}");
    }
}

#[test]
fn a_run_of_a_duration_ends_in_time() {
    let server = QueueServer::start(|_, _| Act::say(b"x"));
    let run = Run::mq(&server, &["--clients", "3", "-d", "500ms", "--warmup", "100ms"]);
    run.assert_errors(&[]);
    assert_eq!((run.result.backlog, &run.result.backlog_histogram), (None, &None), "a closed loop has none");
    assert!(run.result.ok > 0 && (run.result.duration_s - 0.5).abs() < 1e-9, "{:?}", run.result);
    assert!(run.result.ok <= server.received(), "what came during the warm-up does not count");
}

#[test]
fn text_ends_with_the_original_clients_line() {
    let server = QueueServer::start(|_, _| Act::say(b"x"));
    let options = ["--clients", "2", "-n", "4", "--fifo-dir", server.fifos()];
    let said = loadgen(&[&["mq"], &options[..], &[&server.name(), "file.bin"]].concat());
    let said = text(&said.stdout);
    let line = said.lines().find(|line| line.starts_with("total elapsed ")).expect("the line");
    assert!(line.ends_with("ms for 4 files to 2 clients"), "{line}");
}

/// Starts `loadgen mq` against a server that never answers, and returns when all three clients are waiting.
pub(crate) fn waiting(server: &QueueServer, spawn: &str) -> Child {
    waiting_with(server, &["--spawn", spawn])
}

fn waiting_with(server: &QueueServer, options: &[&str]) -> Child {
    let name = server.name();
    let child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["mq", "-n", "100", "--clients", "3", "--fifo-dir", server.fifos(), &name, "file.bin"])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    testkit::eventually("three requests", || Ok(server.received() >= 3)).expect("in time");
    assert_eq!(server.left().len(), 3 + 1, "one for each request under way, and the run's lock");
    child
}

#[test]
fn an_interrupted_run_leaves_no_fifo() {
    for spawn in ["thread", "process"] {
        for (signals, options, said) in [
            (&[Signal::INT][..], &[][..], "interrupted before any reply"),
            (&[Signal::TERM, Signal::INT, Signal::INT], &[], "interrupted before any reply"),
            (&[Signal::INT], &["--rate-sweep", "10%..100%"], "interrupted before the first step"),
        ] {
            let server = QueueServer::start(|_, _| Act::default());
            let child = waiting_with(&server, &[&["--spawn", spawn], options].concat());
            for signal in signals {
                kill_process(Pid::from_child(&child), *signal).expect("it runs");
            }
            let output = child.wait_with_output().expect("it ends");
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(130), "{stderr}");
            assert!(stderr.contains(said), "{stderr}");
            assert!(server.left().is_empty(), "{spawn}: {:?}", server.left());
        }
    }
}

#[test]
fn a_killed_client_ends_the_run_and_leaves_no_fifo() {
    let server = QueueServer::start(|_, _| Act::default());
    let child = waiting(&server, "process");
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let first = std::fs::read_to_string(children).expect("it has children");
    let victim = first.split_whitespace().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    kill_process(victim.expect("a child"), Signal::KILL).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("a client ended without a report"), "{stderr}");
    assert!(server.left().is_empty(), "{:?}", server.left());
}

#[test]
fn bad_usage_is_refused() {
    let dir = ["--fifo-dir", "/tmp"];
    let cases: &[&[&str]] = &[
        &["/queue"],
        &["/queue", "path", "--pipeline", "2"],
        &["/queue", "path", "--threads", "2"],
        &["/queue", "path", "--engine", "uring"],
        &["/queue", "path", "-R", "1", "--rate-sweep", "10%..20%"],
        &["/queue", "path", "--self-check"],
        &["/queue", "path", "--max-warmup", "2s"],
        &["queue", "path"],
        &["mq:/a/b", "path"],
        &["/queue", "pa;th"],
        &["/queue", "path", "--verify", "sha256"],
        &["/queue", "path", "--sink", "splice", "--verify", "sha256", "--content", "/tmp"],
        &["/queue", "a", "b", "--expect-sha256", "00"],
        &["/queue", "path", "--framed", "--status-fifo"],
    ];
    for arguments in cases {
        let output = loadgen(&[&["mq"], &dir[..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    }
    for arguments in [
        &["--protocol", "mq", "--listen", "127.0.0.1:0"][..],
        &["--protocol", "mq", "--listen", "mq:/x"],
        &["--protocol", "http", "--listen", "mq:/x"],
        &["--protocol", "http", "--listen", "127.0.0.1:0", "--root", "/tmp"],
    ] {
        assert_eq!(loadgen(&[&["null"], arguments].concat()).status.code(), Some(2), "{arguments:?}");
    }
}
