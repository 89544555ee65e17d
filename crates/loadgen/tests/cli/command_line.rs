//! The command line: exit status, formats, files, signals.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use loadgen::histogram::decode;
use sha2::{Digest as _, Sha256};

use super::support::{
    Run, check_sums, loadgen,
    null_server::NullServer,
    schema,
    socket_server::{Act, Server, ok},
};

#[test]
fn bad_usage_has_exit_status_2() {
    let url = "http://127.0.0.1:9/";
    let cases: &[&[&str]] = &[
        &[],
        &["http"],
        &["nonsense"],
        &["http", "ftp://127.0.0.1/"],
        &["http", "--tls-insecure", url],
        &["kv", "--tls-ca", "ca.pem", "127.0.0.1:9"],
        &["http", "--rate-sweep", "10..100", url],
        &["http", "--rate-sweep", "10%..100%", "-R", "5", url],
        &["http", "--engine", "kqueue", url],
        &["http", "--spin", url],
        &["http", "not a url"],
        &["http", url, "http://127.0.0.1:10/"],
        &["http", "--connections", "0", url],
        &["http", "--duration", "soon", url],
        &["http", "--max-warmup", "400ms", url],
        &["http", "--warmup", "2s", "--max-warmup", "1s", url],
        &["kv", "--workload", "preload", "--max-warmup", "1s", "127.0.0.1:9"],
        &["kv", "--workload", "del", "--keys", "10", "-n", "10", "--max-warmup", "1s", "127.0.0.1:9"],
        &["file", "--requestors", "2", "--max-warmup", "1s", "127.0.0.1:9", "."],
        &["http", "--rate", "2m", url],
        &["http", "localhost"],
        &["kv", "rediss://localhost"],
        &["http", "--duration", "1s", "--requests", "5", url],
        &["http", "--rate", "-5", url],
        &["http", "--arrivals", "poisson", url],
        &["http", "--pin", "x", url],
        &["http", "--header", "nonsense", url],
        &["http", "--verify", "sha256", url],
        &["http", "--no-keep-alive", "--pipeline", "2", url],
        &["http", "--no-keep-alive", "-R", "100", "--skew", "10%:90%", url],
        &["http", "--skew", "10%:90%", url],
        &["http", "--expect-sha256", "00", url],
        &["http", "--no-such-flag", url],
        &["null", "--protocol", "http", "--listen", "nowhere"],
    ];
    for arguments in cases {
        let output = loadgen(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn an_absent_server_has_exit_status_1_with_the_reason() {
    // Bound and dropped: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let refused = loadgen(&["http", "-n", "1", &format!("http://127.0.0.1:{port}/")]);
    let missing = loadgen(&["http", "-n", "1", "unix:/nonexistent/socket"]);
    for (output, why) in [(refused, "refused"), (missing, "No such file")] {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with("error: cannot connect to ") && stderr.contains(why), "{stderr}");
        assert_eq!((stderr.lines().count(), output.stdout.len()), (1, 0), "{stderr}");
    }
    // A certificate would not help.
    let refused = loadgen(&["http", "-n", "1", "--tls-insecure", &format!("https://127.0.0.1:{port}/")]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && stderr.contains("refused") && !stderr.contains("--tls"), "{stderr}");
}

#[test]
fn an_absent_server_has_a_result_with_its_error_class() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let address = format!("127.0.0.1:{port}");
    let documents = tempfile::tempdir().expect("a directory");
    let content = documents.path().to_str().expect("UTF-8");
    for (arguments, kind) in [
        (&["http", "-R", "1k", &address][..], "http"),
        (&["kv", "-d", "1", &address], "kv"),
        (&["file", "--layout", "flat", &address, content], "file"),
    ] {
        let output = loadgen(&[arguments, &["--format", "json"]].concat());
        assert_eq!(output.status.code(), Some(1), "{kind}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: cannot connect to "), "{kind}");
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a result");
        schema::check(&printed);
        assert_eq!(
            (&printed["kind"], &printed["errors"]),
            (&kind.into(), &serde_json::json!({ "connect_refused": 1 }))
        );
        assert!(
            printed["ok"] == 0 && printed["latency_us"].is_null() && printed["histogram"].is_string(),
            "{printed:#}"
        );
        check_sums(&serde_json::from_value(printed).expect("a result"));
        let csv = loadgen(&[arguments, &["--format", "csv"]].concat());
        assert_eq!(String::from_utf8_lossy(&csv.stdout).lines().count(), 2);
    }
}

#[test]
fn targets_and_amounts_may_be_spelled_as_in_other_tools() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let run =
        Run::http(&format!("{}/page", server.address()), &["-c", "1", "-R", "1k/s", "-d", "0.05", "--warmup", "0"]);
    run.assert_errors(&[]);
    assert_eq!((&run.result.config["rate"], &run.result.config["duration_s"]), (&1_000.0.into(), &0.05.into()));
    let null = NullServer::start("resp", "127.0.0.1:0", &[]);
    let url = format!("redis://{}/", null.address);
    Run::kv(&url, &["-c", "1", "-n", "9", "--keys", "9", "--constant-values"]).assert_errors(&[]);
}

#[test]
fn a_directory_with_a_result_is_refused() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    Run::http(&server.url(), &["-c", "1", "-R", "1000,2000", "-n", "5", "--out", out]).assert_errors(&[]);
    let files = |path: &str| {
        let names = std::fs::read_dir(path).expect("a directory").map(|file| file.expect("a file").file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = files(out);
    let again = || loadgen(&["http", "-c", "1", "-n", "5", "--out", out, &server.url()]);
    let refused = again();
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), stderr.lines().count(), files(out)), (Some(2), 1, before), "{stderr}");
    assert!(stderr.contains("result.json is there already") && stderr.contains("another directory"), "{stderr}");
    // What a run that was killed has left is not its successor's either.
    for file in ["result.json", "latency.hlog", "latency.hgrm", "service.hgrm"] {
        std::fs::remove_file(directory.path().join(file)).expect("it was there");
        assert_eq!(again().status.code(), Some(2), "{file}");
    }
    std::fs::remove_dir_all(out).expect("it was there");
    assert_eq!(again().status.code(), Some(0));
}

#[test]
fn an_absent_cpu_has_exit_status_1_at_once() {
    let server = Server::start(|_| Act::Say(ok("x")));
    // The second thread cannot be pinned, and the first does not run for a minute.
    let output = loadgen(&["http", "-c", "2", "-t", "2", "--pin", "0,1000", "-d", "60s", &server.url()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains("CPUs 0,1000"), "{stderr}");
}

#[test]
fn failures_have_exit_status_3_and_are_counted() {
    let server = Server::start(|_| Act::SayAndClose(Vec::new()));
    let run = Run::http(&server.url(), &["-c", "1", "-n", "3"]);
    assert_eq!(run.code, Some(3));
    assert_eq!(
        run.stderr.trim(),
        "connection closed before the reply (eof_early) for every request, 3 in all: the server's log may say why"
    );
}

#[test]
fn text_and_csv_say_what_json_says() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let url = server.url();
    let text = loadgen(&["http", "-c", "1", "-n", "7", &url]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(text.contains("service time, from the actual send (closed loop"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("verified") && line.ends_with(" 7")), "{text}");
    let csv = loadgen(&["http", "-c", "1", "-n", "7", "--format", "csv", &url]);
    let csv = String::from_utf8(csv.stdout).expect("UTF-8");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), lines[0].len()), (2, lines[1].len()), "{csv}");
    let columns: std::collections::HashSet<_> = lines[0].iter().collect();
    assert_eq!(columns.len(), lines[0].len(), "every column is there once: {csv}");
    let value = |name| lines[1][lines[0].iter().position(|column| *column == name).expect(name)];
    assert_eq!((value("ok"), value("error_timeout"), value("target")), ("7", "0", url.as_str()));
    assert_eq!((value("interrupted"), value("clipped"), value("service_us_p50")), ("false", "0", ""));
    let unique: std::collections::BTreeSet<_> = lines[0].iter().collect();
    assert_eq!(unique.len(), lines[0].len(), "a name stands for one column: {csv}");
}

#[test]
fn without_a_verified_reply_there_is_no_latency() {
    let server = Server::start(|_| Act::SayAndClose(Vec::new()));
    for pace in [&[][..], &["-R", "1000"]] {
        let options = [&["-c", "1", "-n", "3"], pace].concat();
        let run = Run::http(&server.url(), &options);
        assert_eq!((run.result.ok, run.result.service_us, run.result.corrected_us), (0, None, None));
        let printed = |format: &str| {
            let output = loadgen(&[&["http", "--format", format][..], &options, &[&server.url()]].concat());
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let json: serde_json::Value = serde_json::from_str(&printed("json")).expect("JSON");
        assert!(json["latency_us"].is_null(), "{json:#}");
        let text = printed("text");
        assert!(text.contains("no reply was verified") && !text.contains("corrected:"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("service") || line.starts_with("response")), "{text}");
        let csv = printed("csv");
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        let empty = |(name, value): (&&str, &&str)| !name.starts_with("latency_us_") || value.is_empty();
        assert!(lines[0].iter().zip(&lines[1]).all(empty), "{csv}");
    }
}

#[test]
fn stored_results_and_histograms_can_be_read_back() {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let server = Server::start(|_| Act::Say(ok("x")));
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("run/1");
    let options = ["-c", "2", "-n", "50", "-R", "5000", "--out", out.to_str().expect("UTF-8")];
    let run = Run::http(&server.url(), &options);
    let stored = std::fs::read(out.join("result.json")).expect("stored");
    assert_eq!(serde_json::from_slice::<loadgen::result::RunResult>(&stored).expect("a result"), run.result);

    let response = decode(&run.result.histogram).expect("a histogram");
    assert_eq!(response.len(), 50);
    assert!((response.max() as f64 / 1e3 - run.result.latency_us.max).abs() < 1.0);

    let log = std::fs::read(out.join("latency.hlog")).expect("stored");
    let entries = IntervalLogIterator::new(&log).map(|entry| entry.expect("a log"));
    let tags: Vec<_> = entries
        .filter_map(|entry| match entry {
            LogEntry::Interval(interval) => {
                assert_eq!(decode(interval.encoded_histogram()).expect("a histogram").len(), 50);
                Some(interval.tag().expect("tagged").as_str().to_owned())
            }
            LogEntry::BaseTime(_) | LogEntry::StartTime(_) => None,
        })
        .collect();
    assert_eq!(tags, ["service", "response"]);
}

#[test]
fn bodies_are_checked_against_digests_and_files() {
    let server = Server::start(|_| Act::Say(ok("known")));
    let (url, hex) =
        (server.url(), |body: &str| Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let options = ["-c", "2", "-n", "10", "--verify", "sha256", "--expect-sha256"];
    Run::http(&url, &[&options[..], &[&hex("known")]].concat()).assert_errors(&[]);
    Run::http(&url, &[&options[..], &[&hex("other")]].concat()).assert_errors(&[("content", 10)]);

    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("page");
    let url = format!("{url}page?query");
    let options =
        ["-c", "2", "-n", "10", "--verify", "sha256", "--content-dir", directory.path().to_str().expect("UTF-8")];
    for (content, errors) in [("known", &[][..]), ("wrong", &[("content", 10)]), ("longer", &[("length", 10)])] {
        std::fs::write(&file, content).expect("written");
        Run::http(&url, &options).assert_errors(errors);
    }
}

#[test]
fn several_urls_are_asked_in_turn() {
    let server = Server::start(|n| Act::Say(ok(["a", "bb", "ccc"][n as usize % 3])));
    let (a, b) = (format!("{}a", server.url()), format!("{}b", server.url()));
    let run = Run::http(&server.url(), &["-c", "1", "-n", "30", "-P", "2", &a, &b]);
    run.assert_errors(&[]);
    assert_eq!(run.result.ok, 30);
}

#[test]
fn the_usage_of_the_server_is_measured() {
    let server = Server::start(|_| Act::Say(ok("x")));
    // The server is this very process.
    let pid = std::process::id().to_string();
    let run = Run::http(&server.url(), &["-c", "2", "-d", "300ms", "--warmup", "0s", "--server-pid", &pid]);
    let usage = run.result.server.clone().expect("it lives");
    assert_eq!(usage.pid, std::process::id());
    assert!(usage.cpu_s > 0.0 && usage.rss_bytes > 0 && usage.context_switches_voluntary > 0, "{usage:?}");
    let is_counted = usage.instructions.is_some();
    assert_eq!((usage.instructions_modes.is_some(), usage.instructions_unknown.is_none()), (is_counted, is_counted));
    let uncounted = Run::http(&server.url(), &["-n", "1", "--server-pid", &pid, "--no-instructions"]);
    let usage = uncounted.result.server.expect("it lives");
    assert_eq!((usage.instructions, usage.instructions_unknown), (None, None));
    assert_eq!(loadgen(&["http", "-n", "1", "--no-instructions", &server.url()]).status.code(), Some(2));
    let (user, system) = (run.result.client_user_s.expect("known"), run.result.client_system_s.expect("known"));
    assert!(user >= 0.0 && system >= 0.0 && (user + system - run.result.client_cpu_s).abs() < 1e-6, "{:?}", run.result);
    assert!(run.result.client_cpu_s > 0.0 && run.result.saturation.client_cpu_fraction <= 1.05);
    let gone = loadgen(&["http", "-n", "1", "--server-pid", "4294967295", &server.url()]);
    assert_eq!(gone.status.code(), Some(1));
}

#[test]
fn an_interrupted_run_has_a_marked_result() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        interrupted_by(signal);
    }
}

fn interrupted_by(signal: rustix::process::Signal) {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let (asked, was_asked) = std::sync::mpsc::sync_channel(1_000);
    let server = Server::start(move |_| {
        std::thread::sleep(Duration::from_millis(5));
        // Only the first few matter.
        let _ = asked.try_send(());
        Act::Say(ok("x"))
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["http", "-c", "1", "-d", "60s", "--warmup", "0s", "--format", "json", "--out", out, &server.url()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    for _ in 0..20 {
        was_asked.recv().expect("requests come");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, signal).expect("it runs");
    let stderr = BufReader::new(child.stderr.take().expect("piped")).lines().map(|line| line.expect("UTF-8"));
    assert!(stderr.into_iter().any(|line| line.contains("interrupted")));
    let output = child.wait_with_output().expect("it ends");
    let result: loadgen::result::RunResult = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!(output.status.code(), Some(130));
    assert!(result.ok >= 10 && result.duration_s < 60.0 && result.origin.interrupted, "{result:?}");
    // As it was stored, too.
    let shown = String::from_utf8(loadgen(&["report", out]).stdout).expect("UTF-8");
    assert!(shown.contains("INTERRUPTED") && shown.contains("measured from 2"), "{shown}");
    let compared = String::from_utf8(loadgen(&["report", "--compare", out, out]).stdout).expect("UTF-8");
    assert!(compared.contains("note: B: interrupted after "), "{compared}");
}
