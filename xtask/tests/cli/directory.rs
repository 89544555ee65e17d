//! TestDirectory of a test's runs, and how they are started.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// One cell of http-server, the null server and the control, in one block of 100 ms slices.
pub(crate) const TINY: [&str; 15] = [
    "--quick",
    "--servers",
    "http-server",
    "--filter",
    "driver=epoll",
    "--workload",
    "get-128B-c64",
    "--against",
    "none",
    "--blocks",
    "1",
    "--slice",
    "100ms",
    "--warmup",
    "20ms",
];

/// A directory for the runs, and one for what they leave while they run; both are removed.
pub(crate) struct TestDirectory {
    directory: TempDir,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TestDirectory {
    /// `None` where not all of the servers have been built; why has been said.
    pub(crate) fn with(servers: &[&str]) -> Option<Self> {
        for program in servers.iter().chain(&["loadgen"]) {
            testkit::workspace_program(Path::new(XTASK), program).expect("required")?;
        }
        let directory = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(directory.scratch()).unwrap();
        Some(directory)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a program.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// With a space, because there are such.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.path("for a while")
    }

    /// `bench-matrix WORDS…`, without building anything.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let built = Path::new(XTASK).parent().unwrap();
        let mut command = Command::new(XTASK);
        command.arg("bench-matrix").args(words).stdin(Stdio::null());
        command.current_dir(self.directory.path()).env("TMPDIR", self.scratch());
        command.env("CARGO_TARGET_DIR", built.parent().unwrap());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    /// A run of what has been built, whatever else the machine does meanwhile.
    pub(crate) fn measure(&self, words: &[&str]) -> Ended {
        self.run(&measuring(words))
    }

    pub(crate) fn json(&self, run: &str, file: &str) -> Value {
        let path = self.path(run).join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn visits(&self, run: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(run).join("visits.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Every planned slot was visited, once for the first time, in the order of the plan.
    pub(crate) fn assert_made_as_planned(&self, run: &str) {
        let manifest = self.json(run, "manifest.json");
        let planned: Vec<(usize, usize, Value)> = (manifest["matrices"][0]["plan"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate())
        .flat_map(|(block, slots)| {
            slots.as_array().unwrap().iter().enumerate().map(move |(slot, due)| (block, slot, due["cell"].clone()))
        })
        .collect();
        let number = |visit: &Value, key: &str| usize::try_from(visit[key].as_u64().unwrap()).unwrap();
        let visits = self.visits(run);
        let firsts: Vec<(usize, usize, Value)> = (visits.iter().filter(|visit| visit["attempt"] == 1))
            .map(|visit| (number(visit, "block"), number(visit, "slot"), visit["cell"].clone()))
            .collect();
        assert_eq!(firsts, planned);
        let attempts: BTreeSet<[usize; 3]> =
            visits.iter().map(|visit| ["block", "slot", "attempt"].map(|key| number(visit, key))).collect();
        assert_eq!(attempts.len(), visits.len(), "no attempt twice");
    }
}

/// Writes a program that says it is http-server, and is a null server that burns so much CPU time for each request.
pub(crate) fn server_script(directory: &TestDirectory, name: &str, burn: &str) -> PathBuf {
    let built = |program: &str| Path::new(XTASK).with_file_name(program).display().to_string();
    let (server, loadgen) = (built("http-server"), built("loadgen"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --list-backends ] && exec '{server}' \"$@\"\n\
         exec '{loadgen}' null --protocol http --listen 127.0.0.1:0 --body-size 128 --burn {burn}\n"
    );
    directory.script(name, &text)
}

/// The profile and the flags that every run here needs.
pub(crate) fn measuring<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let directory = Path::new(XTASK).parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let profile = match directory {
        Some("debug") | None => "dev",
        Some(named) => named,
    };
    [words, &["--profile", profile, "--no-build", "--force"]].concat()
}

/// The words with another value of a flag.
pub(crate) fn but<'a>(words: &[&'a str], flag: &str, value: &'a str) -> Vec<&'a str> {
    let mut words = words.to_vec();
    let at = words.iter().position(|word| *word == flag).unwrap();
    words[at + 1] = value;
    words
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Panics with what was said unless the status is that.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        self
    }
}
