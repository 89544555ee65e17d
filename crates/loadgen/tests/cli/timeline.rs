//! `--timeline`: the run in intervals.

use std::{collections::BTreeMap, time::Duration};

use super::support::{
    Run,
    queue_server::{Act as QueueAct, QueueServer},
    socket_server::{Act, Server, ok},
};

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
fn a_timeline_shows_a_stall_for_either_kind_of_client() {
    const STALL: Duration = Duration::from_millis(250);
    for spawn in ["thread", "process"] {
        let server = QueueServer::start(|number, _| {
            if number == 10 {
                std::thread::sleep(STALL);
            }
            QueueAct::say(b"x")
        });
        // All rows together are the result: that is checked of every run.
        let options = ["--clients", "2", "-n", "100", "-R", "200", "--timeline", "--spawn", spawn];
        let run = Run::mq(&server, &options);
        run.assert_errors(&[]);
        let timeline = run.result.timeline.as_ref().expect("asked for");
        assert!((timeline.interval_s - 0.1).abs() < 1e-9);
        let starts: Vec<_> = timeline.rows.iter().map(|row| row.start_s).collect();
        assert!(starts.iter().enumerate().all(|(index, start)| (start - 0.1 * index as f64).abs() < 1e-6));
        // 100 requests at 200 a second; they wait where the stall was, and are answered late.
        assert!(timeline.rows.len() >= 5, "{spawn}: {timeline:?}");
        let slowest = timeline.rows.iter().map(|row| row.max_us).fold(0.0, f64::max);
        assert!(slowest >= 240_000.0 && (slowest - run.result.latency_us.max).abs() < 1_000.0, "{spawn}: {timeline:?}");
        assert!(timeline.rows[0].ok > 0 && timeline.rows[1].ok < timeline.rows[0].ok, "{spawn}: {timeline:?}");
    }
    let without = Run::mq(&QueueServer::start(|_, _| QueueAct::say(b"x")), &["--clients", "1", "-n", "3"]);
    assert_eq!(without.result.timeline, None);
}
