//! The workspace: its directory, its packages, and its commands.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The part of `cargo metadata --no-deps` that is used here.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
    pub target_directory: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
pub struct Package {
    pub name: String,
    /// Name that is unambiguous for `--package`.
    pub id: String,
    pub dependencies: Vec<Dependency>,
    pub targets: Vec<Target>,
}

impl Package {
    /// True if it has a program.
    pub fn has_program(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "bin"))
    }
}

#[derive(Debug, Default, Deserialize)]
pub struct Target {
    #[serde(default)]
    pub name: String,
    pub kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None` is a normal dependency, otherwise `dev` or `build`.
    pub kind: Option<String>,
}

/// The workspace's root directory: two above this crate's.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Directory of runs, gates and calibrations that were told no other.
pub(crate) fn results() -> PathBuf {
    root().join("bench-results")
}

pub fn metadata() -> Result<Metadata> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata: unexpected output")
}

/// Cargo itself, in the workspace's root, as a shell would start it.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // `cargo run` and `cargo test` describe our package in variables that build scripts watch (ring's does): the cargo
    // below them would run those scripts anew, and compile whatever depends on them.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_a_package) {
            command.env_remove(name);
        }
    }
    command
}

/// True of the variables that cargo sets for what it builds and runs; those with which its user configures it stay.
fn describes_a_package(variable: &str) -> bool {
    const PREFIXES: [&str; 5] = ["CARGO_BIN_", "CARGO_CFG_", "CARGO_FEATURE_", "CARGO_MANIFEST_", "CARGO_PKG_"];
    ["CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "CARGO_RUSTC_CURRENT_DIR", "OUT_DIR"].contains(&variable)
        || PREFIXES.iter().any(|prefix| variable.starts_with(prefix))
}

/// Runs a command with its output shown; its failure is ours.
pub fn run_shown(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let status = command.status().with_context(|| format!("{program} {}", words.join(" ")))?;
    if !status.success() {
        bail!("{program} {}: {status}", words.join(" "));
    }
    Ok(())
}

/// First line of what a command prints, trimmed; `None` when it fails or says nothing.
pub fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).current_dir(root()).stdin(Stdio::null()).output().ok()?;
    let stream = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let text = String::from_utf8_lossy(&stream);
    text.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

/// Returns the time, RFC 3339, UTC, to the second.
pub(crate) fn now_utc() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Returns a path as the user would type it: relative to the current directory where it is below it.
pub(crate) fn shown_path(path: &Path) -> String {
    let relative = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf));
    relative.as_deref().unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cargo_below_cargo_has_the_environment_of_a_shell() {
        // This test is run by cargo.
        let ours = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let ours: Vec<String> = ours.filter(|name| describes_a_package(name)).collect();
        assert!(ours.iter().any(|name| name == "CARGO_PKG_NAME"), "{ours:?}");
        let command = cargo();
        let removed = |name: &str| command.get_envs().any(|(key, value)| key == name && value.is_none());
        assert!(ours.iter().all(|name| removed(name)), "{ours:?}");
        for configured in ["CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "CARGO_NET_OFFLINE", "RUSTFLAGS"] {
            assert!(!describes_a_package(configured), "{configured}");
        }
    }
}
