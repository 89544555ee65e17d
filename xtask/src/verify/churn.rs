//! Churn of sizes and times to live in kvcache under a memory limit: `churn-memory` of the test kit.

use std::{process::Command, time::Duration};

use anyhow::Result;

use super::Outcome;
use matrix::workspace::{cargo, metadata, root, run_shown};

const TOOL: &str = "churn-memory";

pub(super) fn run(time: Duration) -> Result<Outcome> {
    run_shown(cargo().args(["build", "--package", "testkit", "--bin", TOOL]).current_dir(root()))?;
    // The program itself counts, and a debug build is larger.
    run_shown(cargo().args(["build", "--release", "--package", "kvcache", "--bin", "kvcache"]).current_dir(root()))?;
    let target = metadata()?.target_directory;
    let seconds = time.as_secs().to_string();
    let mut tool = Command::new(target.join("debug").join(TOOL));
    run_shown(tool.arg(target.join("release")).args(["--seconds", &seconds]).current_dir(root()))?;
    Ok(Outcome::Passed)
}
