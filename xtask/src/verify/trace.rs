//! One trace on every driver: `replay-trace` of the test kit.

use std::process::Command;

use anyhow::Result;

use super::Outcome;
use matrix::workspace::{cargo, metadata, root, run_shown};

const TOOL: &str = "replay-trace";
/// Servers that listen on sockets.
const SERVERS: [&str; 4] = ["fileserver", "http-server", "kvcache", "zerocopy"];

pub(super) fn run(requests: u64) -> Result<Outcome> {
    replay(&["--requests", &requests.to_string()])?;
    Ok(Outcome::Passed)
}

/// Builds the programs and replays a trace.
pub(crate) fn replay(arguments: &[&str]) -> Result<()> {
    let bins = SERVERS.into_iter().chain([TOOL]).flat_map(|program| ["--bin", program]);
    run_shown(cargo().args(["build", "--workspace"]).args(bins))?;
    let directory = metadata()?.target_directory;
    let (programs, out) = (directory.join("debug"), directory.join("trace"));
    std::fs::create_dir_all(&out)?;
    let mut tool = Command::new(programs.join(TOOL));
    run_shown(tool.arg(&programs).arg("--out").arg(&out).args(arguments).current_dir(root()))
}
