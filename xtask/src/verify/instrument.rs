//! The instrument on real servers: a calibration with effects that are injected into them, and instructions under valgrind as a
//! second witness. Both in visits that say nothing but that they work.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};
use matrix::workspace::{cargo, run_shown};
use serde_json::Value;

use super::{Outcome, is_installed};

/// Servers of which there is a program that burns CPU time.
const SERVERS: [&str; 2] = ["http-server", "kvcache"];
const CALIBRATION: [&str; 9] =
    ["--trials", "4", "--budget", "8s", "--effects", "10", "--tail-effects", "50", "--force"];
/// A driver that valgrind can run, and one that it cannot. (kvcache's keys take a development build under valgrind too long.)
const WITNESS: [&str; 18] = [
    "--servers",
    "http-server",
    "--filter",
    "driver=epoll|uring",
    "--workload",
    "get-128B-c64",
    "--conns",
    "4",
    "--against",
    "none",
    "--blocks",
    "1",
    "--slice",
    "300ms",
    "--max-warmup",
    "500ms",
    "--witness",
    "instructions",
];

pub(super) fn run() -> Result<Outcome> {
    run_shown(cargo().args([
        "clippy",
        "--package",
        "burning",
        "--all-features",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    let directory = tempfile::tempdir().context("temporary directory")?;
    for server in SERVERS {
        let out = directory.path().join(server);
        bench_matrix(&[&["calibrate", "--server", server][..], &CALIBRATION].concat(), &out)?;
        let calibration: Value = serde_json::from_str(&read(&out.join("calibration.json"))?)?;
        let servers = calibration["about"]["servers"].as_str().unwrap_or_default();
        ensure!(servers.starts_with(server), "{servers}");
        let labels: Value = serde_json::from_str(&read(&out.join("labels.json"))?)?;
        ensure!(labels["labels"].as_array().is_some_and(|labels| labels.len() == 4), "{labels}");
    }
    if !is_installed("valgrind") {
        return Ok(Outcome::Skipped("valgrind is not installed; calibrations with real servers passed".to_owned()));
    }
    let out = directory.path().join("witness");
    bench_matrix(&WITNESS, &out)?;
    let page = read(&out.join("report.html"))?;
    ensure!(page.contains("Instructions per request were counted under valgrind"), "the page does not say so");
    let counts = read(&out.join("instructions.jsonl"))?;
    ensure!(counts.contains("io_uring_enter(2)") && counts.contains("\"failure\":null"), "{counts}");
    Ok(Outcome::Passed)
}

fn bench_matrix(words: &[&str], out: &Path) -> Result<()> {
    let mut command = Command::new(std::env::current_exe().context("own path")?);
    command.arg("bench-matrix").args(words).args(["--profile", "dev"]).arg("--out").arg(out);
    let status = command.status().context("bench-matrix")?;
    if !status.success() {
        bail!("bench-matrix {}: {status}", words.join(" "));
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{}", path.display()))
}
