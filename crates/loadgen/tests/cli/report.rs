//! `loadgen report`: stored results shown, merged and compared.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use loadgen::result::RunResult;
use serde_json::Value;
use tempfile::TempDir;

use super::support::{
    loadgen,
    null_server::NullServer,
    private_directory, schema,
    socket_server::{Act, Server, ok, reply},
};

/// A directory in which runs are stored.
struct Store {
    directory: TempDir,
}

impl Store {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Runs and stores, and returns the output.
    fn run(&self, name: &str, arguments: &[&str]) -> String {
        let output = loadgen(&[arguments, &["--out", &self.path(name)]].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn report(&self, options: &[&str], names: &[&str]) -> Output {
        let paths: Vec<_> = names.iter().map(|name| self.path(name)).collect();
        loadgen(&[&["report"], options, &paths.iter().map(String::as_str).collect::<Vec<_>>()].concat())
    }

    fn text(&self, options: &[&str], names: &[&str]) -> String {
        let output = self.report(options, names);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Changes stored results so that all began at the same time.
    fn at_one_time(&self, names: &[&str]) {
        for name in names {
            let path = Path::new(&self.path(name)).join("result.json");
            let mut result: Value = serde_json::from_slice(&std::fs::read(&path).expect("stored")).expect("JSON");
            assert!(result["started_utc"].is_string() && result["host"].is_string(), "{result:#}");
            result["started_utc"] = "2026-01-01T00:00:00.000Z".into();
            std::fs::write(path, result.to_string()).expect("written");
        }
    }

    /// Returns the one line of a refusal.
    fn refusal(&self, code: i32, options: &[&str], names: &[&str]) -> String {
        let output = self.report(options, names);
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(code), 1), "{stderr}");
        assert!(stderr.starts_with("error: ") && output.stdout.is_empty(), "{stderr}");
        stderr
    }
}

fn half_failing() -> Server {
    Server::start(|n| Act::Say(if n % 2 == 0 { ok("x") } else { reply("500 No", "", 0, "") }))
}

#[test]
fn a_stored_result_is_shown_as_its_run_showed_it() {
    let (failing, right, store) = (half_failing(), Server::start(|_| Act::Say(ok("x"))), Store::new());
    let runs: [(&str, &[&str]); 4] = [
        ("closed", &["-c", "2", "-n", "50"]),
        ("open", &["-c", "2", "-n", "50", "-R", "5000", "--timeline"]),
        ("rates", &["-c", "2", "-n", "20", "-R", "1000,2000"]),
        ("sweep", &["-c", "2", "-d", "400ms", "--warmup", "0s", "--rate-sweep", "10%..20%", "--arrivals", "poisson"]),
    ];
    for (name, options) in runs {
        // Several rates end with the first that is not served.
        let url = if matches!(name, "rates" | "sweep") { right.url() } else { failing.url() };
        let printed = store.run(name, &[&["http"], options, &[&url]].concat());
        assert_eq!(store.text(&[], &[name]), printed);
        let json: Value = serde_json::from_str(&store.text(&["--format", "json"], &[name])).expect("JSON");
        schema::check(&json);
        let stored = std::fs::read(Path::new(&store.path(name)).join("result.json")).expect("stored");
        assert_eq!(json, serde_json::from_slice::<Value>(&stored).expect("JSON"));
    }
    let all = store.text(&["--format", "csv"], &["closed", "open", "rates"]);
    assert_eq!(all.lines().count(), 1 + 1 + 1 + 2, "a header, and a row for each rate: {all}");
    let columns: Vec<_> = all.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.iter().all(|&count| count == columns[0]), "{columns:?}");
    let both = store.text(&[], &["closed", "open"]);
    assert!(both.contains("closed ──") && both.contains("open ──"), "{both}");
    let list: Vec<RunResult> =
        serde_json::from_str(&store.text(&["--format", "json"], &["closed", "open"])).expect("a list");
    assert_eq!(list.len(), 2);
}

#[test]
fn concurrent_results_add_up_exactly() {
    let (server, store) = (half_failing(), Store::new());
    let run = |name: &str, requests: &str| {
        store.run(name, &["http", "-c", "2", "-R", "2000", "-n", requests, "--seed", requests, &server.url()]);
        let stored = std::fs::read(Path::new(&store.path(name)).join("result.json")).expect("stored");
        serde_json::from_slice::<RunResult>(&stored).expect("a result")
    };
    let parts = [run("one", "100"), run("two", "60")];
    // They ran one after the other.
    let line = store.refusal(2, &["--merge"], &["one", "two"]);
    assert!(line.contains("one had ended at ") && line.contains("--merge=consecutive"), "{line}");
    let line = store.refusal(2, &["--merge=consecutive"], &["one", "one"]);
    assert!(line.contains("the same result"), "{line}");
    store.at_one_time(&["one", "two"]);
    let merged: RunResult = serde_json::from_str(
        &store.text(&["--merge", "--format", "json", "--out", &store.path("whole")], &["one", "two"]),
    )
    .expect("a result");
    schema::check(&serde_json::to_value(&merged).expect("JSON"));
    let sum = |count: fn(&RunResult) -> u64| parts.iter().map(count).sum::<u64>();
    assert_eq!((merged.requests, merged.ok), (160, sum(|part| part.ok)));
    assert_eq!(merged.errors.values().sum::<u64>(), sum(|part| part.errors.values().sum()));
    assert_eq!((merged.bytes_in, merged.bytes_out), (sum(|part| part.bytes_in), sum(|part| part.bytes_out)));
    assert_eq!(merged.latency_us.max, parts[0].latency_us.max.max(parts[1].latency_us.max));
    assert_eq!(merged.latency_us.min, parts[0].latency_us.min.min(parts[1].latency_us.min));
    assert_eq!((&merged.config["rate"], &merged.config["requests"]), (&4_000.0.into(), &160.into()));
    // What was stored is a result like any other, with all that its histograms have to say.
    let shown: RunResult = serde_json::from_str(&store.text(&["--format", "json"], &["whole"])).expect("a result");
    assert_eq!(shown, merged);
    let count = format!("Total count    = {:>12}]", merged.ok);
    for file in ["latency.hgrm", "service.hgrm"] {
        let text = std::fs::read_to_string(Path::new(&store.path("whole")).join(file)).expect("stored");
        assert!(text.contains(&count), "{text}");
    }
    let log = std::fs::read_to_string(Path::new(&store.path("whole")).join("latency.hlog")).expect("stored");
    assert_eq!(log.lines().filter(|line| line.starts_with("Tag=")).count(), 2, "{log}");
}

#[test]
fn impossible_merges_and_comparisons_are_bad_usage() {
    let (server, store) = (half_failing(), Store::new());
    let url = server.url();
    store.run("plain", &["http", "-c", "1", "-n", "10", &url]);
    store.run("deep", &["http", "-c", "1", "-n", "10", "-P", "2", &url]);
    store.run("elsewhere", &["http", "-c", "1", "-n", "10", &format!("{url}other")]);
    store.run("rates", &["http", "-c", "1", "-n", "10", "-R", "100,200", &url]);
    let null = NullServer::start("resp", "127.0.0.1:0", &[]);
    store.run("cache", &["kv", "-c", "1", "-n", "10", "--constant-values", &null.address]);
    for (other, what) in
        [("deep", "pipeline"), ("elsewhere", "target"), ("rates", "number of rates"), ("cache", "kind")]
    {
        let line = store.refusal(2, &["--merge"], &["plain", other]);
        assert!(line.contains(what) && line.contains(other), "{line}");
    }
    assert!(store.refusal(2, &["--compare"], &["plain", "cache"]).contains("nothing in common"));
    assert!(store.refusal(2, &["--compare"], &["plain"]).contains("two results or more"));
    assert!(store.refusal(2, &["--compare"], &["plain", "rates"]).contains("rates"));
    assert!(store.refusal(2, &["--out", &store.path("x")], &["plain", "deep"]).contains("--merge"));
    assert!(store.refusal(1, &[], &["missing"]).contains("No such file"));
    std::fs::write(store.path("text"), "wrk").expect("written");
    assert!(store.refusal(1, &[], &["text"]).contains("not a result of loadgen"));
    std::fs::write(store.path("later"), "{\"schema\": 2}").expect("written");
    assert!(store.refusal(1, &[], &["later"]).contains("schema 2"));
}

#[test]
fn a_comparison_has_ratios_and_claims_no_significance() {
    let (server, store) = (Server::start(|_| Act::Say(ok("x"))), Store::new());
    for (name, connections) in [("before", "1"), ("after", "2"), ("third", "4")] {
        store.run(name, &["http", "-c", connections, "-n", "200", &server.url()]);
    }
    let text = store.text(&["--compare"], &["before", "after", "third"]);
    for expected in ["connections     1 | 2 | 4", "throughput/s", "×", "note: one run each", "fewer than 10 replies"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let json: Value =
        serde_json::from_str(&store.text(&["--compare", "--format", "json"], &["before", "after"])).expect("JSON");
    let rows = json["sections"][0]["rows"].as_array().expect("rows");
    let throughput = rows.iter().find(|row| row["name"] == "throughput").expect("throughput");
    let value = |index: usize| throughput["values"][index].as_f64().expect("a number");
    assert_eq!(throughput["ratios"][1].as_f64(), Some(value(1) / value(0)));
    let csv = store.text(&["--compare", "--format", "csv"], &["before", "after"]);
    assert_eq!(csv.lines().count(), 1 + rows.len(), "{csv}");
}

#[test]
fn results_of_every_kind_are_reported() {
    let store = Store::new();
    let (resp, file) = (
        NullServer::start("resp", "127.0.0.1:0", &[]),
        NullServer::start("file", "127.0.0.1:0", &["--body-size", "9"]),
    );
    std::fs::create_dir(store.path("documents")).expect("a directory");
    std::fs::write(store.path("documents/DOCUMEN0"), "xxxxxxxxx").expect("a document");
    let content = store.path("documents");
    for part in ["1", "2"] {
        let fixed = ["-c", "2", "-n", "40"];
        store.run(&format!("kv-{part}"), &[&["kv"], &fixed[..], &["--constant-values", &resp.address]].concat());
        let layout = ["--layout", "flat", "--content", &content, &file.address];
        store.run(&format!("file-{part}"), &[&["file"], &fixed[..], &layout].concat());
        store.run(
            &format!("open-{part}"),
            &[&["kv", "-R", "4000"], &fixed[..], &["--constant-values", &resp.address]].concat(),
        );
    }
    for kind in ["kv", "file", "open"] {
        let names = [format!("{kind}-1"), format!("{kind}-2")];
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        store.at_one_time(&names);
        let merged: Value = serde_json::from_str(&store.text(&["--merge", "--format", "json"], &names)).expect("JSON");
        schema::check(&merged);
        assert_eq!((&merged["ok"], &merged["hits"]), (&80.into(), &80.into()));
        let text = store.text(&["--merge=consecutive"], &names);
        assert!(text.contains("80") && !text.contains("corrected"), "it is left out: {text}");
        let compared = store.text(&["--compare"], &names);
        assert_eq!(compared.contains("service p99"), kind == "open", "{compared}");
    }
}

#[test]
fn results_of_mq_are_reported_with_first_bytes() {
    let store = Store::new();
    let (root, private) = (store.path("files"), private_directory());
    let fifos = private.path().to_str().expect("a temporary directory's name is text");
    std::fs::create_dir(&root).expect("a directory");
    std::fs::write(Path::new(&root).join("file"), "some bytes").expect("a file");
    let queue = format!("mq:/loadgen-report-{}", std::process::id());
    let null = NullServer::start("mq", &queue, &["--root", &root, "--fifo-dir", fifos]);
    let options = ["mq", "-n", "20", "--clients", "2", "--fifo-dir", fifos, "--content", &root, &queue, "file"];
    let shown: Vec<_> = ["one", "two"].iter().map(|name| store.run(name, &options)).collect();
    assert_eq!(store.text(&[], &["one"]), shown[0]);
    store.at_one_time(&["one", "two"]);
    let merged: Value =
        serde_json::from_str(&store.text(&["--merge", "--format", "json"], &["one", "two"])).expect("JSON");
    schema::check(&merged);
    assert_eq!((&merged["ok"], &merged["config"]["clients"]), (&40.into(), &4.into()));
    assert!(merged["first_byte_us"]["p50"].as_f64() > Some(0.0), "{merged:#}");
    assert!(store.text(&["--compare"], &["one", "two"]).contains("first byte p99"));
    assert_eq!(null.stop(), Some(0));
}

#[test]
fn standard_input_may_hold_several_results() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let run = || loadgen(&["http", "-c", "1", "-n", "5", "--format", "json", &server.url()]).stdout;
    let (one, other) = (run(), run());
    let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(["report", "--merge=consecutive", "--format", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, &[&one[..], &other].concat()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let merged: RunResult = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!((merged.ok, &merged.config["merged"]), (10, &2.into()));
}

/// Few machines that run this have a counter, so a stored result gets what one would have counted.
#[test]
fn instructions_are_shown_per_request_in_every_format() {
    let (store, server) = (Store::new(), Server::start(|_| Act::Say(ok("x"))));
    let pid = std::process::id().to_string();
    store.run("a", &["http", "-n", "10", "--server-pid", &pid, &server.url()]);
    let path = Path::new(&store.path("a")).join("result.json");
    let mut result: Value = serde_json::from_slice(&std::fs::read(&path).expect("stored")).expect("JSON");
    for (modes, words) in [("user", "without the kernel's"), ("user-and-kernel", "the kernel's included")] {
        let server = &mut result["server"];
        (server["instructions"], server["instructions_modes"]) = (123_450.into(), modes.into());
        server["instructions_unknown"] = Value::Null;
        std::fs::write(&path, result.to_string()).expect("written");
        let text = store.text(&[], &["a"]);
        let at = text.find("instructions per request").expect("a row of its own");
        let row = text[at - 20..].split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(row.starts_with("12,345 ") && row.contains(words), "{row}");
    }
    schema::check(&result);
    let csv = store.text(&["--format", "csv"], &["a"]);
    let columns: Vec<Vec<_>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let at = columns[0].iter().position(|name| *name == "server_instructions").expect("a column of its own");
    assert_eq!(columns[1][at], "123450", "{csv}");
    std::fs::create_dir(store.path("b")).expect("new");
    std::fs::copy(&path, Path::new(&store.path("b")).join("result.json")).expect("copied");
    let compared = store.text(&["--compare"], &["a", "b"]);
    let line = compared.lines().find(|line| line.contains("instructions")).expect("a row");
    assert!(line.matches("12,345").count() == 2, "{line}");
}
