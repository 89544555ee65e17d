use std::collections::{HashMap, HashSet};

use super::{super::classes::PAGE, PackedStore, expiring, options, plain, store};
use crate::{Cache, Moment, PolicyKind, Store};

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn number(key: &[u8]) -> u32 {
    key.first_chunk().map_or(0, |&bytes| u32::from_be_bytes(bytes))
}

#[test]
fn a_scan_visits_every_entry_that_stays() {
    const STAY: u32 = 3000;
    for churn in [0, 5, 40] {
        let mut store = store();
        (0..STAY).for_each(|number| _ = store.set(&key(number), b"", plain()));
        let mut random = fastrand::Rng::with_seed(3);
        let (mut seen, mut cursor, mut steps, mut next) = (HashSet::new(), 0, 0, STAY);
        loop {
            cursor = store.scan(cursor, &mut |view| _ = seen.insert(number(view.key)));
            steps += 1;
            if cursor == 0 {
                break;
            }
            for _ in 0..churn {
                store.set(&key(next), b"", plain());
                next += 1;
                store.delete(&key(random.u32(STAY..next)));
            }
        }
        assert!((0..STAY).all(|number| seen.contains(&number)), "with {churn} changes at each step");
        assert!(steps > 64, "a step shows a few entries, not all of them");
    }
}

#[test]
fn a_scan_of_an_unchanged_store_visits_no_entry_twice() {
    let mut store = store();
    (0..2000).for_each(|number| _ = store.set(&key(number), b"", plain()));
    let mut seen = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = store.scan(cursor, &mut |view| seen.push(number(view.key)));
        if cursor == 0 {
            break;
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..2000).collect::<Vec<_>>());
}

#[test]
fn any_number_is_a_cursor() {
    let mut store = store();
    (0..2000).for_each(|number| _ = store.set(&key(number), b"", expiring(7)));
    let mut random = fastrand::Rng::with_seed(4);
    for start in (0..200).map(|_| random.u64(..)).chain([u64::MAX, 1 << 38, (1 << 38) - 1]) {
        let (mut cursor, mut steps) = (start, 0);
        while cursor != 0 || steps == 0 {
            cursor = store.scan(cursor, &mut |_| ());
            steps += 1;
        }
        assert!(steps <= 64 * 64);
        let mut found = Vec::new();
        store.sweep_expiring(start, u64::MAX, &mut found);
        assert!(found.len() <= PAGE / 8);
    }
}

#[test]
fn a_sweep_finds_exactly_the_entries_that_expire() {
    for rarity in [1, 3, 1000] {
        let mut store = store();
        for number in 0..20_000 {
            let attributes = if number % rarity == 0 { expiring(9) } else { plain() };
            store.set(&key(number), b"", attributes);
        }
        let (mut found, mut cursor, mut steps) = (Vec::new(), 0, 0);
        assert_eq!(store.sweep_expiring(0, 8, &mut found), 0, "no page has anything to look for");
        assert!(found.is_empty());
        loop {
            cursor = store.sweep_expiring(cursor, 9, &mut found);
            steps += 1;
            if cursor == 0 {
                break;
            }
        }
        let mut numbers: Vec<u32> = found.iter().map(|&location| number(store.view(location).key)).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20_000).step_by(rarity as usize).collect::<Vec<_>>());
        assert!(steps <= store.arena.pages());
    }
}

/// Wherever a change leaves an entry, the sweep finds it when its time has come, and not before.
#[test]
fn a_sweep_finds_entries_whose_time_or_block_has_changed() {
    let mut random = fastrand::Rng::with_seed(8);
    for _ in 0..6 {
        let mut store = store();
        let mut expected: Vec<u64> = Vec::new();
        for number in 0..3000 {
            expected.push(random.u64(0..40) * 1000);
            store.set(&key(number), &vec![0; random.usize(..200)], expiring(expected[number as usize]));
        }
        for _ in 0..3000 {
            let number = random.u32(..3000);
            let at = random.u64(0..40) * 1000;
            let location = store.find(store.hash(&key(number)), &key(number)).expect("it is there");
            let is_changed = match random.u8(..100) {
                0..20 => store.set_expiry(location, at),
                20..30 => {
                    store.compact(4, 100, plain(), &mut |_| ());
                    false
                }
                30 => {
                    store.keep_access(random.bool());
                    false
                }
                _ => {
                    let len = if random.bool() { store.view(location).value.len() } else { random.usize(..200) };
                    store.set(&key(number), &vec![1; len], expiring(at));
                    true
                }
            };
            if is_changed {
                expected[number as usize] = at;
            }
        }
        for due in (1000..40_000).step_by(1000) {
            let (mut found, mut cursor) = (Vec::new(), 0);
            loop {
                cursor = store.sweep_expiring(cursor, due, &mut found);
                if cursor == 0 {
                    break;
                }
            }
            let mut numbers: Vec<u32> = found.iter().map(|&location| number(store.view(location).key)).collect();
            numbers.sort_unstable();
            let is_due = |number: &u32| expected[*number as usize] == due;
            assert_eq!(numbers, (0..3000).filter(is_due).collect::<Vec<_>>(), "due at {due}");
            numbers.iter().for_each(|&number| assert!(store.delete(&key(number))));
        }
        store.check();
    }
}

/// Not only when the last is gone: those that came together lie together.
#[test]
fn memory_of_expired_entries_comes_back_page_by_page() {
    const KEYS: u32 = 60_000;
    let mut cache = Cache::<PackedStore>::new(options(), PolicyKind::NoEviction, None, 1);
    for number in 0..KEYS {
        let key = key(number);
        let hash = cache.store().hash(&key);
        let attributes = expiring(if number < KEYS / 2 { 1000 } else { 2000 });
        cache.set(hash, &key, &[7; 100], attributes, Moment { unix_ms: 1 }).expect("there is no limit");
    }
    let mut before = cache.store().arena.bytes();
    for (now, left) in [(1000, KEYS / 2), (2000, 0)] {
        let keys = cache.len() as u32 - left;
        let (full, mut least) = (before, 0);
        while !cache.expire_some(Moment { unix_ms: now }) {
            let gone = keys - (cache.len() as u32 - left);
            if gone >= keys / 4 * (least + 1) {
                least += 1;
                let bytes = cache.store().arena.bytes();
                assert!(bytes < before, "{bytes} after {gone} of {keys}");
                before = bytes;
            }
        }
        assert_eq!(cache.len(), left as usize);
        assert!(least >= 3 && before < full);
        before = cache.store().arena.bytes();
    }
    cache.store().check();
}

#[test]
fn a_sample_is_even_enough() {
    const ENTRIES: u32 = 5000;
    const EACH: u32 = 40;
    let mut store = store();
    for number in 0..ENTRIES {
        store.set(&key(number), b"", if number % 10 == 0 { expiring(9) } else { plain() });
    }
    let mut random = fastrand::Rng::with_seed(5);
    let mut all = HashMap::<u32, u32>::new();
    let mut some = HashMap::<u32, u32>::new();
    for _ in 0..ENTRIES * EACH {
        let location = store.sample(random.u64(..)).expect("there are entries");
        *all.entry(number(store.view(location).key)).or_default() += 1;
        let location = store.sample_expiring(random.u64(..)).expect("there are such entries");
        *some.entry(number(store.view(location).key)).or_default() += 1;
    }
    assert!(all.len() as u32 > ENTRIES * 99 / 100, "{} of {ENTRIES} came up", all.len());
    assert!(all.values().all(|&count| count < EACH * 20), "{:?}", all.values().max());
    assert!(some.keys().all(|number| number % 10 == 0));
    assert!(some.len() as u32 > ENTRIES / 10 * 95 / 100, "{}", some.len());
}
