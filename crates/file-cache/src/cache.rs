//! The map from paths to entries: looked up once for each request, bounded, revalidated.

mod slots;

use std::{hash::BuildHasher, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};
use sys::beneath::Root;

use self::slots::{Slot, Slots};
use crate::{
    Body, CacheLimits, CheckedRoot, PathEntry, Revalidation,
    limits::{Budgets, Reserved, Shortage},
    root::LiveRoot,
    unix_ns,
};

/// Files of one directory tree by path. See the crate's description for its laws.
#[derive(Debug)]
pub struct PathCache<B> {
    root: LiveRoot,
    revalidation: Revalidation,
    shards: Box<[Shard<B>]>,
    hasher: RandomState,
    budgets: Budgets,
    /// Held by [`PathCache::update`], so that of two changes of one entry none is lost.
    updates: Mutex<()>,
}

/// Two cache lines, since processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<B>(RwLock<Slots<B>>);

/// Origin of an entry that a request has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The cache, without a look at the file system.
    Hit,
    /// The cache, after a check that found the file unchanged.
    Revalidated,
    /// The file system: the file was opened.
    Miss,
}

/// Error: the path has a pinned entry.
struct AlreadyPinned;

impl<B: Body> PathCache<B> {
    /// Makes an empty cache of files beneath `root`, which are checked again after `revalidate`.
    pub fn new(root: Root, limits: &CacheLimits, revalidate: Duration) -> Self {
        Self {
            root: LiveRoot::new(root),
            revalidation: Revalidation::new(revalidate),
            shards: (0..limits.shards()).map(|_| Shard(RwLock::new(Slots::default()))).collect(),
            hasher: RandomState::default(),
            budgets: Budgets::new(limits),
            updates: Mutex::new(()),
        }
    }

    /// Returns the directory that the root's path meant at most the interval before `now_ns`. When that is another one than
    /// before, or the clock was set back, every entry goes that is not pinned.
    pub fn root(&self, now_ns: u64) -> CheckedRoot {
        self.root.get(self.revalidation, now_ns, || _ = self.remove_if(|entry| !entry.is_pinned()))
    }

    // --- lookups --------------------------------------------------------------------------

    /// Shows the body for a normal path to `show`, if its entry is current. The shard is locked meanwhile: `show` has to
    /// be short.
    #[inline]
    pub fn with_current<R>(&self, path: &[u8], now_ns: u64, show: impl FnOnce(&B) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(path);
        let slots = self.shard(hash).0.read();
        let entry = slots.get(hash, path)?;
        self.is_current(entry, now_ns).then(|| {
            entry.record_use(now_ns);
            show(entry.body())
        })
    }

    /// Returns the entry for a normal path, as the file is at `now` since the epoch or was at most the interval ago. Where
    /// there is no such entry, `load` opens the file.
    ///
    /// # Errors
    /// Those of `load`; then the cache has no entry for the path, unless another thread has made one.
    pub fn find<E>(
        &self,
        path: &[u8],
        now: Duration,
        load: impl FnOnce(&CheckedRoot) -> Result<Arc<PathEntry<B>>, E>,
    ) -> Result<(Arc<PathEntry<B>>, Lookup), E> {
        let now_ns = unix_ns(now);
        let root = self.root(now_ns);
        let known = self.get(path);
        let lookup = known.as_ref().map_or(Lookup::Miss, |known| self.check(known, &root, now_ns));
        let entry = match known {
            Some(known) if lookup != Lookup::Miss => known,
            known => load(&root).inspect_err(|_| known.iter().for_each(|known| _ = self.remove_entry(known)))?,
        };
        entry.record_use(now_ns);
        Ok((entry, lookup))
    }

    fn get(&self, path: &[u8]) -> Option<Arc<PathEntry<B>>> {
        let hash = self.hasher.hash_one(path);
        self.shard(hash).0.read().get(hash, path).cloned()
    }

    #[inline]
    fn is_current(&self, entry: &PathEntry<B>, now_ns: u64) -> bool {
        if self.revalidation.is_fresh(&entry.last_check, now_ns) {
            entry.is_pinned() || entry.body().is_intact(now_ns)
        } else {
            entry.is_pinned()
        }
    }

    fn check(&self, entry: &PathEntry<B>, root: &CheckedRoot, now_ns: u64) -> Lookup {
        if self.is_current(entry, now_ns) {
            return Lookup::Hit;
        }
        let relative = entry.relative().unwrap_or_default();
        // An entry is no fresher than the root that it was found beneath.
        let is_unchanged =
            entry.last_check.recheck(root.checked_ns(), || entry.body().is_unchanged(root.root(), relative));
        if is_unchanged { Lookup::Revalidated } else { Lookup::Miss }
    }

    // --- entries that come ----------------------------------------------------------------

    /// Puts an entry in the place of what is there for its path, and returns it. It is not kept if it does not fit, or if
    /// a pinned entry is there.
    pub fn insert(&self, entry: PathEntry<B>) -> Arc<PathEntry<B>> {
        let (hash, entry) = (self.hasher.hash_one(entry.path()), Arc::new(entry));
        // Before the reservation: what is replaced must not cost another entry its place.
        if self.remove_unpinned(hash, entry.path()).is_err() {
            return entry;
        }
        let Some(reserved) = self.reserve(hash, &entry) else { return entry };
        let mut slots = self.shard(hash).0.write();
        // Another thread may have been faster.
        let replaced = match slots.get(hash, entry.path()) {
            Some(there) if there.is_pinned() => return Arc::clone(&entry),
            Some(_) => slots.remove(hash, entry.path()),
            None => None,
        };
        slots.insert(Slot::new(hash, Arc::clone(&entry), Some(reserved)));
        drop(slots);
        drop(replaced);
        entry
    }

    /// Puts a new body in the place of the one that is there for a path, made from that by `change`; nothing happens where
    /// there is none, or where `change` makes none. The entry does not become younger by it.
    pub fn update(&self, path: &[u8], change: impl FnOnce(&B) -> Option<B>) {
        let _one_at_a_time = self.updates.lock();
        let Some(entry) = self.get(path).filter(|entry| !entry.is_pinned()) else { return };
        if let Some(body) = change(entry.body()) {
            self.insert(entry.with_body(body));
        }
    }

    /// Puts a pinned entry in the place of whatever is there. Returns true if that was pinned, too.
    pub fn replace_pinned(&self, entry: PathEntry<B>) -> bool {
        let hash = self.hasher.hash_one(entry.path());
        let mut slots = self.shard(hash).0.write();
        let replaced = slots.remove(hash, entry.path());
        slots.insert(Slot::new(hash, Arc::new(entry), None));
        drop(slots);
        replaced.is_some_and(|replaced| replaced.entry.is_pinned())
    }

    /// Reserves room for an entry, evicting others if necessary; `None` if there is none to be had.
    fn reserve(&self, hash: u64, entry: &PathEntry<B>) -> Option<Reserved> {
        let cost = entry.cost();
        if !self.budgets.can_fit(cost) {
            return None;
        }
        loop {
            let shortage = match self.budgets.reserve(cost) {
                Ok(reserved) => return Some(reserved),
                Err(shortage) => shortage,
            };
            let can_help = |entry: &PathEntry<B>| match shortage {
                Shortage::Memory => true,
                Shortage::Descriptors => entry.body().descriptors() > 0,
            };
            // Where nobody can help, everything that is reserved belongs to entries on their way into the cache.
            drop(self.take_victim(hash, u64::MAX, can_help)?);
        }
    }

    // --- entries that go ------------------------------------------------------------------

    /// Evicts an entry that has not been used since `before_ns`, preferably from the shard of `near`. Returns false if
    /// none was found.
    pub fn evict(&self, near: &[u8], before_ns: u64) -> bool {
        self.take_victim(self.hasher.hash_one(near), before_ns, |_| true).is_some()
    }

    /// Takes whatever is there for a path out of the cache.
    pub fn remove(&self, path: &[u8]) -> Option<Arc<PathEntry<B>>> {
        let hash = self.hasher.hash_one(path);
        let removed = self.shard(hash).0.write().remove(hash, path);
        removed.map(|slot| slot.entry)
    }

    /// Takes out all entries for which `should_go` holds. Returns their number.
    pub fn remove_if(&self, should_go: impl Fn(&PathEntry<B>) -> bool) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            let going: Vec<_> = shard.0.read().entries().filter(|entry| should_go(entry)).cloned().collect();
            count += going.iter().filter(|entry| self.remove_entry(entry)).count();
        }
        count
    }

    /// Takes out `entry`, unless another has taken its place. Returns true if it was there.
    fn remove_entry(&self, entry: &Arc<PathEntry<B>>) -> bool {
        let hash = self.hasher.hash_one(entry.path());
        let mut slots = self.shard(hash).0.write();
        let is_there = slots.get(hash, entry.path()).is_some_and(|there| Arc::ptr_eq(there, entry));
        let removed = if is_there { slots.remove(hash, entry.path()) } else { None };
        drop(slots);
        removed.is_some()
    }

    fn remove_unpinned(&self, hash: u64, path: &[u8]) -> Result<(), AlreadyPinned> {
        let mut slots = self.shard(hash).0.write();
        if slots.get(hash, path).is_some_and(|there| there.is_pinned()) {
            return Err(AlreadyPinned);
        }
        let removed = slots.remove(hash, path);
        drop(slots);
        drop(removed);
        Ok(())
    }

    fn take_victim(&self, hash: u64, before_ns: u64, can_help: impl Fn(&PathEntry<B>) -> bool) -> Option<Slot<B>> {
        let first = Self::shard_index(hash);
        let mut shards = (0..self.shards.len()).map(|more| self.shard_at(first.wrapping_add(more)));
        shards.find_map(|shard| shard.0.write().take_victim(before_ns, &can_help))
    }

    // --- views of the whole ---------------------------------------------------------------

    /// Returns all entries, in no order.
    pub fn entries(&self) -> Vec<Arc<PathEntry<B>>> {
        self.shards.iter().flat_map(|shard| shard.0.read().entries().cloned().collect::<Vec<_>>()).collect()
    }

    /// Number of entries, pinned ones included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.read().len()).sum()
    }

    /// Bytes of memory that the entries hold, and those on their way into the cache.
    pub fn used_bytes(&self) -> u64 {
        self.budgets.used_bytes()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn shard_index(hash: u64) -> usize {
        // Bits that the table does not use for its tags (the highest) or, while small, for its buckets (the lowest).
        (hash >> 32) as usize
    }

    #[inline]
    fn shard_at(&self, index: usize) -> &Shard<B> {
        &self.shards[index & (self.shards.len() - 1)]
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard<B> {
        self.shard_at(Self::shard_index(hash))
    }
}

#[cfg(test)]
mod tests;
