//! Files by path, each prepared once for the way it is sent, and looked at again before it is taken to be unchanged for
//! too long.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use file_cache::unix_ns;
use proto::Now;
use service::{Budget, Reservation};
use sys::{
    beneath::{Metadata, Opened, Root},
    memfd,
    registered::Region,
};
use web::{MediaTypes, NotFound, path};

use crate::{
    file::CachedFile,
    index::{Entry, Index, USE_STEP_NS},
    resources::{Limits, Resources},
    statistics::{Outcome, Reason},
    strategy::{Strategy, StrategyChoice},
};

/// Files that make room for one descriptor before the newcomer is served without a place in the cache.
const EVICTIONS_MAX: usize = 8;
/// Resources put over the tree; each has a descriptor.
const OVERLAYS_MAX: u64 = 1024;

/// How a [`Cache`] keeps files.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    pub strategy: StrategyChoice,
    /// How long a cached file is taken to be unchanged without a look.
    pub revalidate: Duration,
    /// A file that nobody has asked for leaves after this.
    pub idle_evict: Duration,
    /// Cached paths.
    pub entries: usize,
    pub limits: Limits,
    /// Resources put over the tree, bytes.
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

/// See the module's description.
#[derive(Debug)]
pub struct Cache {
    pub(crate) options: CacheOptions,
    pub(crate) resources: Arc<Resources>,
    pub(crate) index: Index,
    root: Root,
    media_types: MediaTypes,
    revalidate_ns: u64,
    files: Mutex<HashMap<Identity, Weak<CachedFile>>>,
    overlay_bytes: Budget,
    overlays: Budget,
    /// Tells overlays apart that were put there within one tick of the clock.
    overlays_made: AtomicU64,
}

/// One state of one file, under one media type: two names may mean different ones.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    changed_ns: i64,
    media_type: String,
}

/// Why a resource cannot be put over the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverlayError {
    #[error("there is an added resource of this name already; PUT replaces it")]
    Exists,
    #[error("no room for it: --overlay-bytes, or the number of added resources")]
    Full,
    #[error("out of descriptors or memory")]
    Exhausted,
}

impl Cache {
    /// `registered` is what the strategy `uring` copies files into; without it those files are sent by `sendfile`.
    pub fn new(root: Root, media_types: MediaTypes, options: CacheOptions, registered: Option<Arc<Region>>) -> Self {
        Self {
            resources: Arc::new(Resources::new(&options.limits, registered)),
            index: Index::new(options.entries),
            root,
            media_types,
            revalidate_ns: u64::try_from(options.revalidate.as_nanos()).unwrap_or(u64::MAX),
            files: Mutex::default(),
            overlay_bytes: Budget::new(options.overlay_bytes),
            overlays: Budget::new(OVERLAYS_MAX),
            overlays_made: AtomicU64::new(0),
            options,
        }
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
        mut send: impl FnMut(&CachedFile) -> R,
    ) -> Result<(R, Outcome), NotFound> {
        let now_ns = unix_ns(now.unix);
        // A key is a decoded path: only a path without escapes can be taken for one.
        if !encoded {
            let current = |entry: &Arc<Entry>| {
                self.is_current(entry, now_ns).then(|| {
                    entry.used(now_ns);
                    send(&entry.file)
                })
            };
            if let Some(Some(sent)) = self.index.look(path, current) {
                self.resources.statistics.request(Outcome::Hit);
                return Ok((sent, Outcome::Hit));
            }
        }
        let (entry, outcome) = self.find(path, now)?;
        entry.used(now_ns);
        Ok((send(&entry.file), outcome))
    }

    #[inline]
    fn is_current(&self, entry: &Entry, now_ns: u64) -> bool {
        // A clock that was set back wraps around to a large age.
        let is_fresh = now_ns.wrapping_sub(entry.checked_ns.load(Ordering::Relaxed)) < self.revalidate_ns;
        entry.is_overlay() || is_fresh && entry.file.is_as_in_its_pipes(now_ns)
    }

    #[cold]
    #[inline(never)]
    fn find(&self, path: &[u8], now: Now) -> Result<(Arc<Entry>, Outcome), NotFound> {
        let found = path::normalise(path).map_err(NotFound::from).and_then(|key| self.look_again(&key, now));
        let outcome = found.as_ref().map_or(Outcome::Absent, |(_, outcome)| *outcome);
        self.resources.statistics.request(outcome);
        found
    }

    fn look_again(&self, key: &[u8], now: Now) -> Result<(Arc<Entry>, Outcome), NotFound> {
        let now_ns = unix_ns(now.unix);
        let Some(known) = self.index.look(key, Arc::clone) else { return Ok((self.load(key, now)?, Outcome::Miss)) };
        if self.is_current(&known, now_ns) {
            return Ok((known, Outcome::Hit));
        }
        // The time is that before the look, so the next one is early rather than late.
        let relative = known.relative.as_deref().unwrap_or_default();
        if known.file.settled && self.root.stat(relative) == Ok(known.file.metadata) {
            known.checked_ns.store(now_ns, Ordering::Relaxed);
            return Ok((known, Outcome::Revalidated));
        }
        let loaded = self.load(key, now);
        if loaded.is_err() {
            self.index.remove_this(&known);
        }
        Ok((loaded?, Outcome::Miss))
    }

    fn load(&self, key: &[u8], now: Now) -> Result<Arc<Entry>, NotFound> {
        let (relative, opened) = web::open(&self.root, key)?;
        let media_type = self.media_types.for_name(&relative);
        let (file, place) = self.file(key, opened, media_type, now.unix);
        let entry = Arc::new(Entry::new(key, Some(&relative), file, unix_ns(now.unix)));
        if place == Place::Kept {
            drop(self.index.insert(Arc::clone(&entry)));
        }
        Ok(entry)
    }

    // --- files, whatever their paths ------------------------------------------------------

    fn files(&self) -> MutexGuard<'_, HashMap<Identity, Weak<CachedFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file that has been opened: the one that another path has brought into the cache, or a new one.
    fn file(&self, key: &[u8], opened: Opened, media_type: String, unix: Duration) -> (Arc<CachedFile>, Place) {
        let Metadata { device, inode, changed_ns, .. } = opened.metadata;
        let identity = Identity { device, inode, changed_ns, media_type };
        let known = self.files().get(&identity).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.settled && known.metadata == opened.metadata) {
            return (known, Place::Kept);
        }
        let descriptor = if self.options.entries == 0 { None } else { self.descriptor(key, unix) };
        let place = if descriptor.is_some() { Place::Kept } else { Place::Passing };
        let mut strategy = self.options.strategy.for_size(opened.metadata.size);
        if place == Place::Passing && strategy != Strategy::Sendfile {
            // What is sent once is not worth a pipe or a mapping.
            self.resources.statistics.fell_back(strategy, Reason::Descriptors);
            strategy = Strategy::Sendfile;
        }
        let media_type = &identity.media_type;
        let held = descriptor.into_iter().collect();
        let file = Arc::new(CachedFile::new(opened, media_type, strategy, held, &self.resources, unix));
        if place == Place::Kept {
            self.files().insert(identity, Arc::downgrade(&file));
        }
        (file, place)
    }

    /// Room for one more open file, if need be in the place of others.
    fn descriptor(&self, key: &[u8], unix: Duration) -> Option<Reservation> {
        // What has just been asked for is probably still being sent: to evict it would free nothing.
        let before_ns = unix_ns(unix).saturating_sub(USE_STEP_NS);
        for _ in 0..EVICTIONS_MAX {
            let reserved = self.resources.reserve(&self.resources.descriptors, 1);
            if reserved.is_some() {
                return reserved;
            }
            drop(self.index.evict(key, before_ns)?);
            self.resources.statistics.evictions.fetch_add(1, Ordering::Relaxed);
        }
        self.resources.reserve(&self.resources.descriptors, 1)
    }

    // --- what the server's own resources do -----------------------------------------------

    /// Puts a resource of its own in the place of whatever is at a normal path.
    pub(crate) fn add(&self, key: &[u8], contents: &[u8], how: Adding, now: Now) -> Result<Added, OverlayError> {
        let mut held = vec![self.overlay_bytes.reserve(contents.len() as u64).ok_or(OverlayError::Full)?];
        held.push(self.overlays.reserve(1).ok_or(OverlayError::Full)?);
        let file = memfd::sealed(contents).map_err(|_| OverlayError::Exhausted)?;
        let metadata = Metadata::of(&file).map_err(|_| OverlayError::Exhausted)?;
        // Entity tags tell two of them apart, however fast one follows the other.
        let number = self.overlays_made.fetch_add(1, Ordering::Relaxed) % 1_000_000;
        let modified_ns = metadata.modified_ns.saturating_add(number as i64);
        let name = if key.ends_with(b"/") { b"index.html" } else { key };
        let strategy = self.options.strategy.for_size(metadata.size);
        let (opened, media_type) = (Opened { file, metadata }, self.media_types.for_name(name));
        let resources = &self.resources;
        let file = CachedFile::sealed(opened, modified_ns, &media_type, strategy, held, resources, now.unix);
        let entry = Arc::new(Entry::new(key, None, Arc::new(file), unix_ns(now.unix)));
        match how {
            Adding::New => {
                self.index.insert_new_overlay(entry).map_err(|_| OverlayError::Exists)?;
                Ok(Added::New)
            }
            Adding::Replacing => {
                let replaced = self.index.insert(entry).iter().any(|left| left.is_overlay());
                Ok(if replaced { Added::Replaced } else { Added::New })
            }
        }
    }

    /// Takes whatever is at a normal path out of the cache; false when there was nothing.
    pub(crate) fn reset(&self, key: &[u8]) -> bool {
        let Some(entry) = self.index.remove(key) else { return false };
        // Another path of the same file keeps it; the next request for this one opens it anew.
        self.files().retain(|_, file| file.as_ptr() != Arc::as_ptr(&entry.file));
        true
    }

    /// What has to be done from time to time, about once a second.
    pub fn sweep(&self, now: Now) {
        let (now_ns, idle) = (unix_ns(now.unix), self.options.idle_evict);
        let idle_ns = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
        let is_idle = |entry: &Entry| !entry.is_overlay() && now_ns.saturating_sub(entry.used_ns()) >= idle_ns;
        let evicted = self.index.remove_if(is_idle).len() as u64;
        self.resources.statistics.evictions.fetch_add(evicted, Ordering::Relaxed);
        // A first pipe of this second or the one before may be asked for at any moment.
        let old = now.unix.as_secs().saturating_sub(idle.as_secs().max(1));
        self.index.all().iter().for_each(|entry| entry.file.shed(old));
        self.files().retain(|_, file| file.strong_count() > 0);
        self.resources.zombies.bury();
        self.resources.statistics.tick(now.instant);
    }
}

/// Whether a file may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Kept,
    /// It is sent once and forgotten: there is no room.
    Passing,
}

/// How a resource is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adding {
    New,
    Replacing,
}

/// What adding came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    New,
    Replaced,
}
