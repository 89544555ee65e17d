//! `--request-log`: single requests in a file, which agree with the result.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use super::support::{
    Run,
    documents::{Documents, framed},
    loadgen,
    null_server::NullServer,
    private_directory,
    queue_server::{Act as QueueAct, QueueServer},
    socket_server::{Act, Server, framed_request, ok, reply, resp_request},
};

/// A run with a log, and the lines of it.
fn logged(run: impl Fn(&[&str]) -> Run, options: &[&str]) -> (Run, Vec<Value>) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("log.jsonl");
    let run = run(&[options, &["--request-log", file.to_str().expect("UTF-8")]].concat());
    let text = std::fs::read_to_string(file).expect("written");
    (run, text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

fn number(line: &Value, name: &str) -> i64 {
    line[name].as_i64().unwrap_or_else(|| panic!("{name}: {line}"))
}

fn count(lines: &[Value], name: &str) -> usize {
    lines.iter().filter(|line| line[name] == true).count()
}

/// Counts how often each value occurs.
fn counts(lines: &[Value], name: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    lines.iter().for_each(|line| *counts.entry(line[name].as_str().unwrap_or("-").to_owned()).or_insert(0) += 1);
    counts
}

/// Panics unless a large log has exactly the requests of the result. The bytes of some failures are unknown.
fn check(which: &str, run: &Run, lines: &[Value], begin: &str) {
    let result = &run.result;
    assert_eq!((lines.len() as u64, count(lines, "in_sample") as u64), (result.requests, result.requests), "{which}");
    let mut outcomes = result.errors.clone();
    outcomes.insert("ok".to_owned(), result.ok);
    assert_eq!(counts(lines, "outcome"), outcomes, "{which}");
    for line in lines.iter().filter(|line| line["outcome"] == "ok") {
        let times = ["sent_ns", "first_byte_ns", "finished_ns"].map(|name| number(line, name));
        assert!(times.is_sorted() && number(line, begin) <= times[0], "{which}: {line}");
    }
    let latencies = lines.iter().filter(|line| line["outcome"] == "ok");
    let slowest = latencies.map(|line| number(line, "finished_ns") - number(line, begin)).max().expect("one") as f64;
    // The histogram has three digits.
    assert!((slowest / 1e3 / result.latency_us.max - 1.0).abs() < 2e-3, "{which}: {slowest} {:?}", result.latency_us);
    assert!(lines.is_sorted_by_key(|line| number(line, "finished_ns")), "{which}");
    if result.errors.is_empty() {
        let bytes: i64 = lines.iter().map(|line| number(line, "bytes")).sum();
        assert_eq!(bytes.unsigned_abs(), result.bytes_in, "{which}");
    }
}

#[test]
fn a_large_log_has_every_request_once_on_both_engines() {
    let null = NullServer::start("http", "127.0.0.1:0", &["--body-size", "200000"]);
    let url = format!("http://{}/page", null.address);
    for engine in ["epoll", "uring"] {
        for (pace, begin) in [(&["-P", "2"][..], "sent_ns"), (&["-R", "1000"], "scheduled_ns")] {
            let options = ["-c", "5", "-n", "200", "--threads", "2", "--engine", engine];
            let (run, lines) = logged(|options| Run::http(&url, options), &[&options[..], pace].concat());
            run.assert_errors(&[]);
            check(&format!("{engine} {pace:?}"), &run, &lines, begin);
            assert_eq!(counts(&lines, "operation"), BTreeMap::from([("GET /page".to_owned(), 200)]));
            let connections: BTreeSet<_> = lines.iter().map(|line| number(line, "connection")).collect();
            assert!(connections.iter().all(|connection| (0..5).contains(connection)), "{connections:?}");
            // Those of the second thread are numbered behind those of the first.
            assert!(connections.iter().any(|&connection| connection >= 3), "{connections:?}");
            assert!(lines.iter().all(|line| line["scheduled_ns"].is_null() == (begin == "sent_ns")));
            assert_eq!(run.result.config["request_log_size"], 10_000);
        }
    }
}

#[test]
fn failures_are_in_the_log_by_their_class() {
    for engine in ["epoll", "uring"] {
        let server = Server::start(|n| match n {
            3 => Act::Say(reply("500 Oops", "", 2, "no")),
            5 => Act::SayAndReset(Vec::new()),
            7 => Act::SayAndClose(reply("200 OK", "", 100, "too little")),
            _ => Act::Say(ok("x")),
        });
        let options = ["-c", "1", "-n", "10", "--engine", engine];
        let (run, lines) = logged(|options| Run::http(&server.url(), options), &options);
        run.assert_errors(&[("reset", 1), ("short_body", 1), ("status", 1)]);
        check(engine, &run, &lines, "sent_ns");
        let failed: Vec<_> = lines.iter().filter(|line| line["in_failed"] == true).collect();
        assert!(failed.len() == 3 && failed.iter().all(|line| line["outcome"] != "ok"), "{failed:?}");
        // What came of them is known, too.
        assert_eq!(number(failed[0], "bytes").unsigned_abs() as usize, reply("500 Oops", "", 2, "no").len());
        assert!(failed[1]["first_byte_ns"].is_null() && failed[1]["bytes"] == 0, "{}", failed[1]);
        assert!(number(failed[2], "first_byte_ns") <= number(failed[2], "finished_ns"), "{}", failed[2]);
        assert_eq!(number(failed[2], "bytes").unsigned_abs() as usize, reply("200 OK", "", 100, "too little").len());
    }
}

#[test]
fn replies_of_a_batch_and_documents_are_logged_by_name() {
    let server = Server::answering(resp_request, |_, request| {
        let is_set = request.windows(3).any(|word| word == b"SET");
        Act::Say(if is_set { b"+OK\r\n".to_vec() } else { b"$12\r\nxxxxxxxxxxxx\r\n".to_vec() })
    });
    let options = ["-c", "2", "-n", "300", "-P", "10", "--mix", "get=2,set=1", "--constant-values", "--keys", "50"];
    let (run, lines) = logged(|options| Run::kv(&server.address(), options), &options);
    run.assert_errors(&[]);
    check("kv", &run, &lines, "sent_ns");
    let found = BTreeMap::from([
        ("get".to_owned(), run.result.hits.expect("kv")),
        ("set".to_owned(), run.result.stores.expect("kv")),
    ]);
    assert_eq!(counts(&lines, "operation"), found);

    let documents = Documents::of(&[10, 5_000]);
    let bodies = documents.bodies.clone();
    let server = Server::answering(framed_request, move |_, request| {
        Act::Say(bodies.get(&request[2..]).map_or_else(|| framed(1, b""), |body| framed(0, body)))
    });
    let options = ["-c", "1", "-n", "20", "--layout", "flat", "--protocol", "framed", "--id-dist", "sequential"];
    let (run, lines) = logged(|options| Run::file(&server.address(), documents.path(), options), &options);
    check("file", &run, &lines, "sent_ns");
    let names = BTreeMap::from([("DOCUMEN0".to_owned(), 10), ("DOCUMEN1".to_owned(), 10)]);
    assert_eq!(counts(&lines, "operation"), names);
    let length = |line: &Value| number(line, "bytes");
    assert!(lines.iter().all(|line| length(line) == if line["operation"] == "DOCUMEN0" { 19 } else { 5_009 }));
}

#[test]
fn a_log_is_bounded_and_has_the_last_and_the_slowest() {
    let server = Server::start(|n| {
        if n == 100 {
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        Act::Say(ok("x"))
    });
    let options = ["-c", "1", "-n", "500", "--request-log-size", "20"];
    let (run, lines) = logged(|options| Run::http(&server.url(), options), &options);
    run.assert_errors(&[]);
    assert_eq!(["in_sample", "in_last", "in_slowest", "in_failed"].map(|name| count(&lines, name)), [20, 2, 2, 0]);
    let latency = |line: &Value| number(line, "finished_ns") - number(line, "sent_ns");
    let slowest = lines.iter().max_by_key(|line| latency(line)).expect("one");
    assert!(slowest["in_slowest"] == true && latency(slowest) >= 300_000_000, "{slowest}");
    assert!(lines[lines.len() - 2..].iter().all(|line| line["in_last"] == true), "{lines:?}");
    assert!((20..=24).contains(&lines.len()));
}

#[test]
fn an_unwritable_log_is_refused_before_the_run() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let log = path("log.csv");
    let run = |arguments: &[&str]| {
        let output = loadgen(&[&["http", "-c", "1", "-n", "3"], arguments, &[&server.url()]].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(&["--request-log", &log]).0, Some(0));
    let written = std::fs::read(Path::new(&log)).expect("written");
    assert_eq!(String::from_utf8_lossy(&written).lines().count(), 4);
    let asked = server.connections();
    for (arguments, why) in [
        (&["--request-log", &log][..], "is there already"),
        (&["--request-log", &path("log.txt")], "ends with .csv or .jsonl"),
        (&["--request-log", &path("none/log.csv")], "is no directory"),
        (&["--request-log", &path("new.csv"), "-R", "10,20"], "a log is of one rate"),
        (&["--request-log", &path("new.csv"), "--rate-sweep", "10%..50%"], "cannot be used with"),
        (&["--request-log-size", "5"], "--request-log"),
    ] {
        let (code, stderr) = run(arguments);
        assert!(code == Some(2) && stderr.contains(why), "{arguments:?}: {stderr}");
    }
    assert_eq!((server.connections(), std::fs::read(log).expect("still there")), (asked, written));
    // Each client of mq keeps as many as the log has, and 10,000,000 is the most of all together.
    for (clients, code) in [("1000", 1), ("1001", 2)] {
        let options = ["--clients", clients, "--request-log", &path("mq.csv")];
        let fifos = private_directory();
        let of_queue = ["--fifo-dir", fifos.path().to_str().expect("UTF-8"), "/loadgen-nobody", "x"];
        let mq = loadgen(&[&["mq", "-n", "1"], &options[..], &of_queue].concat());
        let stderr = String::from_utf8_lossy(&mq.stderr).into_owned();
        assert_eq!(mq.status.code(), Some(code), "{stderr}");
        assert_eq!(stderr.contains("--request-log-size: each of the 1001 clients"), code == 2, "{stderr}");
    }
}

/// A client of queues asks for a path, and its number stands for a connection's.
#[test]
fn queue_clients_of_either_kind_have_the_same_log() {
    for spawn in ["thread", "process"] {
        for (pace, begin) in [(&[][..], "sent_ns"), (&["-R", "1000"], "scheduled_ns")] {
            // The answer says which path it is of.
            let server = QueueServer::start(|number, request| match number {
                20 => QueueAct::say(b""),
                // In two pieces.
                _ => QueueAct { data: Some(vec![request.path.to_vec(), request.path.to_vec()]), ..QueueAct::default() },
            });
            // More than one line of what a process has to tell.
            let options = ["--clients", "3", "-n", "900", "--spawn", spawn, "--fifo-dir", server.fifos()];
            let both = [&server.name(), "b,c"];
            let (run, lines) = logged(
                |options| Run::new("mq", "file.bin", &[options, &both].concat()),
                &[&options[..], pace].concat(),
            );
            let which = format!("{spawn} {pace:?}");
            check(&which, &run, &lines, begin);
            run.assert_errors(&[("eof_early", 1)]);
            assert_eq!(counts(&lines, "operation"), BTreeMap::from([("b,c".into(), 450), ("file.bin".into(), 450)]));
            let mut clients = [0; 3];
            lines.iter().for_each(|line| clients[number(line, "connection").unsigned_abs() as usize] += 1);
            assert_eq!(clients, [300; 3], "{which}");
            for line in &lines {
                let length = match (line["outcome"] == "ok", line["operation"] == "b,c") {
                    (true, true) => 6,
                    (true, false) => 16,
                    (false, _) => 0,
                };
                assert_eq!(number(line, "bytes"), length, "{which}: {line}");
                assert_eq!(line["scheduled_ns"].is_null(), pace.is_empty(), "{which}: {line}");
                assert_eq!(line["first_byte_ns"].is_null(), length == 0, "{which}: {line}");
            }
            assert_eq!(run.result.config["request_log_size"], 10_000);
        }
        // What comes during the warm-up is in neither.
        let server = QueueServer::start(|_, _| QueueAct::say(b"x"));
        let options = ["--clients", "2", "-n", "50", "--warmup", "100ms", "--spawn", spawn];
        let (warmed, lines) = logged(|options| Run::mq(&server, options), &options);
        assert!(server.received() > 50, "{spawn}: nothing during the warm-up");
        assert_eq!((lines.len(), warmed.result.requests), (50, 50), "{spawn}");
        // Of more than it may have, the log has its sample, the last and the slowest of all clients together.
        let server = QueueServer::start(|_, _| QueueAct::say(b"x"));
        let options = ["--clients", "4", "-n", "400", "--spawn", spawn, "--request-log-size", "40"];
        let (run, lines) = logged(|options| Run::mq(&server, options), &options);
        run.assert_errors(&[]);
        assert_eq!(["in_sample", "in_last", "in_slowest"].map(|name| count(&lines, name)), [40, 4, 4], "{spawn}");
        let slowest = lines.iter().map(|line| number(line, "finished_ns") - number(line, "sent_ns")).max();
        let slowest = slowest.expect("one") as f64 / 1e3;
        assert!((slowest / run.result.latency_us.max - 1.0).abs() < 2e-3, "{spawn}: {slowest}");
        assert!(lines[lines.len() - 4..].iter().all(|line| line["in_last"] == true), "{spawn}: {lines:?}");
    }
}

/// Two clients ask for the same hundred paths; of each, other requests are chosen.
#[test]
fn each_queue_client_draws_a_sample_of_its_own() {
    let server = QueueServer::start(|_, _| QueueAct::say(b"x"));
    let paths: Vec<String> = (0..99).map(|number| format!("path-{number}")).collect();
    let ask = |options: &[&str]| {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let name = server.name();
        let of_queue = ["--fifo-dir", server.fifos(), &name];
        Run::new("mq", "path-99", &[options, &of_queue, &paths].concat())
    };
    let (run, lines) = logged(ask, &["--clients", "2", "-n", "200", "--request-log-size", "40"]);
    run.assert_errors(&[]);
    let sample = |client: i64| -> BTreeSet<i64> {
        let own = lines.iter().filter(|line| line["in_sample"] == true && number(line, "connection") == client);
        let path = |line: &Value| line["operation"].as_str().and_then(|path| path["path-".len()..].parse::<i64>().ok());
        // The second client begins with the second path.
        own.map(|line| (path(line).expect("a path") - client).rem_euclid(100)).collect()
    };
    let (first, second) = (sample(0), sample(1));
    assert_eq!(first.len() + second.len(), 40);
    assert!(first.intersection(&second).count() < 15, "{first:?} {second:?}");
}

#[test]
fn requests_never_put_on_the_queue_have_no_time_of_sending() {
    // There is room for one request, and nobody takes it: it waits for its answer, and the next for room.
    let server = QueueServer::deaf(1);
    let options = ["--clients", "1", "-n", "4", "-R", "1000", "--timeout", "100ms"];
    let (run, lines) = logged(|options| Run::mq(&server, options), &options);
    assert!(lines[0]["outcome"] == "timeout" && !lines[0]["sent_ns"].is_null(), "{lines:?}");
    for line in &lines[1..] {
        // Some waited for the client as long as anything may take, and were never tried.
        assert_eq!(line["outcome"] == "not_sent", line["sent_ns"].is_null(), "{line}");
    }
    assert!(lines.iter().any(|line| line["sent_ns"].is_null()), "{lines:?}");
    assert_eq!(counts(&lines, "outcome"), run.result.errors);
    assert_eq!(run.result.backlog.map(|backlog| backlog.max), Some(3), "three waited for the first");
}
