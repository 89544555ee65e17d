//! Document root and the cache of its files.

use std::{convert::Infallible, io, ops::Range, path::Path, sync::Arc, time::Duration};

use file_cache::{CacheLimits, CheckedRoot, Lookup, PathCache, PathEntry, unix_ns};
use proto::{Now, Outbox};
use sys::beneath::Root;
use web::{Heads, NotFound, Response, Settings};
use wire::http1::Connection;

use crate::representation::Representation;

/// Memory for a cached file beside its contents, in bytes: two paths, two heads.
const ENTRY_OVERHEAD_MAX: usize = 16 << 10;

/// Options of a [`Site`].
#[derive(Clone, Copy, Debug)]
pub struct SiteOptions {
    /// Time for which a cached file is taken to be unchanged without a check.
    pub revalidate: Duration,
    pub cache: CacheLimits,
    /// Size of the largest files that are kept in memory, in bytes; larger ones are kept as open descriptors.
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

impl SiteOptions {
    /// Length of the largest contents that are read into memory.
    fn contents_max(&self) -> u64 {
        // Contents that are not kept are better sent from the descriptor than read.
        let cache_max = if self.cache.is_off() { 0 } else { self.cache.bytes.saturating_sub(ENTRY_OVERHEAD_MAX) };
        self.cache_file_max.min(cache_max as u64)
    }
}

/// Document root and the cache of its files.
#[derive(Debug)]
pub struct Site {
    cache: PathCache<Representation>,
    contents_max: u64,
    settings: Arc<Settings>,
}

impl Site {
    /// # Errors
    /// `directory` cannot be opened as a directory.
    pub fn open(directory: &Path, options: SiteOptions) -> io::Result<Self> {
        Ok(Self::new(Root::open(directory)?, options))
    }

    /// Serves what is beneath `root`.
    pub fn new(root: Root, options: SiteOptions) -> Self {
        Self {
            cache: PathCache::new(root, &options.cache, options.revalidate),
            contents_max: options.contents_max(),
            settings: Arc::default(),
        }
    }

    /// Replaces the settings.
    #[must_use]
    pub fn with_settings(self, settings: Arc<Settings>) -> Self {
        Self { settings, ..self }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, path: &[u8], now: Now) -> Result<(Arc<PathEntry<Representation>>, Lookup), NotFound> {
        self.find_by_key(&self.settings.content.locate(path)?, now)
    }

    fn find_by_key(&self, key: &[u8], now: Now) -> Result<(Arc<PathEntry<Representation>>, Lookup), NotFound> {
        self.cache.find(key, now.unix, |root| self.load(key, root, now.unix))
    }

    fn load(&self, key: &[u8], root: &CheckedRoot, unix: Duration) -> Result<Arc<PathEntry<Representation>>, NotFound> {
        let (relative, opened) = web::open(root.root(), key, &self.settings.content)?;
        let presentation = self.settings.content.presentation(&relative, &self.settings.media_types);
        let representation = Representation::load(opened, &presentation, self.contents_max, unix)?;
        Ok(self.cache.insert(PathEntry::new(key, &relative, representation, root.checked_ns())))
    }
}

impl web::Site for Site {
    type File = Representation;
    type Upload = Infallible;

    /// A path that needs no normalising is its own key, so that a current file costs one hash and one lookup under a lock.
    #[inline]
    fn with_file<R>(
        &self,
        path: &[u8],
        encoded: bool,
        now: Now,
        mut send: impl FnMut(&Self::File) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        // A key is a decoded path: only a path without escapes can be taken for one.
        if !encoded && let Some(sent) = self.cache.with_current(path, unix_ns(now.unix), &mut send) {
            return Ok((sent, Lookup::Hit));
        }
        let (entry, lookup) = self.find(path, now)?;
        Ok((send(entry.body()), lookup))
    }

    fn with_own_file<R>(
        &self,
        normal: &[u8],
        now: Now,
        mut send: impl FnMut(&Self::File) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        let (entry, lookup) = self.find_by_key(&self.settings.content.own_key(normal), now)?;
        Ok((send(entry.body()), lookup))
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
    use file_cache::Body as _;
    use web::Site as _;

    use super::*;

    /// A file that is gone leaves neither memory nor a descriptor behind.
    #[test]
    fn a_deleted_file_leaves_the_cache() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
        let site =
            Site::open(directory.path(), SiteOptions { revalidate: Duration::ZERO, ..SiteOptions::default() }).unwrap();
        let now = Now { instant: std::time::Instant::now(), unix: Duration::from_secs(4_000_000_000) };
        assert!(site.with_file(b"/file", false, now, |_| ()).is_ok());
        assert_eq!(site.cache.len(), 1);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(site.with_file(b"/file", false, now, |_| ()), Err(NotFound::MISSING));
        assert!(site.cache.is_empty());
    }

    /// The largest contents that are read fit the cache; else they would be read again for each request.
    #[test]
    fn the_largest_contents_fit_and_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let now = Now { instant: std::time::Instant::now(), unix: Duration::from_secs(4_000_000_000) };
        for bytes in [64 << 20, 100 << 10, ENTRY_OVERHEAD_MAX + 6_000] {
            let cache = CacheLimits { entries: 4, bytes, descriptors: 0 };
            let options = SiteOptions { cache, cache_file_max: u64::MAX, ..SiteOptions::default() };
            let contents_max = usize::try_from(options.contents_max()).unwrap();
            std::fs::write(directory.path().join("file"), vec![b'x'; contents_max]).unwrap();
            let site = Site::open(directory.path(), options).unwrap();
            let overhead = site.with_file(b"/file", false, now, |file| file.memory_bytes() - contents_max);
            assert!(overhead.is_ok_and(|(bytes, _)| bytes < ENTRY_OVERHEAD_MAX / 2));
            assert_eq!(site.cache.len(), 1, "{bytes}");
        }
        for off in
            [CacheLimits { entries: 0, bytes: 1, descriptors: 1 }, CacheLimits { entries: 1, bytes: 0, descriptors: 1 }]
        {
            assert_eq!(SiteOptions { cache: off, ..SiteOptions::default() }.contents_max(), 0);
        }
    }
}
