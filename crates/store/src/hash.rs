use std::hash::{BuildHasher, Hasher};

use foldhash::{SharedSeed, quality::SeedableRandomState};

/// The hash of keys, seeded so that nobody outside can make keys collide.
#[derive(Clone, Debug)]
pub struct KeyHasher(SeedableRandomState);

impl KeyHasher {
    pub fn with_seed(seed: u64) -> Self {
        Self(SeedableRandomState::with_seed(seed, SharedSeed::global_random()))
    }

    /// The same in every process, for measurements: whoever knows the seed can make keys collide.
    pub fn with_repeatable_seed(seed: u64) -> Self {
        Self(SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
    }

    /// All 64 bits may be used.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        hasher.finish()
    }
}
