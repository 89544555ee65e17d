//! A document root and its cache: which file a path means, and whether what is known about it still holds.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use proto::Now;
use sys::beneath::{OpenError, Root};
use wire::http1::Status;

use crate::{
    cache::{Cache, CacheLimits, Entry},
    path::{self, PathError},
    representation::Representation,
    statistics::Source,
};

/// Sent for a path that ends with a slash.
const INDEX: &[u8] = b"index.html";

/// How a [`Site`] keeps files.
#[derive(Clone, Copy, Debug)]
pub struct SiteOptions {
    /// How long a cached file is taken to be unchanged without a look.
    pub revalidate: Duration,
    pub cache: CacheLimits,
    /// Files up to this size are kept in memory, larger ones as open descriptors; bytes.
    pub cache_file_max: u64,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self {
            revalidate: Duration::from_secs(1),
            cache: CacheLimits { entries: 8192, bytes: 64 << 20, descriptors: 256 },
            // Measured: sendfile costs about as much as a copy at 6 KiB, and an eighth less at 12 KiB. Below that, memory
            // spares a descriptor.
            cache_file_max: 8 << 10,
        }
    }
}

/// A document root and what is known about its files.
#[derive(Debug)]
pub struct Site {
    root: Root,
    cache: Cache,
    revalidate_ns: u64,
    memory_max: u64,
}

/// Why there is no file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// It is a directory; its path, encoded, ends with a slash.
    Moved(String),
    Refused(Status),
}

impl Absence {
    const MISSING: Self = Self::Refused(Status::NotFound);
}

impl From<PathError> for Absence {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Malformed => Self::Refused(Status::BadRequest),
            PathError::Missing => Self::MISSING,
        }
    }
}

impl From<OpenError> for Absence {
    fn from(error: OpenError) -> Self {
        Self::Refused(match error {
            OpenError::Missing | OpenError::Directory | OpenError::NotRegular => Status::NotFound,
            OpenError::Denied => Status::Forbidden,
            OpenError::Exhausted => Status::ServiceUnavailable,
            OpenError::Failed(_) => Status::InternalError,
        })
    }
}

impl Site {
    /// # Errors
    /// `directory` cannot be opened as a directory, or the kernel lacks openat2(2) (`ErrorKind::Unsupported`).
    pub fn open(directory: &Path, options: SiteOptions) -> io::Result<Self> {
        Ok(Self {
            root: Root::open(directory)?,
            cache: Cache::new(options.cache),
            revalidate_ns: u64::try_from(options.revalidate.as_nanos()).unwrap_or(u64::MAX),
            // Contents that are not kept are better sent from the descriptor than read.
            memory_max: options.cache_file_max.min(options.cache.contents_max() as u64),
        })
    }

    /// Shows `send` the file that `path` means, as it was at most the revalidation interval ago.
    ///
    /// `path` is a request's, and `encoded` when it contains escapes. A path that needs no normalising is its own key,
    /// so that for a current file all this is one hash and one look under a lock.
    #[inline]
    pub(crate) fn with_file<R>(
        &self,
        path: &[u8],
        encoded: bool,
        now: Now,
        mut send: impl FnMut(&Representation) -> R,
    ) -> Result<(R, Source), Absence> {
        let now_ns = nanoseconds(now.unix);
        // A key is a decoded path: only a path without escapes can be taken for one.
        if !encoded {
            let current = |entry: &Arc<Entry>| self.is_current(entry, now_ns).then(|| send(&entry.representation));
            if let Some(Some(sent)) = self.cache.look(path, current) {
                return Ok((sent, Source::Cache));
            }
        }
        let (entry, source) = self.find(path, now)?;
        Ok((send(&entry.representation), source))
    }

    #[inline]
    fn is_current(&self, entry: &Entry, now_ns: u64) -> bool {
        // A clock that was set back wraps around to a large age.
        now_ns.wrapping_sub(entry.checked_ns.load(Ordering::Relaxed)) < self.revalidate_ns
    }

    #[cold]
    #[inline(never)]
    fn find(&self, path: &[u8], now: Now) -> Result<(Arc<Entry>, Source), Absence> {
        let key = path::normalise(path)?;
        let now_ns = nanoseconds(now.unix);
        let Some(known) = self.cache.look(&key, Arc::clone) else { return self.load(&key, now) };
        if self.is_current(&known, now_ns) {
            return Ok((known, Source::Cache));
        }
        // The time is that before the look, so the next one is early rather than late.
        if known.settled && self.root.stat(&known.relative) == Ok(known.metadata) {
            known.checked_ns.store(now_ns, Ordering::Relaxed);
            return Ok((known, Source::Revalidated));
        }
        let loaded = self.load(&key, now);
        if loaded.is_err() {
            self.cache.remove(&known);
        }
        loaded
    }

    fn load(&self, key: &[u8], now: Now) -> Result<(Arc<Entry>, Source), Absence> {
        let is_directory = key.ends_with(b"/");
        let mut relative = key.strip_prefix(b"/").unwrap_or(key).to_vec();
        if is_directory {
            relative.extend_from_slice(INDEX);
        }
        let opened = match self.root.open_file(&relative) {
            Err(OpenError::Directory) if !is_directory => {
                return Err(Absence::Moved(path::encode(&[key, b"/"].concat())));
            }
            outcome => outcome?,
        };
        let (representation, metadata) = Representation::load(opened, &relative, self.memory_max, now.unix)?;
        let now_ns = nanoseconds(now.unix);
        let settled = metadata.is_settled(now.unix);
        let entry = Arc::new(Entry::new(key, &relative, (representation, metadata), settled, now_ns));
        self.cache.insert(Arc::clone(&entry));
        Ok((entry, Source::Opened))
    }
}

#[inline]
fn nanoseconds(unix: Duration) -> u64 {
    // Enough until the year 2554.
    unix.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(unix.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is gone leaves neither memory nor a descriptor behind.
    #[test]
    fn what_is_gone_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
        let site =
            Site::open(directory.path(), SiteOptions { revalidate: Duration::ZERO, ..SiteOptions::default() }).unwrap();
        let now = Now { instant: std::time::Instant::now(), unix: Duration::from_secs(4_000_000_000) };
        assert!(site.with_file(b"/file", false, now, |_| ()).is_ok());
        assert_eq!(site.cache.used().entries, 1);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(site.with_file(b"/file", false, now, |_| ()), Err(Absence::MISSING));
        assert_eq!(site.cache.used().entries, 0);
    }

    /// Whose fault it is decides the class of the status.
    #[test]
    fn every_reason_not_to_open_has_its_status() {
        // ENOENT, EXDEV, ENXIO, EACCES, EMFILE, ENFILE, EIO.
        for (errno, status) in [
            (2, Status::NotFound),
            (18, Status::NotFound),
            (6, Status::NotFound),
            (13, Status::Forbidden),
            (24, Status::ServiceUnavailable),
            (23, Status::ServiceUnavailable),
            (5, Status::InternalError),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(Absence::from(OpenError::from(error)), Absence::Refused(status));
        }
    }
}
