//! Bounds of a cache, and the reservations by which its entries keep them.

use service::{Budget, Reservation};

/// Independent parts of a large cache; a power of two.
const SHARDS: usize = 16;
/// Share that each part needs at least: a cache with less to give is not divided, so that its choice of whom to evict
/// stays good.
const SHARD_MIN: CacheLimits = CacheLimits { entries: 16, bytes: 1 << 20, descriptors: 16 };

/// Bounds of a whole cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    pub entries: usize,
    /// Bytes of memory, the larger part of the bookkeeping included.
    pub bytes: usize,
    /// Open files.
    pub descriptors: usize,
}

impl CacheLimits {
    /// True if nothing can be kept.
    pub fn is_off(&self) -> bool {
        self.entries == 0 || self.bytes == 0
    }

    pub(crate) fn shards(&self) -> usize {
        // Nothing can be divided into any number of parts.
        let is_enough = |total, least| total == 0 || total >= SHARDS * least;
        let is_divisible = is_enough(self.entries, SHARD_MIN.entries)
            && is_enough(self.bytes, SHARD_MIN.bytes)
            && is_enough(self.descriptors, SHARD_MIN.descriptors);
        if is_divisible { SHARDS } else { 1 }
    }
}

/// Cost of one entry, in the units of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) bytes: usize,
    pub(crate) descriptors: usize,
}

/// Resource that has run out, which decides whose eviction helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Every entry helps.
    Memory,
    /// Only entries that keep a file open help.
    Descriptors,
}

/// Budgets of a cache, one for each limit.
#[derive(Debug)]
pub(crate) struct Budgets {
    entries: Budget,
    bytes: Budget,
    descriptors: Budget,
}

/// Share of the budgets that one entry holds.
#[derive(Debug)]
pub(crate) struct Reserved {
    _entry: Reservation,
    _bytes: Reservation,
    _descriptors: Reservation,
}

impl Budgets {
    pub(crate) fn new(limits: &CacheLimits) -> Self {
        let budget = |limit: usize| Budget::new(limit as u64);
        Self { entries: budget(limits.entries), bytes: budget(limits.bytes), descriptors: budget(limits.descriptors) }
    }

    /// Returns false for an entry that would not even fit into an empty cache.
    pub(crate) fn can_fit(&self, cost: Cost) -> bool {
        self.entries.limit() > 0
            && cost.bytes as u64 <= self.bytes.limit()
            && cost.descriptors as u64 <= self.descriptors.limit()
    }

    /// # Errors
    /// The resource of which too little is left; nothing is reserved then.
    pub(crate) fn reserve(&self, cost: Cost) -> Result<Reserved, Shortage> {
        Ok(Reserved {
            _entry: self.entries.reserve(1).ok_or(Shortage::Memory)?,
            _bytes: self.bytes.reserve(cost.bytes as u64).ok_or(Shortage::Memory)?,
            _descriptors: self.descriptors.reserve(cost.descriptors as u64).ok_or(Shortage::Descriptors)?,
        })
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.bytes.used()
    }

    /// Entries, bytes and descriptors in use.
    #[cfg(test)]
    pub(crate) fn used(&self) -> [u64; 3] {
        [&self.entries, &self.bytes, &self.descriptors].map(Budget::used)
    }
}
