//! Documents in memory, found by id, bounded in entries, bytes and descriptors.
//!
//! Two choices make a cache: a map (the [`MapFamily`] `Std`, `Hashbrown`, `Sparse`) and what happens when it is full
//! ([`NoEviction`], [`MutexLru`], [`LockFree`]). Without a map there is [`NoCache`], or the order of use alone
//! ([`UseOrder`]). All are types; nothing is looked up behind a virtual call.
//!
//! Laws of every cache, whatever threads do: [`Cache::get`] returns what was inserted last for that id, or nothing;
//! [`Cache::used`] stays within the limits, except that [`LockFree`] may exceed them by one entry for each thread that
//! is inserting; an entry that exceeds a limit by itself is not kept, and what was there before it is gone.

mod kinds;
mod lockfree;
mod lru;
mod map;
mod no_eviction;
mod sparse;
mod use_order;

pub use file_cache::CacheLimits;
pub use kinds::{CacheMapKind, EvictionKind};
pub use lockfree::{LockFree, Node};
pub use lru::MutexLru;
pub use map::{CacheMap, HasId, Hashbrown, HashbrownMap, MapFamily, Sparse, Std, StdMap};
pub use no_eviction::NoEviction;
pub use sparse::SparseMap;
pub use use_order::UseOrder;
use wire::file::FileId;

use crate::backend::Document;

/// Memory of an entry beside its value, roughly: the node with its links or counts, its place in the map and the
/// allocator's own.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// Memory and descriptors that a value occupies; must not change while it is cached.
pub trait Footprint {
    /// Memory of the value, in bytes.
    fn bytes(&self) -> usize;
    /// Number of its open files.
    fn descriptors(&self) -> usize;
}

impl Footprint for Document {
    fn bytes(&self) -> usize {
        self.held_bytes()
    }

    #[inline]
    fn descriptors(&self) -> usize {
        self.descriptors()
    }
}

/// Value of a cache: a handle that is cheap to clone.
pub trait Value: Footprint + Clone + Send + Sync + 'static {}

impl<V: Footprint + Clone + Send + Sync + 'static> Value for V {}

/// Contents of a cache, in the units of its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub entries: usize,
    pub bytes: usize,
    pub descriptors: usize,
}

impl Usage {
    /// Returns the cost of an entry.
    pub fn of_entry(id: &FileId, value: &impl Footprint) -> Self {
        let alone = Self::of_id(id);
        // Saturating: a value that claims the whole address space is refused, not wrapped around.
        Self { bytes: value.bytes().saturating_add(alone.bytes), descriptors: value.descriptors(), ..alone }
    }

    /// Returns the cost of an entry without its value.
    pub fn of_id(id: &FileId) -> Self {
        Self { entries: 1, bytes: id.as_bytes().len() + ENTRY_OVERHEAD_BYTES, descriptors: 0 }
    }

    /// True if there is room for `more` beside this.
    fn admits(&self, more: &Self, limits: &CacheLimits) -> bool {
        Shortage::of(self, more, limits).is_none()
    }

    fn add(&mut self, more: &Self) {
        self.entries += more.entries;
        self.bytes += more.bytes;
        self.descriptors += more.descriptors;
    }

    fn subtract(&mut self, less: &Self) {
        self.entries -= less.entries;
        self.bytes -= less.bytes;
        self.descriptors -= less.descriptors;
    }
}

/// Scarce resource, which decides whose eviction helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shortage {
    /// Only entries that keep a file open help.
    Descriptors,
    /// Every entry helps.
    Memory,
}

impl Shortage {
    /// Returns the resource that is too scarce for `more`, if any. A resource that `more` does not need is never too scarce.
    fn of(used: &Usage, more: &Usage, limits: &CacheLimits) -> Option<Self> {
        let exceeds = |used: usize, more: usize, limit: usize| more > 0 && used.saturating_add(more) > limit;
        if exceeds(used.descriptors, more.descriptors, limits.descriptors) {
            Some(Self::Descriptors)
        } else if exceeds(used.entries, more.entries, limits.entries) || exceeds(used.bytes, more.bytes, limits.bytes) {
            Some(Self::Memory)
        } else {
            None
        }
    }
}

/// Bounded map from ids to documents that any thread may use at any time.
pub trait Cache<V: Value>: Send + Sync + Sized + 'static {
    /// True if a lookup can ever find something.
    const CAN_HIT: bool = true;

    fn new(limits: CacheLimits) -> Self;

    /// Returns what was inserted last for `id`, if it is still there. Counts as a use, where eviction depends on uses.
    fn get(&self, id: &FileId) -> Option<V>;

    /// Replaces what was there for `id`. Returns false if `value` is not kept; then nothing is there for `id`.
    fn insert(&self, id: &FileId, value: V) -> bool;

    /// Removes what is there for `id` if it `is_stale`, which may be called several times. Returns true if it did.
    fn remove_if(&self, id: &FileId, is_stale: impl Fn(&V) -> bool) -> bool;

    fn used(&self) -> Usage;

    /// Number of entries that were ever evicted.
    fn evicted(&self) -> u64;
}

/// Cache that keeps no value.
#[derive(Clone, Copy, Debug)]
pub struct NoCache;

impl<V: Value> Cache<V> for NoCache {
    const CAN_HIT: bool = false;

    fn new(_: CacheLimits) -> Self {
        Self
    }

    #[inline]
    fn get(&self, _: &FileId) -> Option<V> {
        None
    }

    fn insert(&self, _: &FileId, _: V) -> bool {
        false
    }

    fn remove_if(&self, _: &FileId, _: impl Fn(&V) -> bool) -> bool {
        false
    }

    fn used(&self) -> Usage {
        Usage::default()
    }

    fn evicted(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
