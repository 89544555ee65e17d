//! All servers at once under mixed load, disturbed for as long as is asked for: `soak` of the test kit.

use std::{process::Command, time::Duration};

use anyhow::Result;

use super::{
    Outcome,
    tools::{self, Profile},
};
use matrix::workspace::{root, run_shown};

const TOOL: &str = "soak";

pub(super) fn run(time: Duration) -> Result<Outcome> {
    let programs = tools::build(Profile::Dev, servers::programs().into_iter().chain([TOOL]))?;
    let seconds = time.as_secs().to_string();
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).args(["--seconds", &seconds]).current_dir(root()))?;
    Ok(Outcome::Passed)
}
