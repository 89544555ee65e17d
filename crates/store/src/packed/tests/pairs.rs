//! Pages that are used in pairs.

use super::{
    super::{
        PackedStore,
        classes::{PAGE, UNIT, class_of, has_pairs, units},
    },
    options, plain, store,
};
use crate::{Cache, Moment, PolicyKind, Store};

fn key(number: u32) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    key[4..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u32, len: usize) -> Vec<u8> {
    vec![(number % 251) as u8; len]
}

fn fill(store: &mut PackedStore, numbers: std::ops::Range<u32>, len: usize) {
    numbers.for_each(|number| _ = store.set(&key(number), &value(number, len), plain()));
}

#[test]
fn values_of_a_kilobyte_leave_little_unused() {
    const KEYS: u32 = 60_000;
    let mut store = store();
    store.keep_access(false);
    fill(&mut store, 0..KEYS, 1024);
    store.check();
    // The last pair may be empty but for one, and a few pages are no pairs.
    let each = (store.arena.bytes() - 2 * PAGE) as f64 / f64::from(KEYS);
    assert!(each < 1050.5, "{each}");
    (0..KEYS).for_each(|number| assert_eq!(store.get(&key(number)), Some(&value(number, 1024)[..])));
    let pages = store.arena.paired();
    assert!(pages > 900, "{pages}");
    // Memory comes back, and serves other sizes.
    (0..KEYS).filter(|number| number % 1000 != 0).for_each(|number| assert!(store.delete(&key(number))));
    store.check();
    assert!(store.arena.bytes() < 9 << 20, "{}", store.arena.bytes());
    while store.compact(16, 12, plain(), &mut |_| ()) {}
    store.check();
    // A pair, and four pages in reserve.
    assert!(store.arena.bytes() < 1 << 19, "{}", store.arena.bytes());
    let kept = (0..KEYS).step_by(1000);
    kept.for_each(|number| assert_eq!(store.get(&key(number)), Some(&value(number, 1024)[..])));
    fill(&mut store, KEYS..KEYS + 100_000, 100);
    store.check();
    assert!(store.arena.bytes() < 20 << 20, "{}", store.arena.bytes());
}

/// The block in the middle of a pair belongs to the first page, and keeps both.
#[test]
fn a_pair_goes_back_when_both_pages_are_empty() {
    const LEN: usize = 8192;
    let mut store = store();
    fill(&mut store, 0..1000, LEN);
    let page_of = |store: &PackedStore, number: u32| {
        let location = store.find(store.hash(&key(number)), &key(number)).expect("it is there");
        let begin = store.handle(location) as usize * UNIT;
        (begin / PAGE, (begin + LEN) / PAGE)
    };
    let middle: Vec<u32> = (0..1000).filter(|&number| page_of(&store, number).0 != page_of(&store, number).1).collect();
    assert!(middle.len() > 50, "{}", middle.len());
    let before = store.arena.bytes();
    (0..1000).filter(|number| !middle.contains(number)).for_each(|number| assert!(store.delete(&key(number))));
    store.check();
    assert!(store.arena.bytes() + (8 << 16) > before, "all pairs are in use still");
    middle.iter().for_each(|&number| assert_eq!(store.get(&key(number)), Some(&value(number, LEN)[..])));
    // Free blocks of both pages are used again.
    fill(&mut store, 0..500, LEN);
    store.check();
    assert!(store.arena.bytes() <= before);
    (0..500).for_each(|number| assert_eq!(store.get(&key(number)), Some(&value(number, LEN)[..])));
    (0..1000).for_each(|number| _ = store.delete(&key(number)));
    store.check();
    assert!(store.arena.bytes() < 1 << 20);
}

/// Single pages that others have left are used, and pairs serve those that need one page.
#[test]
fn pages_go_from_pairs_to_singles_and_back() {
    let mut store = store();
    let mut random = fastrand::Rng::with_seed(5);
    let lens = [8192, 4096, 1024, 300, 12];
    assert!(lens[..3].iter().all(|len| has_pairs(class_of(len + 24))));
    let mut expected = vec![None; 3000];
    for round in 0..20 {
        for _ in 0..1500 {
            let number = random.u32(..3000);
            let len = if random.u8(..3) == 0 { None } else { Some(lens[(round + random.usize(..2)) % 5]) };
            match len {
                Some(len) => fill(&mut store, number..number + 1, len),
                None => _ = store.delete(&key(number)),
            }
            expected[number as usize] = len;
        }
        (0..random.usize(..200)).for_each(|_| _ = store.compact(16, lens[random.usize(..5)], plain(), &mut |_| ()));
        store.check();
        for (number, len) in (0..).zip(&expected) {
            assert_eq!(store.get(&key(number)), len.map(|len| value(number, len)).as_deref(), "{number} in {round}");
        }
    }
}

/// No class gets pairs before it has pages: a small cache would hold little beside their unused parts.
#[test]
fn a_small_cache_of_many_sizes_has_no_pairs() {
    const LIMIT: usize = 4 << 20;
    let mut cache = Cache::<PackedStore>::new(options(), PolicyKind::AllKeysRandom, Some(LIMIT), 1);
    let mut random = fastrand::Rng::with_seed(6);
    for number in 0..20_000 {
        let (key, len) = (key(number), random.usize(500..13_000));
        let hash = cache.store().hash(&key);
        assert_eq!(cache.set(hash, &key, &value(number, len), plain(), Moment { unix_ms: 1 }), Ok(()));
    }
    assert_eq!(cache.store().arena.paired(), 0);
    let held: usize = (0..20_000).filter_map(|number| cache.store().get(&key(number))).map(<[u8]>::len).sum();
    assert!(held * 10 > LIMIT * 3, "{held} bytes of values");
    assert!(units(class_of(1044)) * UNIT == 1048);
    cache.store().check();
}
