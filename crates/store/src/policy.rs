//! The choice of the entry that is evicted when memory runs out.
//!
//! An access word is the clock of the last use (24 bits of seconds) above 8 bits that each policy uses in its own way.

mod fifo;
mod ghost;
mod queue;
mod sample;

use std::fmt;

use clap::ValueEnum;

pub use self::sample::SAMPLE_SIZE;
use self::{fifo::Fifo, sample::Random};
use crate::Store;

/// An eviction policy, named as in Redis where Redis has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyKind {
    /// nothing is evicted: writes are refused
    #[value(name = "noeviction")]
    NoEviction,
    /// S3-FIFO: a small queue in front of a main one, and a ghost queue of entries evicted lately
    #[value(name = "allkeys-s3fifo")]
    AllKeysS3Fifo,
    /// the least recently used of a sample
    #[value(name = "allkeys-lru")]
    AllKeysLru,
    /// the least frequently used of a sample
    #[value(name = "allkeys-lfu")]
    AllKeysLfu,
    /// a random entry
    #[value(name = "allkeys-random")]
    AllKeysRandom,
    /// the least recently used of a sample of entries that expire
    #[value(name = "volatile-lru")]
    VolatileLru,
    /// the least frequently used of a sample of entries that expire
    #[value(name = "volatile-lfu")]
    VolatileLfu,
    /// a random entry that expires
    #[value(name = "volatile-random")]
    VolatileRandom,
    /// the entry of a sample that expires first
    #[value(name = "volatile-ttl")]
    VolatileTtl,
}

impl PolicyKind {
    /// True if every entry may be evicted; false: those that expire, or none.
    pub fn evicts_any_entry(self) -> bool {
        match self {
            Self::AllKeysS3Fifo | Self::AllKeysLru | Self::AllKeysLfu | Self::AllKeysRandom => true,
            Self::NoEviction | Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl => {
                false
            }
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no policy is hidden");
        f.write_str(value.get_name())
    }
}

/// Use of the low byte of access words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// Unused: the clock is enough.
    Clock,
    /// A logarithmic count of uses.
    Count,
    /// The bits of [`Fifo`].
    Queue,
}

impl Scheme {
    fn of(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::AllKeysS3Fifo => Self::Queue,
            PolicyKind::AllKeysLfu | PolicyKind::VolatileLfu => Self::Count,
            PolicyKind::NoEviction
            | PolicyKind::AllKeysLru
            | PolicyKind::AllKeysRandom
            | PolicyKind::VolatileLru
            | PolicyKind::VolatileRandom
            | PolicyKind::VolatileTtl => Self::Clock,
        }
    }
}

/// A policy with its state.
#[derive(Debug)]
pub struct Policy {
    kind: PolicyKind,
    scheme: Scheme,
    random: Random,
    queues: Fifo,
    /// True if the store has a limit: without one, queues would be a waste of memory.
    is_limited: bool,
}

impl Policy {
    /// Makes a policy for a store that has a limit.
    pub fn new(kind: PolicyKind, seed: u64) -> Self {
        Self { kind, scheme: Scheme::of(kind), random: Random::new(seed), queues: Fifo::new(), is_limited: true }
    }

    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// Changes the policy. It misreads the words of the policy before; that wears off as entries are used.
    pub fn set_kind(&mut self, kind: PolicyKind) {
        (self.kind, self.scheme) = (kind, Scheme::of(kind));
    }

    /// Tells the policy if the store has a limit.
    pub fn set_limited(&mut self, is_limited: bool) {
        self.is_limited = is_limited;
    }

    /// True if the store has to keep access words: entries may have to be evicted, or their uses are asked for by name.
    pub fn needs_access(&self) -> bool {
        let is_of_use = match self.kind {
            PolicyKind::AllKeysLru | PolicyKind::AllKeysLfu | PolicyKind::VolatileLru | PolicyKind::VolatileLfu => true,
            PolicyKind::NoEviction
            | PolicyKind::AllKeysS3Fifo
            | PolicyKind::AllKeysRandom
            | PolicyKind::VolatileRandom
            | PolicyKind::VolatileTtl => false,
        };
        is_of_use || self.is_limited
    }

    /// Begins again with this number of entries. Has to be called after the kind or the limit has changed.
    pub fn restart(&mut self, entries: usize) {
        self.queues.restart(if self.has_queues() { entries } else { 0 });
    }

    /// True if the order of eviction is kept in queues.
    #[inline]
    pub(crate) fn has_queues(&self) -> bool {
        self.scheme == Scheme::Queue && self.is_limited
    }

    /// Returns the word of an entry that has just been used.
    #[inline]
    pub fn on_use(&mut self, word: u32, clock: u32) -> u32 {
        let low = match self.scheme {
            Scheme::Clock => word & 0xff,
            Scheme::Queue => Fifo::on_use(word),
            Scheme::Count => sample::count_use(word, clock, &mut self.random),
        };
        low | clock << 8
    }

    /// Notes a new entry, or one that has moved to this location; `before` is then its old word.
    #[inline]
    pub fn on_insert<S: Store>(
        &mut self,
        store: &mut S,
        location: S::Location,
        hash: u64,
        clock: u32,
        before: Option<u32>,
    ) {
        let low = match self.scheme {
            Scheme::Queue if self.is_limited => self.queues.on_insert(store, location, hash, before),
            Scheme::Clock | Scheme::Queue => 0,
            Scheme::Count => before.map_or(sample::COUNT_NEW, |before| before & 0xff),
        };
        store.set_access(location, low | clock << 8);
    }

    /// Notes the new handle of an entry that compaction has moved.
    pub fn on_move<S: Store>(&mut self, store: &S, handle: u32) {
        if self.has_queues() {
            self.queues.on_move(store, handle);
        }
    }

    /// Returns the entry to evict, which the caller removes; `None` if no entry may be evicted.
    pub fn choose_victim<S: Store>(&mut self, store: &mut S, clock: u32) -> Option<S::Location> {
        if self.has_queues()
            && let Some(location) = self.queues.choose_victim(store)
        {
            return Some(location);
        }
        sample::choose_victim(self.kind, store, clock, &mut self.random)
    }

    /// Notes that the last victim has been removed.
    pub fn on_evict(&mut self, hash: u64) {
        if self.has_queues() {
            self.queues.on_evict(hash);
        }
    }

    /// Notes that all entries are gone.
    pub fn on_clear(&mut self) {
        self.queues.restart(0);
    }

    /// Returns the memory of the policy itself.
    #[inline]
    pub fn bytes(&self) -> usize {
        if self.has_queues() { self.queues.bytes() } else { 0 }
    }

    /// Returns the bytes by which [`Policy::bytes`] may grow for one new entry.
    #[inline]
    pub fn growth(&self) -> usize {
        if self.has_queues() { Fifo::GROWTH } else { 0 }
    }

    /// Returns the seconds since the last use.
    pub fn idle_s(word: u32, clock: u32) -> u32 {
        sample::idle_s(word, clock)
    }

    /// Returns the frequency of uses: a logarithm from 0 to 255 under the LFU policies, at most 3 under S3-FIFO, and 0 under
    /// the others, which do not count.
    pub fn frequency(&self, word: u32, clock: u32) -> u8 {
        match self.scheme {
            Scheme::Clock => 0,
            Scheme::Count => sample::count(word, clock) as u8,
            Scheme::Queue => Fifo::uses(word),
        }
    }
}
