//! Cache of files by path: each is prepared once for the way it is sent.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use file_cache::{CacheLimits, CheckedRoot, Lookup, PathCache, PathEntry, unix_ns};
use parking_lot::Mutex;
use proto::{Now, Promise};
use service::{Budget, Reservation};
use sys::{
    beneath::{Metadata, Opened, Root},
    memfd,
    registered::Region,
};
use web::{
    Encoding, Found, Heads, NotFound, Preparations, Presentation, Settings, Siblings, Sources, codec, path::PathError,
};
use wire::http1::coding::{Coding, CodingSet};

use crate::{
    cached_path::{self, CachedPath},
    fallback::Reason,
    file::{CachedFile, KnownFile},
    resources::{Limits, Resources},
    strategy::{Strategy, StrategyChoice},
};

/// Files that make room for one descriptor before the newcomer is served without a place in the cache.
const EVICTIONS_MAX: usize = 8;
/// Time since its last request for which a file is probably still being sent: to evict it would free nothing.
const IN_USE_NS: u64 = 100_000_000;
/// Number of resources put over the tree; each has a descriptor.
const OVERLAYS_MAX: u64 = 1024;

/// Options of a [`Cache`].
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    pub strategy: StrategyChoice,
    /// Time for which a cached file is taken to be unchanged without a check.
    pub revalidate: Duration,
    /// Time after its last request at which a file leaves the cache.
    pub idle_evict: Duration,
    /// Number of cached paths.
    pub entries: usize,
    pub limits: Limits,
    /// Bytes of all resources put over the tree.
    pub overlay_bytes: u64,
    /// Bytes of all files that the cache has compressed.
    pub compressed_bytes: u64,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            strategy: StrategyChoice::Auto,
            revalidate: Duration::from_secs(1),
            idle_evict: Duration::from_secs(5),
            entries: 8192,
            limits: Limits { pipe_bytes: 64 << 20, pipe_size: 512 << 10, descriptors: 4096, mapped_bytes: 1 << 30 },
            overlay_bytes: 16 << 20,
            compressed_bytes: 64 << 20,
        }
    }
}

/// Files of one directory tree, and the resources put over it.
///
/// A path is an entry, and several entries may share one [`CachedFile`].
#[derive(Debug)]
pub struct Cache {
    pub(crate) options: CacheOptions,
    pub(crate) resources: Arc<Resources>,
    /// Pinned entries are the overlays.
    pub(crate) paths: PathCache<CachedPath>,
    settings: Arc<Settings>,
    files: Mutex<HashMap<Identity, KnownFile>>,
    overlay_bytes: Budget,
    overlays: Budget,
    compressed_bytes: Budget,
    preparations: Preparations,
    /// Counter that tells apart overlays made within one tick of the clock.
    overlays_made: AtomicU64,
}

/// Key of a file: one state of it, presented in one way, since two names may have different types and fields, and as one
/// kind of representation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    changed_ns: i64,
    presentation: Presentation,
    encoding: Encoding,
}

/// Entry that a request has found, or why there is none.
type FoundEntry = Result<(Arc<PathEntry<CachedPath>>, Lookup), NotFound>;

/// Reason why a resource cannot be put over the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverlayError {
    #[error("no room: --overlay-bytes or the limit of 1024 added resources is reached")]
    Full,
    #[error("out of file descriptors or memory")]
    Exhausted,
}

impl Cache {
    pub(crate) fn root(&self, now: Now) -> CheckedRoot {
        self.paths.root(unix_ns(now.unix))
    }

    /// Makes an empty cache. `registered` is memory into which the strategy `uring` copies files; without it those files are
    /// sent by `sendfile`.
    pub fn new(root: Root, settings: Arc<Settings>, options: CacheOptions, registered: Option<Arc<Region>>) -> Self {
        let limits = CacheLimits { entries: options.entries, bytes: usize::MAX, descriptors: usize::MAX };
        Self {
            resources: Arc::new(Resources::new(&options.limits, registered)),
            paths: PathCache::new(root, &limits, options.revalidate),
            settings,
            files: Mutex::default(),
            overlay_bytes: Budget::new(options.overlay_bytes),
            overlays: Budget::new(OVERLAYS_MAX),
            compressed_bytes: Budget::new(options.compressed_bytes),
            preparations: Preparations::default(),
            overlays_made: AtomicU64::new(0),
            options,
        }
    }

    /// Makes an empty cache of another directory, or of the same one with other settings, which shares the budgets and
    /// the statistics of this one.
    #[must_use]
    pub fn beside(&self, root: Root, settings: Arc<Settings>) -> Self {
        let limits = CacheLimits { entries: self.options.entries, bytes: usize::MAX, descriptors: usize::MAX };
        Self {
            options: self.options,
            resources: Arc::clone(&self.resources),
            paths: PathCache::new(root, &limits, self.options.revalidate),
            settings,
            files: Mutex::default(),
            overlay_bytes: self.overlay_bytes.clone(),
            overlays: self.overlays.clone(),
            compressed_bytes: self.compressed_bytes.clone(),
            preparations: Preparations::default(),
            overlays_made: AtomicU64::new(self.overlays_made.load(Ordering::Relaxed)),
        }
    }

    /// Takes over the resources that have been added to `old`: a reload keeps them.
    pub fn adopt_overlays(&self, old: &Self) {
        for entry in old.paths.entries().iter().filter(|entry| entry.is_pinned()) {
            let path = CachedPath::sole(Arc::clone(&entry.body().file), Siblings::default());
            self.paths.replace_pinned(PathEntry::pinned(entry.path(), path, entry.used_ns()));
        }
    }

    /// Forgets all files: others are served from now on.
    pub(crate) fn clear(&self) {
        self.paths.remove_if(|_| true);
        self.files.lock().clear();
    }

    /// Shows `send` the file that `path` means, as it was at most the revalidation interval ago.
    ///
    /// `path` is a request's, and `encoded` is true when it contains escapes. A path that needs no normalising is its own
    /// key, so that a current file costs one hash and one lookup under a lock.
    #[inline]
    pub(crate) fn with_file<R>(
        &self,
        path: &[u8],
        encoded: bool,
        now: Now,
        mut send: impl FnMut(Found<'_, CachedFile>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        // A key is a decoded path: only a path without escapes can be taken for one.
        if !encoded && let Some(sent) = self.paths.with_current(path, unix_ns(now.unix), |path| send(path.found())) {
            return Ok((sent, Lookup::Hit));
        }
        let (entry, lookup) = self.find(path, now)?;
        Ok((send(entry.body().found()), lookup))
    }

    #[cold]
    #[inline(never)]
    fn find(&self, path: &[u8], now: Now) -> FoundEntry {
        self.counted(self.settings.content.locate(path).and_then(|key| self.find_by_key(&key, now)))
    }

    /// Shows `send` the file at a normal path, whatever a request for that path leads to.
    pub(crate) fn with_own_file<R>(
        &self,
        normal: &[u8],
        now: Now,
        mut send: impl FnMut(Found<'_, CachedFile>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        let (entry, lookup) = self.counted(self.find_by_key(&self.settings.content.own_key(normal), now))?;
        Ok((send(entry.body().found()), lookup))
    }

    fn find_by_key(&self, key: &[u8], now: Now) -> FoundEntry {
        self.paths.find(key, now.unix, |root| self.load(key, root, now))
    }

    fn counted(&self, found: FoundEntry) -> FoundEntry {
        if found.is_err() {
            self.resources.statistics.record_not_found();
        }
        found
    }

    /// Returns the normal form of a request's path.
    pub(crate) fn normalise(&self, path: &[u8]) -> Result<Vec<u8>, PathError> {
        self.settings.content.normalise(path)
    }

    fn load(&self, key: &[u8], root: &CheckedRoot, now: Now) -> Result<Arc<PathEntry<CachedPath>>, NotFound> {
        let mut sources = web::open_variants(root.root(), key, &self.settings, now.unix)?;
        let relative = std::mem::take(&mut sources.relative);
        let presentation = self.settings.content.presentation(&relative, &self.settings.media_types);
        let (cached, retention) = self.cached_path(key, sources, presentation, now.unix).ok_or(NotFound::MISSING)?;
        let entry = PathEntry::new(key, &relative, cached, root.checked_ns());
        Ok(match retention {
            Retention::Cached => self.paths.insert(entry),
            Retention::Once => Arc::new(entry),
        })
    }

    fn cached_path(
        &self,
        path: &[u8],
        sources: Sources,
        presentation: Presentation,
        unix: Duration,
    ) -> Option<(CachedPath, Retention)> {
        let bytes_max = if self.options.entries == 0 { 0 } else { self.compressed_max() };
        let makeable = sources.makeable(&presentation.media_type, self.settings.codings, bytes_max);
        let is_sole = sources.compressed.is_empty() && makeable.is_empty();
        let mut retention = Retention::Cached;
        let mut open = |opened, encoding| {
            let (file, kept) = self.file(path, opened, presentation.clone(), encoding, unix);
            // One that is sent once and forgotten takes the others along.
            retention = if kept == Retention::Once { kept } else { retention };
            file
        };
        let original = if is_sole { Encoding::Sole } else { Encoding::Identity };
        let original = sources.original.map(|opened| open(opened, original));
        let compressed = sources.compressed.into_iter();
        let compressed: Vec<_> =
            compressed.map(|(coding, opened)| (coding, open(opened, Encoding::Stored(coding)))).collect();
        let cached = match original {
            Some(file) if is_sole => CachedPath::sole(file, sources.siblings),
            original => {
                let makeable = if retention == Retention::Once { CodingSet::EMPTY } else { makeable };
                CachedPath::negotiated(original, compressed, makeable, sources.siblings, presentation)?
            }
        };
        Some((cached, retention))
    }

    // --- representations that are made ----------------------------------------------------

    /// Size of the largest file that is compressed: others are to have their share.
    fn compressed_max(&self) -> u64 {
        codec::DECOMPRESSED_MAX.min(self.options.compressed_bytes / 4)
    }

    /// See [`web::Site::prepare`].
    pub(crate) fn prepare(
        self: &Arc<Self>,
        key: &[u8],
        coding: Coding,
        now: Now,
        defer: impl FnOnce() -> Promise,
    ) -> bool {
        let Ok((entry, _)) = self.find_by_key(key, now) else { return false };
        // The lookup that showed that it is missing, and this one: the request will look once more.
        entry.body().forget_uses(2);
        if !entry.body().can_make(coding) {
            return false;
        }
        let cache = Arc::clone(self);
        self.preparations.prepare(key, coding, defer, move || cache.make(&entry, coding, now.unix))
    }

    fn make(&self, entry: &PathEntry<CachedPath>, coding: Coding, unix: Duration) {
        let (from, source) = entry.body().source();
        let Some(contents) = cached_path::convert(from, source, coding, self.compressed_max()) else { return };
        let file = contents.and_then(|contents| self.converted(entry, &contents, coding, unix));
        let file = file.map(Arc::new);
        self.paths.update(entry.path(), |current| current.with(&entry.body().file.state, coding, file.as_ref()));
    }

    /// Keeps contents as a file of its own; `None` if there is no room.
    fn converted(
        &self,
        entry: &PathEntry<CachedPath>,
        contents: &[u8],
        coding: Coding,
        unix: Duration,
    ) -> Option<CachedFile> {
        let bytes = self.resources.reserve(&self.compressed_bytes, contents.len() as u64)?;
        let reserved = vec![bytes, self.descriptor(entry.path(), unix)?];
        let file = memfd::sealed(contents).ok()?;
        let metadata = Metadata::of(&file).ok()?;
        let encoding = if coding == Coding::Identity { Encoding::Decompressed } else { Encoding::Compressed(coding) };
        let (_, source) = entry.body().source();
        let shown = Metadata { size: metadata.size, ..source.state.metadata };
        let heads = Heads::new(&shown, entry.body().presentation()?, encoding, b"", unix);
        let strategy = self.options.strategy.for_size(metadata.size);
        Some(CachedFile::sealed(Opened { file, metadata }, heads, strategy, reserved, &self.resources, unix))
    }

    // --- files, whatever their paths ------------------------------------------------------

    /// Returns the file that has been opened: the one that another path has brought into the cache, or a new one.
    fn file(
        &self,
        path: &[u8],
        opened: Opened,
        presentation: Presentation,
        encoding: Encoding,
        unix: Duration,
    ) -> (Arc<CachedFile>, Retention) {
        let Metadata { device, inode, changed_ns, .. } = opened.metadata;
        let identity = Identity { device, inode, changed_ns, presentation, encoding };
        let (known, in_flight) = self.files.lock().get(&identity).map_or((None, None), KnownFile::upgrade);
        if let Some(known) = known.filter(|known| known.state.is_unchanged(|| Ok(opened.metadata))) {
            let retention = if known.is_accounted() { Retention::Cached } else { Retention::Once };
            return (known, retention);
        }
        let Opened { file, metadata } = opened;
        // While one that is sent once is in flight, others that ask for it share its descriptor.
        let file = in_flight.unwrap_or_else(|| Arc::new(file));
        let descriptor = if self.options.entries == 0 { None } else { self.descriptor(path, unix) };
        let retention = if descriptor.is_some() { Retention::Cached } else { Retention::Once };
        let mut strategy = self.options.strategy.for_size(metadata.size);
        if retention == Retention::Once && strategy != Strategy::Sendfile {
            // A file that is sent once is not worth a pipe or a mapping.
            self.resources.statistics.record_fallback(strategy, Reason::Descriptors);
            strategy = Strategy::Sendfile;
        }
        let heads = Heads::new(&metadata, &identity.presentation, encoding, b"", unix);
        let (reserved, open) = (descriptor.into_iter().collect(), Arc::downgrade(&file));
        let file = Arc::new(CachedFile::new(file, metadata, heads, strategy, reserved, &self.resources, unix));
        if self.options.entries > 0 {
            self.files.lock().insert(identity, KnownFile { cached: Arc::downgrade(&file), open });
        }
        (file, retention)
    }

    /// Reserves one more open file, if need be in the place of others.
    fn descriptor(&self, path: &[u8], unix: Duration) -> Option<Reservation> {
        let before_ns = unix_ns(unix).saturating_sub(IN_USE_NS);
        for _ in 0..EVICTIONS_MAX {
            let reserved = self.resources.reserve(&self.resources.descriptors, 1);
            if reserved.is_some() || !self.paths.evict(path, before_ns) {
                return reserved;
            }
            self.resources.statistics.evictions.fetch_add(1, Ordering::Relaxed);
        }
        self.resources.reserve(&self.resources.descriptors, 1)
    }

    // --- administration -------------------------------------------------------------------

    /// Puts a resource in the place of whatever is at a normal path, be it a file or another resource.
    pub(crate) fn add(&self, path: &[u8], contents: &[u8], now: Now) -> Result<Added, OverlayError> {
        let mut reserved = vec![self.overlay_bytes.reserve(contents.len() as u64).ok_or(OverlayError::Full)?];
        reserved.push(self.overlays.reserve(1).ok_or(OverlayError::Full)?);
        let file = memfd::sealed(contents).map_err(|_| OverlayError::Exhausted)?;
        let metadata = Metadata::of(&file).map_err(|_| OverlayError::Exhausted)?;
        // Entity tags tell two of them apart, however fast one follows the other.
        let number = self.overlays_made.fetch_add(1, Ordering::Relaxed) % 1_000_000;
        let modified_ns = metadata.modified_ns.saturating_add(number as i64);
        let name = if path.ends_with(b"/") { b"index.html" } else { path };
        let strategy = self.options.strategy.for_size(metadata.size);
        let relative = name.strip_prefix(b"/").unwrap_or(name);
        let presentation = self.settings.content.presentation(relative, &self.settings.media_types);
        let opened = Opened { file, metadata };
        let resources = &self.resources;
        let shown = Metadata { modified_ns, ..metadata };
        let heads = Heads::new(&shown, &presentation, Encoding::Sole, b"", now.unix);
        let file = CachedFile::sealed(opened, heads, strategy, reserved, resources, now.unix);
        let cached = CachedPath::sole(Arc::new(file), Siblings::default());
        let entry = PathEntry::pinned(path, cached, unix_ns(now.unix));
        Ok(if self.paths.replace_pinned(entry) { Added::Replaced } else { Added::Created })
    }

    /// Takes whatever is at a normal path out of the cache, for requests that a rule leads there, too. Returns false when
    /// there was nothing.
    pub(crate) fn reset(&self, path: &[u8]) -> bool {
        let own_key = self.settings.content.own_key(path);
        let hidden = own_key != path && self.reset_key(&own_key);
        self.reset_key(path) || hidden
    }

    fn reset_key(&self, key: &[u8]) -> bool {
        let Some(entry) = self.paths.remove(key) else { return false };
        // Another path of the same file keeps it; the next request for this one opens it anew.
        let is_of_path = |file: &Weak<CachedFile>| entry.body().files().any(|own| file.as_ptr() == Arc::as_ptr(own));
        self.files.lock().retain(|_, known| !is_of_path(&known.cached));
        true
    }

    /// Evicts what is idle and releases what is no longer sent. To be called about once a second.
    pub fn sweep(&self, now: Now) {
        let (now_ns, idle) = (unix_ns(now.unix), self.options.idle_evict);
        let idle_ns = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
        let is_idle = |entry: &PathEntry<_>| !entry.is_pinned() && now_ns.saturating_sub(entry.used_ns()) >= idle_ns;
        let evicted = self.paths.remove_if(is_idle) as u64;
        self.resources.statistics.evictions.fetch_add(evicted, Ordering::Relaxed);
        // A first pipe of this second or the one before may be asked for at any moment.
        let old = now.unix.as_secs().saturating_sub(idle.as_secs().max(1));
        for entry in self.paths.entries() {
            entry.body().files().for_each(|file| file.release_idle(old));
        }
        self.files.lock().retain(|_, known| known.open.strong_count() > 0);
        self.resources.detached.release_finished();
        self.resources.statistics.tick(now.instant);
    }
}

/// Fate of a file that has been opened for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    Cached,
    /// The file is sent once and forgotten: there is no room for it.
    Once,
}

/// Outcome of adding a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Created,
    Replaced,
}
