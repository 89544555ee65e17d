//! Keys on disk: saved on request and at the end, loaded at the start; and on their way to the next process.
//!
//! Each key is saved with a value and attributes that it had at one moment between the begin and the end of saving.
//! Different keys may be of different moments, and a change made after its key was passed is not in the file: this is a
//! warm start for a cache, not a log. The file is replaced as a whole or not at all, and a file that has been damaged or
//! truncated is refused as a whole. [`format`] describes its format.

mod format;

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use format::{FormatError, Reader, SnapshotEntry, Writer};
use parking_lot::{Mutex, MutexGuard};
use store::{Moment, Store};

use super::{memcached::UNIQUE_NUMBER, space::Space};

/// Bytes copied under a shard's lock before it is released for a moment.
const LOCKED_BYTES_MAX: usize = 64 * 1024;
/// Steps of a scan under that lock.
const LOCKED_STEPS_MAX: usize = 64;

/// Failure to save or to load a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("no file for it has been named")]
    NoFile,
    #[error("snapshots cannot be saved to {}: {error}", path.display())]
    CannotSave { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: not a snapshot of this version, or damaged at byte {offset}: {what}", path.display())]
    Damaged { path: PathBuf, offset: u64, what: &'static str },
    #[error("{}: the keys do not fit in the memory limit, and nothing may be evicted for them", path.display())]
    DoesNotFit { path: PathBuf },
}

/// File that snapshots are saved to and loaded from.
#[derive(Debug)]
pub(crate) struct SnapshotStore {
    path: Option<PathBuf>,
    last_saved_unix_s: AtomicI64,
    last_save_failed: AtomicBool,
    /// Held while saving.
    saving: Mutex<()>,
}

/// Outcome of a request to save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveStart {
    Started,
    AlreadyRunning,
}

impl SnapshotStore {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            last_saved_unix_s: AtomicI64::new(unix_s()),
            last_save_failed: AtomicBool::new(false),
            saving: Mutex::default(),
        }
    }

    /// Returns the time of the last snapshot, or of the start.
    pub(crate) fn last_saved_unix_s(&self) -> i64 {
        self.last_saved_unix_s.load(Ordering::Relaxed)
    }

    /// True if the latest attempt to save has failed.
    pub(crate) fn has_last_save_failed(&self) -> bool {
        self.last_save_failed.load(Ordering::Relaxed)
    }

    /// True while a snapshot is being saved.
    pub(crate) fn is_saving(&self) -> bool {
        self.saving.is_locked()
    }

    fn path(&self) -> Result<&Path, SnapshotError> {
        self.path.as_deref().ok_or(SnapshotError::NoFile)
    }

    // --- saving ---------------------------------------------------------------------------

    /// Saves a snapshot, after one that is being saved already.
    pub(crate) fn save<S: Store>(&self, space: &Space<S>) -> Result<(), SnapshotError> {
        self.save_locked(space, self.saving.lock())
    }

    /// Saves a snapshot, unless one is being saved already.
    pub(crate) fn try_save<S: Store>(&self, space: &Space<S>) -> Result<SaveStart, SnapshotError> {
        self.path()?;
        let Some(saving) = self.saving.try_lock() else { return Ok(SaveStart::AlreadyRunning) };
        self.save_locked(space, saving).map(|()| SaveStart::Started)
    }

    /// Saves a snapshot on a thread of its own, which reports to the log.
    pub(crate) fn save_in_background<S: Store + 'static>(
        self: &Arc<Self>,
        space: &Arc<Space<S>>,
    ) -> Result<SaveStart, SnapshotError> {
        let path = self.path()?;
        if self.saving.is_locked() {
            return Ok(SaveStart::AlreadyRunning);
        }
        let (snapshots, space) = (Arc::clone(self), Arc::clone(space));
        let spawned =
            thread::Builder::new().name("snapshot".to_owned()).spawn(move || match snapshots.try_save(&space) {
                Ok(_) => tracing::info!("the snapshot has been saved"),
                Err(error) => tracing::error!("the snapshot has not been saved: {error}"),
            });
        match spawned {
            Ok(_) => Ok(SaveStart::Started),
            Err(error) => Err(SnapshotError::Io { path: path.to_owned(), error }),
        }
    }

    fn save_locked<S: Store>(&self, space: &Space<S>, _saving: MutexGuard<'_, ()>) -> Result<(), SnapshotError> {
        let path = self.path()?;
        let saved = replace(path, |file| send_entries(space, file).map(drop));
        self.last_save_failed.store(saved.is_err(), Ordering::Relaxed);
        saved.map_err(|error| SnapshotError::Io { path: path.to_owned(), error })?;
        self.last_saved_unix_s.store(unix_s(), Ordering::Relaxed);
        Ok(())
    }

    // --- loading --------------------------------------------------------------------------

    /// Checks that snapshots can be saved to the file, and removes what interrupted saves have left beside it.
    pub(crate) fn prepare(&self) -> Result<(), SnapshotError> {
        let path = self.path()?;
        let refuse = |error| SnapshotError::CannotSave { path: path.to_owned(), error };
        if path.is_dir() {
            return Err(refuse(io::ErrorKind::IsADirectory.into()));
        }
        remove_leftovers(path).map_err(refuse)?;
        TemporaryFile::create(path).map(drop).map_err(refuse)
    }

    /// Loads the file if there is one, and returns the largest unique number among its entries.
    pub(crate) fn load<S: Store>(&self, space: &Space<S>) -> Result<u64, SnapshotError> {
        let path = self.path()?;
        let io = |error| SnapshotError::Io { path: path.to_owned(), error };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(io(error)),
        };
        let len = file.metadata().map_err(io)?.len();
        read(space, io::BufReader::new(file), len).map_err(|error| error.with_path(path))
    }
}

/// Writes all entries that have not expired. Returns their number.
pub(crate) fn send_entries<S: Store>(space: &Space<S>, file: impl io::Write) -> io::Result<u64> {
    let now = unix_ms();
    let mut writer = Writer::begin(file, now)?;
    for shard in 0..space.shards() {
        let mut cursor = 0;
        loop {
            {
                let (cache, before) = (space.lock(shard), writer.pending());
                for _ in 0..LOCKED_STEPS_MAX {
                    cursor = cache.store().scan(cursor, &mut |view| {
                        if view.attributes.expires_at == 0 || view.attributes.expires_at > now {
                            let value = &cache.portable_value(view);
                            writer.add(&SnapshotEntry { key: view.key, value, attributes: view.attributes });
                        }
                    });
                    if cursor == 0 || writer.pending() - before > LOCKED_BYTES_MAX {
                        break;
                    }
                }
            }
            writer.flush()?;
            if cursor == 0 {
                break;
            }
        }
    }
    writer.end()
}

/// Reads all entries, twice: nothing is taken from a file that is not whole.
fn read<S: Store>(space: &Space<S>, mut file: impl io::Read + io::Seek, len: u64) -> Result<u64, FormatError> {
    Reader::begin(&mut file, Some(len))?.each(|_| Ok(()))?;
    file.rewind()?;
    read_once(space, file, Some(len))
}

/// Reads all entries that another process sends, and returns the largest unique number among them.
pub(crate) fn receive_entries<S: Store>(space: &Space<S>, pipe: impl io::Read) -> Result<u64, SnapshotError> {
    read_once(space, pipe, None).map_err(|error| error.with_path(Path::new("keys of the process before this one")))
}

fn read_once<S: Store>(space: &Space<S>, file: impl io::Read, len: Option<u64>) -> Result<u64, FormatError> {
    let now = Moment { unix_ms: unix_ms() };
    let mut number_max = 0;
    Reader::begin(file, len)?.each(|SnapshotEntry { key, value, attributes }| {
        number_max = number_max.max(attributes.version & UNIQUE_NUMBER);
        if attributes.expires_at != 0 && attributes.expires_at <= now.unix_ms {
            return Ok(());
        }
        let hash = space.hash(key);
        let kept = space.lock(space.shard_of(hash)).set_portable(hash, key, value, attributes, now);
        kept.map_err(|_| FormatError::DoesNotFit)
    })?;
    Ok(number_max)
}

/// Replaces a file as a whole or not at all.
fn replace(target: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let temporary = TemporaryFile::create(target)?;
    write(&temporary.file)?;
    temporary.rename_to(target)
}

/// New contents of a file, written beside it. The file is locked while it has an owner, so that one that a killed process
/// has left is known.
struct TemporaryFile {
    file: File,
    path: PathBuf,
}

impl TemporaryFile {
    /// Creates the file for a snapshot at `target`.
    fn create(target: &Path) -> io::Result<Self> {
        let mut name = file_name(target)?.to_owned();
        name.push(format!(".{}.tmp", process::id()));
        let path = directory_of(target).join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        // Without locks, nothing is ever removed.
        let _ = file.try_lock();
        Ok(Self { file, path })
    }

    /// Gives the file the name `target`, once its contents are on the disk.
    fn rename_to(self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)?;
        // The new name is not safe until the directory is.
        File::open(directory_of(target))?.sync_all()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // It has mostly been renamed already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes files that killed processes have left of saving to `target`.
fn remove_leftovers(target: &Path) -> io::Result<()> {
    let name = file_name(target)?;
    for entry in fs::read_dir(directory_of(target))? {
        let path = entry?.path();
        let is_temporary = path.file_name().is_some_and(|other| is_temporary(other, name));
        if is_temporary && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            tracing::info!("{}: left by a save that was interrupted, removed", path.display());
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// True if the name is that of a temporary file for `target`: its name, the number of a process, and `.tmp`.
fn is_temporary(name: &OsStr, target: &OsStr) -> bool {
    let rest = name.as_bytes().strip_prefix(target.as_bytes());
    let process = rest.and_then(|rest| rest.strip_prefix(b".")?.strip_suffix(b".tmp"));
    process.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

fn directory_of(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn file_name(target: &Path) -> io::Result<&OsStr> {
    target.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path does not end with a name"))
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn unix_s() -> i64 {
    i64::try_from(unix_ms() / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
