//! Builds a release twice, of two copies of the tree in different places, and compares the checksums of all artefacts.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::Outcome;
use matrix::workspace::{cargo, first_line, root, run_shown};

/// Names of the places; paths of different lengths, since a length can be in a file, too.
const PLACES: [&str; 2] = ["first", "another/place"];

pub(super) fn run() -> Result<Outcome> {
    let Some(commit) = first_line("git", &["rev-parse", "HEAD"]) else {
        return Ok(Outcome::Skipped("needs a repository: what is built is its last commit".to_owned()));
    };
    let directory = tempfile::tempdir().context("temporary directory")?;
    let [first, second] = PLACES.map(|place| build(&directory.path().join(place), &commit));
    let (first, second) = (first?, second?);
    ensure!(first == second, "the artefacts differ:\n{first}\n{second}");
    print!("{first}");
    Ok(Outcome::Passed)
}

/// Returns the checksums of a release that is built from a copy of the tree.
fn build(place: &Path, commit: &str) -> Result<String> {
    fs::create_dir_all(place).with_context(|| place.display().to_string())?;
    let tree = place.join("tree");
    run_shown(Command::new("git").args(["clone", "--quiet", "--shared"]).arg(root()).arg(&tree))?;
    run_shown(Command::new("git").args(["checkout", "--quiet", commit]).current_dir(&tree))?;
    let (out, target) = (place.join("out"), place.join("target"));
    let mut dist = cargo();
    dist.args(["run", "--package", "xtask", "--", "dist", "--out"]).arg(&out);
    run_shown(dist.current_dir(&tree).env("CARGO_TARGET_DIR", &target))?;
    // It takes as much space as the second build will.
    fs::remove_dir_all(&target).with_context(|| target.display().to_string())?;
    let sums = out.join("SHA256SUMS");
    fs::read_to_string(&sums).with_context(|| sums.display().to_string())
}
