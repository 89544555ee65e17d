//! The run's directory: manifest, visits, and what is derived from them.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use report::{RawVisit, VISITS_PAGE};
use results::{
    Report, SCHEMA,
    record::{Manifest, Visit},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    commands::compare::{self, Changes},
    judge::raw,
    run::{instructions::InstructionCount, syscalls::Count},
    tidy, usage,
};

const MANIFEST: &str = "manifest.json";
const VISITS: &str = "visits.jsonl";
const SUMMARY: &str = "summary.json";
const CSV: &str = "summary.csv";
const MARKDOWN: &str = "summary.md";
const REPORT: &str = "report.html";
/// Every figure of every visit, a row each.
const TIDY: &str = "visits.csv";
const COMPARISON: &str = "comparison.json";
const COMPARISON_TEXT: &str = "comparison.txt";

/// System calls per request, a line per cell and workload.
const SYSCALLS: &str = "syscalls.jsonl";
/// Instructions per request, likewise.
const INSTRUCTIONS: &str = "instructions.jsonl";
const HISTOGRAMS: &str = "hist";
const LOGS: &str = "server-logs";
/// The end of a server's log; a talkative one must not fill the disk.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// Files from which a run can be analysed again.
pub(crate) const KEPT: [&str; 5] = [MANIFEST, VISITS, SYSCALLS, INSTRUCTIONS, SUMMARY];

pub(crate) struct Store {
    directory: PathBuf,
    visits: File,
}

impl Store {
    /// A new run; a directory that already holds one is refused.
    pub(crate) fn create(directory: &Path, manifest: &Manifest) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("{}", directory.display()))?;
        refuse_used(directory)?;
        write(&directory.join(MANIFEST), &serde_json::to_string_pretty(manifest)?)?;
        let (store, visits) = Self::with_visits(directory)?;
        if !visits.is_empty() {
            bail!("{}: visits without a manifest", directory.display());
        }
        Ok(store)
    }

    /// An earlier run, to be continued.
    pub(crate) fn open(directory: &Path) -> Result<(Self, Manifest, Vec<Visit>)> {
        let manifest = read_manifest(directory)?;
        let (store, visits) = Self::with_visits(directory)?;
        Ok((store, manifest, visits))
    }

    fn with_visits(directory: &Path) -> Result<(Self, Vec<Visit>)> {
        let path = directory.join(VISITS);
        let what = || format!("{}", path.display());
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).with_context(what)?;
        let (visits, whole) = parse_lines(&fs::read(&path).with_context(what)?).with_context(what)?;
        // A line that a crash tore is cut off, so that the next one starts afresh.
        file.set_len(whole).with_context(what)?;
        file.seek(std::io::SeekFrom::End(0)).with_context(what)?;
        Ok((Self { directory: directory.to_path_buf(), visits: file }, visits))
    }

    pub(crate) fn append(&mut self, visit: &Visit) -> Result<()> {
        let mut line = serde_json::to_string(visit)?;
        line.push('\n');
        self.visits.write_all(line.as_bytes()).and_then(|()| self.visits.sync_data()).context(VISITS)
    }

    pub(crate) fn append_count(&self, count: &Count) -> Result<()> {
        self.append_line(SYSCALLS, count)
    }

    pub(crate) fn append_instructions(&self, count: &InstructionCount) -> Result<()> {
        self.append_line(INSTRUCTIONS, count)
    }

    fn append_line(&self, name: &'static str, value: &impl Serialize) -> Result<()> {
        let path = self.directory.join(name);
        let mut file = OpenOptions::new().append(true).create(true).open(&path).context(name)?;
        let line = serde_json::to_string(value)? + "\n";
        file.write_all(line.as_bytes()).and_then(|()| file.sync_data()).context(name)
    }

    /// Keeps the log of intervals that the generator left of a visit, if it did.
    pub(crate) fn keep_histograms(&self, left: &Path, visit: &Visit) -> Result<()> {
        let log = left.join(loadgen::stored::TIMELINE_FILE);
        if !log.exists() {
            return Ok(());
        }
        fs::copy(&log, self.file_of(visit, HISTOGRAMS, "hlog")?).context(HISTOGRAMS)?;
        // The next visit may leave none.
        fs::remove_file(&log).context(HISTOGRAMS)
    }

    /// Keeps the end of what a server said on standard error in a visit, if it said something.
    pub(crate) fn keep_log(&self, log: &Path, visit: &Visit) -> Result<()> {
        let mut said = Vec::new();
        let mut file = File::open(log).context(LOGS)?;
        let length = file.metadata().context(LOGS)?.len();
        file.seek(std::io::SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX))).context(LOGS)?;
        file.take(LOG_BYTES_MAX).read_to_end(&mut said).context(LOGS)?;
        if said.is_empty() {
            return Ok(());
        }
        fs::write(self.file_of(visit, LOGS, "log")?, said).context(LOGS)
    }

    /// `DIRECTORY/CELL-WORKLOAD-BLOCK-ATTEMPT.EXTENSION`, in a directory that is there.
    fn file_of(&self, visit: &Visit, directory: &'static str, extension: &str) -> Result<PathBuf> {
        let directory_path = self.directory.join(directory);
        fs::create_dir_all(&directory_path).context(directory)?;
        let Visit { cell, workload, block, attempt, .. } = visit;
        Ok(directory_path.join(format!("{cell}-{workload}-{block}-{attempt}.{extension}").replace('/', "_")))
    }

    /// Writes what is derived from the visits, and returns the path of the report.
    pub(crate) fn write_summary(&self, manifest: &Manifest, visits: &[Vec<Visit>], report: &Report) -> Result<PathBuf> {
        for (name, text) in derived(manifest, visits, report)? {
            write(&self.directory.join(name), &text)?;
        }
        Ok(self.directory.join(REPORT))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// The files that are derived from the visits, by name: the same visits make the same bytes.
fn derived(manifest: &Manifest, visits: &[Vec<Visit>], report: &Report) -> Result<[(&'static str, String); 6]> {
    // Those of a cell under a workload one behind the other.
    let mut sorted: Vec<&Visit> = visits.iter().flatten().collect();
    sorted.sort_by_key(|visit| (&visit.matrix, &visit.cell, &visit.workload, visit.block, visit.attempt));
    let raw = sorted.into_iter().map(raw_visit).collect::<Result<Vec<RawVisit>>>()?;
    Ok([
        (SUMMARY, serde_json::to_string_pretty(report)?),
        (CSV, report::csv(report)),
        (TIDY, tidy::rows(manifest, visits)),
        (MARKDOWN, report::markdown(report)),
        (VISITS_PAGE, report::visits_page(&raw)),
        (REPORT, report::render(report)),
    ])
}

fn raw_visit(visit: &Visit) -> Result<RawVisit> {
    let line = raw::line(visit)?;
    let Visit { cell, workload, block, attempt, .. } = visit;
    let title = format!("{cell} {workload}, block {block}, attempt {attempt}");
    Ok(RawVisit { sha256: raw::digest(line.as_bytes()), title, line })
}

/// Writes a comparison with a baseline, beside the run.
pub(crate) fn write_comparison(directory: &Path, changes: &Changes) -> Result<()> {
    write(&directory.join(COMPARISON), &serde_json::to_string_pretty(changes)?)?;
    write(&directory.join(COMPARISON_TEXT), &compare::text(changes))
}

/// Counts per request that passes of their own have made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) syscalls: Vec<Count>,
    pub(crate) instructions: Vec<InstructionCount>,
}

/// Reads what was counted so far; a torn last line is none.
pub(crate) fn counts(directory: &Path) -> Result<Counts> {
    Ok(Counts { syscalls: lines(directory, SYSCALLS)?, instructions: lines(directory, INSTRUCTIONS)? })
}

fn lines<T: DeserializeOwned>(directory: &Path, name: &'static str) -> Result<Vec<T>> {
    let path = directory.join(name);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let bytes = fs::read(&path).with_context(|| format!("{}", path.display()))?;
    let (counts, whole) = parse_lines(&bytes).with_context(|| format!("{}", path.display()))?;
    if whole < bytes.len() as u64 {
        // Cut off, so that the next line starts afresh.
        OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(whole)).context(name)?;
    }
    Ok(counts)
}

/// Reads a run without touching it.
pub(crate) fn load(directory: &Path) -> Result<(Manifest, Vec<Visit>)> {
    let manifest = read_manifest(directory)?;
    let path = directory.join(VISITS);
    let text = fs::read(&path).with_context(|| format!("{}", path.display()))?;
    let (visits, _) = parse_lines(&text).with_context(|| format!("{}", path.display()))?;
    Ok((manifest, visits))
}

pub(crate) fn holds_run(directory: &Path) -> bool {
    directory.join(MANIFEST).is_file()
}

fn read_manifest(directory: &Path) -> Result<Manifest> {
    if !holds_run(directory) {
        return Err(usage(format!("{}: not the directory of a run: it has no {MANIFEST}", directory.display())));
    }
    let path = directory.join(MANIFEST);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let manifest: Manifest = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    if manifest.schema != SCHEMA {
        bail!("{}: schema {}, not {SCHEMA}", path.display(), manifest.schema);
    }
    Ok(manifest)
}

/// A run is never written over another.
pub(crate) fn refuse_used(directory: &Path) -> Result<()> {
    if directory.join(MANIFEST).exists() {
        let shown = directory.display();
        return Err(usage(format!("{shown}: holds a run already; continue it with --resume or choose another --out")));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}", path.display()))
}

/// Whole lines and how many bytes they take. A line may be torn inside a character: what is torn is not text.
fn parse_lines<T: DeserializeOwned>(bytes: &[u8]) -> Result<(Vec<T>, u64)> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let text = std::str::from_utf8(&bytes[..whole]).context("not UTF-8")?;
    let lines = (text.lines().enumerate())
        .map(|(number, line)| serde_json::from_str(line).with_context(|| format!("line {}", number + 1)))
        .collect::<Result<Vec<T>>>()?;
    Ok((lines, whole as u64))
}

/// Reads a run's files back; an error names the one that is missing or wrong.
pub fn check(directory: &Path) -> Result<Report> {
    let (_, manifest, visits) = Store::open(directory)?;
    let path = directory.join(SUMMARY);
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let report: Report = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    let setups = report.matrices.iter().map(|summary| &summary.setup);
    let attempts: usize = report.matrices.iter().map(|summary| summary.progress.attempts as usize).sum();
    if !setups.eq(manifest.matrices.iter().map(|planned| &planned.setup)) || attempts != visits.len() {
        bail!("{}: does not belong to its manifest and visits", path.display());
    }
    for name in [CSV, TIDY, MARKDOWN, VISITS_PAGE, REPORT] {
        let path = directory.join(name);
        let length = fs::metadata(&path).with_context(|| format!("{}", path.display()))?.len();
        if length == 0 {
            bail!("{}: empty", path.display());
        }
    }
    Ok(report)
}

mod check;

pub(crate) use self::check::differences;

#[cfg(test)]
mod tests {
    use results::record::Planned;

    use crate::{plan::order, samples, store::*};

    pub(super) fn manifest() -> Manifest {
        let setup = samples::setup();
        let matrices = vec![Planned { plan: order::shuffled(&setup), setup }];
        Manifest { schema: SCHEMA.to_owned(), matrices }
    }

    #[test]
    fn a_torn_last_line_is_dropped_and_the_next_starts_anew() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::create(directory.path(), &manifest()).unwrap();
        store.append(&samples::visit()).unwrap();
        store.append(&Visit { slot: 1, ..samples::visit() }).unwrap();
        drop(store);
        let path = directory.path().join(VISITS);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        let (mut store, read, visits) = Store::open(directory.path()).unwrap();
        assert_eq!((visits.len(), read), (1, manifest()));
        store.append(&Visit { slot: 2, ..samples::visit() }).unwrap();
        let (_, _, visits) = Store::open(directory.path()).unwrap();
        assert_eq!(visits.iter().map(|visit| visit.slot).collect::<Vec<_>>(), [0, 2]);
    }

    /// The visits that a run makes from what it has, in order: valid at once, but every fifth one only when repeated.
    fn to_the_end(manifest: &Manifest, made: Vec<Visit>) -> Vec<Visit> {
        let mut visits = manifest.by_matrix(made);
        let (mut turn, mut order) = (order::BlockOfMatrix::default(), Vec::new());
        while let Some((next, due)) = order::next_of_run(manifest, &visits, turn) {
            turn = next;
            let planned = &manifest.matrices[turn.matrix];
            let slot = &planned.plan[turn.block][due.slot as usize];
            let visit = Visit {
                matrix: planned.setup.server.clone(),
                block: u32::try_from(turn.block).unwrap(),
                slot: due.slot,
                attempt: due.attempt,
                cell: slot.cell.clone(),
                workload: slot.workload.clone(),
                valid: due.slot % 5 != 0 || due.attempt > 1,
                // A torn line may end inside a character.
                failure: Some("ended by itself: übel".to_owned()),
                measured: None,
                ..samples::visit()
            };
            visits[turn.matrix].push(visit.clone());
            order.push(visit);
        }
        order
    }

    #[test]
    fn a_run_killed_at_any_byte_resumes_with_what_is_missing() {
        let setup = |server: &str, seed| {
            let mut setup = samples::setup();
            (setup.server, setup.seed, setup.blocks) = (server.to_owned(), seed, 2);
            setup.cells.truncate(3);
            setup
        };
        let planned = |setup| Planned { plan: order::shuffled(&setup), setup };
        let matrices = vec![planned(setup("http-server", 1)), planned(setup("kvcache", 2))];
        let manifest = Manifest { schema: SCHEMA.to_owned(), matrices };
        let whole = to_the_end(&manifest, Vec::new());
        // Two matrices of two blocks of six slots, of which two are repeated.
        assert_eq!(whole.len(), 2 * 2 * 8);
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::create(directory.path(), &manifest).unwrap();
        whole.iter().for_each(|visit| store.append(visit).unwrap());
        drop(store);
        let path = directory.path().join(VISITS);
        let bytes = fs::read(&path).unwrap();
        let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').map(|at| at + 1).collect();
        for cut in 0..=bytes.len() {
            let complete = ends.iter().filter(|&&end| end <= cut).count();
            // Every byte of the first lines and of the last ones, and every boundary between lines.
            let is_near = cut < ends[2] || cut > ends[ends.len() - 3];
            if !is_near && !ends.iter().any(|end| end.abs_diff(cut) <= 1) {
                continue;
            }
            fs::write(&path, &bytes[..cut]).unwrap();
            let (_, read, visits) = Store::open(directory.path()).unwrap();
            assert_eq!((&read, visits.len()), (&manifest, complete), "cut at {cut}");
            assert!(to_the_end(&read, visits) == whole[complete..], "cut at {cut}");
        }
    }

    #[test]
    fn damage_before_the_last_line_is_an_error_that_names_the_line() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::create(directory.path(), &manifest()).unwrap();
        store.append(&samples::visit()).unwrap();
        let path = directory.path().join(VISITS);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}{{\"v\":1\n{text}")).unwrap();
        let error = format!("{:#}", Store::open(directory.path()).err().unwrap());
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn the_end_of_a_servers_log_is_kept_by_visit() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("run"), &manifest()).unwrap();
        let log = directory.path().join("server.log");
        fs::write(&log, "").unwrap();
        store.keep_log(&log, &samples::visit()).unwrap();
        let logs = store.directory().join(LOGS);
        assert!(!logs.exists());
        fs::write(&log, [vec![b'a'; LOG_BYTES_MAX as usize], b"the end".to_vec()].concat()).unwrap();
        store.keep_log(&log, &Visit { attempt: 2, ..samples::visit() }).unwrap();
        let kept = fs::read(logs.join("http-server_epoll-closed-0-2.log")).unwrap();
        assert!(kept.len() as u64 == LOG_BYTES_MAX && kept.ends_with(b"aathe end"));
    }

    #[test]
    fn a_run_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        Store::create(directory.path(), &manifest()).unwrap();
        let error = Store::create(directory.path(), &manifest()).err().unwrap().to_string();
        assert!(error.contains("--resume"), "{error}");
    }
}
