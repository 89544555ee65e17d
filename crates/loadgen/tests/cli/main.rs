//! The real binary against small servers whose behaviour is known.
//!
//! The servers may sleep; what is asserted about time is how long *they* took, never how fast we are.

mod command_line;
mod coordinated_omission;
mod engines;
mod file;
mod file_faults;
mod http_faults;
mod kv;
mod kv_faults;
mod latency;
mod mq;
mod mq_faults;
mod mq_fifo_directory;
mod null_server;
mod progress;
mod recipes_page;
mod report;
mod request_log;
mod result_schema;
mod several_rates;
mod slow_servers;
mod support;
mod tcp_options;
mod tls;
mod verify;
mod warmup;

use std::process::{Command, Output};

use loadgen::result::RunResult;

/// `loadgen` with these arguments, run to its end.
fn loadgen(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadgen")).args(arguments).output().expect("the binary runs")
}

/// As `mkdir -m 700` makes it.
fn private_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a directory")
}

/// What one run of `loadgen … --format json` came to.
struct Run {
    code: Option<i32>,
    result: RunResult,
    stderr: String,
}

impl Run {
    fn http(url: &str, options: &[&str]) -> Self {
        Self::new("http", url, options)
    }

    fn kv(target: &str, options: &[&str]) -> Self {
        Self::new("kv", target, options)
    }

    fn file(target: &str, content: &std::path::Path, options: &[&str]) -> Self {
        let content = content.to_str().expect("a temporary directory's name is text");
        Self::new("file", target, &[options, &["--content", content]].concat())
    }

    /// Runs with `--format json`, these options, and one thread unless they say otherwise.
    fn new(command: &str, target: &str, options: &[&str]) -> Self {
        let mut arguments = vec![command, "--format", "json"];
        arguments.extend(options);
        // The whole suite on another engine: QUINTET_TEST_ENGINE=uring cargo test -p loadgen --test cli
        let engine = std::env::var("QUINTET_TEST_ENGINE").unwrap_or_default();
        if !engine.is_empty() && command != "mq" && !options.contains(&"--engine") {
            arguments.extend(["--engine", engine.as_str()]);
        }
        // The clients of `mq` are threads of their own.
        if !options.contains(&"--threads") && command != "mq" {
            arguments.extend(["--threads", "1"]);
        }
        arguments.push(target);
        Self::of(&loadgen(&arguments))
    }

    fn of(output: &Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| {
            panic!("not a result: {why}: {}{stderr}", String::from_utf8_lossy(&output.stdout));
        });
        result_schema::check(&printed);
        let result: RunResult = serde_json::from_value(printed).expect("a result");
        let run = Self { code: output.status.code(), result, stderr };
        run.check_sums();
        run
    }

    /// True of every result, whatever happened.
    fn check_sums(&self) {
        check_sums(&self.result);
        self.result.steps.iter().for_each(|step| check_sums(&step.result));
        assert_eq!(self.code, Some(if self.result.errors.is_empty() { 0 } else { 3 }), "{}", self.stderr);
    }

    fn errors(&self, class: &str) -> u64 {
        self.result.errors.get(class).copied().unwrap_or(0)
    }

    /// That exactly these classes occurred, with these counts.
    fn assert_errors(&self, expected: &[(&str, u64)]) {
        let found: Vec<_> = self.result.errors.iter().map(|(class, count)| (class.as_str(), *count)).collect();
        assert_eq!(found, expected, "{}", self.stderr);
    }
}

fn check_sums(result: &RunResult) {
    assert_eq!(result.requests, result.ok + result.errors.values().sum::<u64>(), "{result:?}");
    let found = [result.hits, result.misses, result.stores];
    let sum: u64 = found.into_iter().flatten().sum();
    let is_plain = matches!(result.kind.as_str(), "http" | "mq");
    assert_eq!(sum, if is_plain { 0 } else { result.ok }, "{result:?}");
    assert_eq!(
        found.map(|kind| kind.is_some()),
        match result.kind.as_str() {
            "kv" => [true, true, true],
            "file" => [true, true, false],
            _ => [false, false, false],
        }
    );
    let rate = result.throughput_rps * result.duration_s;
    assert!((rate - result.ok as f64).abs() < 0.5, "{result:?}");
    if let Some(timeline) = &result.timeline {
        let sums = timeline.rows.iter().fold((0, 0), |(ok, errors), row| (ok + row.ok, errors + row.errors));
        assert_eq!(sums, (result.ok, result.requests - result.ok));
    }
    if !result.steps.is_empty() {
        assert_eq!(result.requests, result.steps.iter().map(|step| step.result.requests).sum::<u64>());
        assert_eq!(result.ok, result.steps.iter().map(|step| step.result.ok).sum::<u64>());
    }
}
