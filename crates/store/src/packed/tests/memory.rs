use std::{
    cell::Cell,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{super::memory::HUGE, PackedStore, expiring, options, plain, store};
use crate::{Attributes, Cache, Moment, PolicyKind, SHARED_MIN, Store, StoreOptions};

fn key(number: u32) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    key[4..8].copy_from_slice(&number.to_be_bytes());
    key
}

#[test]
fn a_small_store_is_small() {
    let mut store = store();
    assert!(store.bytes() < 8 * 1024, "{}", store.bytes());
    (0..100).for_each(|number| _ = store.set(&key(number), b"twelve bytes", plain()));
    assert!(store.bytes() < 80 * 1024, "{}", store.bytes());
}

#[test]
fn an_entry_takes_two_bytes_beside_key_and_value_and_four_for_each_extra() {
    let mut store = store();
    assert_eq!(store.footprint(16, 12, plain()), 34);
    assert_eq!(store.footprint(16, 16, plain()), 38);
    assert_eq!(store.footprint(16, 12, expiring(1)), 38);
    assert_eq!(store.footprint(16, 1024, plain()), 1048);
    assert_eq!(store.footprint(16, 1024, expiring(1)), 1056);
    store.keep_access(false);
    assert_eq!(store.footprint(16, 12, plain()), 30);
    assert_eq!(store.footprint(16, 12, expiring(1 << 40)), 34);
    assert_eq!(store.footprint(16, 1024, expiring(1)), 1048);
}

/// Times near each other take four bytes, whenever they are; others eight.
#[test]
fn every_time_of_expiry_is_kept_exactly() {
    const DAY: u64 = 24 * 3600 * 1000;
    let mut store = store();
    let mut random = fastrand::Rng::with_seed(4);
    for began in [20_000 * DAY, 20_030 * DAY, 20_060 * DAY, 40_000 * DAY] {
        let mut expected = Vec::new();
        for number in 0..2000 {
            let apart = [1, 1000, DAY, 24 * DAY, 26 * DAY, 49 * DAY, 51 * DAY, 10_000 * DAY][random.usize(..8)];
            let at = began + random.u64(..apart) + 1;
            store.set(&key(number), b"value", expiring(at));
            expected.push(at);
        }
        let is_near = |at: u64| at - began < 24 * DAY;
        for (number, at) in (0..).zip(&mut expected) {
            let hash = store.hash(&key(number));
            let location = store.find(hash, &key(number)).expect("it is there");
            assert_eq!(store.expires_at(location), *at);
            if number > 0 && store.set_expiry(location, *at + 5) {
                *at += 5;
            }
            assert_eq!(store.view(location).attributes, expiring(*at));
        }
        // Those that have expired by then are removed, and the others are what they were.
        let swept = began + 20 * DAY;
        for (number, &at) in (0..).zip(&expected).filter(|(_, at)| **at <= swept) {
            assert!(is_near(at) && store.delete(&key(number)));
        }
        store.note_swept(swept);
        for (number, &at) in (0..).zip(&expected).filter(|(_, at)| **at > swept) {
            let location = store.find(store.hash(&key(number)), &key(number)).expect("it is there");
            assert_eq!(store.expires_at(location), at);
            store.delete(&key(number));
        }
        store.check();
    }
}

#[test]
fn access_words_that_are_needed_later_begin_at_zero() {
    let mut store = store();
    store.keep_access(false);
    store.set_limited(true);
    let long = vec![7; SHARED_MIN];
    let value = |number: u32| if number.is_multiple_of(100) { &long[..] } else { &long[..number as usize % 90] };
    let attributes = |number: u32| expiring(u64::from(number % 3) << 35);
    (0..5000).for_each(|number| _ = store.set(&key(number), value(number), attributes(number)));
    let location = store.find(store.hash(&key(1)), &key(1)).expect("it is there");
    store.set_access(location, 77);
    assert_eq!(store.access(location), 0, "none are kept");
    for keeps in [true, false] {
        // Those of entries that are there stay.
        store.keep_access(keeps);
        assert!(store.is_bounded(), "the limit is what it was");
        store.check();
        for number in 0..5000 {
            let location = store.find(store.hash(&key(number)), &key(number)).expect("it is there");
            let view = store.view(location);
            assert_eq!((view.value, view.attributes), (value(number), attributes(number)));
            assert_eq!(store.access(location), if keeps { 0 } else { number });
            store.set_access(location, number);
        }
    }
    (0..5000).for_each(|number| assert!(store.delete(&key(number))));
    store.keep_access(false);
    assert_eq!(store.footprint(16, 12, plain()), 30);
}

/// A header of 0 would be that of a free block.
#[test]
fn an_entry_of_nothing_but_a_mark_stays_without_it() {
    let mut store = store();
    let location = store.set(b"", b"", Attributes { encoding: 8, ..plain() });
    store.set_encoding(location, 0);
    assert_eq!(store.get(b""), Some(&b""[..]));
    store.check();
}

/// Measured at numbers of entries at which segments are neither full nor just split.
#[test]
fn overhead_beside_entries_is_small() {
    for (keys, value_len, most) in [(200_000, 12, 54.0), (20_000, 1024, 1080.0)] {
        let mut store = store();
        (0..keys).for_each(|number| _ = store.set(&key(number), &vec![0; value_len], plain()));
        let each = store.bytes() as f64 / f64::from(keys);
        assert!(each < most, "{each} bytes per key");
    }
}

/// The memory never grows by more than `growth` has said.
#[test]
fn growth_is_predicted() {
    let mut store = store();
    let mut random = fastrand::Rng::with_seed(9);
    for number in 0..20_000 {
        let len = [1, 12, 100, 1020, 8200, 9000, SHARED_MIN, 40_000][random.usize(..8) * random.usize(..2)];
        let most = store.bytes() + store.growth(16, len, plain());
        store.set(&key(number), &vec![0; len], plain());
        assert!(store.bytes() <= most, "{} > {most} after {number}", store.bytes());
        if random.u8(..3) > 0 {
            store.delete(&key(random.u32(..=number)));
        }
    }
}

#[test]
fn memory_of_removed_entries_is_given_back() {
    thread_local!(static RELEASED: Cell<usize> = const { Cell::new(0) });
    let release = |memory: &mut [MaybeUninit<u8>]| {
        RELEASED.set(RELEASED.get() + memory.len());
        memory.fill(MaybeUninit::new(0));
    };
    let mut store = PackedStore::new(StoreOptions { release, ..options() });
    (0..50_000).for_each(|number| _ = store.set(&key(number), &[1; 100], plain()));
    let full = store.bytes() - store.table.bytes();
    (0..50_000).for_each(|number| assert!(store.delete(&key(number))));
    store.check();
    let empty = store.bytes() - store.table.bytes();
    assert!(empty < full / 10, "{full} -> {empty}");
    assert!(RELEASED.get() > full * 8 / 10);
    // It can be used again, for entries of any size.
    (0..5000).for_each(|number| _ = store.set(&key(number), &[2; 1000], plain()));
    assert!((0..5000).all(|number| store.get(&key(number)) == Some(&[2; 1000])));
    assert!(store.bytes() - store.table.bytes() < full);
    store.check();
}

#[test]
fn compaction_makes_room_for_entries_of_another_size() {
    let mut store = store();
    (0..50_000).for_each(|number| _ = store.set(&key(number), b"twelve bytes", plain()));
    let expected = |number: u32| number.is_multiple_of(4);
    for number in (0..50_000).filter(|&number| !expected(number)) {
        assert!(store.delete(&key(number)));
    }
    let hash = store.hash(&key(0));
    let location = store.find(hash, &key(0)).expect("it is there");
    store.set_access(location, 77);
    let before = store.arena.bytes();
    let mut handles = Vec::new();
    let mut calls = 0;
    while store.compact(16, 1024, plain(), &mut |handle| handles.push(handle)) {
        calls += 1;
        assert!(calls < 1000, "it comes to an end");
    }
    store.check();
    assert!(store.arena.bytes() < before / 2, "{before} -> {}", store.arena.bytes());
    assert!(!handles.is_empty() && handles.iter().all(|&handle| store.locate(handle).is_some() || calls > 1));
    for number in 0..50_000 {
        assert_eq!(store.get(&key(number)).is_some(), expected(number));
    }
    let location = store.find(hash, &key(0)).expect("it is there still");
    assert_eq!(store.access(location), 77, "the access word goes along");
    assert_eq!(store.growth(16, 1024, plain()), store.table.growth());
}

#[test]
fn an_access_word_outlives_its_entry() {
    let mut store = store();
    let first = store.set(b"first", b"value", plain());
    assert_eq!(store.access(first), 0);
    store.set_access(first, 0xdead_beef);
    let other = store.set(b"other", b"value", plain());
    assert_eq!(store.access(other), 0);
    store.delete(b"first");
    let second = store.set(b"third", b"value", plain());
    assert_eq!((store.handle(second), store.access(second)), (store.handle(first), 0xdead_beef));
    // The page goes to another class, whose blocks begin at other addresses.
    store.delete(b"third");
    store.delete(b"other");
    let larger = store.set(b"larger", &[7; 100], plain());
    assert_eq!(store.access(larger), 0);
    assert_eq!(store.locate(store.handle(first) + 1), None);
}

#[test]
fn an_entry_stays_in_a_block_of_the_right_size() {
    let mut store = store();
    let hash = store.hash(b"key");
    let location = store.insert(hash, b"key", b"1234", plain());
    assert_eq!(store.replace(hash, location, b"12345", plain()), (location, false));
    assert_eq!(store.get(b"key"), Some(&b"12345"[..]));
    let (larger, has_moved) = store.replace(hash, location, b"123456", expiring(5));
    assert!(has_moved && store.locate(store.handle(location)).is_none());
    assert!(store.set_expiry(larger, 6));
    assert!(!store.set_expiry(larger, 0), "the block has another layout then");
    assert_eq!(store.view(larger).attributes, expiring(6));
    assert_eq!(store.expiring(), 1);
    store.replace(hash, larger, b"123456", plain());
    assert_eq!((store.expiring(), store.len()), (0, 1));
    store.check();
}

#[test]
fn long_values_are_shared_and_survive_their_entries() {
    let mut store = store();
    let location = store.set(b"key", &vec![7; SHARED_MIN], plain());
    let kept = store.view(location).shared.cloned().expect("a value of that length is shared");
    let without = store.bytes() - SHARED_MIN;
    store.set(b"key", &vec![8; 2 * SHARED_MIN], plain());
    assert!(store.bytes() >= without + 2 * SHARED_MIN);
    store.delete(b"key");
    assert!(store.external.release_reserve());
    assert!(store.bytes() <= without);
    assert!(kept.len() == SHARED_MIN && kept.iter().all(|&byte| byte == 7));
}

#[test]
fn a_cache_stays_within_its_limit_when_sizes_change() {
    const LIMIT: usize = 4 << 20;
    let mut cache = Cache::<PackedStore>::new(options(), PolicyKind::AllKeysRandom, Some(LIMIT), 1);
    let now = Moment { unix_ms: 1 };
    let mut number = 0;
    for round in 0..3 {
        for len in [12, 1000, 12, 9000, 200, 30_000, 12] {
            let value = vec![round; len];
            for _ in 0..3 * LIMIT / cache.store().footprint(16, len, plain()) {
                let key = key(number);
                number += 1;
                let hash = cache.store().hash(&key);
                assert_eq!(cache.set(hash, &key, &value, plain(), now), Ok(()), "{len} bytes");
                assert!(cache.bytes() <= LIMIT + LIMIT / 50, "{} with {len} bytes", cache.bytes());
            }
            // No more than a third is lost to remains of other sizes.
            let footprint = cache.store().footprint(16, len, plain());
            assert!(
                cache.len() * footprint > LIMIT / 2,
                "{} entries of {len} in {round}: table {} arena {} external {} policy {}",
                cache.len(),
                cache.store().table.bytes(),
                cache.store().arena.bytes(),
                cache.store().external.bytes(),
                cache.bytes() - cache.store().bytes()
            );
        }
    }
    cache.store().check();
}

/// The last chunk of each kind is not: it takes no more memory than is in use.
#[test]
fn every_full_chunk_is_advised() {
    static PIECES: AtomicUsize = AtomicUsize::new(0);
    let advise: fn(NonNull<[MaybeUninit<u8>]>) = |piece| {
        assert!(piece.len() == HUGE && piece.as_ptr().addr().is_multiple_of(HUGE));
        PIECES.fetch_add(1, Ordering::Relaxed);
    };
    let mut store = PackedStore::new(StoreOptions { advise, ..options() });
    for number in 0..640_000_u32 {
        let key = number.to_ne_bytes();
        store.insert(store.hash(&key), &key, b"", plain());
    }
    let (arena, table) = (store.arena.bytes() / HUGE, store.table.bytes() / HUGE);
    assert!(arena > 1 && table > 1);
    assert_eq!(PIECES.load(Ordering::Relaxed), arena + table);
}
