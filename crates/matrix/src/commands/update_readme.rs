//! `bench-matrix update-readme`: a stored run as pictures and tables on the results pages that the README links.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use report::results_pages;
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
    let refused = report.matrices.iter().find_map(|summary| Some((summary, results_pages::why_not(summary)?)));
    if let Some((summary, why)) = refused {
        return Err(usage(format!("{}: {why}", summary.setup.server)));
    }
    for changed in results_pages::write(&report, &root, known_workloads)? {
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
    use crate::plan::presets::Preset;

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

    /// The servers that a preset measures.
    fn servers_of(preset: &str) -> impl Iterator<Item = &'static str> {
        let preset = Preset::named(preset).unwrap();
        servers::all().iter().map(|server| server.name.as_str()).filter(|server| preset.part(server).is_some())
    }

    #[test]
    fn every_results_page_is_of_a_server_or_a_preset_and_in_the_index() {
        let directory = workspace::root().join("docs/results");
        let index = fs::read_to_string(directory.join("README.md")).unwrap();
        let pages = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        let is_of_server = |path: &PathBuf| {
            let is_page = path.extension().is_some_and(|it| it == "md");
            is_page && !path.ends_with("README.md") && !path.ends_with(results_pages::COUNTERPARTS)
        };
        for path in pages.filter(is_of_server) {
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(index.contains(&format!("({name}.md)")), "docs/results/README.md has no link to {name}");
            let parts = results_pages::markers::parts(&fs::read_to_string(&path).unwrap()).unwrap();
            let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
            let expected = match servers::named(name) {
                Some(_) => vec![results_pages::part(name)],
                None => servers_of(name).map(|server| results_pages::part_of_preset(name, server)).collect(),
            };
            assert_eq!(names, expected, "{}", path.display());
        }
    }
}
