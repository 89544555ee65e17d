//! `cargo xtask tidy`: the fences of ARCHITECTURE.md, as far as a machine can see them.

mod dependencies;
#[cfg(test)]
mod drivers_table;
mod features;
mod source;
mod sources;

use std::{
    fmt,
    process::{ExitCode, Stdio},
};

use anyhow::{Context, Result, bail};

use self::source::SourceFile;
use matrix::workspace::{self, root};

/// One breach of one rule.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Violation {
    path: String,
    /// From 1; 0 when it concerns the whole file.
    line: usize,
    message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "{}: {}", self.path, self.message),
            line => write!(formatter, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Rules that look at one Rust file.
const SOURCE_RULES: [fn(&SourceFile) -> Vec<Violation>; 4] = [
    sources::unsafe_stays_in_its_rooms,
    sources::crate_roots_forbid_unsafe,
    sources::pure_crates_touch_nothing,
    sources::files_stay_short,
];

pub(crate) fn run() -> Result<ExitCode> {
    let violations = check()?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    if violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("tidy: {} found", violations.len())
}

/// All violations in the files of the repository and the crates' dependencies.
fn check() -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for path in repository_files()? {
        let bytes = match std::fs::read(root().join(&path)) {
            Ok(bytes) => bytes,
            // Deleted and not yet committed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| path.clone()),
        };
        // Pictures and fonts are not text.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        violations.extend(sources::no_paths_of_a_machine(&path, &text));
        if path.ends_with(".rs") {
            let file = SourceFile::new(&path, &text);
            violations.extend(SOURCE_RULES.iter().flat_map(|rule| rule(&file)));
        }
    }
    let packages = workspace::metadata()?.packages;
    violations.extend(dependencies::point_one_way(&packages));
    violations.extend(features::every_package_shares_them(&packages));
    violations.extend(features::programs_compile_nothing_else(&packages)?);
    Ok(violations)
}

/// Tracked files and new ones that are not ignored, relative to the root.
fn repository_files() -> Result<Vec<String>> {
    let output = std::process::Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("git ls-files")?;
    if !output.status.success() {
        bail!("git ls-files: {}", output.status);
    }
    let names = String::from_utf8(output.stdout).context("git ls-files: a file name is not UTF-8")?;
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}
