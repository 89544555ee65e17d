use std::collections::{HashMap, HashSet};

use super::{expiring, plain, store};
use crate::Store;

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
        store.sweep_expiring(start, &mut found);
        assert!(found.len() <= 768);
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
        loop {
            let before = found.len();
            cursor = store.sweep_expiring(cursor, &mut found);
            steps += 1;
            assert!(found.len() - before <= 768, "a step is short");
            if cursor == 0 {
                break;
            }
        }
        let mut numbers: Vec<u32> = found.iter().map(|&location| number(store.view(location).key)).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20_000).step_by(rarity as usize).collect::<Vec<_>>());
        assert!(steps <= 64);
    }
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
