//! The policies that compare a sample of entries, as Redis does.

use super::PolicyKind;
use crate::Store;

/// Entries compared for one victim.
pub const SAMPLE_SIZE: usize = 5;
/// Entries compared in a store that has no more than these: large ones, of which the same few would be drawn again and again, and
/// the one in use with them.
const SAMPLE_SIZE_FEW: usize = 4 * SAMPLE_SIZE;
/// Initial count of uses, so that a new entry is not the first to be evicted.
pub(super) const COUNT_NEW: u32 = 5;
/// Factor of the logarithm: the higher, the more uses a count of 255 stands for. At 10 it is about a million.
const COUNT_SLOWNESS: u64 = 10;
/// Seconds without a use after which the count falls by one.
const COUNT_DECAY_S: u32 = 60;

/// Pseudo-random numbers that may be predictable (xorshift64; Marsaglia 2003).
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Returns the seconds since the last use.
pub(super) fn idle_s(word: u32, clock: u32) -> u32 {
    clock.wrapping_sub(word >> 8) & 0xff_ffff
}

/// Returns the count of uses, less one for each minute that has begun since the last use.
#[inline]
pub(super) fn count(word: u32, clock: u32) -> u32 {
    let into_minute = (word >> 8) % COUNT_DECAY_S;
    (word & 0xff).saturating_sub((into_minute + idle_s(word, clock)) / COUNT_DECAY_S)
}

/// Returns the count after one more use: it grows with the logarithm of the number of uses.
#[inline]
pub(super) fn count_use(word: u32, clock: u32, random: &mut Random) -> u32 {
    let count = count(word, clock);
    let odds = u64::from(count.saturating_sub(COUNT_NEW)) * COUNT_SLOWNESS + 1;
    let grows = (random.next() >> 32) * odds < 1 << 32;
    (count + u32::from(grows)).min(255)
}

/// Returns the entry that a sampling policy evicts.
pub(super) fn choose_victim<S: Store>(
    kind: PolicyKind,
    store: &S,
    clock: u32,
    random: &mut Random,
) -> Option<S::Location> {
    use PolicyKind as Kind;

    let expires_at = |location| store.expires_at(location);
    let idle = |location| u64::from(idle_s(store.access(location), clock));
    // The least used entry scores highest; among equals the one that has been idle for longest.
    let rarity = |location| u64::from(255 - count(store.access(location), clock)) << 32 | idle(location);
    let draws = if store.len() <= SAMPLE_SIZE_FEW { SAMPLE_SIZE_FEW } else { SAMPLE_SIZE };
    match kind {
        Kind::NoEviction => None,
        Kind::AllKeysLru => highest(draws, |random| store.sample(random), idle, random),
        Kind::AllKeysLfu => highest(draws, |random| store.sample(random), rarity, random),
        Kind::AllKeysRandom | Kind::AllKeysS3Fifo => store.sample(random.next()),
        Kind::VolatileLru => highest(draws, |random| store.sample_expiring(random), idle, random),
        Kind::VolatileLfu => highest(draws, |random| store.sample_expiring(random), rarity, random),
        Kind::VolatileTtl => {
            highest(draws, |random| store.sample_expiring(random), |location| u64::MAX - expires_at(location), random)
        }
        Kind::VolatileRandom => store.sample_expiring(random.next()),
    }
}

fn highest<P: Copy>(
    draws: usize,
    sample: impl Fn(u64) -> Option<P>,
    score: impl Fn(P) -> u64,
    random: &mut Random,
) -> Option<P> {
    (0..draws).filter_map(|_| sample(random.next())).max_by_key(|&location| score(location))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, KeyHasher, StdStore, StoreOptions};

    #[test]
    fn counts_grow_with_the_logarithm_as_redis_documents() {
        let mut random = Random::new(7);
        let mut word = COUNT_NEW;
        let mut reached = Vec::new();
        for uses in 1..=1_000_000 {
            word = count_use(word, 0, &mut random);
            if [100, 1000, 100_000, 1_000_000].contains(&uses) {
                reached.push(word);
            }
        }
        // redis.conf, lfu-log-factor 10: 10, 18, 142, 255 after so many hits.
        for (count, documented) in reached.iter().zip([10, 18, 142, 255_u32]) {
            assert!(count.abs_diff(documented) <= documented / 5 + 2, "{reached:?}");
        }
    }

    #[test]
    fn among_few_entries_the_one_in_use_is_spared_even_if_it_is_drawn_most_often() {
        let mut random = Random::new(7);
        // Six draws of ten are of the entry that has just been used.
        let sample = |random: u64| Some(usize::from((random >> 32) % 10 < 4));
        let mut spared = |draws| {
            let victims = (0..10_000).map(|_| highest(draws, sample, |entry| [0, 60][entry], &mut random));
            victims.filter(|victim| *victim == Some(1)).count()
        };
        assert!((9_000..9_500).contains(&spared(SAMPLE_SIZE)));
        assert!(spared(SAMPLE_SIZE_FEW) >= 9_997);
    }

    #[test]
    fn in_a_store_with_few_entries_the_one_in_use_is_no_victim() {
        let options = StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| (), release: |_| () };
        let mut store = StdStore::new(options);
        for (number, key) in [b"a", b"b", b"c", b"d"].into_iter().enumerate() {
            let hash = store.hash(key);
            let location = store.insert(hash, key, b"", Attributes::default());
            store.set_access(location, if number == 3 { 60 << 8 } else { 0 });
        }
        let mut random = Random::new(7);
        let victims = (0..10_000).filter_map(|_| choose_victim(PolicyKind::AllKeysLru, &store, 60, &mut random));
        assert_eq!(victims.filter(|&victim| store.view(victim).key == b"d").count(), 0);
    }

    #[test]
    fn a_count_falls_by_one_a_minute_even_when_the_clock_wraps() {
        let at = |clock: u32, count: u32| (clock & 0xff_ffff) << 8 | count;
        assert_eq!(count(at(59, 9), 59), 9);
        assert_eq!(count(at(59, 9), 60), 8);
        assert_eq!(count(at(0, 9), 59), 9);
        assert_eq!(count(at(0, 9), 600), 0);
        let late = 0xff_ffff;
        assert_eq!(idle_s(at(late, 9), 1), 2);
        assert!(count(at(late, 9), 1) >= 8);
    }
}
