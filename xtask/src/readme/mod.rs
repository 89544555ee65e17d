//! `bench-matrix update-readme`: a stored run as pictures and tables in the README, between the markers of each server.

mod markers;
mod selection;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};

use self::selection::Selection;
use crate::{
    matrix::model::{RELEASE, Report, SCHEMA, Summary},
    report, usage, workspace,
};

const README: &str = "README.md";
/// Beside the README, where the pictures are.
const IMAGES: &str = "docs/images";
const RESULTS: &str = "bench-results";
const SUMMARY: &str = "summary.json";

/// `run`: the directory of a run, by default the newest below `bench-results`.
pub(crate) fn update(run: Option<&Path>) -> Result<ExitCode> {
    let root = workspace::root();
    let run = match run {
        Some(run) => run.to_path_buf(),
        None => newest(&root.join(RESULTS))?,
    };
    let path = run.join(SUMMARY);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let report: Report = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    for changed in write(&report, &root)? {
        println!("written: {}", changed.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Directories are named by the time of their run.
fn newest(results: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(results).with_context(|| format!("{}", results.display()))?;
    let runs = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.join(SUMMARY).is_file());
    runs.max().with_context(|| format!("{}: no run", results.display()))
}

/// Writes the pictures and the README below `root`; nothing at all if something is wrong. The paths of what changed.
fn write(report: &Report, root: &Path) -> Result<Vec<PathBuf>> {
    if report.schema != SCHEMA {
        bail!("schema {}, not {SCHEMA}", report.schema);
    }
    let readme = root.join(README);
    let mut text = fs::read_to_string(&readme).with_context(|| format!("{}", readme.display()))?;
    let mut files = Vec::new();
    for summary in &report.matrices {
        check(summary)?;
        let (picture, selection) = (picture(summary), Selection::of(summary));
        text = markers::replaced(&text, &part(summary), &table::part(&selection, &picture))
            .with_context(|| readme.display().to_string())?;
        files.push((root.join(picture), report::picture(&selection.summary)));
    }
    files.push((readme, text));
    let mut changed = Vec::new();
    for (path, text) in files {
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
        changed.push(path);
    }
    Ok(changed)
}

/// Fewer blocks give no interval worth printing.
const BLOCKS_MIN: u32 = 3;

/// Only what may be quoted is published.
fn check(summary: &Summary) -> Result<()> {
    let setup = &summary.setup;
    let why = match summary {
        _ if setup.quick => "a quick run does not rank",
        _ if summary.progress.is_partial => "the run is unfinished",
        _ if setup.blocks < BLOCKS_MIN => "fewer than three blocks tell no noise",
        _ if setup.profile != RELEASE => "what was measured was not optimised",
        _ if setup.pinning.shared => "server and generator shared a core",
        _ => return Ok(()),
    };
    Err(usage(format!("{}: {why}", setup.server)))
}

/// The name of the markers.
fn part(summary: &Summary) -> String {
    format!("bench-{}", summary.setup.server)
}

fn picture(summary: &Summary) -> String {
    format!("{IMAGES}/bench-{}.svg", summary.setup.server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{matrix::model::Progress, report::sample};

    fn site(servers: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(IMAGES)).unwrap();
        let parts = servers.iter().map(|name| format!("<!-- bench-{name}:begin -->\nold\n<!-- bench-{name}:end -->\n"));
        let text = format!("# Title\n\n{}\nWritten by hand.\n", parts.collect::<String>());
        fs::write(root.path().join(README), text).unwrap();
        root
    }

    fn report(matrices: Vec<Summary>) -> Report {
        Report { schema: SCHEMA.to_owned(), matrices }
    }

    fn two() -> Report {
        report(vec![sample::summary(), sample::cache()])
    }

    #[test]
    fn every_server_of_the_run_gets_its_picture_and_table_and_the_second_time_changes_nothing() {
        let root = site(&["http-server", "kvcache"]);
        let changed = write(&two(), root.path()).unwrap();
        assert_eq!(changed.len(), 3, "{changed:?}");
        let text = fs::read_to_string(root.path().join(README)).unwrap().replace('\u{a0}', " ");
        assert!(!text.contains("old") && text.ends_with("\nWritten by hand.\n"), "{text}");
        for server in ["http-server", "kvcache"] {
            let path = format!("docs/images/bench-{server}.svg");
            assert!(text.contains(&path) && root.path().join(&path).is_file(), "{path}");
        }
        for word in
            ["cargo xtask bench-matrix --seed 42 --blocks 7", "2020-01-01", "±1.3 %", "Sample CPU", "Linux 6.18.0"]
        {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(write(&two(), root.path()).unwrap().is_empty(), "twice is once");
    }

    #[test]
    fn servers_that_were_not_measured_keep_their_part() {
        let root = site(&["http-server", "kvcache"]);
        write(&report(vec![sample::cache()]), root.path()).unwrap();
        let text = fs::read_to_string(root.path().join(README)).unwrap();
        assert!(text.contains("<!-- bench-http-server:begin -->\nold\n"), "{text}");
    }

    #[test]
    fn what_may_not_be_quoted_is_refused_and_nothing_is_written() {
        let mut partial = sample::summary();
        partial.progress = Progress { is_partial: true, ..partial.progress };
        let mut shared = sample::summary();
        shared.setup.pinning.shared = true;
        let mut debug = sample::summary();
        debug.setup.profile = "dev".to_owned();
        let mut short = sample::summary();
        short.setup.blocks = 2;
        for summary in [sample::quick(), partial, shared, debug, short] {
            let root = site(&["http-server", "kvcache"]);
            let before = fs::read_to_string(root.path().join(README)).unwrap();
            assert!(write(&report(vec![sample::cache(), summary]), root.path()).is_err());
            assert_eq!(fs::read_to_string(root.path().join(README)).unwrap(), before);
            assert_eq!(fs::read_dir(root.path().join(IMAGES)).unwrap().count(), 0);
        }
        let root = site(&["kvcache"]);
        let error = format!("{:#}", write(&two(), root.path()).unwrap_err());
        assert!(error.contains("bench-http-server:begin"), "{error}");
    }

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

    /// What CI checks of the published figures: that each has its place, and a full run finds all of them.
    #[test]
    fn the_markers_of_the_readme_are_those_of_all_servers() {
        let text = fs::read_to_string(workspace::root().join(README)).unwrap();
        let parts = markers::parts(&text).unwrap();
        let mut named: Vec<&str> =
            parts.iter().map(|part| part.name.strip_prefix("bench-").expect("a part is called bench-SERVER")).collect();
        let mut servers: Vec<&str> = crate::matrix::servers().into_iter().collect();
        named.sort_unstable();
        servers.sort_unstable();
        assert_eq!(named, servers);
    }
}
