//! Upgrades of kvcache while clients count: `upgrade-repeatedly` of the test kit.

use std::process::Command;

use anyhow::Result;

use super::Outcome;
use matrix::workspace::{cargo, metadata, root, run_shown};

const TOOL: &str = "upgrade-repeatedly";

pub(super) fn run(upgrades: u32) -> Result<Outcome> {
    let programs = ["--package", "kvcache", "--bin", "kvcache", "--package", "testkit", "--bin", TOOL];
    run_shown(cargo().arg("build").args(programs).current_dir(root()))?;
    let programs = metadata()?.target_directory.join("debug");
    let upgrades = upgrades.to_string();
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).args(["--upgrades", &upgrades]).current_dir(root()))?;
    Ok(Outcome::Passed)
}
