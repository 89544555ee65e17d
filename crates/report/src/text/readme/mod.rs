//! Figures in the README: a stored run as pictures and tables in the README, between the markers of each server.

pub mod markers;
mod selection;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use results::{Report, SCHEMA, Summary, Unranked};

pub use self::selection::KnownWorkload;
use self::selection::Selection;

const README: &str = "README.md";
/// Directory of the pictures, from the README.
const IMAGES: &str = "docs/images";

/// Writes the pictures and the README below `root`, and returns the paths that changed; writes nothing at all if
/// something is wrong.
/// `workloads` lists those that there are for a server, by its name.
///
/// # Errors
/// Another schema, a run that may not be [quoted](why_not), a README without markers, and those of the file system.
pub fn write(report: &Report, root: &Path, workloads: impl Fn(&str) -> Vec<KnownWorkload>) -> Result<Vec<PathBuf>> {
    if report.schema != SCHEMA {
        bail!("schema {}, not {SCHEMA}", report.schema);
    }
    let readme = root.join(README);
    let mut text = fs::read_to_string(&readme).with_context(|| format!("{}", readme.display()))?;
    let mut files = Vec::new();
    for summary in &report.matrices {
        if let Some(why) = why_not(summary) {
            bail!("{}: {why}", summary.setup.server);
        }
        let (picture, selection) = (picture(summary), Selection::of(summary, &workloads(&summary.setup.server)));
        text = markers::replaced(&text, &part(summary), &table::part(&selection, &picture))
            .with_context(|| readme.display().to_string())?;
        files.push((root.join(picture), crate::picture(&selection.summary)));
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

/// Reason why a matrix may not be quoted, if there is one.
pub fn why_not(summary: &Summary) -> Option<&'static str> {
    let partial = summary.progress.is_partial.then_some("the run is unfinished");
    summary.why_unranked().map(Unranked::reason).or(partial)
}

/// Name in the markers.
fn part(summary: &Summary) -> String {
    format!("bench-{}", summary.setup.server)
}

fn picture(summary: &Summary) -> String {
    format!("{IMAGES}/bench-{}.svg", summary.setup.server)
}

#[cfg(test)]
mod tests {
    use results::Progress;

    use super::*;
    use crate::sample;

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

    fn no_workloads(_server: &str) -> Vec<KnownWorkload> {
        Vec::new()
    }

    fn two() -> Report {
        report(vec![sample::summary(), sample::cache()])
    }

    #[test]
    fn every_server_gets_its_part_and_twice_is_once() {
        let root = site(&["http-server", "kvcache"]);
        let changed = write(&two(), root.path(), no_workloads).unwrap();
        assert_eq!(changed.len(), 3, "{changed:?}");
        let text = fs::read_to_string(root.path().join(README)).unwrap().replace('\u{a0}', " ");
        assert!(!text.contains("old") && text.ends_with("\nWritten by hand.\n"), "{text}");
        for server in ["http-server", "kvcache"] {
            let path = format!("docs/images/bench-{server}.svg");
            assert!(text.contains(&path) && root.path().join(&path).is_file(), "{path}");
        }
        for word in
            ["cargo xtask bench-matrix --seed 42 --blocks 7", "2020-01-01", "1.013×", "Sample CPU", "Linux 6.18.0"]
        {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(write(&two(), root.path(), no_workloads).unwrap().is_empty(), "twice is once");
    }

    #[test]
    fn servers_that_were_not_measured_keep_their_part() {
        let root = site(&["http-server", "kvcache"]);
        write(&report(vec![sample::cache()]), root.path(), no_workloads).unwrap();
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
            assert!(write(&report(vec![sample::cache(), summary]), root.path(), no_workloads).is_err());
            assert_eq!(fs::read_to_string(root.path().join(README)).unwrap(), before);
            assert_eq!(fs::read_dir(root.path().join(IMAGES)).unwrap().count(), 0);
        }
        let root = site(&["kvcache"]);
        let error = format!("{:#}", write(&two(), root.path(), no_workloads).unwrap_err());
        assert!(error.contains("bench-http-server:begin"), "{error}");
    }
}
