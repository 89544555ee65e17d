//! Files in memory, found by normal path, bounded in entries, bytes and descriptors.
//!
//! Each shard evicts by the clock algorithm: a hit marks its entry, a hand goes round and takes the first one that has
//! not been marked since it last came by. A hit therefore writes nothing but a mark that is usually there already.

use std::{
    hash::BuildHasher,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use sys::beneath::Metadata;

use crate::representation::Representation;

/// Independent parts of a large cache; a power of two.
const SHARDS: usize = 16;
/// What each of them gets at least: a cache with less to give is not divided, so that its bounds stay sharp.
const SHARD_MIN: CacheLimits = CacheLimits { entries: 16, bytes: 1 << 20, descriptors: 16 };
/// Memory for an entry beside its contents: two paths, two heads.
const ENTRY_OVERHEAD_MAX: usize = 16 << 10;

/// What a cache may hold in all.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    pub entries: usize,
    /// Bytes of memory, the larger part of the bookkeeping included.
    pub bytes: usize,
    /// Open files.
    pub descriptors: usize,
}

impl CacheLimits {
    fn is_off(&self) -> bool {
        self.entries == 0 || self.bytes == 0
    }

    fn shards(&self) -> usize {
        // Nothing can be divided into any number of parts.
        let enough = |total, least| total == 0 || total >= SHARDS * least;
        let divisible = enough(self.entries, SHARD_MIN.entries)
            && enough(self.bytes, SHARD_MIN.bytes)
            && enough(self.descriptors, SHARD_MIN.descriptors);
        if divisible { SHARDS } else { 1 }
    }

    /// The largest contents that a cache of this size keeps in memory; 0 when it is off.
    pub(crate) fn contents_max(&self) -> usize {
        if self.is_off() { 0 } else { (self.bytes / self.shards()).saturating_sub(ENTRY_OVERHEAD_MAX) }
    }

    fn divided_by(self, parts: usize) -> Self {
        Self { entries: self.entries / parts, bytes: self.bytes / parts, descriptors: self.descriptors / parts }
    }
}

/// A file and what has to be known to see whether it is still the same.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Normal path of the requests for it.
    pub(crate) key: Box<[u8]>,
    /// The file it is, beneath the root.
    pub(crate) relative: Box<[u8]>,
    pub(crate) metadata: Metadata,
    /// The last change was long enough ago for the next one to have another time.
    pub(crate) settled: bool,
    /// When it was last known to be current, nanoseconds since the epoch.
    pub(crate) checked_ns: AtomicU64,
    pub(crate) representation: Representation,
    marked: AtomicBool,
}

impl Entry {
    pub(crate) fn new(
        key: &[u8],
        relative: &[u8],
        (representation, metadata): (Representation, Metadata),
        settled: bool,
        checked_ns: u64,
    ) -> Self {
        let checked_ns = AtomicU64::new(checked_ns);
        let marked = AtomicBool::new(false);
        Self { key: key.into(), relative: relative.into(), metadata, settled, checked_ns, representation, marked }
    }

    fn held(&self) -> usize {
        size_of::<Self>() - size_of::<Representation>()
            + self.key.len()
            + self.relative.len()
            + self.representation.held()
    }
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Cache {
    shards: Box<[Shard]>,
    hasher: RandomState,
}

/// Two cache lines, since processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(RwLock<Ring>);

impl Shard {
    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, Ring> {
        // Nothing under this lock can leave the ring half changed.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Ring> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    pub(crate) fn new(limits: CacheLimits) -> Self {
        let count = limits.shards();
        let shard = || Shard(RwLock::new(Ring::new(limits.divided_by(count))));
        Self { shards: (0..count).map(|_| shard()).collect(), hasher: RandomState::default() }
    }

    /// Shows the entry for `key` to `look`, under the shard's lock: to be short.
    #[inline]
    pub(crate) fn look<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Entry>) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        let ring = self.shard(hash).read();
        let entry = ring.get(hash, key)?;
        // Read first: a mark that is there already must not make the line ours.
        if !entry.marked.load(Ordering::Relaxed) {
            entry.marked.store(true, Ordering::Relaxed);
        }
        Some(look(entry))
    }

    /// Replaces what was there for the entry's key. An entry larger than its shard is not kept.
    pub(crate) fn insert(&self, entry: Arc<Entry>) {
        let hash = self.hasher.hash_one(&*entry.key);
        self.shard(hash).write().insert(hash, entry);
    }

    /// Forgets `entry`, unless another has taken its place.
    pub(crate) fn remove(&self, entry: &Arc<Entry>) {
        let hash = self.hasher.hash_one(&*entry.key);
        let mut ring = self.shard(hash).write();
        if ring.get(hash, &entry.key).is_some_and(|kept| Arc::ptr_eq(kept, entry)) {
            ring.remove(hash, &entry.key);
        }
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        // Bits that the table does not use for its tags (the highest) or, while small, for its buckets (the lowest).
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)]
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> Used {
        let mut all = Used::default();
        for shard in &self.shards {
            let used = shard.read().used;
            all.entries += used.entries;
            all.bytes += used.bytes;
            all.descriptors += used.descriptors;
        }
        all
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) entries: usize,
    bytes: usize,
    descriptors: usize,
}

impl Used {
    fn by(entry: &Entry) -> Self {
        Self { entries: 1, bytes: entry.held(), descriptors: entry.representation.descriptors() }
    }

    fn fits(&self, more: Self, limits: &CacheLimits) -> bool {
        self.entries + more.entries <= limits.entries
            && self.bytes + more.bytes <= limits.bytes
            && self.descriptors + more.descriptors <= limits.descriptors
    }
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    entry: Arc<Entry>,
}

/// One shard: a table of indices into a ring of slots, over which the hand moves.
#[derive(Debug)]
struct Ring {
    table: HashTable<usize>,
    slots: Vec<Slot>,
    hand: usize,
    used: Used,
    limits: CacheLimits,
}

impl Ring {
    fn new(limits: CacheLimits) -> Self {
        Self { table: HashTable::new(), slots: Vec::new(), hand: 0, used: Used::default(), limits }
    }

    #[inline]
    fn get(&self, hash: u64, key: &[u8]) -> Option<&Arc<Entry>> {
        let at = *self.table.find(hash, |&at| *self.slots[at].entry.key == *key)?;
        Some(&self.slots[at].entry)
    }

    fn insert(&mut self, hash: u64, entry: Arc<Entry>) {
        self.remove(hash, &entry.key);
        let more = Used::by(&entry);
        if !Used::default().fits(more, &self.limits) {
            return;
        }
        while !self.used.fits(more, &self.limits) {
            self.evict(more.descriptors > 0 && self.used.descriptors >= self.limits.descriptors);
        }
        self.used.entries += more.entries;
        self.used.bytes += more.bytes;
        self.used.descriptors += more.descriptors;
        let slots = &self.slots;
        self.table.insert_unique(hash, slots.len(), |&at| slots[at].hash);
        self.slots.push(Slot { hash, entry });
    }

    /// Takes the first entry under the hand without a mark; one with a descriptor where those have run out. There is
    /// one: something is in use, since the newcomer would fit into nothing.
    fn evict(&mut self, descriptor: bool) {
        loop {
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            let Slot { hash, entry } = &self.slots[self.hand];
            let spared = entry.marked.swap(false, Ordering::Relaxed);
            if !spared && (!descriptor || entry.representation.descriptors() > 0) {
                let (hash, key) = (*hash, entry.key.clone());
                return self.remove(hash, &key);
            }
        }
    }

    fn remove(&mut self, hash: u64, key: &[u8]) {
        let Ok(found) = self.table.find_entry(hash, |&at| *self.slots[at].entry.key == *key) else { return };
        let (at, _) = found.remove();
        let removed = Used::by(&self.slots.swap_remove(at).entry);
        self.used.entries -= removed.entries;
        self.used.bytes -= removed.bytes;
        self.used.descriptors -= removed.descriptors;
        // The last slot has moved into the gap.
        let from = self.slots.len();
        if let Some(moved) = self.slots.get(at)
            && let Some(index) = self.table.find_mut(moved.hash, |&index| index == from)
        {
            *index = at;
        }
    }
}

#[cfg(test)]
mod tests;
