//! Builds of servers beside those that are measured as they are: with a burn, and for valgrind.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    plan::{
        filter::hint,
        setup::{build_arguments, loadgen, profile_directory},
        subjects::Subject,
    },
    usage,
    workspace::{self, cargo, run_shown},
};

/// Beginning of the names of programs that are a server with a burn; see the crate `burning`, whose features are the servers' names.
const BURNING: &str = "burning-";

/// Builds the generator and the server's program that burns CPU time on each request, or finds what was built before, and returns
/// where the two lie.
pub(crate) fn burning(server: &str, profile: &str, is_built: bool) -> Result<(PathBuf, PathBuf)> {
    let metadata = workspace::metadata()?;
    let program = format!("{BURNING}{server}");
    let targets = metadata.packages.iter().flat_map(|package| &package.targets);
    let known: Vec<&str> = targets.filter_map(|target| target.name.strip_prefix(BURNING)).collect();
    if !known.contains(&server) {
        return Err(usage(format!(
            "--server {server}: there is no program of it that burns; {}",
            hint(server, &known)
        )));
    }
    if !is_built {
        let feature = format!("burning/{server}");
        let more = ["--bin", &program, "--features", &feature];
        run_shown(cargo().args(build_arguments(&[], profile)).args(more))?;
    }
    let directory = metadata.target_directory.join(profile_directory(profile));
    let path = directory.join(&program);
    if !path.is_file() || !loadgen(&directory).is_file() {
        return Err(usage(format!("--no-build: {program} or loadgen has not been built with the profile `{profile}`")));
    }
    Ok((directory, path))
}

/// Builds the servers again as valgrind can run them, or finds what was built before, and returns where they lie.
pub(crate) fn under_valgrind(subjects: &[&Subject], profile: &str, is_built: bool) -> Result<PathBuf> {
    let target = workspace::metadata()?.target_directory.join("valgrind");
    let servers = || subjects.iter().map(|subject| subject.server());
    if !is_built {
        let mut command = cargo();
        command.args(["build", "--profile", profile]).args(servers().flat_map(|server| ["--bin", server]));
        // rustix makes system calls itself and looks for the vDSO, which valgrind hides: it can call libc instead.
        run_shown(command.env("RUSTFLAGS", "--cfg=rustix_use_libc").env("CARGO_TARGET_DIR", &target))?;
    }
    let directory = target.join(profile_directory(profile));
    match servers().find(|server| !directory.join(server).is_file()) {
        Some(server) => {
            Err(usage(format!("--no-build: {server} has not been built for --witness with the profile `{profile}`")))
        }
        None => Ok(directory),
    }
}
