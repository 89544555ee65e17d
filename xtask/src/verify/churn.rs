//! Churn of sizes and times to live in kvcache under a memory limit: `churn-memory` of the test kit.

use std::{process::Command, time::Duration};

use anyhow::Result;

use super::{
    Outcome,
    tools::{self, Profile},
};
use matrix::workspace::{root, run_shown};

const TOOL: &str = "churn-memory";

pub(super) fn run(time: Duration) -> Result<Outcome> {
    // The program itself counts, and a debug build is larger.
    let programs = tools::build(Profile::Release, ["kvcache", TOOL])?;
    let seconds = time.as_secs().to_string();
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).args(["--seconds", &seconds]).current_dir(root()))?;
    Ok(Outcome::Passed)
}
