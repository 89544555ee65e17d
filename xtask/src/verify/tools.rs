//! Programs that verification needs and the workspace does not.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use matrix::workspace::{cargo, metadata, root, run_shown};

/// Returns the directory in which what only verification needs is built: `target/verify`.
pub(super) fn directory() -> Result<PathBuf> {
    Ok(metadata()?.target_directory.join("verify"))
}

/// Profile of a build.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    Dev,
    Release,
}

/// Builds programs of the workspace, and returns the directory that they are in.
pub(super) fn build<'a>(profile: Profile, programs: impl IntoIterator<Item = &'a str>) -> Result<PathBuf> {
    build_for(None, profile, programs)
}

/// The same, for a target of rustc's.
pub(super) fn build_for<'a>(
    target: Option<&str>,
    profile: Profile,
    programs: impl IntoIterator<Item = &'a str>,
) -> Result<PathBuf> {
    let (name, directory) = match profile {
        Profile::Dev => ("dev", "debug"),
        Profile::Release => ("release", "release"),
    };
    let bins = programs.into_iter().flat_map(|program| ["--bin", program]);
    let mut command = cargo();
    command.args(["build", "--workspace", "--profile", name]).args(bins).current_dir(root());
    run_shown(command.args(target.iter().flat_map(|target| ["--target", target])))?;
    Ok(metadata()?.target_directory.join(target.unwrap_or_default()).join(directory))
}

/// True if a program answers at all.
pub(crate) fn is_installed(program: &str) -> bool {
    let mut probe = Command::new(program);
    probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// Returns the directory of the runner of the version that the benches are built with: it refuses any other. Installed when it is missing.
pub(super) fn gungraun_runner() -> Result<PathBuf> {
    let version = locked_version("gungraun")?;
    let root = directory()?.join(format!("gungraun-{version}"));
    let directory = root.join("bin");
    if !directory.join("gungraun-runner").is_file() {
        // It starts valgrind and adds up: a debug build will do, and is there three times sooner.
        let install = ["install", "--debug", "--locked", "--version", &version, "gungraun-runner", "--root"];
        run_shown(cargo().args(install).arg(&root).env("CARGO_TARGET_DIR", root.join("build")))?;
    }
    Ok(directory)
}

/// The version of a package in Cargo.lock.
fn locked_version(package: &str) -> Result<String> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?;
    version_in(&lock, package).with_context(|| format!("Cargo.lock: no {package}"))
}

fn version_in(lock: &str, package: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"').map(str::to_owned)
}

/// True if there is what `-Zbuild-std` compiles.
pub(super) fn has_standard_library_sources() -> Result<bool> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("rustc")?;
    let sysroot = String::from_utf8(output.stdout).context("rustc --print sysroot")?;
    Ok(PathBuf::from(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.lock").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_that_of_the_package_asked_for() {
        let lock = "[[package]]\nname = \"gungraun\"\nversion = \"0.20.0\"\n\n[[package]]\nname = \"gungraun-macros\"\nversion = \"1.0.0\"\n";
        assert_eq!(version_in(lock, "gungraun").as_deref(), Some("0.20.0"));
        assert_eq!(version_in(lock, "gungraun-macros").as_deref(), Some("1.0.0"));
        assert_eq!(version_in(lock, "gun"), None);
    }

    #[test]
    fn the_runner_s_version_is_known() {
        assert!(locked_version("gungraun").unwrap().starts_with("0."));
    }
}
