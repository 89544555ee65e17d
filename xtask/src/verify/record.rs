//! Record of a run of all steps, so that one that was stopped goes on where it was: a file in `target/verify`, which is removed when
//! nothing is left to do.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use matrix::workspace::first_line;

/// Steps of a run that have passed, with the seconds that they took.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Record {
    /// Sources and options of the run: what has passed with others does not count.
    subject: String,
    passed: BTreeMap<String, f64>,
    #[serde(skip)]
    path: PathBuf,
}

impl Record {
    /// Opens the record of a run that was stopped, or begins a new one. `None`: the sources have no name, without a repository.
    pub(super) fn open(path: PathBuf, options: &str) -> Option<Self> {
        let subject = subject(options)?;
        let stopped = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let passed = stopped.filter(|stopped| stopped.subject == subject).map(|stopped| stopped.passed);
        Some(Self { subject, passed: passed.unwrap_or_default(), path })
    }

    /// Returns the seconds of a step that has passed before.
    pub(super) fn seconds_of(&self, step: &str) -> Option<f64> {
        self.passed.get(step).copied()
    }

    /// Notes that a step has passed.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(super) fn note(&mut self, step: &str, seconds: f64) -> Result<()> {
        self.passed.insert(step.to_owned(), seconds);
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        let bytes = serde_json::to_vec_pretty(self)?;
        // As a whole or not at all, whenever it is stopped.
        let next = self.path.with_extension("next");
        fs::write(&next, bytes)
            .and_then(|()| fs::rename(&next, &self.path))
            .with_context(|| self.path.display().to_string())
    }

    /// Forgets the run: it has come to its end.
    pub(super) fn remove(self) {
        Self::forget(&self.path);
    }

    /// Removes the record of a run that was stopped.
    pub(super) fn forget(path: &Path) {
        let _ = fs::remove_file(path); // There is none where nothing has passed.
    }
}

/// Returns the name of the sources, changes that are not committed included, and of the options.
fn subject(options: &str) -> Option<String> {
    let commit = first_line("git", &["rev-parse", "HEAD"])?;
    let run = |args: &[&str]| {
        let output =
            std::process::Command::new("git").args(args).current_dir(matrix::workspace::root()).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let mut changes = Sha256::new();
    changes.update(run(&["diff", "HEAD"])?);
    changes.update(run(&["status", "--porcelain"])?);
    let changes: String = changes.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{commit} {changes} {options}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_counts_until_the_run_ends_or_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("verify/run.json");
        let mut record = Record::open(path.clone(), "options").unwrap();
        assert_eq!(record.seconds_of("fuzz"), None);
        record.note("fuzz", 1.5).unwrap();
        let again = Record::open(path.clone(), "options").unwrap();
        assert_eq!((again.seconds_of("fuzz"), again.seconds_of("thread")), (Some(1.5), None));
        assert_eq!(Record::open(path.clone(), "others").unwrap().seconds_of("fuzz"), None);
        again.remove();
        assert_eq!(Record::open(path.clone(), "options").unwrap().seconds_of("fuzz"), None);
        fs::write(&path, "half a rec").unwrap();
        assert_eq!(Record::open(path, "options").unwrap().seconds_of("fuzz"), None);
    }
}
