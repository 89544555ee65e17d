//! Caches at their memory limit.

use clap::ValueEnum;
use store::{Attributes, Cache, CacheCounts, Moment, OutOfMemory, PackedStore, PolicyKind, Store};

use crate::{NOW, cache};

/// Limit that has room for stores which get their memory in chunks of several MiB.
const LIMIT: usize = 16 << 20;

const NEVER: Attributes = Attributes { expires_at: 0, flags: 0, version: 0, encoding: 0 };
const LATER: Attributes = Attributes { expires_at: NOW.unix_ms + 1_000_000, ..NEVER };

fn set<S: Store>(cache: &mut Cache<S>, key: &str, len: usize, attributes: Attributes) -> Result<(), OutOfMemory> {
    let hash = cache.store().hash(key.as_bytes());
    cache.set(hash, key.as_bytes(), &vec![b'v'; len], attributes, NOW)
}

fn get<S: Store>(cache: &mut Cache<S>, key: &str) -> Option<usize> {
    let hash = cache.store().hash(key.as_bytes());
    cache.get(hash, key.as_bytes(), NOW).map(|view| view.value.len())
}

fn remove<S: Store>(cache: &mut Cache<S>, key: &str) -> bool {
    let hash = cache.store().hash(key.as_bytes());
    cache.remove(hash, key.as_bytes(), NOW)
}

/// Fills a cache with entries `name:0` and so on until no more fits; returns their number.
fn fill<S: Store>(cache: &mut Cache<S>, name: &str, len: usize, attributes: Attributes) -> usize {
    let refused = (0..).find(|number| set(cache, &format!("{name}:{number}"), len, attributes).is_err());
    refused.expect("the limit is finite")
}

/// Random sizes: mostly small ones, now and then a large one.
fn any_len(random: &mut fastrand::Rng) -> usize {
    match random.u8(..100) {
        0..60 => random.usize(..100),
        60..98 => random.usize(..4000),
        _ => random.usize(..200_000),
    }
}

pub(crate) fn the_limit_holds<S: Store>(policy: PolicyKind) {
    let mut cache = cache::<S>(policy, Some(LIMIT));
    let mut random = fastrand::Rng::with_seed(5);
    let mut refused = 0;
    for turn in 0..20_000 {
        let key = random.u32(..20_000).to_string();
        let attributes = Attributes { expires_at: LATER.expires_at + turn, ..NEVER };
        match random.u8(..10) {
            0 => {
                remove(&mut cache, &key);
            }
            1..4 => {
                get(&mut cache, &key);
            }
            _ => {
                let len = any_len(&mut random);
                match set(&mut cache, &key, len, attributes) {
                    Ok(()) => {
                        assert!(cache.bytes() <= LIMIT, "{policy}: {} bytes after {turn} turns", cache.bytes());
                        assert_eq!(get(&mut cache, &key), Some(len), "{policy}");
                    }
                    Err(OutOfMemory) => refused += 1,
                }
            }
        }
    }
    assert_eq!(refused > 0, policy == PolicyKind::NoEviction, "{policy} refused {refused}");
    assert_eq!(cache.counts.evicted > 0, policy != PolicyKind::NoEviction, "{policy}");
    assert!(cache.bytes() > LIMIT / 2, "{policy} uses {} of its memory", cache.bytes());
}

/// Thousands of the smallest entries have to go for a page of large ones, or a pair of pages.
#[test]
fn large_entries_take_the_place_of_the_smallest() {
    let mut cache = cache::<PackedStore>(PolicyKind::VolatileLru, Some(LIMIT));
    let kept = |number: u32| format!("kept:{number}");
    (0..2000).for_each(|number| assert_eq!(set(&mut cache, &kept(number), 1024, NEVER), Ok(())));
    for number in 0.. {
        assert_eq!(set(&mut cache, &number.to_string(), 0, LATER), Ok(()));
        if cache.counts.evicted > 0 {
            break;
        }
    }
    // Pages are given back for them.
    (0..200).for_each(|number| assert_eq!(set(&mut cache, &format!("large:{number}"), 30_000, NEVER), Ok(())));
    for number in 2000..4000 {
        assert_eq!(set(&mut cache, &kept(number), 1024, NEVER), Ok(()), "{number}");
        assert!(cache.bytes() <= LIMIT);
    }
    (0..4000).for_each(|number| assert_eq!(get(&mut cache, &kept(number)), Some(1024)));
}

pub(crate) fn volatile_policies_spare_what_does_not_expire<S: Store>() {
    use PolicyKind::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
    for policy in [VolatileLru, VolatileLfu, VolatileRandom, VolatileTtl] {
        let mut cache = cache::<S>(policy, Some(LIMIT));
        let kept = |number: u32| format!("kept:{number}");
        (0..2000).for_each(|number| assert_eq!(set(&mut cache, &kept(number), 1024, NEVER), Ok(())));
        for number in 0..20_000 {
            assert_eq!(set(&mut cache, &format!("expires:{number}"), 1000, LATER), Ok(()), "{policy}");
        }
        assert!(cache.counts.evicted > 1000, "{policy}");
        let lost = (0..2000).filter(|&number| get(&mut cache, &kept(number)).is_none()).count();
        assert_eq!(lost, 0, "{policy}");
        // When no entry that expires is left, none may be evicted.
        fill(&mut cache, "more", 1000, NEVER);
        assert_eq!(cache.store().expiring(), 0, "{policy}");
        assert_eq!(set(&mut cache, "one more, of another size", 10_000, NEVER), Err(OutOfMemory), "{policy}");
        let lost = (0..2000).filter(|&number| get(&mut cache, &kept(number)).is_none()).count();
        assert_eq!(lost, 0, "{policy}");
    }
}

pub(crate) fn a_full_cache_refuses_without_losing_anything<S: Store>() {
    let mut cache = cache::<S>(PolicyKind::NoEviction, Some(LIMIT));
    assert_eq!(set(&mut cache, "too large for any", LIMIT + 1, NEVER), Err(OutOfMemory));
    let entries = fill(&mut cache, "key", 1000, NEVER);
    assert_eq!((cache.len(), cache.counts.evicted), (entries, 0));
    // Another value of the same size needs no more memory, and an expiry next to none.
    for number in 0..200 {
        let key = format!("key:{number}");
        let hash = cache.store().hash(key.as_bytes());
        assert_eq!(cache.set(hash, key.as_bytes(), &[b'w'; 1000], NEVER, NOW), Ok(()));
        assert_eq!(cache.set_expiry(hash, key.as_bytes(), NOW.unix_ms + 1, NOW), Ok(true));
        assert_eq!(cache.set_expiry(hash, key.as_bytes(), NOW.unix_ms + 1000, NOW), Ok(true));
    }
    assert!(cache.bytes() <= LIMIT + LIMIT / 64);
    // Expired entries make room, as soon as they are found.
    let later = Moment { unix_ms: NOW.unix_ms + 1000 };
    let hash = cache.store().hash(b"new:1");
    let is_set = |_: u32| cache.set(hash, b"new:1", &[b'n'; 1000], LATER, later).is_ok();
    assert!((1..10_000).any(is_set));
    assert!(cache.counts.expired > 0 && cache.bytes() <= LIMIT);
    let lost = (200..entries).filter(|number| get(&mut cache, &format!("key:{number}")).is_none()).count();
    assert_eq!(lost, 0);
}

pub(crate) fn policies_change_at_run_time<S: Store>() {
    let mut cache = cache::<S>(PolicyKind::NoEviction, Some(LIMIT));
    let mut random = fastrand::Rng::with_seed(6);
    for turn in 0..60 {
        cache.set_policy(PolicyKind::value_variants()[random.usize(..PolicyKind::value_variants().len())]);
        if turn % 10 == 9 {
            cache.clear();
        }
        for _ in 0..600 {
            let key = random.u32(..20_000).to_string();
            let is_set = set(&mut cache, &key, any_len(&mut random), LATER).is_ok();
            assert!(is_set && cache.bytes() <= LIMIT || cache.policy() == PolicyKind::NoEviction);
            get(&mut cache, &random.u32(..20_000).to_string());
        }
    }
    // Entries older than the queues are evicted like all others.
    for before in [PolicyKind::NoEviction, PolicyKind::AllKeysLfu] {
        cache.clear();
        cache.set_policy(before);
        cache.counts = CacheCounts::default();
        let old = (0..).find(|number| {
            let is_set = set(&mut cache, &format!("old:{number}"), 1000, NEVER).is_ok();
            !is_set || cache.counts.evicted > 0
        });
        let old = old.expect("the limit is finite");
        cache.set_policy(PolicyKind::AllKeysS3Fifo);
        for number in 0..old * 4 {
            // Used at once and never again: these stay as long as possible.
            let key = format!("new:{number}");
            assert_eq!(set(&mut cache, &key, 1000, NEVER), Ok(()));
            assert_eq!([(); 3].map(|()| get(&mut cache, &key)), [Some(1000); 3]);
        }
        let left = (0..old).filter(|number| get(&mut cache, &format!("old:{number}")).is_some()).count();
        assert!(left < old / 20, "{left} of {old} are left after {before}");
    }
}

pub(crate) fn a_lowered_limit_is_reached<S: Store>() {
    for policy in [PolicyKind::AllKeysS3Fifo, PolicyKind::AllKeysLru] {
        // Without a limit there are no queues; with one they are filled again.
        let mut cache = cache::<S>(policy, None);
        (0..30_000).for_each(|number| assert_eq!(set(&mut cache, &number.to_string(), 1000, NEVER), Ok(())));
        assert_eq!(cache.bytes(), cache.store().bytes());
        let before = cache.bytes();
        cache.set_limit(Some(LIMIT));
        assert_eq!(set(&mut cache, "30000", 1000, NEVER), Ok(()));
        assert!(cache.bytes() <= before + LIMIT / 64, "{policy}");
        let steps = (1..).take_while(|_| !cache.shrink_some(NOW)).count();
        assert!(cache.bytes() <= LIMIT && steps > 10, "{policy}: {} bytes after {steps} steps", cache.bytes());
        assert!(cache.bytes() > LIMIT / 2, "{policy}: {} bytes", cache.bytes());
    }
    let mut cache = cache::<S>(PolicyKind::NoEviction, None);
    (0..30_000).for_each(|number| assert_eq!(set(&mut cache, &number.to_string(), 1000, NEVER), Ok(())));
    cache.set_limit(Some(LIMIT));
    assert!(cache.shrink_some(NOW), "there is nothing to do");
    assert_eq!(cache.len(), 30_000);
    // It holds until it is lifted, whatever happens to the entries.
    assert_eq!(set(&mut cache, "30000", 1000, NEVER), Err(OutOfMemory));
    cache.clear();
    let count = fill(&mut cache, "again", 1000, NEVER);
    assert!(cache.bytes() <= LIMIT && count < 20_000, "{count}");
    cache.set_limit(None);
    (0..30_000).for_each(|number| assert_eq!(set(&mut cache, &number.to_string(), 1000, NEVER), Ok(())));
}

/// Without a policy that needs it, too.
pub(crate) fn uses_are_noted_for_whoever_asks<S: Store>() {
    let mut cache = cache::<S>(PolicyKind::NoEviction, None);
    cache.track_use();
    let hash = cache.store().hash(b"key");
    let after = |s: u64| Moment { unix_ms: NOW.unix_ms + 1000 * s };
    for is_again in [false, true] {
        assert_eq!(cache.set(hash, b"key", b"value", NEVER, NOW), Ok(()));
        assert_eq!(cache.idle_s(hash, b"key", after(60)), Some(60));
        assert!(cache.get(hash, b"key", after(50)).is_some());
        assert_eq!(cache.idle_s(hash, b"key", after(60)), Some(10));
        assert_eq!(
            cache.set(hash, b"key", if is_again { b"other" } else { b"a longer one" }, NEVER, after(55)),
            Ok(())
        );
        assert_eq!(cache.idle_s(hash, b"key", after(60)), Some(5));
        cache.clear();
    }
}

pub(crate) fn queues_stay_short<S: Store>() {
    let mut cache = cache::<S>(PolicyKind::AllKeysS3Fifo, Some(LIMIT));
    let mut random = fastrand::Rng::with_seed(7);
    let mut longest = 0;
    for phase in 0..8 {
        for turn in 0..20_000 {
            // Sizes change from phase to phase, so that blocks are freed and allocated.
            let len = [20, 3000, 300, 1000][phase % 4] + random.usize(..50);
            let key = format!("{}", random.u32(..30_000));
            match turn % 4 {
                0 => {
                    remove(&mut cache, &key);
                }
                _ => assert_eq!(set(&mut cache, &key, len, NEVER), Ok(())),
            }
            longest = longest.max(cache.bytes() - cache.store().bytes());
        }
    }
    // Twice 4 bytes for each of at most 30,000 entries, with a margin, and as many fingerprints.
    assert!(cache.counts.evicted > 10_000 && longest < 600_000, "{longest}");
}

pub(crate) fn other_sizes_get_the_memory<S: Store>() {
    for policy in [PolicyKind::AllKeysS3Fifo, PolicyKind::AllKeysLru, PolicyKind::AllKeysRandom] {
        let mut cache = cache::<S>(policy, Some(LIMIT));
        (0..150_000).for_each(|number| assert_eq!(set(&mut cache, &format!("small:{number}"), 12, NEVER), Ok(())));
        for number in 0..12_000 {
            assert_eq!(set(&mut cache, &format!("large:{number}"), 4000, NEVER), Ok(()), "{policy} {number}");
        }
        let large = (0..12_000).filter(|number| get(&mut cache, &format!("large:{number}")).is_some()).count();
        assert!(large * 4000 > LIMIT / 2, "{policy}: {large} large ones, {} in all", cache.len());
        // And back again.
        for number in 0..300_000 {
            assert_eq!(set(&mut cache, &format!("again:{number}"), 12, NEVER), Ok(()), "{policy} {number}");
        }
        let small = (0..300_000).filter(|number| get(&mut cache, &format!("again:{number}")).is_some()).count();
        assert!(small * 150 > LIMIT / 2, "{policy}: {small} small ones, {} in all", cache.len());
    }
}
