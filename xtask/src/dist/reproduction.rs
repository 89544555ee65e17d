//! The package of one program, built twice: in places of different names, by different users. The whole release is what `cargo xtask
//! verify dist` builds twice.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use matrix::workspace::{root, run_shown};

use super::{
    Build,
    builder::{Builder, open_directory},
    debian, epoch, host, strip, sums,
};

/// The program with the fewest crates; fewer yet without the drivers that a build may leave out.
const PROGRAM: &str = "mq-server";
/// Profile of Cargo.toml that compiles fast.
const PROFILE: &str = "draft";
/// Names of the places; paths of different lengths, since a length can be in a file, too.
pub(crate) const PLACES: [&str; 2] = ["first", "another/place"];

/// Those who build there.
///
/// # Errors
/// There is no toolchain to give to another user.
pub(crate) fn builders() -> Result<[Builder; 2]> {
    Ok([Builder::named("somebody"), Builder::other("nobody-else")?])
}

/// # Errors
/// The two differ.
pub(crate) fn check() -> Result<()> {
    let directory = open_directory()?;
    let [first, second] = builders()?;
    let [first_place, second_place] = PLACES.map(|place| directory.path().join(place));
    let (first, second) = (package(&first_place, &first)?, package(&second_place, &second)?);
    ensure!(first == second, "two builds of one commit differ:\n{first}{second}");
    print!("{first}");
    Ok(())
}

/// Returns the checksum of the package that is built from a copy of the last commit.
fn package(place: &Path, builder: &Builder) -> Result<String> {
    let (tree, target_directory) = (place.join("tree"), place.join("target"));
    fs::create_dir_all(place).with_context(|| place.display().to_string())?;
    run_shown(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(root()).arg(&tree))?;
    let host = host()?;
    let build = Build {
        tree: &tree,
        cargo_home: &builder.cargo_home(),
        target_directory: &target_directory,
        target: &host,
        profile: PROFILE,
        packages: &["--package", PROGRAM, "--no-default-features"],
        programs: &[PROGRAM],
    };
    builder.run(&mut build.command(), place)?;
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
