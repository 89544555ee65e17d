//! Several rates and sweeps, and beside them `--ramp`, `--timeline` and `--self-check`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use super::support::{
    Run,
    documents::Documents,
    loadgen,
    null_server::NullServer,
    queue_server::{Act as Answer, QueueServer},
    socket_server::{Act, Server, line_request, ok, resp_request, us_request},
};

/// Starts a server that takes ten milliseconds for each request, so that four connections do at most 400 a second.
fn slow_server() -> Server {
    Server::start(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Act::Say(ok("x"))
    })
}

/// Starts a queue's server that is as slow.
fn slow_queue() -> QueueServer {
    let pieces = vec![b"first".to_vec(), b"last".to_vec()];
    QueueServer::start(move |_, _| Answer {
        data: Some(pieces.clone()),
        between: Duration::from_millis(10),
        ..Answer::default()
    })
}

#[test]
fn each_of_several_rates_is_a_step_with_its_own_result() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let options = ["-c", "2", "-R", "50,100.5,150", "-n", "20", "--out", out];
    check_steps(&Run::http(&server.url(), &options), directory.path());
    // The same as a table, and as rows.
    let text = loadgen(&["http", "-c", "2", "-R", "100,200", "-n", "5", &server.url()]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains("open loop, 2 rates, constant"), "{text}");
    assert_eq!(text.lines().filter(|line| line.trim_start().starts_with(['1', '2'])).count(), 2, "{text}");
    let csv = loadgen(&["http", "-c", "2", "-R", "100,200", "-n", "5", "--format", "csv", &server.url()]);
    assert_eq!(String::from_utf8(csv.stdout).expect("UTF-8").lines().count(), 3);
}

/// Panics unless there is a step of 20 requests for each of the three rates, as it was stored.
fn check_steps(run: &Run, directory: &std::path::Path) {
    run.assert_errors(&[]);
    let rates: Vec<_> = run.result.steps.iter().map(|step| step.rate).collect();
    assert_eq!((rates, run.result.requests), (vec![50.0, 100.5, 150.0], 60));
    assert_eq!(run.result.config["rates"], serde_json::json!([50.0, 100.5, 150.0]));
    for (index, step) in run.result.steps.iter().enumerate() {
        assert!(step.is_served && step.note.is_empty() && step.share.is_none(), "{step:?}");
        assert_eq!((step.result.requests, &step.result.config["rate"]), (20, &serde_json::json!(step.rate)));
        // The last of them falls due so late, and the generator asks for nothing before its time.
        assert!(step.result.duration_s >= 19.0 / step.rate, "{step:?}");
        let stored = std::fs::read(directory.join(format!("step-{}/result.json", index + 1))).expect("stored");
        assert_eq!(serde_json::from_slice::<loadgen::result::RunResult>(&stored).expect("a result"), step.result);
    }
}

#[test]
fn queue_clients_run_several_rates_with_fresh_fifos() {
    for spawn in ["thread", "process"] {
        let names = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&names);
        let server = QueueServer::start(move |_, request| {
            seen.lock().expect("nobody panics with it").push(request.fifo.to_vec());
            Answer::say(b"x")
        });
        let directory = tempfile::tempdir().expect("a directory");
        let out = directory.path().to_str().expect("UTF-8");
        let options = ["--clients", "2", "-R", "50,100.5,150", "-n", "20", "--out", out, "--spawn", spawn];
        let run = Run::mq(&server, &options);
        check_steps(&run, directory.path());
        assert!(run.result.steps.iter().all(|step| step.result.first_byte_us.is_some()), "{:?}", run.result);
        let names = names.lock().expect("nobody panics with it");
        let unique: BTreeSet<&Vec<u8>> = names.iter().collect();
        assert_eq!((names.len(), unique.len()), (60, 60), "{spawn}");
    }
    let server = QueueServer::start(|_, _| Answer::say(b"x"));
    let asked = |format| {
        let options = ["mq", "--clients", "2", "-R", "100,200", "-n", "5", "--fifo-dir", server.fifos()];
        let said = loadgen(&[&options[..], &["--format", format, &server.name(), "file.bin"]].concat());
        String::from_utf8(said.stdout).expect("UTF-8")
    };
    let text = asked("text");
    assert!(text.contains("open loop, 2 rates, constant"), "{text}");
    assert_eq!(text.lines().filter(|line| line.trim_start().starts_with(['1', '2'])).count(), 2, "{text}");
    assert_eq!(asked("csv").lines().count(), 3);
}

#[test]
fn a_sweep_ends_when_the_server_cannot_keep_up() {
    let options = ["-c", "4", "--rate-sweep", "25%..425%/200%", "-d", "600ms", "--warmup", "100ms"];
    let over_sockets = Run::http(&slow_server().url(), &options);
    for run in [over_sockets, Run::mq(&slow_queue(), &options)] {
        run.assert_errors(&[]);
        let capacity = run.result.capacity.expect("measured first");
        assert!(capacity.throughput_rps > 0.0 && capacity.throughput_rps <= 400.0, "{capacity:?}");
        assert!(capacity.service_us.min >= 10_000.0, "{capacity:?}");
        let steps = &run.result.steps;
        assert_eq!(steps.len(), 2, "225 % cannot be served, and 425 % is not tried: {}", run.stderr);
        for (step, share) in steps.iter().zip([0.25, 2.25]) {
            assert!(
                (step.rate - share * capacity.throughput_rps).abs() < 1e-6 && step.share == Some(share),
                "{step:?}"
            );
            // What falls due in 0.6 s, whether it was served in time or not.
            assert!((step.result.requests as f64 - 0.6 * step.rate).abs() <= 4.0, "{step:?}");
        }
        assert!(steps[0].is_served && !steps[1].is_served && steps[1].note.starts_with("only "), "{}", steps[1].note);
        let is_told = run.stderr.contains(&steps[1].note) && run.stderr.contains("1 higher rates are left out");
        assert!(is_told, "{}", run.stderr);
    }
}

#[test]
fn failures_end_a_list_of_rates_too() {
    let server = Server::start(|n| if n < 30 { Act::Say(ok("x")) } else { Act::SayAndClose(Vec::new()) });
    let run = Run::http(&server.url(), &["-c", "1", "-R", "50,60,70", "-n", "20"]);
    assert_eq!((run.result.steps.len(), run.result.requests), (2, 40));
    assert!(run.result.steps[1].note.ends_with("% of the requests failed"), "{}", run.result.steps[1].note);
    assert_eq!(run.errors("eof_early"), 10);
}

#[test]
fn connections_are_opened_over_the_ramp() {
    let server = Server::start(|_| Act::Say(ok("x")));
    for engine in ["epoll", "uring"] {
        let before = server.accepted().len();
        let options =
            ["-c", "12", "--ramp", "600ms", "-d", "500ms", "--warmup", "0s", "--threads", "2", "--engine", engine];
        let run = Run::http(&server.url(), &options);
        run.assert_errors(&[]);
        // The probe comes first.
        let accepted = server.accepted().split_off(before + 1);
        assert_eq!(accepted.len(), 12, "{engine}");
        // The last of twelve is due after eleven twelfths. One that is late is the machine's doing, one that is early ours.
        let spread = accepted[11].duration_since(accepted[0]);
        assert!(spread >= Duration::from_millis(500), "{engine}: {spread:?}");
        assert_eq!((&run.result.config["ramp_s"], &run.result.config["warmup_s"]), (&0.6.into(), &0.0.into()));
    }
}

#[test]
fn queue_clients_begin_over_the_ramp() {
    for spawn in ["thread", "process"] {
        // The name of a FIFO ends with the number of its client, and that of its request.
        let first_asked = Arc::new(Mutex::new(BTreeMap::<usize, Instant>::new()));
        let seen = Arc::clone(&first_asked);
        let server = QueueServer::start(move |_, request| {
            let name = std::str::from_utf8(request.fifo).expect("text");
            let client = name.rsplit('-').nth(1).and_then(|digits| digits.parse().ok()).expect("its number");
            seen.lock().expect("nobody panics with it").entry(client).or_insert_with(Instant::now);
            Answer::say(b"x")
        });
        let options = ["--clients", "6", "--ramp", "600ms", "-d", "500ms", "--warmup", "0s", "--spawn", spawn];
        let run = Run::mq(&server, &options);
        run.assert_errors(&[]);
        let first_asked: Vec<Instant> = first_asked.lock().expect("nobody panics with it").values().copied().collect();
        assert!(first_asked.len() == 6 && first_asked.is_sorted(), "{spawn}: {first_asked:?}");
        // The last of six is due after five sixths.
        let spread = first_asked[5].duration_since(first_asked[0]);
        assert!(spread >= Duration::from_millis(450), "{spawn}: {spread:?}");
        assert_eq!((&run.result.config["ramp_s"], &run.result.config["warmup_s"]), (&0.6.into(), &0.0.into()));

        let server = QueueServer::start(|_, _| Answer::say(b"x"));
        let options =
            ["--clients", "2", "-R", "200", "--ramp", "600ms", "-d", "500ms", "--warmup", "0s", "--spawn", spawn];
        let run = Run::mq(&server, &options);
        run.assert_errors(&[]);
        // Half of what the full rate would be in the ramp, and then all of it; each client may round.
        let (all, measured) = (server.received(), run.result.requests);
        assert!((158..=162).contains(&all) && (98..=102).contains(&measured), "{spawn}: {all} {measured}");
    }
}

#[test]
fn a_timeline_shows_a_stall_and_adds_up() {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    // Silent for 350 ms from request 200 on, which falls due after 400 ms.
    let server = Server::start(|n| {
        if n == 200 {
            std::thread::sleep(Duration::from_millis(350));
        }
        Act::Say(ok("x"))
    });
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let options = ["-c", "1", "-R", "500", "-d", "1s", "--warmup", "0s", "--timeline", "--out", out];
    let run = Run::http(&server.url(), &options);
    run.assert_errors(&[]);
    // That the rows add up is checked of every result.
    let timeline = run.result.timeline.expect("asked for");
    assert!(timeline.rows.len() >= 10 && timeline.interval_s == 0.1, "{timeline:?}");
    let silent = timeline.rows.iter().position(|row| row.ok == 0).expect("nothing is answered for three intervals");
    assert!(timeline.rows[silent..].iter().any(|row| row.max_us >= 300_000.0), "{timeline:?}");
    assert!(timeline.rows.iter().enumerate().all(|(n, row)| (row.start_s - n as f64 * 0.1).abs() < 1e-9));

    let log = std::fs::read(directory.path().join("timeline.hlog")).expect("stored");
    let mut found = BTreeMap::<String, (u64, Vec<Duration>)>::new();
    for entry in IntervalLogIterator::new(&log) {
        let LogEntry::Interval(interval) = entry.expect("a log") else { continue };
        let (count, starts) = found.entry(interval.tag().expect("tagged").as_str().to_owned()).or_default();
        *count += loadgen::histogram::decode(interval.encoded_histogram()).expect("a histogram").len();
        starts.push(interval.start_timestamp());
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), ["response", "service"]);
    for (count, starts) in found.values() {
        assert_eq!(*count, run.result.ok);
        assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

#[test]
fn a_self_check_measures_the_ceiling() {
    let server = slow_server();
    let run = Run::http(&server.url(), &["-c", "2", "-n", "20", "--self-check"]);
    let saturation = &run.result.saturation;
    let ceiling = saturation.ceiling_rps.expect("measured");
    // A request costs more than 10 ns and less than 10 ms.
    assert!((100.0..1e8).contains(&ceiling), "{ceiling}");
    let fraction = saturation.ceiling_fraction.expect("measured");
    assert!((fraction * ceiling / run.result.throughput_rps - 1.0).abs() < 1e-6);
    assert_eq!(saturation.note, "");
    let run = Run::http(&server.url(), &["-c", "2", "-n", "20"]);
    assert_eq!(run.result.saturation.ceiling_rps, None);
    let value = format!("$12\r\n{}\r\n", "x".repeat(12)).into_bytes();
    let server = Server::of(resp_request, move |_| Act::Say(value.clone()));
    let options = ["-c", "2", "-n", "20", "-P", "4", "--constant-values", "--keys", "100", "--self-check"];
    assert!(Run::kv(&server.address(), &options).result.saturation.ceiling_rps.is_some());
}

#[test]
fn every_protocol_that_has_a_null_server_has_a_ceiling() {
    let options = ["-c", "2", "-n", "20", "--self-check"];
    let ceiling = |run: &Run| {
        run.assert_errors(&[]);
        let saturation = &run.result.saturation;
        assert_eq!(saturation.ceiling_unknown, None);
        saturation.ceiling_rps.expect("measured")
    };
    type Framing = fn(&[u8]) -> Option<usize>;
    for (protocol, framing, miss) in [
        ("us", us_request as Framing, &b"(nil)\x1f"[..]),
        ("memcached", line_request, b"END\r\n"),
        ("memcached-meta", line_request, b"EN\r\n"),
        ("resp3", resp_request, b"_\r\n"),
    ] {
        let server = Server::answering(framing, move |_, request| {
            let is_greeting = request.windows(5).any(|window| window == b"HELLO");
            Act::Say(if is_greeting { b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec() } else { miss.to_vec() })
        });
        let kv = [&options[..], &["--protocol", protocol, "--allow-misses", "--keys", "100", "-P", "5"]].concat();
        assert!((100.0..1e9).contains(&ceiling(&Run::kv(&server.address(), &kv))), "{protocol}");
    }
    let documents = Documents::with([vec![b'x'; 1_000]]);
    let null = NullServer::start("file", "127.0.0.1:0", &["--body-size", "1000"]);
    let file = [&options[..], &["--layout", "flat", "--protocol", "framed"]].concat();
    let kept = ceiling(&Run::file(&null.address, documents.path(), &file));
    // A connection for each request costs more.
    let http = NullServer::start("http", "127.0.0.1:0", &[]);
    let url = format!("http://{}/", http.address);
    let once = ceiling(&Run::http(&url, &[&options[..], &["--no-keep-alive"]].concat()));
    assert!(kept > 100.0 && once > 100.0, "{kept} {once}");
}
