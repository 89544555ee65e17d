//! Laws of every cache, used by several threads.

use std::{
    sync::atomic::{AtomicBool, AtomicU64},
    thread,
};

use super::*;

const THREADS: usize = 4;
const NUMBERS: u64 = 64;
const ROUNDS: u64 = 4_000;
const ITEM_BYTES_MAX: usize = 1_000;
const LIMITS: CacheLimits = CacheLimits { entries: 30, bytes: 20_000, descriptors: 5 };

/// Each thread writes numbers of its own and reads all. A version read is never older than one whose insertion had
/// ended before the read began.
fn hold_under_contention<C: Cache<Item>>(name: &str) {
    let live = Live::default();
    let cache = C::new(LIMITS);
    let ended: Vec<AtomicU64> = (0..NUMBERS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_bounded(name, &cache);
                thread::yield_now();
            }
        });
        let (cache, ended, live) = (&cache, &ended, &live);
        let workers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(name, cache, ended, live, thread as u64))).collect();
        let outcomes: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });

    let mut held = Usage::default();
    for number in 0..NUMBERS {
        cache.get(&id(number)).into_iter().for_each(|item| held.add(&Usage::of_entry(&id(number), &item)));
    }
    assert_eq!(cache.used(), held, "{name} has counted what is there");
    assert_eq!(live.count(), held.entries, "{name} keeps what cannot be got");
    assert!(held.entries <= LIMITS.entries && held.bytes <= LIMITS.bytes && held.descriptors <= LIMITS.descriptors);
    drop(cache);
    assert_eq!(live.count(), 0, "{name} leaks");
}

fn assert_bounded<C: Cache<Item>>(name: &str, cache: &C) {
    let used = cache.used();
    let entry_bytes_max = ITEM_BYTES_MAX + id(NUMBERS + 3).as_bytes().len() + ENTRY_OVERHEAD_BYTES;
    assert!(used.entries <= LIMITS.entries + THREADS, "{name}: {used:?}");
    assert!(used.bytes <= LIMITS.bytes + THREADS * entry_bytes_max, "{name}: {used:?}");
    assert!(used.descriptors <= LIMITS.descriptors + THREADS, "{name}: {used:?}");
}

fn work<C: Cache<Item>>(name: &str, cache: &C, ended: &[AtomicU64], live: &Live, thread: u64) {
    let mut random = fastrand::Rng::with_seed(thread);
    for version in 1..=ROUNDS {
        let number = random.u64(..NUMBERS / THREADS as u64) * THREADS as u64 + thread;
        let item = Item::new(version, random.usize(..=ITEM_BYTES_MAX), random.usize(..4) / 3);
        cache.insert(&id(number), item.counted(live));
        ended[number as usize].store(version, Ordering::Release);
        for _ in 0..3 {
            let number = random.u64(..NUMBERS);
            let oldest = ended[number as usize].load(Ordering::Acquire);
            if let Some(found) = cache.get(&id(number)) {
                assert!(found.version >= oldest, "{name}: {} of {number} after {oldest}", found.version);
            }
        }
        if version % 7 == 0 {
            cache.remove_if(&id(random.u64(..NUMBERS)), |item| item.version.is_multiple_of(2));
        }
        assert_bounded(name, cache);
    }
}

#[test]
fn every_cache_holds_under_contention() {
    every_cache!(hold_under_contention());
}
