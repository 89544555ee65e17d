//! kvcache, http-server and zerocopy behind other people's proxies: `engines` of the test kit.

use std::process::Command;

use anyhow::Result;

use super::Outcome;
use matrix::workspace::{cargo, metadata, root, run_shown};

const TOOL: &str = "engines";

pub(super) fn run() -> Result<Outcome> {
    let mut build = cargo();
    build.args(["build", "--package", "testkit", "--bin", TOOL]);
    // The registry has a package called zerocopy, too.
    for (package, program) in [("kvcache", "kvcache"), ("http-server", "http-server"), ("zerocopy@0.1.0", "zerocopy")] {
        build.args(["--package", package, "--bin", program]);
    }
    run_shown(build.current_dir(root()))?;
    let programs = metadata()?.target_directory.join("debug");
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).arg(root().join("deploy/engines")))?;
    Ok(Outcome::Passed)
}
