//! Several rates, and `--rate-sweep`.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::support::{
    Run, loadgen,
    queue_server::{Act as Answer, QueueServer},
    socket_server::{Act, Server, ok},
};

/// Starts a server of a queue that takes ten milliseconds for each answer.
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
    let run = until_in_time(|| {
        let out = emptied(directory.path());
        Run::http(&server.url(), &["-c", "2", "-R", "50,100.5,150", "-n", "20", "--out", &out])
    });
    check_steps(&run, directory.path());
    // The same as a table, and as rows.
    let text = loadgen(&["http", "-c", "2", "-R", "100,200", "-n", "5", &server.url()]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains("open loop, 2 rates, constant"), "{text}");
    assert_eq!(text.lines().filter(|line| line.trim_start().starts_with(['1', '2'])).count(), 2, "{text}");
    let csv = loadgen(&["http", "-c", "2", "-R", "100,200", "-n", "5", "--format", "csv", &server.url()]);
    assert_eq!(String::from_utf8(csv.stdout).expect("UTF-8").lines().count(), 3);
}

/// Runs again where the machine had no time for the last request of a step, which ends a run early and rightly.
fn until_in_time(run: impl Fn() -> Run) -> Run {
    const RUNS_MAX: usize = 20;
    let is_late = |run: &Run| run.result.steps.iter().any(|step| step.note.starts_with("only "));
    let mut runs = std::iter::repeat_with(run).take(RUNS_MAX);
    runs.find(|run| !is_late(run)).expect("a run that the machine has time for")
}

/// Removes the result of an earlier run from a directory, and returns its name.
fn emptied(directory: &std::path::Path) -> String {
    for entry in std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() { std::fs::remove_dir_all(&entry) } else { std::fs::remove_file(&entry) }.expect("removed");
    }
    directory.to_str().expect("UTF-8").to_owned()
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
        let run = until_in_time(|| {
            names.lock().expect("nobody panics with it").clear();
            let out = emptied(directory.path());
            let options = ["--clients", "2", "-R", "50,100.5,150", "-n", "20", "--out", &out, "--spawn", spawn];
            Run::mq(&server, &options)
        });
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
    let over_sockets = Run::http(&Server::slow().url(), &options);
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
        let is_told = run.stderr.contains(&steps[1].note) && run.stderr.contains("1 higher rate is left out");
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
