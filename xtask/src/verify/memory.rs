//! Runs every server under valgrind: `under-valgrind` of the test kit, on programs that valgrind understands.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{Outcome, tools};
use matrix::workspace::{cargo, root, run_shown};

const TOOL: &str = "under-valgrind";

pub(super) fn run() -> Result<Outcome> {
    if !tools::is_installed("valgrind") {
        return Ok(Outcome::Skipped("valgrind is not installed".to_owned()));
    }
    let target = tools::directory()?.join("memory");
    // The client takes newer system calls for granted than valgrind 3.19 knows (epoll_pwait2), and what is built
    // together shares the features of its dependencies.
    build(&target, servers::all().iter().map(|server| (&*server.name, &*server.name)).collect())?;
    build(&target, vec![("loadgen", "loadgen"), ("testkit", TOOL)])?;
    let programs = target.join("debug");
    run_shown(Command::new(programs.join(TOOL)).arg(&programs).current_dir(root()))?;
    Ok(Outcome::Passed)
}

/// Builds programs, each with its package.
fn build(target: &Path, programs: Vec<(&str, &str)>) -> Result<()> {
    let mut command = cargo();
    command.arg("build").current_dir(root());
    for (package, program) in programs {
        let manifest = root().join("crates").join(package);
        // By its place, as another package of the registry may have the same name.
        command.arg("--package").arg(format!("path+file://{}", manifest.display())).args(["--bin", program]);
    }
    // rustix makes system calls itself and looks for the vDSO, which valgrind hides: SIGSEGV at start. It can call libc
    // instead, at the price of some instructions for each call.
    command.env("RUSTFLAGS", "--cfg=rustix_use_libc").env("CARGO_TARGET_DIR", target);
    run_shown(&mut command)
}
