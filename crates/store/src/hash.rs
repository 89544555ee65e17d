use std::hash::{BuildHasher, Hasher};

use foldhash::{SharedSeed, quality::SeedableRandomState};

/// The hash function of keys, seeded so that no client can make keys collide.
#[derive(Clone, Debug)]
pub struct KeyHasher(SeedableRandomState);

impl KeyHasher {
    pub fn with_seed(seed: u64) -> Self {
        Self(SeedableRandomState::with_seed(seed, SharedSeed::global_random()))
    }

    /// Makes a hasher that is the same in every process, for measurements. A client that knows the seed can make keys
    /// collide.
    pub fn with_repeatable_seed(seed: u64) -> Self {
        Self(SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
    }

    /// Returns the hash of a key. All 64 bits are usable.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        hasher.finish()
    }
}
