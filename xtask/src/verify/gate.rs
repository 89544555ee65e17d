//! `deploy/ci/bench-gate.sh` as a job of a project runs it: a repository with commits, one of which makes its server slower.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::Outcome;
use matrix::workspace::{cargo, metadata, root, run_shown};

/// Server of the project: it says that it is http-server, and burns CPU time for each request.
const SERVER: &str = r#"#!/bin/sh
[ "$1" = --list-backends ] && exec "$PROGRAMS/http-server" "$@"
exec "$PROGRAMS/loadgen" null --protocol http --listen 127.0.0.1:0 --body-size 128 --burn BURN
"#;
/// Commits of the project, with the CPU time of a request.
const COMMITS: [(&str, &str); 4] = [("first", "20us"), ("the same", "20us"), ("slower", "30us"), ("faster", "10us")];

pub(super) fn run() -> Result<Outcome> {
    let programs = ["--package", "http-server", "--bin", "http-server", "--package", "loadgen", "--bin", "loadgen"];
    run_shown(cargo().arg("build").args(programs).current_dir(root()))?;
    let programs = metadata()?.target_directory.join("debug");
    let project = tempfile::tempdir().context("a directory for the project")?;
    let project = project.path();
    git(project, &["init", "--quiet"])?;
    for (message, burn) in COMMITS {
        fs::write(project.join("server.sh"), format!("# {message}\n{}", SERVER.replace("BURN", burn)))?;
        git(project, &["add", "--all"])?;
        git(project, &["commit", "--quiet", "--message", message])?;
    }
    // Commits by their distance from the last.
    for (base, change, status, says) in [
        ("HEAD~2", "HEAD~1", 4, "became slower by more than 5\u{a0}%"),
        ("HEAD~3", "HEAD~2", 0, "did not become slower"),
        ("HEAD~1", "HEAD", 0, "became cheaper"),
    ] {
        git(project, &["checkout", "--quiet", &revision(project, change)?])?;
        let comment = compared(project, &programs, &revision(project, base)?, status)?;
        ensure!(comment.contains(says), "{base} and {change}: {comment}");
    }
    Ok(Outcome::Passed)
}

/// Runs the gate in the project's working tree, and returns its comment.
fn compared(project: &Path, programs: &Path, base: &str, status: i32) -> Result<String> {
    let out = tempfile::tempdir()?;
    fs::write(project.join(".bench-baseline"), format!("{base} is what all are compared with\n"))?;
    let mut gate = Command::new("sh");
    gate.arg(root().join("deploy/ci/bench-gate.sh")).current_dir(project).stdin(Stdio::null());
    gate.env("PROGRAMS", programs).env("QUINTET", root()).env_remove("BASE").env("OUT", out.path());
    gate.envs([
        ("SERVER", "http-server"),
        ("PROGRAM", "server"),
        ("BUILD", "tail -n +2 server.sh >server && chmod +x server"),
    ]);
    gate.envs([("WORKLOADS", "get-128B-c64"), ("THRESHOLD", "5%"), ("BUDGET", "5m"), ("PROFILE", "dev")]);
    let ended = gate.status().context("bench-gate.sh")?;
    ensure!(ended.code() == Some(status), "bench-gate.sh ended with {ended}, not {status}");
    fs::read_to_string(out.path().join("comment.md")).context("comment.md")
}

fn revision(project: &Path, name: &str) -> Result<String> {
    // The last commit stays the branch's, whatever is checked out.
    let name = name.replacen("HEAD", "main", 1);
    let output = Command::new("git").args(["rev-parse", &name]).current_dir(project).output().context("git")?;
    ensure!(output.status.success(), "git rev-parse {name}");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn git(project: &Path, words: &[&str]) -> Result<()> {
    let identity = ["-c", "user.name=gate", "-c", "user.email=gate@localhost", "-c", "init.defaultBranch=main"];
    run_shown(Command::new("git").args(identity).args(words).current_dir(project))
}
