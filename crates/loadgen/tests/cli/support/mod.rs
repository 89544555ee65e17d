//! Tools of the tests: runs of the program, and the servers that it is run against.

pub(crate) mod cache;
pub(crate) mod documents;
pub(crate) mod http2_server;
pub(crate) mod null_server;
pub(crate) mod queue_server;
pub(crate) mod schema;
pub(crate) mod socket_server;

use std::process::{Command, Output};

use loadgen::result::{ProtocolKind, RunResult};

/// Runs `loadgen` with these arguments to its end.
pub(crate) fn loadgen(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadgen")).args(arguments).output().expect("the binary runs")
}

/// Makes a temporary directory with mode 0700.
pub(crate) fn private_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a directory")
}

/// A run of `loadgen … --format json`.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) result: RunResult,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn http(url: &str, options: &[&str]) -> Self {
        Self::new("http", url, options)
    }

    pub(crate) fn kv(target: &str, options: &[&str]) -> Self {
        Self::new("kv", target, options)
    }

    pub(crate) fn file(target: &str, content: &std::path::Path, options: &[&str]) -> Self {
        let content = content.to_str().expect("a temporary directory's name is text");
        Self::new("file", target, &[options, &["--content", content]].concat())
    }

    /// Runs `mq` against a server of a test, and panics if a FIFO is left.
    pub(crate) fn mq(server: &queue_server::QueueServer, options: &[&str]) -> Self {
        let name = server.name();
        let run = Self::new("mq", "file.bin", &[options, &["--fifo-dir", server.fifos(), &name]].concat());
        assert_eq!(server.left(), Vec::<std::path::PathBuf>::new(), "FIFOs are left");
        run
    }

    /// Runs with `--format json`, these options, and one thread unless they say otherwise.
    pub(crate) fn new(command: &str, target: &str, options: &[&str]) -> Self {
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

    pub(crate) fn of(output: &Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| {
            panic!("not a result: {why}: {}{stderr}", String::from_utf8_lossy(&output.stdout));
        });
        schema::check(&printed);
        let result: RunResult = serde_json::from_value(printed).expect("a result");
        let run = Self { code: output.status.code(), result, stderr };
        run.check_sums();
        run
    }

    /// Panics unless the sums and the exit status are those of every run.
    fn check_sums(&self) {
        check_sums(&self.result);
        self.result.steps.iter().for_each(|step| check_sums(&step.result));
        assert_eq!(self.code, Some(if self.result.errors.is_empty() { 0 } else { 3 }), "{}", self.stderr);
    }

    pub(crate) fn errors(&self, class: &str) -> u64 {
        self.result.errors.get(class).copied().unwrap_or(0)
    }

    /// Panics unless exactly these error classes occurred, with these counts.
    pub(crate) fn assert_errors(&self, expected: &[(&str, u64)]) {
        let found: Vec<_> = self.result.errors.iter().map(|(class, count)| (class.as_str(), *count)).collect();
        assert_eq!(found, expected, "{}", self.stderr);
    }
}

/// Panics unless the sums of a result are exact.
pub(crate) fn check_sums(result: &RunResult) {
    assert_eq!(result.requests, result.ok + result.errors.values().sum::<u64>(), "{result:?}");
    let found = [result.hits, result.misses, result.stores];
    let sum: u64 = found.into_iter().flatten().sum();
    let (has_kinds, has_stores) = match result.kind {
        ProtocolKind::Kv => (true, true),
        ProtocolKind::File => (true, false),
        ProtocolKind::Http | ProtocolKind::Mq => (false, false),
    };
    assert_eq!(sum, if has_kinds { result.ok } else { 0 }, "{result:?}");
    assert_eq!(found.map(|count| count.is_some()), [has_kinds, has_kinds, has_stores]);
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
