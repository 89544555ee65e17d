//! Own test suites of client libraries, from their source packages, against kvcache.
//!
//! Each suite runs in a network and among processes of its own, so that it may have the usual ports and leaves nothing behind.

mod outcomes;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};
use matrix::workspace::{cargo, metadata, root, run_shown};
use outcomes::{Format, Outcome as TestResult, TestOutcome};
use serde::Deserialize;

use super::{Outcome, tools};

const SUITES: &str = include_str!("clients/suites.toml");
const RUN: &str = include_str!("clients/run.sh");
/// Program in the place of redis-server, for suites that start one.
const REDIS_SERVER: &str = include_str!("clients/redis-server");
/// Namespaces of a suite: whoever is not root becomes it there, to have a loopback interface.
const UNSHARE: [&str; 5] = ["--net", "--map-root-user", "--pid", "--fork", "--kill-child"];

#[derive(Deserialize)]
struct Suites {
    suites: Vec<Suite>,
}

/// Tests of one library.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Suite {
    name: String,
    origin: Origin,
    /// Name of the package in its registry.
    package: String,
    version: String,
    /// Shell command that installs what the tests need.
    prepare: String,
    /// Arguments of kvcache, in one line.
    #[serde(default = "default_server")]
    server: String,
    /// Shell command that runs the tests.
    run: String,
    format: Format,
    /// Tests that fail, and the reason.
    #[serde(default)]
    failing: Vec<Failing>,
}

/// Place that sources come from.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Origin {
    /// Source distribution of PyPI.
    Sdist,
    /// Package of npm.
    Npm,
    /// Module of Go.
    GoModule,
}

impl Origin {
    /// Shell command that brings PACKAGE in its VERSION into the working directory.
    fn fetch(self) -> &'static str {
        match self {
            Self::Sdist => {
                "python3 -m pip download --quiet --no-deps --no-binary :all: --dest .sdist \"$PACKAGE==$VERSION\"\n\
                 tar -xzf .sdist/*.tar.gz --strip-components=1"
            }
            Self::Npm => "tar -xzf \"$(npm pack --silent \"$PACKAGE@$VERSION\")\" --strip-components=1",
            Self::GoModule => {
                "place=$(go mod download -json \"$PACKAGE@$VERSION\" | sed -n 's/^\\t\"Dir\": \"\\(.*\\)\",$/\\1/p')\n\
                 cp -r \"$place/.\" . && chmod -R u+w ."
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failing {
    /// Text in the names of the tests.
    tests: String,
    /// Another text in these names.
    #[serde(default)]
    and: String,
    why: String,
}

fn default_server() -> String {
    "--listen 127.0.0.1:6379 --threads 2".to_owned()
}

/// Outcomes of a suite's tests.
#[derive(Debug, Default)]
struct Counts {
    passed: usize,
    skipped: usize,
    expected_failures: usize,
    /// Names of other tests that have failed.
    failures: Vec<String>,
}

/// Runs the suites that `only` names, or all.
pub(super) fn run(only: &[String]) -> Result<Outcome> {
    let suites: Suites = toml::from_str(SUITES).context("clients/suites.toml")?;
    let suites = chosen(suites.suites, only);
    ensure!(!suites.is_empty(), "--only {} leaves nothing", only.join(","));
    for program in ["unshare", "ip", "bash"].into_iter().chain(suites.iter().map(|suite| suite.format.program())) {
        if !is_found(program) {
            return Ok(Outcome::Skipped(format!("{program} is not installed")));
        }
    }
    let probe = Command::new("unshare").args(UNSHARE).args(["ip", "link", "set", "lo", "up"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return Ok(Outcome::Skipped("namespaces are not allowed here (unshare(1))".to_owned()));
    }
    run_shown(cargo().args(["build", "--package", "kvcache", "--bin", "kvcache"]).current_dir(root()))?;
    let place = Place::new()?;
    let mut rows = Vec::new();
    for suite in &suites {
        println!("verify: clients: {}", suite.name);
        let mut outcome = place.run(suite).with_context(|| suite.name.clone());
        if outcome.as_ref().is_ok_and(|counts| !counts.failures.is_empty()) {
            // Suites count on times that a busy machine does not keep.
            println!("again: {}", suite.name);
            outcome = place.run(suite).with_context(|| suite.name.clone());
        }
        if let Err(error) = &outcome {
            println!("{error:#}");
        }
        rows.push((suite, outcome));
    }
    let has_failed = rows.iter().any(|(_, outcome)| !outcome.as_ref().is_ok_and(|counts| counts.failures.is_empty()));
    print!("{}", table(&rows));
    ensure!(!has_failed, "tests fail that are not expected to");
    Ok(Outcome::Passed)
}

/// Returns the suites that are called one of `only` or, where none is called so, whose names contain it; all without `only`.
fn chosen(mut suites: Vec<Suite>, only: &[String]) -> Vec<Suite> {
    let names: Vec<String> = suites.iter().map(|suite| suite.name.clone()).collect();
    let is_chosen = |suite: &Suite, name: &String| match names.contains(name) {
        true => suite.name == *name,
        false => suite.name.contains(name.as_str()),
    };
    suites.retain(|suite| only.is_empty() || only.iter().any(|name| is_chosen(suite, name)));
    suites
}

/// True if PATH has a program. Not all have `--version`.
fn is_found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|place| place.join(program).is_file())
}

fn table(rows: &[(&Suite, Result<Counts>)]) -> String {
    let mut text =
        String::from("| suite | version | passed | skipped | fail as expected | fail |\n|---|---|---|---|---|---|\n");
    for (suite, outcome) in rows {
        let cells = match outcome {
            Ok(Counts { passed, skipped, expected_failures, failures }) => {
                format!("{passed} | {skipped} | {expected_failures} | {}", failures.len())
            }
            Err(_) => "did not run | | |".to_owned(),
        };
        text += &format!("| {} | {} | {cells} |\n", suite.name, suite.version);
    }
    text
}

/// Directory of all suites, and the program that they are run against.
struct Place {
    directory: PathBuf,
    kvcache: PathBuf,
    /// PATH of the suites.
    path: std::ffi::OsString,
}

impl Place {
    fn new() -> Result<Self> {
        let directory = tools::directory()?.join("clients");
        let programs = directory.join("bin");
        fs::create_dir_all(&programs)?;
        let shim = programs.join("redis-server");
        fs::write(&shim, REDIS_SERVER)?;
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755))?;
        let kvcache = metadata()?.target_directory.join("debug/kvcache");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [programs].into_iter().chain(std::env::split_paths(&path)).chain(["/usr/sbin".into()]);
        Ok(Self { directory, kvcache, path: std::env::join_paths(path)? })
    }

    fn run(&self, suite: &Suite) -> Result<Counts> {
        let sources = self.prepare(suite)?;
        let mut command = Command::new("unshare");
        command.args(UNSHARE).args(["bash", "-c", RUN]).current_dir(&sources).env("PATH", &self.path);
        command.env("KVCACHE", &self.kvcache).env("SERVER", &suite.server).env("SUITE", &suite.run);
        let output = command.output().context("unshare")?;
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let log = self.directory.join(format!("{}.log", suite.name));
        fs::write(&log, format!("{stdout}{stderr}")).with_context(|| log.display().to_string())?;
        if output.status.code() == Some(125) {
            bail!("kvcache has ended, see {}", log.display());
        }
        let tests = suite.format.parse(&stdout);
        ensure!(!tests.is_empty(), "no test has run, see {}", log.display());
        let counts = suite.count(&tests);
        for name in &counts.failures {
            println!("failed: {name}");
        }
        println!("{}", log.display());
        Ok(counts)
    }

    /// Returns the directory of the suite's sources, with everything that it needs. What has been there before is used again.
    fn prepare(&self, suite: &Suite) -> Result<PathBuf> {
        let sources = self.directory.join(&suite.name);
        let Suite { origin, package, version, prepare, .. } = suite;
        let wanted = format!("{origin:?} {package} {version}\n{prepare}\n");
        let note = self.directory.join(format!("{}.prepared", suite.name));
        if fs::read_to_string(&note).is_ok_and(|prepared| prepared == wanted) {
            return Ok(sources);
        }
        if sources.exists() {
            fs::remove_dir_all(&sources)?;
        }
        fs::create_dir(&sources)?;
        for script in [origin.fetch(), prepare] {
            let mut command = Command::new("bash");
            command.args(["-ec", script]).current_dir(&sources).env("PATH", &self.path);
            run_shown(command.env("PACKAGE", package).env("VERSION", version))?;
        }
        fs::write(&note, wanted)?;
        Ok(sources)
    }
}

impl Suite {
    fn count(&self, tests: &[TestOutcome]) -> Counts {
        let mut counts = Counts::default();
        for test in tests {
            match test.outcome {
                TestResult::Passed => counts.passed += test.count,
                TestResult::Skipped => counts.skipped += test.count,
                TestResult::Failed if self.is_expected(test) => counts.expected_failures += test.count,
                TestResult::Failed => counts.failures.push(test.name.clone()),
            }
        }
        counts
    }

    fn is_expected(&self, test: &TestOutcome) -> bool {
        let is_meant = |failing: &&Failing| test.name.contains(&failing.tests) && test.name.contains(&failing.and);
        let failing = self.failing.iter().find(is_meant);
        if let Some(failing) = failing {
            println!("fails as expected: {}: {}", test.name, failing.why);
        }
        failing.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_its_suite_or_those_that_contain_it() -> Result<()> {
        let names = |only: &[&str]| -> Result<Vec<String>> {
            let suites: Suites = toml::from_str(SUITES)?;
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            Ok(chosen(suites.suites, &only).into_iter().map(|suite| suite.name).collect())
        };
        assert_eq!(names(&["go-redis"])?, ["go-redis"], "not django-redis");
        assert_eq!(names(&["redis-", "celery"])?, ["redis-py", "celery"]);
        assert!(names(&[])?.len() > 15);
        Ok(())
    }
}
