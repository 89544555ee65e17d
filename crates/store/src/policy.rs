//! Which entry gives way when memory runs out.
//!
//! An access word is the clock of the last use (24 bits of seconds) above 8 bits that mean something else to each
//! policy.

use std::{fmt, str::FromStr};

use crate::Store;

/// The one list of policies.
macro_rules! policies {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal,)+) => {
        /// An eviction policy; the names are Redis's where Redis has it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PolicyKind {
            $($(#[doc = $about])+ $kind,)+
        }

        impl PolicyKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$kind => concat!($($about,)+),)+ }
            }
        }
    };
}

policies! {
    /// refuse writes instead
    NoEviction = "noeviction",
    /// S3-FIFO: a small queue in front of a main one, and a memory of what left it
    AllKeysS3Fifo = "allkeys-s3fifo",
    /// the least recently used of a sample
    AllKeysLru = "allkeys-lru",
    /// the least frequently used of a sample
    AllKeysLfu = "allkeys-lfu",
    /// any
    AllKeysRandom = "allkeys-random",
    /// the least recently used of a sample of what expires
    VolatileLru = "volatile-lru",
    /// the least frequently used of a sample of what expires
    VolatileLfu = "volatile-lfu",
    /// any that expires
    VolatileRandom = "volatile-random",
    /// what expires first, of a sample
    VolatileTtl = "volatile-ttl",
}

/// Not the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "unknown eviction policy `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A policy at work.
#[derive(Debug)]
pub struct Policy {
    kind: PolicyKind,
    random: u64,
}

impl Policy {
    pub fn new(kind: PolicyKind, seed: u64) -> Self {
        Self { kind, random: seed | 1 }
    }

    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    pub fn set_kind(&mut self, kind: PolicyKind) {
        self.kind = kind;
    }

    /// The word of an entry that has just been used.
    #[inline]
    pub fn hit(&mut self, word: u32, clock: u32) -> u32 {
        word & 0xff | clock << 8
    }

    /// A new entry is there, or (`before`: its word) one has moved to this place.
    #[inline]
    pub fn added<S: Store>(&mut self, store: &mut S, place: S::Place, hash: u64, clock: u32, before: Option<u32>) {
        let _ = (hash, before);
        store.set_access(place, clock << 8);
    }

    /// The entry to give up; the caller removes it.
    pub fn victim<S: Store>(&mut self, store: &mut S, clock: u32) -> Option<S::Place> {
        let _ = clock;
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        store.sample(self.random)
    }

    /// An entry has been given up.
    pub fn evicted(&mut self, hash: u64) {
        let _ = hash;
    }

    /// All entries are gone.
    pub fn cleared(&mut self) {}

    /// Memory of the policy's own.
    #[inline]
    pub fn bytes(&self) -> usize {
        0
    }

    /// Seconds since the last use.
    pub fn idle_s(word: u32, clock: u32) -> u32 {
        clock.wrapping_sub(word >> 8) & 0xff_ffff
    }

    /// How often an entry has been used, from 0 to 255.
    pub fn frequency(&self, word: u32, clock: u32) -> u8 {
        let _ = clock;
        word as u8
    }
}
