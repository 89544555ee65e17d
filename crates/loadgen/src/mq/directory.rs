//! The directory of FIFOs: whose it has to be, and what is removed from it in the end.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use sys::fifo::{Directory, OpenError, Ownership, Reader};

use super::fifo;

/// Prefix of the names of all FIFOs of all runs.
pub(super) const PREFIX: &str = "loadgen-";
/// End of the name of a run's lock, behind the run's prefix.
const LOCK: &str = "lock";
/// Other runs may take the lock for a dead one's before it is locked.
const TRIES: usize = 8;
/// Time that another run may take to remove what it takes for a dead one's.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Users with whom a directory of FIFOs may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Sharing {
    /// Nobody: it belongs to this user or to root, and to the owner alone.
    Private,
    /// Anybody: they may list the FIFOs, and delete or replace them where the directory is not sticky.
    Shared,
}

/// Reasons why a directory cannot be used for FIFOs.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error(
        "--fifo-dir {}: there is no such directory; it has to be the one that the server was started with, made before that by \
         `mkdir -m 700`", .0.display()
    )]
    Missing(PathBuf),
    #[error(
        "--fifo-dir {} belongs to user {owner} (mode {mode:04o}) and this is user {user}: its owner can delete or replace \
         FIFOs; start the server with a directory of your own (`mkdir -m 700`), or accept it by --shared-fifo-dir",
        path.display()
    )]
    Foreign { path: PathBuf, owner: u32, mode: u32, user: u32 },
    #[error(
        "--fifo-dir {} is open to others (owner {owner}, mode {mode:04o}), who may find FIFOs, or delete and replace them; \
         `chmod 700` it or use another one, or accept it by --shared-fifo-dir",
        path.display()
    )]
    Open { path: PathBuf, owner: u32, mode: u32 },
    #[error("cannot use --fifo-dir {}: {why}", path.display())]
    Unusable { path: PathBuf, why: io::Error },
}

/// Opens the directory and looks whose it is: the one that is open, not what has its name.
///
/// The group counts as others. FIFOs are for their owner alone, so a server of another user gets at them only if it is
/// root's, and then needs no permission for the directory either.
///
/// # Errors
/// See [`DirectoryError`].
pub fn open(path: &Path, sharing: Sharing) -> Result<Directory, DirectoryError> {
    let unusable = |why: io::Error| {
        let path = path.to_owned();
        if why.kind() == io::ErrorKind::NotFound {
            DirectoryError::Missing(path)
        } else {
            DirectoryError::Unusable { path, why }
        }
    };
    let directory = Directory::open(path).map_err(unusable)?;
    if sharing == Sharing::Private {
        let ownership = directory.ownership().map_err(unusable)?;
        check(path.to_owned(), ownership, rustix::process::geteuid().as_raw())?;
    }
    Ok(directory)
}

fn check(path: PathBuf, ownership: Ownership, user: u32) -> Result<(), DirectoryError> {
    let Ownership { owner, mode } = ownership;
    match owner {
        _ if owner != user && owner != 0 => Err(DirectoryError::Foreign { path, owner, mode, user }),
        _ if !ownership.is_for_owner_alone() => Err(DirectoryError::Open { path, owner, mode }),
        _ => Ok(()),
    }
}

/// Claim of a run on its FIFOs in the directory: one FIFO with its prefix is locked for as long as the run lives. All
/// with that prefix are removed when this is dropped; after SIGKILL the next run finds a lock that nobody holds.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    directory: Directory,
    prefix: String,
    _lock: Reader,
}

impl DirectoryLock {
    /// Removes what dead runs have left, if the directory is private, and makes and locks this run's own FIFO.
    pub(super) fn acquire(path: &Path, sharing: Sharing, prefix: &str) -> Result<Self, DirectoryError> {
        let directory = open(path, sharing)?;
        if sharing == Sharing::Private {
            remove_stale(&directory);
        }
        let lock = lock(&directory, &format!("{prefix}{LOCK}"));
        let lock = lock.map_err(|why| DirectoryError::Unusable { path: path.to_owned(), why })?;
        Ok(Self { directory, prefix: prefix.to_owned(), _lock: lock })
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Where names cannot be listed there is still the lock; clients have removed the others.
        let lock = || vec![format!("{}{LOCK}", self.prefix).into_bytes()];
        remove_all(&self.directory, &self.directory.names().unwrap_or_else(|_| lock()), self.prefix.as_bytes());
    }
}

fn lock(directory: &Directory, name: &str) -> io::Result<Reader> {
    for _ in 0..TRIES {
        directory.make(name.as_bytes())?;
        let lock = match directory.open_reader(name.as_bytes()) {
            Ok(lock) => lock,
            Err(OpenError::Missing) => continue,
            Err(error) => {
                let _ = directory.remove(name.as_bytes()); // The error is told, and the name says what it is.
                return Err(fifo::of_open(error));
            }
        };
        // The run that has it locked will remove it, by its name: until then there must be no other of that name.
        let mut looks = REMOVAL_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
        while !lock.try_lock()? {
            looks = looks.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            std::thread::sleep(POLL_INTERVAL);
        }
        if !lock.is_removed()? {
            return Ok(lock);
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Removes the FIFOs of dead runs. A run whose lock is held is alive, in whichever container. A process id would mean
/// something else in another container, and after a while in the same.
fn remove_stale(directory: &Directory) {
    let Ok(names) = directory.names() else { return };
    for name in &names {
        let Some(prefix) = name.strip_suffix(LOCK.as_bytes()).filter(|prefix| prefix.starts_with(PREFIX.as_bytes()))
        else {
            continue;
        };
        if let Ok(lock) = directory.open_reader(name)
            && lock.try_lock().unwrap_or(false)
        {
            remove_all(directory, &names, prefix);
        }
    }
}

fn remove_all(directory: &Directory, names: &[Vec<u8>], prefix: &[u8]) {
    let (locks, others): (Vec<_>, Vec<_>) =
        names.iter().filter(|name| name.starts_with(prefix)).partition(|name| name.ends_with(LOCK.as_bytes()));
    for name in others.into_iter().chain(locks) {
        // Best effort: what cannot be removed now is found by the next run, as long as the lock is there.
        let _ = directory.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_private_to_its_user_or_to_root() {
        let outcome =
            |owner, mode| check("d".into(), Ownership { owner, mode }, 1000).map_err(|error| error.to_string());
        for private in [(1000, 0o700), (1000, 0o1700), (1000, 0o300), (0, 0o700)] {
            assert_eq!(outcome(private.0, private.1), Ok(()), "{private:?}");
        }
        for open in [0o701, 0o702, 0o704, 0o710, 0o720, 0o740, 0o755, 0o1777] {
            let error = outcome(1000, open).expect_err("it is open to others");
            assert!(error.contains(&format!("mode {open:04o}")) && error.contains("chmod 700"), "{error}");
        }
        let error = outcome(1001, 0o700).expect_err("it is another's");
        assert!(error.contains("user 1001 (mode 0700)") && error.contains("user 1000"), "{error}");
    }

    fn names(directory: &Directory) -> Vec<String> {
        let mut names: Vec<_> = directory
            .names()
            .expect("they can be listed")
            .into_iter()
            .map(String::from_utf8)
            .collect::<Result<_, _>>()
            .expect("text");
        names.sort();
        names
    }

    #[test]
    fn only_the_fifos_of_dead_runs_are_removed() {
        let temporary = crate::mq::private_directory();
        let directory = open(temporary.path(), Sharing::Private).expect("it is private");
        let living = DirectoryLock::acquire(temporary.path(), Sharing::Private, "loadgen-1-a-").expect("a lock");
        for name in [
            "loadgen-1-a-0-0",
            "loadgen-2-b-lock",
            "loadgen-2-b-0-0",
            "loadgen-2-b-1-7",
            "loadgen-3-c-0-0",
            "other-lock",
        ] {
            directory.make(name.as_bytes()).expect("a FIFO");
        }
        // Where others are, nothing of theirs is judged.
        drop(DirectoryLock::acquire(temporary.path(), Sharing::Shared, "loadgen-4-d-").expect("a lock"));
        assert!(names(&directory).contains(&"loadgen-2-b-lock".to_owned()));
        drop(DirectoryLock::acquire(temporary.path(), Sharing::Private, "loadgen-5-e-").expect("a lock"));
        // Without a lock nobody knows whose it is.
        assert_eq!(names(&directory), ["loadgen-1-a-0-0", "loadgen-1-a-lock", "loadgen-3-c-0-0", "other-lock"]);
        drop(living);
        assert_eq!(names(&directory), ["loadgen-3-c-0-0", "other-lock"]);
    }

    /// Runs that start while others remove stale ones keep their locks.
    #[test]
    fn a_living_run_keeps_its_lock_while_others_clean_up() {
        let temporary = crate::mq::private_directory();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = temporary.path();
                scope.spawn(move || {
                    for run in 0..50 {
                        let prefix = format!("loadgen-{thread}-{run}-");
                        let lock = DirectoryLock::acquire(path, Sharing::Private, &prefix).expect("a lock");
                        std::thread::yield_now();
                        assert!(!lock._lock.is_removed().expect("it is open"), "{prefix}");
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(temporary.path()).expect("a directory").count(), 0);
    }
}
