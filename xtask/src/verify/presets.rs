//! The presets of bench-matrix about runtimes, each once, in visits that say nothing but that they work.

use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Outcome;
use crate::ci;

const PRESETS: [&str; 5] = ["runtimes", "unbalanced", "idle", "threads", "handshakes"];
const SHORT: [&str; 14] = [
    "--blocks",
    "1",
    "--slice",
    "1s",
    "--warmup",
    "300ms",
    "--max-warmup",
    "600ms",
    "--turns",
    "0",
    "--seed",
    "1",
    "--against",
    "none",
];

pub(super) fn run() -> Result<Outcome> {
    for preset in PRESETS {
        let directory = tempfile::tempdir().context("temporary directory")?;
        let out = directory.path().join("run");
        let mut command = Command::new(std::env::current_exe().context("own path")?);
        command.args(["bench-matrix", "--preset", preset]).args(SHORT).arg("--out").arg(&out);
        let status = command.status().context("bench-matrix")?;
        if !status.success() {
            bail!("bench-matrix --preset {preset}: {status}");
        }
        ci::check_run(&out).with_context(|| format!("--preset {preset}"))?;
    }
    Ok(Outcome::Passed)
}
