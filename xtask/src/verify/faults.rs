//! Fails the nth system call of every server: `fail-the-nth` of the test kit, on all programs of the workspace.

use anyhow::Result;

use super::{Outcome, tools};
use crate::workspace::{cargo, metadata, run_shown};

pub(super) fn run() -> Result<Outcome> {
    if !tools::is_installed("strace") {
        return Ok(Outcome::Skipped("strace is not installed".to_owned()));
    }
    run_shown(cargo().args(["build", "--workspace", "--bins"]))?;
    let programs = metadata()?.target_directory.join("debug");
    run_shown(cargo().args(["run", "--quiet", "--package", "testkit", "--bin", "fail-the-nth", "--"]).arg(programs))?;
    Ok(Outcome::Passed)
}
