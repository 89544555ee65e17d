//! Published figures: a stored run as a picture and a table on the results page of each server, or of its preset, between
//! markers.

pub mod markers;
mod preset_page;
mod selection;
mod table;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use results::{Report, SCHEMA, Summary, Unranked};

pub use self::selection::KnownWorkload;
use self::selection::Selection;
use super::counterparts::has_counterparts;

/// Directory of the pages, a file for each server.
const PAGES: &str = "docs/results";
/// Page of the runs that have workloads and [counterparts](results::Workload::counterpart), of all servers.
pub const COUNTERPARTS: &str = "tls.md";
/// Directory of the pictures, and its name on a page.
const IMAGES: &str = "docs/images";
const IMAGES_OF_A_PAGE: &str = "../images";

/// Writes the pictures and pages of a run below `root`, and returns the paths that changed; writes nothing at all if
/// something is wrong. What people wrote outside the markers of a page stays; a server without a page gets one.
/// `workloads` lists those that there are for a server, by its name.
///
/// # Errors
/// Another schema, a run that may not be [quoted](why_not), a page without markers, and those of the file system.
pub fn write(report: &Report, root: &Path, workloads: impl Fn(&str) -> Vec<KnownWorkload>) -> Result<Vec<PathBuf>> {
    if report.schema != SCHEMA {
        bail!("schema {}, not {SCHEMA}", report.schema);
    }
    let mut files = Vec::new();
    for summary in &report.matrices {
        let server = &summary.setup.server;
        if let Some(why) = why_not(summary) {
            bail!("{server}: {why}");
        }
        let shared = match preset_page::preset(&summary.setup.command) {
            None | Some("tls" | "h2") if has_counterparts(summary) => Some((
                root.join(PAGES).join(COUNTERPARTS),
                part_of_counterparts(server),
                table::part_of_counterparts(summary),
            )),
            Some(preset) => {
                let part = part_of_preset(preset, server);
                let selection = Selection::of(summary, &workloads(server));
                let picture = preset_page::has_picture(summary).then(|| format!("{part}.svg"));
                let path = picture.as_ref().map(|picture| format!("{IMAGES_OF_A_PAGE}/{picture}"));
                let content = preset_page::part(summary, path.as_deref());
                files.extend(picture.map(|name| (root.join(IMAGES).join(name), crate::picture(&selection.summary))));
                Some((page(root, preset), part, content))
            }
            None => None,
        };
        if let Some((path, part, content)) = shared {
            let place = files.iter().position(|(other, _)| *other == path);
            let text = match place {
                Some(place) => files.remove(place).1,
                None => fs::read_to_string(&path).with_context(|| path.display().to_string())?,
            };
            let text = markers::replaced(&text, &part, &content);
            files.push((path.clone(), text.with_context(|| path.display().to_string())?));
            continue;
        }
        let path = page(root, server);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => empty_page(server),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let (picture, selection) = (format!("bench-{server}.svg"), Selection::of(summary, &workloads(server)));
        let content = table::part(&selection, &format!("{IMAGES_OF_A_PAGE}/{picture}"));
        let text = markers::replaced(&text, &part(server), &content).with_context(|| path.display().to_string())?;
        files.push((path, text));
        files.push((root.join(IMAGES).join(picture), crate::picture(&selection.summary)));
    }
    let mut changed = Vec::new();
    for (path, text) in files {
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
        changed.push(path);
    }
    Ok(changed)
}

/// Reason why a matrix may not be quoted, if there is one.
pub fn why_not(summary: &Summary) -> Option<&'static str> {
    let partial = summary.progress.is_partial.then_some("the run is unfinished");
    let unranked = summary.why_unranked().or_else(|| summary.setup.quick.then_some(Unranked::Quick));
    unranked.map(Unranked::reason).or(partial)
}

/// Returns the path of the page of a server, or of a preset.
pub fn page(root: &Path, name: &str) -> PathBuf {
    root.join(PAGES).join(format!("{name}.md"))
}

/// Returns the name of a server in the markers of its page.
pub fn part(server: &str) -> String {
    format!("bench-{server}")
}

/// Returns the name of a server in the markers of the page of [`COUNTERPARTS`].
pub fn part_of_counterparts(server: &str) -> String {
    format!("bench-tls-{server}")
}

/// Returns the name of a server in the markers of the page of a preset.
pub fn part_of_preset(preset: &str, server: &str) -> String {
    format!("bench-{preset}-{server}")
}

fn empty_page(server: &str) -> String {
    let part = part(server);
    format!("# {server}, measured\n\n<!-- {part}:begin -->\n<!-- {part}:end -->\n")
}

#[cfg(test)]
mod tests {
    use results::Progress;

    use super::*;
    use crate::sample;

    const REMARK: &str = "\nWritten by hand.\n";

    /// A place with an old page of each of the servers.
    fn site(servers: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(PAGES)).unwrap();
        for server in servers {
            fs::write(page(root.path(), server), empty_page(server).replace("begin -->", "begin -->\nold") + REMARK)
                .unwrap();
        }
        root
    }

    fn read(root: &tempfile::TempDir, server: &str) -> String {
        fs::read_to_string(page(root.path(), server)).unwrap().replace('\u{a0}', " ")
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
    fn every_server_gets_its_page_and_twice_is_once() {
        let root = site(&["http-server"]);
        let changed = write(&two(), root.path(), no_workloads).unwrap();
        assert_eq!(changed.len(), 4, "{changed:?}");
        for server in ["http-server", "kvcache"] {
            let text = read(&root, server);
            assert!(text.starts_with(&format!("# {server}, measured\n")) && !text.contains("old"), "{text}");
            assert!(text.contains(&format!("](../images/bench-{server}.svg)")), "{text}");
            assert!(root.path().join(format!("docs/images/bench-{server}.svg")).is_file());
        }
        let text = read(&root, "http-server");
        assert!(text.ends_with(REMARK), "{text}");
        for word in
            ["cargo xtask bench-matrix --seed 42 --blocks 7", "2020-01-01", "1.013×", "Sample CPU", "Linux 6.18.0"]
        {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(write(&two(), root.path(), no_workloads).unwrap().is_empty(), "twice is once");
    }

    #[test]
    fn what_tls_adds_has_a_page_of_all_servers() {
        let mut matrices = vec![sample::summary(), sample::cache()];
        for summary in &mut matrices {
            summary.setup.workloads[1].counterpart = Some(summary.setup.workloads[0].name.clone());
        }
        let wide = &mut matrices[0].noise[0];
        (wide.cpu_floor_percent, wide.elapsed_s) = (10.0, 60.0);
        let root = site(&["http-server"]);
        let path = root.path().join(PAGES).join(COUNTERPARTS);
        let empty = |server| format!("<!-- {0}:begin -->\n<!-- {0}:end -->\n", part_of_counterparts(server));
        fs::write(&path, format!("# By hand\n\n{}\n{}", empty("http-server"), empty("kvcache"))).unwrap();
        let before = read(&root, "http-server");
        let changed = write(&report(matrices.clone()), root.path(), no_workloads).unwrap();
        assert_eq!(changed, std::slice::from_ref(&path));
        let text = fs::read_to_string(&path).unwrap();
        for words in ["# By hand\n", "## http-server\n", "## kvcache\n", "commit ", "--seed 42"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        let floors =
            text.replace('\u{a0}', " ").matches("A noise floor of 1.050× would have taken about 4 min").count();
        assert_eq!(floors, 1, "of the server whose floor is wide, and of no other: {text}");
        assert_eq!(read(&root, "http-server"), before, "the page of the server is about other runs");
        assert!(write(&report(matrices), root.path(), no_workloads).unwrap().is_empty(), "twice is once");
    }

    #[test]
    fn a_preset_has_a_page_of_its_own() {
        let mut matrices = vec![sample::summary(), sample::cache()];
        for summary in &mut matrices {
            summary.setup.command = "cargo xtask bench-matrix --preset drivers --blocks 7".to_owned();
        }
        let root = site(&["http-server"]);
        let before = read(&root, "http-server");
        let path = page(root.path(), "drivers");
        let error = format!("{:#}", write(&report(matrices.clone()), root.path(), no_workloads).unwrap_err());
        assert!(error.contains("drivers.md"), "a page has an introduction, which somebody has to write: {error}");
        let empty = |server| format!("<!-- {0}:begin -->\n<!-- {0}:end -->\n", part_of_preset("drivers", server));
        fs::write(&path, format!("# By hand\n\n{}\n{}", empty("http-server"), empty("kvcache"))).unwrap();
        let changed = write(&report(matrices.clone()), root.path(), no_workloads).unwrap();
        assert_eq!((changed.len(), changed.contains(&path)), (3, true), "the page and two pictures: {changed:?}");
        let text = fs::read_to_string(&path).unwrap();
        for words in [
            "# By hand\n",
            "## http-server\n",
            "## kvcache\n",
            "--preset drivers",
            "(../images/bench-drivers-kvcache.svg)",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert_eq!(read(&root, "http-server"), before, "the page of the server is about other runs");
        assert!(write(&report(matrices), root.path(), no_workloads).unwrap().is_empty(), "twice is once");
    }

    #[test]
    fn servers_that_were_not_measured_keep_their_page() {
        let root = site(&["http-server", "kvcache"]);
        let before = read(&root, "http-server");
        write(&report(vec![sample::cache()]), root.path(), no_workloads).unwrap();
        assert_eq!(read(&root, "http-server"), before);
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
            let before = read(&root, "kvcache");
            assert!(write(&report(vec![sample::cache(), summary]), root.path(), no_workloads).is_err());
            assert_eq!(read(&root, "kvcache"), before);
            assert!(!root.path().join(IMAGES).exists());
        }
        let root = site(&["kvcache"]);
        fs::write(page(root.path(), "http-server"), "# A page without markers\n").unwrap();
        let error = format!("{:#}", write(&two(), root.path(), no_workloads).unwrap_err());
        assert!(error.contains("bench-http-server:begin") && read(&root, "kvcache").contains("old"), "{error}");
    }
}
