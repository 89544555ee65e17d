//! Layout by a list of ids and paths.

mod parse;

use std::{
    collections::HashMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use sys::{
    beneath::{Metadata, OpenError, Root},
    clock::{monotonic_coarse, unix_coarse},
    contents::read_unchanging,
};
use wire::file::FileId;

use crate::{
    Layout, LayoutError, Located, RelativePath,
    flat::{failed, found, open_root},
};

/// Name of the file in the directory.
const FILE_NAME: &str = "manifest.tsv";

type Paths = HashMap<FileId, RelativePath>;

/// Text file `manifest.tsv` in the directory: lines of an id, a tab, and a path beneath the directory. Lines that are empty
/// or begin with `#` are skipped; all others have to be well-formed, or the whole file is refused.
#[derive(Debug)]
pub struct Manifest {
    list: Arc<List>,
    /// Interval between two checks; `None` for a list that is read once.
    interval: Option<Duration>,
}

/// Contents of the file, as it was last read.
#[derive(Debug)]
struct List {
    path: PathBuf,
    paths: RwLock<Arc<Paths>>,
    /// State of the file when it was last read, well-formed or not; `None` if it had not settled.
    last: Mutex<Option<Result<Metadata, OpenError>>>,
    /// Time of the next check, in nanoseconds of the monotonic clock.
    due_ns: AtomicU64,
    is_being_read: AtomicBool,
}

impl Manifest {
    /// Reads the list of `directory`.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is not well-formed.
    pub fn open(directory: &Path) -> Result<Self, LayoutError> {
        let path = directory.join(FILE_NAME);
        let (paths, state) = read(&path)?;
        let list = List {
            path,
            paths: RwLock::new(Arc::new(paths)),
            last: Mutex::new(state.map(Ok)),
            due_ns: AtomicU64::new(0),
            is_being_read: AtomicBool::new(false),
        };
        Ok(Self { list: Arc::new(list), interval: None })
    }

    /// Checks whether the file has changed, at most once per `interval` and only when an id is looked up. A changed file is
    /// read by a thread of its own, while the previous list is in force; a malformed one is reported, and changes nothing.
    #[must_use]
    pub fn revalidate_every(self, interval: Duration) -> Self {
        Self { interval: Some(interval), ..self }
    }

    fn current(&self) -> Arc<Paths> {
        if let Some(interval) = self.interval {
            self.list.check(interval);
        }
        self.list.current()
    }
}

impl Layout for Manifest {
    fn locate(&self, _root: &Root, id: &FileId) -> Result<Located, OpenError> {
        self.current().get(id).cloned().map(Located::from).ok_or(OpenError::Missing)
    }

    fn is_current(&self, _root: &Root, id: &FileId, located: &Located) -> bool {
        self.current().get(id) == Some(&located.path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
        let root = open_root(directory)?;
        let open = |path: &RelativePath| root.open_file(path.as_bytes()).map(|_| path.clone());
        found(directory, self.current().iter().map(|(id, path)| (open(path), id.clone())))
    }
}

impl List {
    fn current(&self) -> Arc<Paths> {
        Arc::clone(&self.paths.read())
    }

    #[inline]
    fn check(self: &Arc<Self>, interval: Duration) {
        let now = monotonic_coarse();
        let due = self.due_ns.load(Ordering::Relaxed);
        if nanoseconds(now) < due {
            return;
        }
        let next = nanoseconds(now.saturating_add(interval));
        if self.due_ns.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.read_if_changed();
        }
    }

    #[cold]
    fn read_if_changed(self: &Arc<Self>) {
        let state = Metadata::at(&self.path);
        // A file that has just been written may be incomplete.
        let has_settled = state.is_err() || state.is_ok_and(|state| state.is_settled(unix_coarse()));
        if !has_settled || *self.last.lock() == Some(state) || self.is_being_read.swap(true, Ordering::Acquire) {
            return;
        }
        let list = Arc::clone(self);
        let started = thread::Builder::new().name("manifest".to_owned()).spawn(move || {
            list.read_again(state);
            list.is_being_read.store(false, Ordering::Release);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "cannot start a thread to read {}", self.path.display());
            self.is_being_read.store(false, Ordering::Release);
        }
    }

    fn read_again(&self, state: Result<Metadata, OpenError>) {
        let state = match read(&self.path) {
            Ok((paths, state)) => {
                tracing::info!(documents = paths.len(), "{} has changed", self.path.display());
                *self.paths.write() = Arc::new(paths);
                state.map(Ok)
            }
            Err(error) => {
                tracing::warn!(%error, "the manifest has changed and cannot be used; the previous one stays in force");
                Some(state)
            }
        };
        *self.last.lock() = state;
    }
}

/// Reads the file. Returns its state, too, if no later change can go unnoticed.
fn read(path: &Path) -> Result<(Paths, Option<Metadata>), LayoutError> {
    let now = unix_coarse();
    let file = File::open(path).map_err(LayoutError::reading(path))?;
    let state = Metadata::of(&file).map_err(failed(path))?;
    let contents = read_unchanging(&file, state, u64::MAX).map_err(failed(path))?;
    let changing = || LayoutError::reading(path)(io::Error::other("it changes while it is read"));
    let (text, state) = contents.ok_or_else(changing)?;
    let malformed = |(line, problem)| LayoutError::Malformed { path: path.to_owned(), line, problem };
    Ok((parse::paths(&text).map_err(malformed)?, state.is_settled(now).then_some(state)))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Instant};

    use super::*;

    const ID: &[u8] = b"ID";

    fn write(path: &Path, text: &str) {
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    }

    fn settle() {
        thread::sleep(Metadata::TIMESTAMP_STEP + Duration::from_millis(20));
    }

    fn path_of(manifest: &Manifest, root: &Root) -> Option<Vec<u8>> {
        let located = manifest.locate(root, &FileId::new(ID).unwrap()).ok()?;
        Some(located.path.as_bytes().to_vec())
    }

    fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !condition() {
            assert!(begin.elapsed() < Duration::from_secs(40), "not so: {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_changed_list_comes_into_force_unless_malformed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        let root = Root::open(directory.path()).unwrap();
        write(&path, "ID\tone\n");
        let once = Manifest::open(directory.path()).unwrap();
        let manifest = Manifest::open(directory.path()).unwrap().revalidate_every(Duration::from_millis(10));
        let before = manifest.locate(&root, &FileId::new(ID).unwrap()).unwrap();
        assert!(manifest.is_current(&root, &FileId::new(ID).unwrap(), &before));

        write(&path, "ID\ttwo\nOTHER\tone\n");
        eventually("the second list", || path_of(&manifest, &root).as_deref() == Some(b"two"));
        assert!(!manifest.is_current(&root, &FileId::new(ID).unwrap(), &before));
        assert!(manifest.locate(&root, &FileId::new(b"OTHER").unwrap()).is_ok());

        for bad in ["ID\t../three\n", "ID no tab\n"] {
            write(&path, bad);
            let state = Metadata::at(&path);
            eventually("it has been read", || {
                let found = path_of(&manifest, &root);
                assert_eq!(found.as_deref(), Some(&b"two"[..]), "{bad:?}");
                *manifest.list.last.lock() == Some(state)
            });
        }
        fs::remove_file(&path).unwrap();
        eventually("it is gone", || {
            assert_eq!(path_of(&manifest, &root).as_deref(), Some(&b"two"[..]));
            *manifest.list.last.lock() == Some(Err(OpenError::Missing))
        });

        write(&path, "# nothing\n");
        eventually("the empty list", || path_of(&manifest, &root).is_none());
        assert_eq!(path_of(&once, &root).as_deref(), Some(&b"one"[..]), "read once");
    }

    /// The number of lookups does not matter; those in between use the list that is there.
    #[test]
    fn the_file_is_checked_once_an_interval() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        let root = Root::open(directory.path()).unwrap();
        write(&path, "ID\tone\n");
        settle();
        let manifest = Manifest::open(directory.path()).unwrap().revalidate_every(Duration::from_secs(3_600));
        assert_eq!(path_of(&manifest, &root).as_deref(), Some(&b"one"[..]), "and the interval begins");
        write(&path, "ID\ttwo\n");
        settle();
        for _ in 0..1_000 {
            assert_eq!(path_of(&manifest, &root).as_deref(), Some(&b"one"[..]));
        }
        assert!(!manifest.list.is_being_read.load(Ordering::Relaxed));
        // As if the interval had passed.
        manifest.list.due_ns.store(0, Ordering::Relaxed);
        eventually("the second list", || path_of(&manifest, &root).as_deref() == Some(b"two"));
    }
}
