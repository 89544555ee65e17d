//! The files that every server serves: fixed sizes, pseudo-random printable content, the same in every run.

pub(crate) mod tls;
pub(crate) mod web;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use servers::LoadKind;
use tempfile::TempDir;

const SEED: u64 = 0x5157_4e54;

/// Returns the sizes in bytes that any server of load kind `http` is asked for.
fn sizes() -> BTreeSet<u64> {
    let servers = servers::all().iter().filter(|server| server.load == LoadKind::Http);
    servers.flat_map(|server| &server.workloads).map(|workload| workload.body_bytes).collect()
}

pub(crate) fn file_name(bytes: u64) -> String {
    format!("{bytes}.txt")
}

/// A scratch directory: the site under it, beside the peers' configurations and the servers' logs.
pub(crate) struct Scratch {
    directory: Locked,
    /// In memory, where there is such a place.
    _memory: Option<Locked>,
}

/// A directory that is removed when dropped, and by the next run where this one was killed: nobody holds its lock then.
struct Locked {
    directory: TempDir,
    _lock: Flock<File>,
}

const PREFIX: &str = "quintet-visits-";
/// Whoever removes what was abandoned may take a directory that is not yet locked for such.
const TRIES: u32 = 10;

impl Locked {
    fn new(place: &Path) -> Result<Self> {
        remove_abandoned(place);
        for _ in 0..TRIES {
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place).context("temporary directory")?;
            let Some(lock) = locked(directory.path()) else { continue };
            if directory.path().is_dir() {
                return Ok(Self { directory, _lock: lock });
            }
        }
        bail!("{}: no directory there can be kept", place.display())
    }
}

/// `None` when somebody has the lock, or the directory is gone.
fn locked(directory: &Path) -> Option<Flock<File>> {
    Flock::lock(File::open(directory).ok()?, FlockArg::LockExclusiveNonblock).ok()
}

/// Removes what runs that were killed left behind; up to 1.7 GiB of it are in memory. What cannot be removed is somebody
/// else's.
fn remove_abandoned(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && let Some(_lock) = locked(&entry.path()) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let directory = Locked::new(&std::env::temp_dir())?;
        // Peers that drop their rights must still be able to read the site.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory.directory.path(), readable).context("temporary directory")?;
        let site = directory.directory.path().join("site");
        write_site(&site)?;
        tls::write(&site)?;
        let memory = make_memory(&site)?;
        Ok(Self { directory, _memory: memory })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.directory.path()
    }

    pub(crate) fn site(&self) -> PathBuf {
        self.path().join("site")
    }
}

/// Below the site: a directory whose files are in memory, wherever the site is.
pub(crate) const MEMORY: &str = "memory";
/// A tmpfs on every usual system.
const SHARED_MEMORY: &str = "/dev/shm";

/// Makes [`MEMORY`], as a link to what must be removed with the site; a plain directory where there is no tmpfs.
fn make_memory(site: &Path) -> Result<Option<Locked>> {
    let place = site.join(MEMORY);
    let made = Locked::new(Path::new(SHARED_MEMORY)).ok();
    match &made {
        Some(memory) => std::os::unix::fs::symlink(memory.directory.path(), &place),
        None => fs::create_dir(&place),
    }
    .with_context(|| format!("{}", place.display()))?;
    Ok(made)
}

fn write_site(site: &Path) -> Result<()> {
    fs::create_dir(site).with_context(|| format!("{}", site.display()))?;
    for bytes in sizes() {
        let path = site.join(file_name(bytes));
        fs::write(&path, content(bytes, bytes)).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

/// Printable, in lines of 64, not compressible by much, and another for every seed.
pub(crate) fn content(bytes: u64, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(SEED ^ seed);
    (1..=bytes).map(|position| if position % 64 == 0 { b'\n' } else { random.u8(b'!'..=b'~') }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_killed_run_go_those_of_a_living_one_stay() {
        let place = tempfile::tempdir().unwrap();
        let living = Locked::new(place.path()).unwrap();
        let (abandoned, other) = (place.path().join(format!("{PREFIX}abandoned")), place.path().join("other"));
        fs::create_dir_all(abandoned.join("site")).unwrap();
        fs::create_dir(&other).unwrap();
        remove_abandoned(place.path());
        assert!(living.directory.path().exists() && other.exists() && !abandoned.exists());
    }

    #[test]
    fn the_site_has_a_file_of_each_size_with_fixed_content() {
        let (first, second) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        for bytes in sizes() {
            let read = |scratch: &Scratch| fs::read(scratch.site().join(file_name(bytes))).unwrap();
            let body = read(&first);
            assert_eq!(body.len() as u64, bytes);
            assert!(body.iter().all(|byte| byte.is_ascii_graphic() || *byte == b'\n'));
            assert_eq!(body, read(&second));
        }
        let (path, memory) = (first.path().to_path_buf(), first.site().join(MEMORY));
        let memory = fs::canonicalize(memory).unwrap();
        drop(first);
        assert!(!path.exists() && !memory.exists(), "the scratch directories are removed");
    }
}
