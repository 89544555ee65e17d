//! Keys on disk: saved on request and at the end, loaded at the start.
//!
//! What is guaranteed: each key is saved with a value and attributes that it had at one moment between the begin and
//! the end of saving. Different keys may be of different moments, and a change after its key was passed is not in the
//! file: this is a warm start for a cache, not a log. The file is replaced as a whole or not at all, and one that has
//! been damaged or cut short is refused as a whole. Its form is described in [`format`].

mod format;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicI64, Ordering},
    },
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use format::{Entry, Reader, Writer};
use store::{Moment, Store};

use crate::protocol::memcached::NUMBER;
use crate::state::space::Space;

/// Bytes copied under a shard's lock before it is given up for a moment.
const LOCKED_BYTES_MAX: usize = 64 * 1024;
/// Steps of a scan under it.
const LOCKED_STEPS_MAX: usize = 64;

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("no file for it has been named")]
    NoFile,
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: not a snapshot of this version, or damaged at byte {offset}: {what}", path.display())]
    Damaged { path: PathBuf, offset: u64, what: &'static str },
    #[error("{}: the keys do not fit in the memory limit, and nothing may be evicted for them", path.display())]
    DoesNotFit { path: PathBuf },
}

/// Saves and loads.
#[derive(Debug)]
pub(crate) struct Keeper {
    path: Option<PathBuf>,
    last_saved_unix_s: AtomicI64,
    /// Held while saving.
    saving: Mutex<()>,
}

/// Whether saving has begun, or was under way already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Began {
    Now,
    Before,
}

impl Keeper {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, last_saved_unix_s: AtomicI64::new(unix_s()), saving: Mutex::default() }
    }

    /// Of the last snapshot, or of the start.
    pub(crate) fn last_saved_unix_s(&self) -> i64 {
        self.last_saved_unix_s.load(Ordering::Relaxed)
    }

    fn path(&self) -> Result<&Path, SnapshotError> {
        self.path.as_deref().ok_or(SnapshotError::NoFile)
    }

    // --- saving ---------------------------------------------------------------------------

    /// Waits for a snapshot that is being saved already.
    pub(crate) fn save<S: Store>(&self, space: &Space<S>) -> Result<(), SnapshotError> {
        let turn = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        self.save_now(space, turn)
    }

    pub(crate) fn try_save<S: Store>(&self, space: &Space<S>) -> Result<Began, SnapshotError> {
        self.path()?;
        let Some(turn) = self.turn() else { return Ok(Began::Before) };
        self.save_now(space, turn).map(|()| Began::Now)
    }

    /// Saves on a thread of its own, which reports to the log.
    pub(crate) fn save_aside<S: Store + 'static>(
        self: &Arc<Self>,
        space: &Arc<Space<S>>,
    ) -> Result<Began, SnapshotError> {
        let path = self.path()?;
        if self.turn().is_none() {
            return Ok(Began::Before);
        }
        let (keeper, space) = (Arc::clone(self), Arc::clone(space));
        let spawned = thread::Builder::new().name("snapshot".to_owned()).spawn(move || match keeper.try_save(&space) {
            Ok(_) => tracing::info!("the snapshot has been saved"),
            Err(error) => tracing::error!("the snapshot has not been saved: {error}"),
        });
        match spawned {
            Ok(_) => Ok(Began::Now),
            Err(error) => Err(SnapshotError::Io { path: path.to_owned(), error }),
        }
    }

    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.saving.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn save_now<S: Store>(&self, space: &Space<S>, _turn: MutexGuard<'_, ()>) -> Result<(), SnapshotError> {
        let path = self.path()?;
        replace(path, |file| write(space, file)).map_err(|error| SnapshotError::Io { path: path.to_owned(), error })?;
        self.last_saved_unix_s.store(unix_s(), Ordering::Relaxed);
        Ok(())
    }

    // --- loading --------------------------------------------------------------------------

    /// Loads the file if there is one; the greatest version among its entries.
    pub(crate) fn load<S: Store>(&self, space: &Space<S>) -> Result<u64, SnapshotError> {
        let path = self.path()?;
        let io = |error| SnapshotError::Io { path: path.to_owned(), error };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(io(error)),
        };
        let len = file.metadata().map_err(io)?.len();
        read(space, io::BufReader::new(file), len).map_err(|error| error.about(path))
    }
}

/// Everything that is in the space.
fn write<S: Store>(space: &Space<S>, file: impl io::Write) -> io::Result<()> {
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
                            writer.add(&Entry { key: view.key, value: view.value, attributes: view.attributes });
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

/// Reads it all twice: nothing is taken from a file that is not whole.
fn read<S: Store>(space: &Space<S>, mut file: impl io::Read + io::Seek, len: u64) -> Result<u64, format::Fault> {
    Reader::begin(&mut file, len)?.each(|_| Ok(()))?;
    file.rewind()?;
    let now = Moment { unix_ms: unix_ms() };
    let mut version_max = 0;
    Reader::begin(&mut file, len)?.each(|Entry { key, value, attributes }| {
        version_max = version_max.max(attributes.version & NUMBER);
        if attributes.expires_at != 0 && attributes.expires_at <= now.unix_ms {
            return Ok(());
        }
        let hash = space.hash(key);
        let kept = space.lock(space.shard_of(hash)).set(hash, key, value, attributes, now);
        kept.map_err(|_| format::Fault::DoesNotFit)
    })?;
    Ok(version_max)
}

/// Gives a file new contents, all of them or none: they are written beside it, reach the disk, and take its name.
fn replace(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.tmp", process::id()));
    let temporary = directory.join(name);
    let written = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary).and_then(|file| {
        write(&file)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // The new name is not safe until the directory is.
        File::open(directory)?.sync_all()
    });
    if written.is_err() {
        // It may have been renamed already, or never been there.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn unix_s() -> i64 {
    i64::try_from(unix_ms() / 1000).unwrap_or(i64::MAX)
}
