//! The package of one program, built twice: in places of different names, by users of different names. The whole release is what
//! `cargo xtask verify dist` builds twice.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use matrix::workspace::{root, run_shown};

use super::{Build, debian, epoch, host, strip, sums};

/// The program with the fewest crates.
const PROGRAM: &str = "mq-server";
/// Profile of Cargo.toml that compiles fast.
const PROFILE: &str = "draft";
/// Names of the places and of who builds there; paths of different lengths, since a length can be in a file, too.
const PLACES: [(&str, &str); 2] = [("first", "somebody"), ("another/place", "nobody-else")];

/// # Errors
/// The two differ.
pub(crate) fn check() -> Result<()> {
    let directory = tempfile::tempdir().context("temporary directory")?;
    let packages = PLACES.map(|(place, user)| package(&directory.path().join(place), user));
    let [first, second] = packages;
    let (first, second) = (first?, second?);
    ensure!(first == second, "two builds of one commit differ:\n{first}{second}");
    print!("{first}");
    Ok(())
}

/// Returns the checksum of the package that is built from a copy of the last commit.
fn package(place: &Path, user: &str) -> Result<String> {
    let (tree, target_directory, home) = (place.join("tree"), place.join("target"), place.join(user));
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    run_shown(Command::new("git").args(["clone", "--quiet", "--shared"]).arg(root()).arg(&tree))?;
    let host = host()?;
    let build = Build {
        tree: &tree,
        target_directory: &target_directory,
        target: &host,
        profile: PROFILE,
        programs: &[PROGRAM],
    };
    let mut command = build.command();
    // The toolchain and the registry are where they were.
    for (variable, usual) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        command.env(variable, std::env::var_os(variable).map_or_else(|| home_directory().join(usual), PathBuf::from));
    }
    run_shown(command.env("HOME", &home).env("USER", user).env("LOGNAME", user))?;
    let stripped = strip(&build.programs_directory(), &[PROGRAM])?;
    debian::generate_texts(stripped.path(), &[PROGRAM])?;
    let release = debian::Release {
        programs: stripped.path(),
        version: env!("CARGO_PKG_VERSION"),
        architecture: host.split('-').next().unwrap_or_default(),
        maintainer: "Quintet <root@localhost>",
        epoch: epoch()?,
    };
    let package = release.package(PROGRAM)?;
    Ok(String::from_utf8(sums(&[(package.file_name, package.bytes)]))?)
}

fn home_directory() -> PathBuf {
    std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default()
}
