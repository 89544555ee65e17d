//! Document root and the cache of its files.

use std::{convert::Infallible, io, ops::Range, path::Path, sync::Arc, time::Duration};

use file_cache::{CacheLimits, CheckedRoot, Lookup, PathCache, PathEntry, unix_ns};
use proto::{Now, Outbox, Promise};
use sys::beneath::Root;
use web::{Found, Heads, NotFound, Preparations, Response, Settings, codec};
use wire::http1::{Connection, coding::Coding};

use crate::{
    cached_path::{CachedPath, MemoryLimits},
    representation::Representation,
};

/// Memory for a cached file beside its contents, in bytes: two paths, two heads.
const ENTRY_OVERHEAD_MAX: usize = 16 << 10;

/// Share of the cache that one compressed file may take: a path has up to three, and others want to live, too.
const CONVERTED_SHARE: u64 = 8;

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
    fn memory_limits(&self) -> MemoryLimits {
        // Contents that are not kept are better sent from the descriptor than read or compressed.
        let cache_max =
            if self.cache.is_off() { 0 } else { self.cache.bytes.saturating_sub(ENTRY_OVERHEAD_MAX) as u64 };
        // Without descriptors, what has been compressed stays in memory.
        let has_descriptors = self.cache.descriptors > 0;
        MemoryLimits {
            contents: self.cache_file_max.min(cache_max),
            sent_from_memory: if has_descriptors { self.cache_file_max } else { u64::MAX },
            converted: codec::DECOMPRESSED_MAX.min(cache_max / CONVERTED_SHARE),
        }
    }
}

/// Document root and the cache of its files.
#[derive(Debug)]
pub struct Site {
    cache: Arc<PathCache<CachedPath>>,
    limits: MemoryLimits,
    settings: Arc<Settings>,
    preparations: Preparations,
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
            cache: Arc::new(PathCache::new(root, &options.cache, options.revalidate)),
            limits: options.memory_limits(),
            settings: Arc::default(),
            preparations: Preparations::default(),
        }
    }

    /// Replaces the settings.
    #[must_use]
    pub fn with_settings(self, settings: Arc<Settings>) -> Self {
        Self { settings, ..self }
    }

    /// Memory of all cached files in bytes.
    pub fn cached_bytes(&self) -> u64 {
        self.cache.used_bytes()
    }

    #[cold]
    #[inline(never)]
    fn find(&self, path: &[u8], now: Now) -> Result<(Arc<PathEntry<CachedPath>>, Lookup), NotFound> {
        self.find_by_key(&self.settings.content.locate(path)?, now)
    }

    fn find_by_key(&self, key: &[u8], now: Now) -> Result<(Arc<PathEntry<CachedPath>>, Lookup), NotFound> {
        self.cache.find(key, now.unix, |root| self.load(key, root, now.unix))
    }

    fn load(&self, key: &[u8], root: &CheckedRoot, unix: Duration) -> Result<Arc<PathEntry<CachedPath>>, NotFound> {
        let Settings { content, media_types, codings, .. } = &*self.settings;
        let mut sources = web::open_variants(root.root(), key, &self.settings, unix)?;
        let relative = std::mem::take(&mut sources.relative);
        let presentation = content.presentation(&relative, media_types);
        let cached = CachedPath::load(sources, presentation, *codings, self.limits, unix)?;
        Ok(self.cache.insert(PathEntry::new(key, &relative, cached, root.checked_ns())))
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
        mut send: impl FnMut(Found<'_, Self::File>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        // A key is a decoded path: only a path without escapes can be taken for one.
        if !encoded && let Some(sent) = self.cache.with_current(path, unix_ns(now.unix), |cached| send(cached.found()))
        {
            return Ok((sent, Lookup::Hit));
        }
        let (entry, lookup) = self.find(path, now)?;
        Ok((send(entry.body().found()), lookup))
    }

    fn prepare(&self, key: &[u8], coding: Coding, now: Now, defer: impl FnOnce() -> Promise) -> bool {
        let Ok((entry, _)) = self.find_by_key(key, now) else { return false };
        if !entry.body().can_make(coding) {
            return false;
        }
        let (cache, limits) = (Arc::clone(&self.cache), self.limits);
        let make = move || {
            if let Some(converted) = entry.body().convert(coding, limits, now.unix) {
                cache.update(entry.path(), |current| current.with(&converted));
            }
        };
        self.preparations.prepare(key, coding, defer, make)
    }

    fn root(&self, now: Now) -> Option<CheckedRoot> {
        Some(self.cache.root(unix_ns(now.unix)))
    }

    fn with_own_file<R>(
        &self,
        normal: &[u8],
        now: Now,
        mut send: impl FnMut(Found<'_, Self::File>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        let (entry, lookup) = self.find_by_key(&self.settings.content.own_key(normal), now)?;
        Ok((send(entry.body().found()), lookup))
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

    fn retire(&self) {
        self.cache.remove_if(|_| true);
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
            let contents_max = usize::try_from(options.memory_limits().contents).unwrap();
            std::fs::write(directory.path().join("file"), vec![b'x'; contents_max]).unwrap();
            let site = Site::open(directory.path(), options).unwrap();
            let overhead = site.with_file(b"/file", false, now, |found| found.file.memory_bytes() - contents_max);
            assert!(overhead.is_ok_and(|(bytes, _)| bytes < ENTRY_OVERHEAD_MAX / 2));
            assert_eq!(site.cache.len(), 1, "{bytes}");
        }
        for off in
            [CacheLimits { entries: 0, bytes: 1, descriptors: 1 }, CacheLimits { entries: 1, bytes: 0, descriptors: 1 }]
        {
            let limits = SiteOptions { cache: off, ..SiteOptions::default() }.memory_limits();
            assert_eq!((limits.contents, limits.converted), (0, 0));
        }
    }
}
