//! Builds a release twice, of two copies of the tree in different places, by different users, compares the checksums of all
//! artefacts, and unpacks and runs the archives and the images.

mod images;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{Outcome, is_installed};
use crate::dist::{
    builder::{Builder, open_directory},
    reproduction::{PLACES, builders},
};
use matrix::workspace::{cargo, first_line, root, run_shown};

/// Builds, compares and proves a release; or proves the one that is in a directory.
pub(super) fn run(built: Option<&Path>) -> Result<Outcome> {
    if !is_installed("umoci") {
        return Ok(Outcome::Skipped("umoci is not installed".to_owned()));
    }
    if let Some(built) = built {
        prove(built)?;
        return Ok(Outcome::Passed);
    }
    let Some(commit) = first_line("git", &["rev-parse", "HEAD"]) else {
        return Ok(Outcome::Skipped("needs a repository: what is built is its last commit".to_owned()));
    };
    let directory = open_directory()?;
    let [first_place, second_place] = PLACES.map(|place| directory.path().join(place));
    let [first, second] = builders()?;
    let (first, second) = (build(&first_place, &first, &commit)?, build(&second_place, &second, &commit)?);
    let [sums, others] = [&first, &second].map(|out| fs::read_to_string(out.join("SHA256SUMS")));
    let (sums, others) = (sums?, others?);
    ensure!(sums == others, "the artefacts differ:\n{sums}\n{others}");
    print!("{sums}");
    prove(&first)?;
    Ok(Outcome::Passed)
}

/// Returns the directory of a release that is built from a copy of the tree.
fn build(place: &Path, builder: &Builder, commit: &str) -> Result<PathBuf> {
    fs::create_dir_all(place).with_context(|| place.display().to_string())?;
    let tree = place.join("tree");
    run_shown(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(root()).arg(&tree))?;
    run_shown(Command::new("git").args(["checkout", "--quiet", commit]).current_dir(&tree))?;
    let (out, target) = (place.join("out"), place.join("target"));
    let mut dist = cargo();
    dist.args(["run", "--package", "xtask", "--", "dist", "--out"]).arg(&out);
    builder.run(dist.current_dir(&tree).env("CARGO_TARGET_DIR", &target), place)?;
    // It takes as much space as the second build will.
    fs::remove_dir_all(&target).with_context(|| target.display().to_string())?;
    Ok(out)
}

/// Holds the files of a release against their checksums, reads the packages, and runs what is in the archives and the images.
fn prove(out: &Path) -> Result<()> {
    run_shown(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(out))?;
    for program in servers::programs() {
        let package = find(out, &format!("quintet-{program}_"), ".deb")?;
        let listed = Command::new("dpkg-deb").arg("--contents").arg(&package).output().context("dpkg-deb")?;
        let has_program = String::from_utf8_lossy(&listed.stdout).contains(&format!("./usr/bin/{program}"))
            || String::from_utf8_lossy(&listed.stdout).contains(&format!(" usr/bin/{program}"));
        ensure!(listed.status.success() && has_program, "{}: {listed:?}", package.display());
        images::prove(program, &find(out, &format!("quintet-{program}-"), ".oci.tar")?)
            .with_context(|| format!("the image of {program}"))?;
    }
    for archive in all(out, "quintet-", ".tar.gz")? {
        prove_archive(&archive).with_context(|| archive.display().to_string())?;
    }
    Ok(())
}

/// Unpacks an archive, and asks each program for its version.
fn prove_archive(archive: &Path) -> Result<()> {
    let place = tempfile::tempdir().context("temporary directory")?;
    let mut unpack = Command::new("tar");
    run_shown(unpack.arg("-xzf").arg(archive).args(["--strip-components", "1", "-C"]).arg(place.path()))?;
    for program in servers::programs() {
        let asked = Command::new(place.path().join("bin").join(program)).arg("--version").output().context(program)?;
        let says = String::from_utf8_lossy(&asked.stdout);
        ensure!(asked.status.success() && says.starts_with(&format!("{program} ")), "{program} --version: {asked:?}");
    }
    Ok(())
}

fn find(directory: &Path, begin: &str, end: &str) -> Result<PathBuf> {
    let paths = all(directory, begin, end)?;
    paths.into_iter().next().with_context(|| format!("no {begin}…{end} in {}", directory.display()))
}

fn all(directory: &Path, begin: &str, end: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_wanted = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(begin) && name.ends_with(end))
    };
    Ok(paths.filter(is_wanted).collect())
}
