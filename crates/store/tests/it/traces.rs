//! Traces of requests, and the hit ratios of policies. All of it follows from a seed.

use std::collections::{BTreeMap, HashMap};

use store::{Attributes, Cache, KeyHasher, Moment, PolicyKind, StoreOptions};

use crate::entries::{ENTRY, Entries, hash};

/// Requests per simulated second.
const REQUESTS_PER_S: u64 = 1000;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Trace {
    /// Keys with Zipf's distribution.
    Zipf(f64),
    /// The same, with scans now and then: runs of keys that are never requested again, this many cache sizes long.
    ZipfAndScans(f64, usize),
    /// The same keys over and over; their number is this percentage of the cache's size.
    Loop(usize),
    /// Zipf, with other popular keys after each tenth of the requests.
    Drift(f64),
}

impl Trace {
    pub(crate) const ALL: [Self; 9] = [
        Self::Zipf(0.8),
        Self::Zipf(0.99),
        Self::Zipf(1.1),
        Self::ZipfAndScans(0.99, 2),
        Self::ZipfAndScans(0.99, 5),
        Self::ZipfAndScans(0.99, 10),
        Self::Drift(0.99),
        Self::Loop(125),
        Self::Loop(200),
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Zipf(skew) => format!("Zipf {skew}"),
            Self::ZipfAndScans(skew, length) => format!("Zipf {skew}, scans of {length} ×"),
            Self::Loop(percent) => format!("loop over {percent} %"),
            Self::Drift(skew) => format!("Zipf {skew}, drifting"),
        }
    }

    /// Returns `requests` numbers of about `keys` different keys, for a cache of `entries`.
    pub(crate) fn requests(self, keys: usize, entries: usize, requests: usize, seed: u64) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let zipf = |skew| Zipf::new(keys, skew);
        match self {
            Self::Zipf(skew) => {
                let zipf = zipf(skew);
                (0..requests).map(|_| zipf.draw(&mut random)).collect()
            }
            Self::ZipfAndScans(skew, length) => {
                let (zipf, mut fresh, mut all) = (zipf(skew), keys as u64.., Vec::new());
                while all.len() < requests {
                    // Four of five requests belong to no scan.
                    all.extend((0..entries * length * 4).map(|_| zipf.draw(&mut random)));
                    all.extend(fresh.by_ref().take(entries * length));
                }
                all.truncate(requests);
                all
            }
            Self::Loop(percent) => (0..(entries * percent / 100) as u64).cycle().take(requests).collect(),
            Self::Drift(skew) => {
                let zipf = zipf(skew);
                let favourite = |at: usize| (at * 10 / requests * (keys / 10)) as u64;
                (0..requests).map(|at| (zipf.draw(&mut random) + favourite(at)) % keys as u64).collect()
            }
        }
    }
}

/// Draws ranks from 0, with a probability in proportion to 1 / (rank + 1)^skew.
struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(keys: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=keys).map(|rank| (rank as f64).powf(-skew));
        let cumulative = weights.map(|weight| {
            sum += weight;
            sum
        });
        Self { cumulative: cumulative.collect() }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let at = random.f64() * total;
        self.cumulative.partition_point(|&below| below <= at).min(self.cumulative.len() - 1) as u64
    }
}

/// Returns the percentage of requests that are hits, the first quarter not counted.
pub(crate) fn hit_ratio(policy: PolicyKind, entries: usize, requests: &[u64]) -> f64 {
    let seed = 1;
    let options = StoreOptions { hasher: KeyHasher::with_seed(seed), advise: |_| (), release: |_| () };
    // Half an entry for the policy itself.
    let mut cache = Cache::<Entries>::new(options, policy, Some(entries * ENTRY + ENTRY / 2), seed);
    // Entries of volatile policies have to expire, though never in time.
    let attributes = Attributes { expires_at: u64::MAX, ..Attributes::default() };
    let mut at = 0;
    ratio(requests, |key| {
        let now = Moment { unix_ms: at * 1000 / REQUESTS_PER_S };
        at += 1;
        let key = key.to_le_bytes();
        let hash = hash(&key);
        let is_hit = cache.get(hash, &key, now).is_some();
        if !is_hit {
            cache.set(hash, &key, b"value", attributes, now).expect("every policy gives something up");
        }
        is_hit
    })
}

/// Returns the hit ratio of an exact LRU list.
pub(crate) fn hit_ratio_of_exact_lru(entries: usize, requests: &[u64]) -> f64 {
    let (mut last_use, mut by_age) = (HashMap::new(), BTreeMap::new());
    let mut at = 0_u64;
    ratio(requests, |key| {
        at += 1;
        by_age.insert(at, key);
        let before = last_use.insert(key, at);
        if let Some(before) = before {
            by_age.remove(&before);
        }
        if last_use.len() > entries
            && let Some((_, oldest)) = by_age.pop_first()
        {
            last_use.remove(&oldest);
        }
        before.is_some()
    })
}

fn ratio(requests: &[u64], mut is_hit: impl FnMut(u64) -> bool) -> f64 {
    let (warm_up, counted) = requests.split_at(requests.len() / 4);
    for &key in warm_up {
        is_hit(key);
    }
    let hits = counted.iter().filter(|&&key| is_hit(key)).count();
    hits as f64 * 100.0 / counted.len() as f64
}
