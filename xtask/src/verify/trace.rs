//! One trace on every driver: `replay-trace` of the test kit.

use std::process::Command;

use anyhow::Result;

use super::{
    Outcome,
    tools::{self, Profile},
};
use matrix::workspace::{root, run_shown};

const TOOL: &str = "replay-trace";
/// Servers that listen on sockets.
const SERVERS: [&str; 4] = ["fileserver", "http-server", "kvcache", "zerocopy"];

pub(super) fn run(requests: u64) -> Result<Outcome> {
    // A million requests on each of forty-eight is much for a development build.
    replay(Profile::Release, &["--requests", &requests.to_string()])?;
    Ok(Outcome::Passed)
}

/// Builds the programs and replays a trace.
pub(crate) fn replay(profile: Profile, arguments: &[&str]) -> Result<()> {
    let programs = tools::build(profile, SERVERS.into_iter().chain([TOOL]))?;
    let out = programs.with_file_name("trace");
    std::fs::create_dir_all(&out)?;
    let mut tool = Command::new(programs.join(TOOL));
    run_shown(tool.arg(&programs).arg("--out").arg(&out).args(arguments).current_dir(root()))
}
