//! Stores and eviction, on ten thousand keys.

use std::hint::black_box;

use clap::ValueEnum;
use gungraun::{library_benchmark, library_benchmark_group};
use store::{
    Attributes, Cache, HashbrownStore, KeyHasher, Moment, PackedStore, PolicyKind, StdStore, Store, StoreOptions,
};

use crate::at_most;

const KEYS: usize = 10_000;
const TURNS: usize = 2_000;
const VALUE: &[u8] = b"twelve bytes";
const NOW: Moment = Moment { unix_ms: 1_700_000_000_000 };
const PLAIN: Attributes = Attributes { expires_at: 0, flags: 0, version: 0, encoding: 0 };

fn key(number: usize) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let digits = number.to_string();
    key[16 - digits.len()..].copy_from_slice(digits.as_bytes());
    key
}

/// A full cache, and keys for [`TURNS`] operations.
struct Setup<S: Store> {
    cache: Cache<S>,
    keys: Vec<[u8; 16]>,
}

fn cache<S: Store>(policy: PolicyKind, memory_max: Option<usize>) -> Cache<S> {
    let options = StoreOptions { hasher: KeyHasher::with_repeatable_seed(1), advise: |_| (), release: |_| () };
    let mut cache = Cache::<S>::new(options, policy, memory_max, 1);
    for number in 0..KEYS {
        let key = key(number);
        let hash = cache.store().hash(&key);
        cache.set(hash, &key, VALUE, PLAIN, NOW).expect("an entry is evicted");
    }
    cache
}

/// Makes a cache, and keys that it has, far apart.
fn known<S: Store>() -> Setup<S> {
    Setup { cache: cache(PolicyKind::AllKeysS3Fifo, None), keys: (0..TURNS).map(|at| key(at * 7919 % KEYS)).collect() }
}

/// Makes a cache with room for half of its entries, and keys that it does not have.
fn full(policy: &str) -> Setup<PackedStore> {
    let policy = PolicyKind::from_str(policy, false).expect("a policy");
    let memory = cache::<PackedStore>(PolicyKind::NoEviction, None).bytes();
    Setup { cache: cache(policy, Some(memory / 2)), keys: (KEYS..KEYS + TURNS).map(key).collect() }
}

fn get<S: Store>(mut setup: Setup<S>) -> Setup<S> {
    for key in &setup.keys {
        let hash = setup.cache.store().hash(key);
        black_box(setup.cache.get(hash, key, NOW).map(|view| view.value.len()));
    }
    setup
}

fn set<S: Store>(mut setup: Setup<S>) -> Setup<S> {
    for key in &setup.keys {
        let hash = setup.cache.store().hash(key);
        let _ = black_box(setup.cache.set(hash, key, VALUE, PLAIN, NOW));
    }
    setup
}

#[library_benchmark]
#[bench::get(args = (known()), config = at_most(426_900))]
fn packed_get(setup: Setup<PackedStore>) -> Setup<PackedStore> {
    get(setup)
}

#[library_benchmark]
#[bench::set(args = (known()), config = at_most(672_000))]
fn packed_set(setup: Setup<PackedStore>) -> Setup<PackedStore> {
    set(setup)
}

#[library_benchmark]
#[bench::get(args = (known()), config = at_most(480_000))]
fn hashbrown_get(setup: Setup<HashbrownStore>) -> Setup<HashbrownStore> {
    get(setup)
}

#[library_benchmark]
#[bench::get(args = (known()), config = at_most(480_000))]
fn std_get(setup: Setup<StdStore>) -> Setup<StdStore> {
    get(setup)
}

#[library_benchmark]
#[bench::lru(args = (full("allkeys-lru")), config = at_most(4_760_000))]
#[bench::lfu(args = (full("allkeys-lfu")), config = at_most(5_280_000))]
#[bench::random(args = (full("allkeys-random")), config = at_most(3_570_000))]
#[bench::s3fifo(args = (full("allkeys-s3fifo")), config = at_most(4_421_000))]
fn evict(setup: Setup<PackedStore>) -> Setup<PackedStore> {
    set(setup)
}

library_benchmark_group!(name = store_and_evict, benchmarks = [packed_get, packed_set, hashbrown_get, std_get, evict]);
