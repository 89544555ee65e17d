//! Churn of sizes and times to live in kvcache under a memory limit: `churn-memory` of the test kit.

use std::{process::Command, time::Duration};

use anyhow::Result;

use super::Outcome;
use matrix::workspace::{cargo, metadata, root, run_shown};

const TOOL: &str = "churn-memory";

pub(super) fn run(time: Duration) -> Result<Outcome> {
    let programs = ["--package", "kvcache", "--bin", "kvcache", "--package", "testkit", "--bin", TOOL];
    run_shown(cargo().arg("build").args(programs).current_dir(root()))?;
    let programs = metadata()?.target_directory.join("debug");
    let seconds = time.as_secs().to_string();
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).args(["--seconds", &seconds]).current_dir(root()))?;
    Ok(Outcome::Passed)
}
