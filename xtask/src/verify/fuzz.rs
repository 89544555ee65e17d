//! Every fuzz target for a while, from its seeds and what this machine has collected.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use super::{Outcome, tools};
use matrix::workspace::{cargo, root, run_shown};

pub(super) fn run(each: Duration) -> Result<Outcome> {
    if !tools::is_installed("cargo-fuzz") {
        return Ok(Outcome::Skipped("cargo-fuzz is not installed (cargo install --locked cargo-fuzz)".to_owned()));
    }
    let fuzz = root().join("fuzz");
    let targets = targets(&fuzz.join("fuzz_targets"))?;
    if targets.is_empty() {
        bail!("no fuzz targets");
    }
    let mut failed = Vec::new();
    for target in targets {
        let corpus = fuzz.join("corpus").join(&target);
        std::fs::create_dir_all(&corpus).with_context(|| corpus.display().to_string())?;
        println!("verify: fuzz: {target}");
        let mut command = cargo();
        command.args(["fuzz", "run", &target]).arg(&corpus).arg(fuzz.join("seeds").join(&target));
        command.arg("--").arg(format!("-max_total_time={}", each.as_secs())).arg("-print_final_stats=1");
        if let Err(error) = run_shown(command.env("RUSTC_BOOTSTRAP", "1")) {
            println!("verify: fuzz: {target}: {error:#}");
            failed.push(target);
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join(", "));
    Ok(Outcome::Passed)
}

/// Their names, which are those of the files.
fn targets(directory: &Path) -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for file in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = file?.path();
        if let Some(name) = path.file_stem().filter(|_| path.extension().is_some_and(|extension| extension == "rs")) {
            targets.push(name.to_string_lossy().into_owned());
        }
    }
    targets.sort();
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target without a seed, an entry in its manifest or a test on its seeds would be left out in silence.
    #[test]
    fn every_target_has_seeds_and_is_built_and_tested() {
        let fuzz = root().join("fuzz");
        let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
        let laws = std::fs::read_to_string(root().join("crates/fuzz-laws/src/lib.rs")).unwrap();
        for target in targets(&fuzz.join("fuzz_targets")).unwrap() {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
            assert!(laws.contains(&format!("(\"{target}\", super::{target}),")), "{target}");
            assert!(std::fs::read_dir(fuzz.join("seeds").join(&target)).unwrap().next().is_some(), "{target}");
        }
    }
}
