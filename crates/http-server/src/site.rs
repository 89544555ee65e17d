//! A document root and its cache: which file a path means, and whether what is known about it still holds.

use std::{
    convert::Infallible,
    io,
    ops::Range,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use file_cache::unix_ns;
use proto::{Now, Outbox};
use sys::beneath::Root;
use web::{Heads, Lookup, MediaTypes, NotFound, Response, path};
use wire::http1::Connection;

use crate::{
    cache::{Cache, CacheLimits, Entry},
    representation::Representation,
};

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
    media: MediaTypes,
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
            media: MediaTypes::default(),
        })
    }

    /// The same site with other media types.
    #[must_use]
    pub fn with_media_types(self, media: MediaTypes) -> Self {
        Self { media, ..self }
    }

    #[inline]
    fn is_current(&self, entry: &Entry, now_ns: u64) -> bool {
        // A clock that was set back wraps around to a large age.
        now_ns.wrapping_sub(entry.checked_ns.load(Ordering::Relaxed)) < self.revalidate_ns
    }

    #[cold]
    #[inline(never)]
    fn find(&self, path: &[u8], now: Now) -> Result<(Arc<Entry>, Lookup), NotFound> {
        let key = path::normalise(path)?;
        let now_ns = unix_ns(now.unix);
        let Some(known) = self.cache.look(&key, Arc::clone) else { return self.load(&key, now) };
        if self.is_current(&known, now_ns) {
            return Ok((known, Lookup::Hit));
        }
        // The time is that before the look, so the next one is early rather than late.
        if known.settled && self.root.stat(&known.relative) == Ok(known.metadata) {
            known.checked_ns.store(now_ns, Ordering::Relaxed);
            return Ok((known, Lookup::Revalidated));
        }
        let loaded = self.load(&key, now);
        if loaded.is_err() {
            self.cache.remove(&known);
        }
        loaded
    }

    fn load(&self, key: &[u8], now: Now) -> Result<(Arc<Entry>, Lookup), NotFound> {
        let (relative, opened) = web::open(&self.root, key)?;
        let (representation, metadata) =
            Representation::load(opened, &self.media.for_name(&relative), self.memory_max, now.unix)?;
        let now_ns = unix_ns(now.unix);
        let settled = metadata.is_settled(now.unix);
        let entry = Arc::new(Entry::new(key, &relative, (representation, metadata), settled, now_ns));
        self.cache.insert(Arc::clone(&entry));
        Ok((entry, Lookup::Miss))
    }
}

impl web::Site for Site {
    type File = Representation;
    type Upload = Infallible;

    /// `path` that needs no normalising is its own key, so that for a current file all this is one hash and one look
    /// under a lock. What is shown was so at most the revalidation interval ago.
    #[inline]
    fn with_file<R>(
        &self,
        path: &[u8],
        encoded: bool,
        now: Now,
        mut send: impl FnMut(&Self::File) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        let now_ns = unix_ns(now.unix);
        // A key is a decoded path: only a path without escapes can be taken for one.
        if !encoded {
            let current = |entry: &Arc<Entry>| self.is_current(entry, now_ns).then(|| send(&entry.representation));
            if let Some(Some(sent)) = self.cache.look(path, current) {
                return Ok((sent, Lookup::Hit));
            }
        }
        let (entry, source) = self.find(path, now)?;
        Ok((send(&entry.representation), source))
    }

    #[inline(always)]
    fn heads(file: &Representation) -> &Heads {
        &file.heads
    }

    #[inline(always)]
    fn push_ok(&self, file: &Representation, connection: Connection, now: Now, out: &mut Outbox) -> u64 {
        file.push_ok(connection, now.unix, out)
    }

    fn push_range(&self, file: &Representation, range: Range<u64>, out: &mut Outbox) {
        file.push_range(range, out);
    }

    fn on_upload(&self, upload: Infallible, _: Vec<u8>, _: Now) -> Response<'_> {
        match upload {}
    }
}

#[cfg(test)]
mod tests {
    use web::Site as _;

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
        assert_eq!(site.with_file(b"/file", false, now, |_| ()), Err(NotFound::MISSING));
        assert_eq!(site.cache.used().entries, 0);
    }
}
