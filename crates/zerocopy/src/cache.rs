//! Cache of files by path: each is prepared once for the way it is sent.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use file_cache::{Body, CacheLimits, CheckedRoot, FileState, Lookup, PathCache, PathEntry, unix_ns};
use parking_lot::Mutex;
use proto::Now;
use service::{Budget, Reservation};
use sys::{
    beneath::{Metadata, Opened, Root},
    memfd,
    registered::Region,
};
use web::{NotFound, Presentation, Settings, path::PathError};

use crate::{
    fallback::Reason,
    file::CachedFile,
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
    files: Mutex<HashMap<Identity, Weak<CachedFile>>>,
    overlay_bytes: Budget,
    overlays: Budget,
    /// Counter that tells apart overlays made within one tick of the clock.
    overlays_made: AtomicU64,
}

/// File that a path leads to, and its requests by this path.
#[derive(Debug)]
pub(crate) struct CachedPath {
    pub(crate) file: Arc<CachedFile>,
    requests: AtomicU64,
}

impl CachedPath {
    fn new(file: Arc<CachedFile>) -> Self {
        Self { file, requests: AtomicU64::new(0) }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Body for CachedPath {
    fn state(&self) -> &FileState {
        &self.file.state
    }

    // What a file holds counts against budgets of its own, since several paths may share it.

    fn memory_bytes(&self) -> usize {
        0
    }

    fn descriptors(&self) -> usize {
        0
    }

    #[inline]
    fn is_intact(&self, now_ns: u64) -> bool {
        self.file.is_intact(now_ns)
    }

    #[inline]
    fn record_use(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

/// Key of a file: one state of it, presented in one way, since two names may have different types and fields.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    changed_ns: i64,
    presentation: Presentation,
}

/// Entry that a request has found, or why there is none.
type Found = Result<(Arc<PathEntry<CachedPath>>, Lookup), NotFound>;

/// Reason why a resource cannot be put over the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverlayError {
    #[error("no room: --overlay-bytes or the limit of 1024 added resources is reached")]
    Full,
    #[error("out of file descriptors or memory")]
    Exhausted,
}

impl Cache {
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
            overlays_made: AtomicU64::new(0),
            options,
        }
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
        mut send: impl FnMut(&CachedFile) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        // A key is a decoded path: only a path without escapes can be taken for one.
        if !encoded && let Some(sent) = self.paths.with_current(path, unix_ns(now.unix), |path| send(&path.file)) {
            self.resources.statistics.record_lookup(Lookup::Hit);
            return Ok((sent, Lookup::Hit));
        }
        let (entry, lookup) = self.find(path, now)?;
        Ok((send(&entry.body().file), lookup))
    }

    #[cold]
    #[inline(never)]
    fn find(&self, path: &[u8], now: Now) -> Found {
        self.counted(self.settings.content.locate(path).and_then(|key| self.find_by_key(&key, now)))
    }

    /// Shows `send` the file at a normal path, whatever a request for that path leads to.
    pub(crate) fn with_own_file<R>(
        &self,
        normal: &[u8],
        now: Now,
        mut send: impl FnMut(&CachedFile) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        let (entry, lookup) = self.counted(self.find_by_key(&self.settings.content.own_key(normal), now))?;
        Ok((send(&entry.body().file), lookup))
    }

    fn find_by_key(&self, key: &[u8], now: Now) -> Found {
        self.paths.find(key, now.unix, |root| self.load(key, root, now))
    }

    fn counted(&self, found: Found) -> Found {
        match &found {
            Ok((_, lookup)) => self.resources.statistics.record_lookup(*lookup),
            Err(_) => self.resources.statistics.record_not_found(),
        }
        found
    }

    /// Returns the normal form of a request's path.
    pub(crate) fn normalise(&self, path: &[u8]) -> Result<Vec<u8>, PathError> {
        self.settings.content.normalise(path)
    }

    fn load(&self, key: &[u8], root: &CheckedRoot, now: Now) -> Result<Arc<PathEntry<CachedPath>>, NotFound> {
        let (relative, opened) = web::open(root.root(), key, &self.settings.content)?;
        let presentation = self.settings.content.presentation(&relative, &self.settings.media_types);
        let (file, retention) = self.file(key, opened, presentation, now.unix);
        let entry = PathEntry::new(key, &relative, CachedPath::new(file), root.checked_ns());
        Ok(match retention {
            Retention::Cached => self.paths.insert(entry),
            Retention::Once => Arc::new(entry),
        })
    }

    // --- files, whatever their paths ------------------------------------------------------

    /// Returns the file that has been opened: the one that another path has brought into the cache, or a new one.
    fn file(
        &self,
        path: &[u8],
        opened: Opened,
        presentation: Presentation,
        unix: Duration,
    ) -> (Arc<CachedFile>, Retention) {
        let Metadata { device, inode, changed_ns, .. } = opened.metadata;
        let identity = Identity { device, inode, changed_ns, presentation };
        let known = self.files.lock().get(&identity).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.state.is_unchanged(|| Ok(opened.metadata))) {
            return (known, Retention::Cached);
        }
        let descriptor = if self.options.entries == 0 { None } else { self.descriptor(path, unix) };
        let retention = if descriptor.is_some() { Retention::Cached } else { Retention::Once };
        let mut strategy = self.options.strategy.for_size(opened.metadata.size);
        if retention == Retention::Once && strategy != Strategy::Sendfile {
            // A file that is sent once is not worth a pipe or a mapping.
            self.resources.statistics.record_fallback(strategy, Reason::Descriptors);
            strategy = Strategy::Sendfile;
        }
        let presentation = &identity.presentation;
        let reserved = descriptor.into_iter().collect();
        let file = Arc::new(CachedFile::new(opened, presentation, strategy, reserved, &self.resources, unix));
        if retention == Retention::Cached {
            self.files.lock().insert(identity, Arc::downgrade(&file));
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
        let file = CachedFile::sealed(opened, modified_ns, &presentation, strategy, reserved, resources, now.unix);
        let entry = PathEntry::pinned(path, CachedPath::new(Arc::new(file)), unix_ns(now.unix));
        Ok(if self.paths.replace_pinned(entry) { Added::Replaced } else { Added::Created })
    }

    /// Takes whatever is at a normal path out of the cache. Returns false when there was nothing.
    pub(crate) fn reset(&self, path: &[u8]) -> bool {
        let Some(entry) = self.paths.remove(path) else { return false };
        // Another path of the same file keeps it; the next request for this one opens it anew.
        self.files.lock().retain(|_, file| file.as_ptr() != Arc::as_ptr(&entry.body().file));
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
        self.paths.entries().iter().for_each(|entry| entry.body().file.release_idle(old));
        self.files.lock().retain(|_, file| file.strong_count() > 0);
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
