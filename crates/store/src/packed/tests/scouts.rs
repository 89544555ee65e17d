//! Scouts that read while another thread changes the store.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{super::PackedStore, options, plain};
use crate::{Pin, Scout as _, Store};

const KEYS: u64 = 4_000;
const ROUNDS: usize = 60;

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// A lookup with a hint finds the same as one without, whatever happens to the store in between: entries are added,
/// removed, resized and moved, the table doubles, the store is cleared.
#[test]
fn a_hint_does_not_change_the_result_of_a_lookup() {
    let store = Mutex::new(PackedStore::new(options()));
    let scout = store.lock().unwrap().scout();
    let (is_over, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    let look = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        while !is_over.load(Ordering::Relaxed) {
            let pin = Pin::new();
            let asked: Vec<_> = (0..8)
                .map(|_| {
                    let key = key(random.u64(..KEYS));
                    let hash = options().hasher.hash(&key);
                    scout.prefetch(hash, &pin);
                    (key, hash, scout.prefetch_entry(hash, &pin))
                })
                .collect();
            let store = store.lock().unwrap();
            for (key, hash, hint) in asked {
                let found = store.find_hinted(hint, hash, &key);
                assert_eq!(found, store.find(hash, &key));
                hits.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|seed| drop(scope.spawn(move || look(seed))));
        let mut random = fastrand::Rng::with_seed(9);
        for round in 0..ROUNDS {
            for _ in 0..KEYS {
                let (key, len) = (key(random.u64(..KEYS)), random.usize(..80));
                let mut store = store.lock().unwrap();
                if random.u8(..4) == 0 {
                    store.delete(&key);
                } else {
                    store.set(&key, &[7; 80][..len], plain());
                }
            }
            if round % 20 == 19 {
                store.lock().unwrap().clear();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(hits.into_inner() > 0, "nothing was ever found");
}

/// A scout outlives the store it was made for, and finds nothing any more.
#[test]
fn a_scout_outlives_its_store() {
    let mut store = PackedStore::new(options());
    for number in 0..KEYS {
        store.set(&key(number), b"value", plain());
    }
    let scout = store.scout();
    drop(store);
    let pin = Pin::new();
    for number in 0..KEYS {
        let hash = options().hasher.hash(&key(number));
        scout.prefetch(hash, &pin);
        assert_eq!(scout.prefetch_entry(hash, &pin), super::super::Hint::default());
    }
}
