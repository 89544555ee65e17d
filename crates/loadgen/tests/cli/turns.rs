//! `--turns`: who compares two servers says when the load runs.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use loadgen::{engine::TurnReport, result::RunResult, usage::ServerProbe};

use super::support::{loadgen, null_server::NullServer, private_directory};

struct Generator {
    child: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Generator {
    fn start(command: &str, target: &str, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .args([command, "--turns", "--format", "json", "-d", "5m", "-c", "7"])
            .args(options)
            .arg(target)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { orders: child.stdin.take().expect("piped"), lines, child }
    }

    fn turn(&mut self) -> TurnReport {
        self.orders.write_all(b"go\n").expect("it reads");
        // A turn of a moment: its length is not what is tested.
        std::thread::sleep(Duration::from_millis(20));
        self.orders.write_all(b"hold\n").expect("it reads");
        let line = self.lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("a report")
    }

    /// Ends the load, and returns its result.
    fn end(mut self) -> RunResult {
        drop(self.orders);
        let rest: String = self.lines.map(|line| line.expect("text") + "\n").collect();
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
        serde_json::from_str(&rest).expect("a result")
    }
}

/// Panics if the server goes on using CPU time. What it does behind its last reply may take a moment.
fn comes_to_rest(probe: &ServerProbe) {
    let cpu_s = || probe.read_after().expect("it runs").cpu_s;
    let deadline = Instant::now() + Duration::from_secs(20);
    while {
        let before = cpu_s();
        std::thread::sleep(Duration::from_millis(20));
        cpu_s() > before
    } {
        assert!(Instant::now() < deadline, "the server has something to do between two turns");
    }
}

fn turns_of(command: &str, protocol: &str, options: &[&str]) {
    let null = NullServer::start(protocol, "127.0.0.1:0", &[]);
    let generator = Generator::start(command, &null.address, options);
    in_turns(command, &null, generator);
}

fn in_turns(command: &str, null: &NullServer, mut generator: Generator) {
    let probe = ServerProbe::open(null.pid().as_raw_nonzero().get().unsigned_abs()).expect("it runs");
    let (mut ok, mut answered) = (0, 0);
    let deadline = Instant::now() + Duration::from_secs(60);
    // The first turn opens the connections, and on a busy machine one may end before anything is answered.
    while answered < 3 {
        assert!(Instant::now() < deadline, "turns in which something is answered do not come");
        let report = generator.turn();
        assert_eq!(report.failed, 0);
        if report.ok > 0 {
            answered += 1;
            assert!(report.p99_us >= report.p50_us && report.p50_us > 0.0, "{report:?}");
            comes_to_rest(&probe);
        }
        ok += report.ok;
    }
    let result = generator.end();
    assert_eq!((result.ok, result.requests), (ok, ok), "{command}: nothing is sent outside turns, and all is counted");
}

#[test]
fn between_two_turns_the_server_rests_and_every_request_is_in_one() {
    for engine in ["epoll", "uring"] {
        turns_of("http", "http", &["--engine", engine, "-t", "2"]);
    }
    turns_of("http", "http", &["--no-keep-alive"]);
    turns_of("kv", "resp", &["--constant-values", "-P", "16", "-t", "1"]);
}

#[test]
fn clients_of_a_queue_rest_between_two_turns() {
    let (files, fifos) = (tempfile::tempdir().expect("a directory"), private_directory());
    std::fs::write(files.path().join("file"), "a file").expect("written");
    let (root, fifo_dir) = (files.path().to_str().expect("text"), fifos.path().to_str().expect("text"));
    let queue = format!("mq:/loadgen-turns-{}", std::process::id());
    let null = NullServer::start("mq", &queue, &["--root", root, "--fifo-dir", fifo_dir]);
    let generator = Generator::start("mq", "file", &["--fifo-dir", fifo_dir, &queue]);
    in_turns("mq", &null, generator);
    assert_eq!(std::fs::read_dir(fifos.path()).expect("it is there").count(), 0, "no FIFO is left");
    assert_eq!(null.stop(), Some(0));
    let processes = ["mq", "--turns", "-d", "1s", "--spawn", "process", "--fifo-dir", fifo_dir, &queue, "file"];
    assert_eq!(loadgen(&processes).status.code(), Some(2));
}

#[test]
fn turns_are_for_a_closed_loop() {
    for options in [&["-R", "1000"][..], &["-n", "10"], &["--warmup", "1s"], &["--max-warmup", "1s"], &["--ramp", "1s"]]
    {
        let words = [&["http", "--turns", "http://127.0.0.1:1/"], options].concat();
        let output = loadgen(&words);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
