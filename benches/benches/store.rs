//! The cost of a cache per operation, without a server: a million keys of 16 bytes with values of 12.

use std::hint::black_box;

use clap::ValueEnum;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use store::{
    Attributes, Cache, HashbrownStore, KeyHasher, Moment, PackedStore, Pin, PolicyKind, Scout as _, StdStore, Store,
    StoreOptions,
};

const KEYS: u64 = 1_000_000;
/// Operations per turn, on keys at random.
const TURN: usize = 4096;
/// Commands in flight at once, where a pipeline lets a server prefetch.
const WINDOW: usize = 12;
const VALUE: &[u8] = b"twelve bytes";
const NOW: Moment = Moment { unix_ms: 1_700_000_000_000 };
const PLAIN: Attributes = Attributes { expires_at: 0, flags: 0, version: 0, encoding: 0 };

type Key = [u8; 16];

fn key(number: u64) -> Key {
    let mut key = *b"key:000000000000";
    let digits = number.to_string();
    key[16 - digits.len()..].copy_from_slice(digits.as_bytes());
    key
}

fn filled<S: Store>(policy: PolicyKind, limit: Option<usize>) -> Cache<S> {
    let options = StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| (), release: |_| () };
    let mut cache = Cache::<S>::new(options, policy, limit, 1);
    for number in 0..KEYS {
        let key = key(number);
        let hash = cache.store().hash(&key);
        cache.set(hash, &key, VALUE, PLAIN, NOW).expect("an entry is evicted");
    }
    cache
}

/// Returns other keys at each turn, so that the processor's caches do not help.
struct Keys(Vec<Key>, usize);

impl Keys {
    fn new() -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        Self((0..TURN * 256).map(|_| key(random.u64(..KEYS))).collect(), 0)
    }

    fn turn(&mut self) -> &[Key] {
        self.1 = (self.1 + TURN) % self.0.len();
        &self.0[self.1..self.1 + TURN]
    }
}

/// Runs an operation on every key with prefetching: first of the table's memory, then of the entry's.
fn windowed<S: Store>(cache: &mut Cache<S>, keys: &[Key], mut run: impl FnMut(&mut Cache<S>, u64, &Key)) {
    let mut hashes = [0; WINDOW];
    let (scout, pin) = (cache.scout(), Pin::new());
    for at in 0..keys.len() + WINDOW {
        if let Some(at) = at.checked_sub(WINDOW) {
            run(cache, hashes[at % WINDOW], &keys[at]);
        }
        if let Some(key) = keys.get(at) {
            hashes[at % WINDOW] = cache.store().hash(key);
            scout.prefetch(hashes[at % WINDOW], &pin);
        }
        if let Some(at) = at.checked_sub(WINDOW / 2).filter(|&at| at < keys.len()) {
            scout.prefetch_entry(hashes[at % WINDOW], &pin);
        }
    }
}

fn get<S: Store>(cache: &mut Cache<S>, hash: u64, key: &Key) {
    black_box(cache.get(hash, key, NOW).map(|view| view.value.len()));
}

fn set<S: Store>(cache: &mut Cache<S>, hash: u64, key: &Key) {
    let _ = black_box(cache.set(hash, key, VALUE, PLAIN, NOW));
}

fn store<S: Store>(c: &mut Criterion, name: &str) {
    let mut keys = Keys::new();
    let mut group = c.benchmark_group("store");
    group.throughput(Throughput::Elements(TURN as u64));
    let mut cache = filled::<S>(PolicyKind::AllKeysS3Fifo, None);
    for (operation, run) in [("get", get::<S> as fn(&mut Cache<S>, u64, &Key)), ("set", set::<S>)] {
        group.bench_function(format!("{name}/{operation}"), |b| {
            b.iter(|| {
                for key in keys.turn() {
                    let hash = cache.store().hash(key);
                    run(&mut cache, hash, key);
                }
            });
        });
        group.bench_function(format!("{name}/{operation}/window-{WINDOW}"), |b| {
            b.iter(|| windowed(&mut cache, keys.turn(), run));
        });
    }
    group.finish();
}

/// Measures an insertion that has to evict an entry.
fn eviction<S: Store>(c: &mut Criterion, name: &str) {
    let held = filled::<S>(PolicyKind::NoEviction, None).bytes();
    let mut group = c.benchmark_group("eviction");
    group.throughput(Throughput::Elements(TURN as u64));
    for &policy in PolicyKind::value_variants().iter().filter(|policy| policy.to_string().starts_with("allkeys-")) {
        let mut cache = filled::<S>(policy, Some(held / 2));
        let mut next = KEYS;
        group.bench_function(format!("{name}/{policy}"), |b| {
            b.iter(|| {
                for number in next..next + TURN as u64 {
                    let key = key(number);
                    let hash = cache.store().hash(&key);
                    set(&mut cache, hash, &key);
                }
                next += TURN as u64;
            });
        });
    }
    group.finish();
}

/// The stores, one a line.
fn stores(c: &mut Criterion) {
    store::<StdStore>(c, "std");
    store::<HashbrownStore>(c, "hashbrown");
    store::<PackedStore>(c, "packed");
}

fn evictions(c: &mut Criterion) {
    eviction::<HashbrownStore>(c, "hashbrown");
    eviction::<PackedStore>(c, "packed");
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = stores, evictions
}
criterion_main!(benches);
