//! Upgrades of servers while clients count and measure: `upgrade-repeatedly` of the test kit.

use std::process::Command;

use anyhow::Result;

use super::{
    Outcome,
    tools::{self, Profile},
};
use matrix::workspace::{root, run_shown};

const TOOL: &str = "upgrade-repeatedly";
/// Servers that listen on sockets.
const SERVERS: [&str; 4] = ["fileserver", "http-server", "kvcache", "zerocopy"];

pub(super) fn run(upgrades: u32) -> Result<Outcome> {
    let programs = tools::build(Profile::Release, SERVERS.into_iter().chain([TOOL]))?;
    let upgrades = upgrades.to_string();
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).args(["--upgrades", &upgrades]).current_dir(root()))?;
    Ok(Outcome::Passed)
}
