//! Paths of requests and the files they mean: a bounded table, looked up once per request.

use std::{
    hash::BuildHasher,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::file::CachedFile;

/// Independent parts of the index; a power of two.
const SHARDS: usize = 16;
/// Entries that are compared when one has to go.
const SAMPLE: usize = 8;
/// How exactly the time of the last use is known, so that a hit seldom writes it: nanoseconds.
pub(crate) const USE_STEP_NS: u64 = 100_000_000;

/// A path and the file that it means.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Normal path of the requests for it.
    pub(crate) key: Box<[u8]>,
    /// The file it is, beneath the root; `None` for one that was put over the tree.
    pub(crate) relative: Option<Box<[u8]>>,
    pub(crate) file: Arc<CachedFile>,
    /// When it was last known to be current, nanoseconds since the epoch.
    pub(crate) checked_ns: AtomicU64,
    used_ns: AtomicU64,
    requests: AtomicU64,
}

impl Entry {
    pub(crate) fn new(key: &[u8], relative: Option<&[u8]>, file: Arc<CachedFile>, now_ns: u64) -> Self {
        Self {
            key: key.into(),
            relative: relative.map(Into::into),
            file,
            checked_ns: AtomicU64::new(now_ns),
            used_ns: AtomicU64::new(now_ns),
            requests: AtomicU64::new(0),
        }
    }

    /// Never evicted and never looked at again: it can only be replaced or removed.
    pub(crate) fn is_overlay(&self) -> bool {
        self.relative.is_none()
    }

    #[inline]
    pub(crate) fn used(&self, now_ns: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if now_ns.wrapping_sub(self.used_ns.load(Ordering::Relaxed)) >= USE_STEP_NS {
            self.used_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    pub(crate) fn used_ns(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
    hasher: RandomState,
    /// Of each shard, overlays not counted.
    entries_max: usize,
}

/// Two cache lines, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(RwLock<Slots>);

impl Shard {
    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, Slots> {
        // Nothing under this lock can leave the slots half changed.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    /// For up to about `entries` paths beside overlays.
    pub(crate) fn new(entries: usize) -> Self {
        let shards = if entries >= SHARDS * SHARDS { SHARDS } else { 1 };
        Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            hasher: RandomState::default(),
            entries_max: entries / shards,
        }
    }

    /// Shows the entry for `key` to `look`, under the shard's lock: to be short.
    #[inline]
    pub(crate) fn look<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Entry>) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        let slots = self.shard(hash).read();
        slots.get(hash, key).map(look)
    }

    /// Replaces what was there for the entry's key, but never an overlay by a file. What leaves is returned, for the
    /// caller to drop where no lock is held.
    pub(crate) fn insert(&self, entry: Arc<Entry>) -> Vec<Arc<Entry>> {
        let hash = self.hasher.hash_one(&*entry.key);
        let mut slots = self.shard(hash).write();
        let overlaid = slots.get(hash, &entry.key).is_some_and(|there| there.is_overlay());
        if (overlaid || self.entries_max == 0) && !entry.is_overlay() {
            return vec![entry];
        }
        let mut left: Vec<_> = slots.remove(hash, &entry.key).into_iter().collect();
        if !entry.is_overlay() && slots.files() >= self.entries_max {
            left.extend(slots.evict(u64::MAX));
        }
        slots.insert(hash, entry);
        left
    }

    /// Puts an overlay there unless there is one already; `Err` gives it back.
    pub(crate) fn insert_new_overlay(&self, entry: Arc<Entry>) -> Result<Option<Arc<Entry>>, Arc<Entry>> {
        let hash = self.hasher.hash_one(&*entry.key);
        let mut slots = self.shard(hash).write();
        if slots.get(hash, &entry.key).is_some_and(|there| there.is_overlay()) {
            return Err(entry);
        }
        let left = slots.remove(hash, &entry.key);
        slots.insert(hash, entry);
        Ok(left)
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Option<Arc<Entry>> {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).write().remove(hash, key)
    }

    /// Forgets `entry`, unless another has taken its place.
    pub(crate) fn remove_this(&self, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
        let hash = self.hasher.hash_one(&*entry.key);
        let mut slots = self.shard(hash).write();
        let is_there = slots.get(hash, &entry.key).is_some_and(|there| Arc::ptr_eq(there, entry));
        if is_there { slots.remove(hash, &entry.key) } else { None }
    }

    /// Takes out a file that has not been used since `before_ns`; `None` when none is found.
    pub(crate) fn evict(&self, near: &[u8], before_ns: u64) -> Option<Arc<Entry>> {
        let first = self.hasher.hash_one(near) as usize;
        (0..self.shards.len())
            .find_map(|more| self.shards[first.wrapping_add(more) % self.shards.len()].write().evict(before_ns))
    }

    /// Takes out all files for which `is_over` holds.
    pub(crate) fn remove_if(&self, is_over: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        let mut removed = Vec::new();
        for shard in &self.shards {
            let over: Vec<_> = shard.read().all().filter(|entry| is_over(entry)).cloned().collect();
            removed.extend(over.iter().filter_map(|entry| self.remove_this(entry)));
        }
        removed
    }

    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.shards.iter().flat_map(|shard| shard.read().all().cloned().collect::<Vec<_>>()).collect()
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        // Bits that the table does not use for its tags (the highest) or, while small, for its buckets (the lowest).
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)]
    }
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    entry: Arc<Entry>,
}

/// One shard: a table of places in a list, so that a sample of the list is quickly taken.
#[derive(Debug, Default)]
struct Slots {
    table: HashTable<usize>,
    list: Vec<Slot>,
    overlays: usize,
    /// Where the next sample begins.
    hand: usize,
}

impl Slots {
    #[inline]
    fn get(&self, hash: u64, key: &[u8]) -> Option<&Arc<Entry>> {
        let at = *self.table.find(hash, |&at| *self.list[at].entry.key == *key)?;
        Some(&self.list[at].entry)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.list.iter().map(|slot| &slot.entry)
    }

    fn files(&self) -> usize {
        self.list.len() - self.overlays
    }

    fn insert(&mut self, hash: u64, entry: Arc<Entry>) {
        self.overlays += usize::from(entry.is_overlay());
        let list = &self.list;
        self.table.insert_unique(hash, list.len(), |&at| list[at].hash);
        self.list.push(Slot { hash, entry });
    }

    fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Arc<Entry>> {
        let found = self.table.find_entry(hash, |&at| *self.list[at].entry.key == *key).ok()?;
        let (at, _) = found.remove();
        let removed = self.list.swap_remove(at).entry;
        self.overlays -= usize::from(removed.is_overlay());
        // The last slot has moved into the gap.
        let from = self.list.len();
        if let Some(moved) = self.list.get(at)
            && let Some(place) = self.table.find_mut(moved.hash, |&place| place == from)
        {
            *place = at;
        }
        Some(removed)
    }

    /// Takes out the file of a sample that was used the longest ago.
    fn evict(&mut self, before_ns: u64) -> Option<Arc<Entry>> {
        let len = self.list.len();
        let around = (0..len).map(|step| &self.list[(self.hand + step) % len]);
        let sample = around.enumerate().filter(|(_, slot)| !slot.entry.is_overlay()).take(SAMPLE);
        let oldest = sample.min_by_key(|(_, slot)| slot.entry.used_ns());
        let (step, oldest) = oldest.filter(|(_, slot)| slot.entry.used_ns() < before_ns)?;
        let (hash, key) = (oldest.hash, oldest.entry.key.clone());
        self.hand = (self.hand + step + 1) % len;
        self.remove(hash, &key)
    }
}

#[cfg(test)]
mod tests;
