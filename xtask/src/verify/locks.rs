//! Two clients that contend for a lock on kvcache: `contend-for-locks` of the test kit.

use std::{process::Command, time::Duration};

use anyhow::Result;

use super::{
    Outcome,
    tools::{self, Profile},
};
use matrix::workspace::{root, run_shown};

const TOOL: &str = "contend-for-locks";

pub(super) fn run(time: Duration) -> Result<Outcome> {
    let programs = tools::build(Profile::Release, ["kvcache", TOOL])?;
    let seconds = time.as_secs().to_string();
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).args(["--seconds", &seconds]).current_dir(root()))?;
    Ok(Outcome::Passed)
}
