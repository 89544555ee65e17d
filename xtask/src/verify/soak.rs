//! All servers at once under mixed load, disturbed for as long as is asked for: `soak` of the test kit.

use std::{process::Command, time::Duration};

use anyhow::Result;

use super::Outcome;
use matrix::workspace::{cargo, metadata, root, run_shown};

const TOOL: &str = "soak";

pub(super) fn run(time: Duration) -> Result<Outcome> {
    let bins = servers::programs().into_iter().chain([TOOL]).flat_map(|program| ["--bin", program]);
    run_shown(cargo().args(["build", "--workspace"]).args(bins))?;
    let programs = metadata()?.target_directory.join("debug");
    let seconds = time.as_secs().to_string();
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).args(["--seconds", &seconds]).current_dir(root()))?;
    Ok(Outcome::Passed)
}
