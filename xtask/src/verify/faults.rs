//! Fails the nth system call of every server: `fail-the-nth` of the test kit, on all programs of the workspace.

use std::process::Command;

use anyhow::Result;

use super::{Outcome, tools};
use matrix::workspace::{cargo, metadata, root, run_shown};

const TOOL: &str = "fail-the-nth";

pub(super) fn run() -> Result<Outcome> {
    if !tools::is_installed("strace") {
        return Ok(Outcome::Skipped("strace is not installed".to_owned()));
    }
    let bins = servers::programs().into_iter().chain([TOOL]).flat_map(|program| ["--bin", program]);
    run_shown(cargo().args(["build", "--workspace"]).args(bins))?;
    let programs = metadata()?.target_directory.join("debug");
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).current_dir(root()))?;
    Ok(Outcome::Passed)
}
