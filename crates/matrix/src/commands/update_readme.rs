//! `bench-matrix update-readme`: a stored run as pictures and tables in the README.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use report::readme;
use results::Report;

use crate::{plan::subjects::known_workloads, usage, workspace};

const RESULTS: &str = "bench-results";
const SUMMARY: &str = "summary.json";

/// Writes the run in the directory `run`, by default the newest below `bench-results`.
pub(crate) fn run(run: Option<&Path>) -> Result<ExitCode> {
    let root = workspace::root();
    let run = match run {
        Some(run) => run.to_path_buf(),
        None => newest(&root.join(RESULTS))?,
    };
    let path = run.join(SUMMARY);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let report: Report = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    let refused = report.matrices.iter().find_map(|summary| Some((summary, readme::why_not(summary)?)));
    if let Some((summary, why)) = refused {
        return Err(usage(format!("{}: {why}", summary.setup.server)));
    }
    for changed in readme::write(&report, &root, known_workloads)? {
        println!("written: {}", changed.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the run with the last name: directories are named by the time of their run.
fn newest(results: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(results).with_context(|| format!("{}", results.display()))?;
    let runs = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.join(SUMMARY).is_file());
    runs.max().with_context(|| format!("{}: no run", results.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_run_is_the_last_by_name() {
        let root = tempfile::tempdir().unwrap();
        for name in ["20260101T000000Z-a", "20260301T000000Z-b", "20260401T000000Z-empty"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        assert!(newest(root.path()).is_err());
        for name in ["20260101T000000Z-a", "20260301T000000Z-b"] {
            fs::write(root.path().join(name).join(SUMMARY), "{}").unwrap();
        }
        assert!(newest(root.path()).unwrap().ends_with("20260301T000000Z-b"));
    }

    /// CI's check of the published figures: that each has its place, and a full run finds all of them.
    #[test]
    fn the_markers_of_the_readme_are_those_of_all_servers() {
        let text = fs::read_to_string(workspace::root().join("README.md")).unwrap();
        let parts = readme::markers::parts(&text).unwrap();
        let mut named: Vec<&str> =
            parts.iter().map(|part| part.name.strip_prefix("bench-").expect("a part is called bench-SERVER")).collect();
        let mut servers = crate::plan::subjects::names();
        servers.sort_unstable();
        named.sort_unstable();
        named.dedup();
        assert_eq!(named, servers);
    }
}
