//! The contract of [`Store`], beyond that of a map.

use std::collections::{HashMap, HashSet};

use store::{Attributes, PolicyKind, Store};

use crate::{NOW, cache, options};

const NONE: Attributes = Attributes { expires_at: 0, flags: 0, version: 0, encoding: 0 };
const EXPIRING: Attributes = Attributes { expires_at: u64::MAX, ..NONE };

fn insert<S: Store>(store: &mut S, key: &str, len: usize, attributes: Attributes) -> S::Location {
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), &vec![b'v'; len], attributes)
}

fn locate<S: Store>(store: &S, key: &str) -> Option<S::Location> {
    store.find(store.hash(key.as_bytes()), key.as_bytes())
}

fn remove<S: Store>(store: &mut S, key: &str) {
    let location = locate(store, key).expect("it is there");
    store.remove(store.hash(key.as_bytes()), location);
}

/// Adds, removes and resizes entries, and compacts the store.
struct Traffic {
    random: fastrand::Rng,
    there: Vec<String>,
    next: usize,
    attributes: Attributes,
    has_compacted: bool,
}

impl Traffic {
    fn new(attributes: Attributes) -> Self {
        Self { random: fastrand::Rng::with_seed(2), there: Vec::new(), next: 0, attributes, has_compacted: false }
    }

    fn flow<S: Store>(&mut self, store: &mut S) {
        for _ in 0..self.random.usize(..60) {
            match self.random.u8(..10) {
                0..=3 => {
                    let key = format!("other:{}", self.next);
                    self.next += 1;
                    insert(store, &key, self.random.usize(..200), self.attributes);
                    self.there.push(key);
                }
                4..=7 if !self.there.is_empty() => {
                    let key = self.there.swap_remove(self.random.usize(..self.there.len()));
                    remove(store, &key);
                }
                8 if !self.there.is_empty() => {
                    let key = &self.there[self.random.usize(..self.there.len())];
                    let location = locate(store, key).expect("it is there");
                    let hash = store.hash(key.as_bytes());
                    store.replace(hash, location, &vec![b'w'; self.random.usize(..3000)], self.attributes);
                }
                _ => {}
            }
        }
        if self.random.u8(..8) == 0 {
            store.compact(8, self.random.usize(..3000), NONE, &mut |_| self.has_compacted = true);
        }
    }
}

pub(crate) fn scan_shows_what_stays<S: Store>() {
    let mut store = S::new(options());
    let mut traffic = Traffic::new(NONE);
    // So many that most memory becomes free, and the entries that stay have to move.
    for number in 0..6000 {
        let key = format!("other:{number}");
        insert(&mut store, &key, 20, NONE);
        traffic.there.push(key);
        if number % 4 == 0 {
            insert(&mut store, &format!("stays:{number}"), 20, NONE);
        }
    }
    traffic.next = 6000;
    for round in 0..12 {
        let (mut seen, mut cursor, mut steps) = (HashSet::new(), 0, 0);
        loop {
            cursor = store.scan(cursor, &mut |view| {
                seen.insert(view.key.to_vec());
            });
            if cursor == 0 {
                break;
            }
            traffic.flow(&mut store);
            steps += 1;
            assert!(steps < 200_000, "the scan has to end");
        }
        let stay = (0..6000).step_by(4).map(|number| format!("stays:{number}").into_bytes());
        assert_eq!(stay.filter(|key| !seen.contains(key)).count(), 0, "round {round}");
    }
}

pub(crate) fn sweep_finds_what_expires<S: Store>() {
    for round in 0..12 {
        let mut store = S::new(options());
        let mut traffic = Traffic::new(EXPIRING);
        for number in 0..1000 {
            insert(&mut store, &format!("stays:{number}"), 20, EXPIRING);
            insert(&mut store, &format!("never:{number}"), 20, NONE);
        }
        (0..round * 50).for_each(|_| traffic.flow(&mut store));
        let mut seen = HashSet::new();
        sweep(&mut store, &mut seen, |store| traffic.flow(store));
        if traffic.has_compacted {
            sweep(&mut store, &mut seen, |_| ());
        }
        let stay = (0..1000).map(|number| format!("stays:{number}").into_bytes());
        assert_eq!(stay.filter(|key| !seen.contains(key)).count(), 0, "round {round}");
    }
}

/// Collects the keys of the entries that one round of a sweep finds.
fn sweep<S: Store>(store: &mut S, seen: &mut HashSet<Vec<u8>>, mut between: impl FnMut(&mut S)) {
    let (mut cursor, mut steps) = (0, 0);
    loop {
        let mut found = Vec::new();
        cursor = store.sweep_expiring(cursor, EXPIRING.expires_at, &mut found);
        for view in found.into_iter().map(|location| store.view(location)) {
            assert_ne!(view.attributes.expires_at, 0);
            seen.insert(view.key.to_vec());
        }
        if cursor == 0 {
            break;
        }
        between(store);
        steps += 1;
        assert!(steps < 200_000, "the sweep has to end");
    }
}

pub(crate) fn samples_are_even<S: Store>() {
    const ENTRIES: usize = 500;
    const DRAWS: usize = 100 * ENTRIES;
    let mut store = S::new(options());
    let mut random = fastrand::Rng::with_seed(3);
    assert!(store.sample(1).is_none() && store.sample_expiring(1).is_none());
    // Half of the entries are removed before samples are taken.
    for number in 0..2 * ENTRIES {
        insert(&mut store, &number.to_string(), 20, if number % 4 == 0 { EXPIRING } else { NONE });
    }
    for number in 0..2 * ENTRIES {
        if number % 8 >= 4 {
            remove(&mut store, &number.to_string());
        }
    }
    let (mut any, mut expiring) = (HashMap::new(), HashMap::new());
    for _ in 0..DRAWS {
        let location = store.sample(random.u64(..)).expect("there are entries");
        *any.entry(store.view(location).key.to_vec()).or_insert(0) += 1;
        let location = store.sample_expiring(random.u64(..)).expect("there are entries");
        assert_ne!(store.view(location).attributes.expires_at, 0);
        *expiring.entry(store.view(location).key.to_vec()).or_insert(0) += 1;
    }
    assert_eq!((any.len(), expiring.len()), (ENTRIES, ENTRIES / 4));
    assert!(any.values().all(|&drawn| drawn < 100 * 16));
    assert!(expiring.values().all(|&drawn| drawn < 400 * 16));
}

pub(crate) fn words_belong_to_blocks<S: Store>() {
    let mut store = S::new(options());
    let mut random = fastrand::Rng::with_seed(4);
    let mut words: HashMap<String, u32> = HashMap::new();
    let mut by_handle: HashMap<u32, u32> = HashMap::new();
    for turn in 1..20_000_u32 {
        let key = random.u32(..300).to_string();
        let len = random.usize(..100);
        match (words.contains_key(&key), random.u8(..3)) {
            (false, _) => {
                let location = insert(&mut store, &key, len, NONE);
                let handle = store.handle(location);
                // Memory that has been released in the meantime is fresh again.
                let word = store.access(location);
                assert!(word == 0 || by_handle.get(&handle) == Some(&word), "the word of the block's last entry, or 0");
                store.set_access(location, turn);
                words.insert(key.clone(), turn);
                by_handle.insert(handle, turn);
            }
            (true, 0) => {
                remove(&mut store, &key);
                words.remove(&key);
            }
            (true, _) => {
                let before = locate(&store, &key).expect("it is there");
                let hash = store.hash(key.as_bytes());
                let (after, has_moved) = store.replace(hash, before, &vec![b'r'; len], NONE);
                let handle = store.handle(after);
                let word = store.access(after);
                assert!(has_moved && word == 0 || by_handle.get(&handle) == Some(&word), "moved: {has_moved}");
                store.set_access(after, turn);
                words.insert(key.clone(), turn);
                by_handle.insert(handle, turn);
            }
        }
        if let Some(location) = locate(&store, &key) {
            let again = store.locate(store.handle(location)).expect("a handle leads back");
            assert_eq!(store.view(again).key, key.as_bytes());
        }
    }
    for (key, word) in &words {
        assert_eq!(locate(&store, key).map(|location| store.access(location)), Some(*word));
    }
    // Numbers that were never given out lead to no entry, or to one.
    for _ in 0..1000 {
        if let Some(location) = store.locate(random.u32(..)) {
            assert!(words.contains_key(std::str::from_utf8(store.view(location).key).expect("a number")));
        }
    }
}

pub(crate) fn compaction_tells_every_new_handle<S: Store>() {
    let mut store = S::new(options());
    for number in 0..40_000_u32 {
        let location = insert(&mut store, &number.to_string(), 100, NONE);
        store.set_access(location, number);
    }
    let stays = |number: &u32| number.is_multiple_of(16);
    (0..40_000).filter(|number| !stays(number)).for_each(|number: u32| remove(&mut store, &number.to_string()));
    let handle = |store: &S, number: u32| locate(store, &number.to_string()).map(|location| store.handle(location));
    let before: Vec<_> = (0..40_000).filter(stays).map(|number| handle(&store, number)).collect();
    let (mut moved, mut steps) = (HashSet::new(), 0);
    while store.compact(8, 1000, NONE, &mut |handle| {
        moved.insert(handle);
    }) {
        steps += 1;
        assert!(steps < 10_000, "there has to be an end to what can be gained");
    }
    for (number, before) in (0..40_000).filter(stays).zip(before) {
        let after = handle(&store, number);
        assert!(after.is_some() && (after == before || after.is_some_and(|after| moved.contains(&after))));
        let word = locate(&store, &number.to_string()).map(|location| store.access(location));
        assert_eq!(word, Some(number), "an entry takes its word along");
    }
}

/// Days may pass between two steps of a sweep, and many weeks between two rounds.
pub(crate) fn no_entry_outlives_its_time<S: Store>() {
    const DAY: u64 = 24 * 3600 * 1000;
    let mut random = fastrand::Rng::with_seed(3);
    let mut cache = cache::<S>(PolicyKind::NoEviction, None);
    let (mut now, mut expected) = (NOW, HashMap::new());
    for turn in 0..300_u64 {
        for number in 0..100 {
            let key = (turn * 100 + number).to_be_bytes();
            let longest = [1000, DAY, 20 * DAY, 60 * DAY][random.usize(..4)];
            let expires_at = now.unix_ms + random.u64(1..longest);
            let attributes = Attributes { expires_at, ..NONE };
            cache.set(cache.store().hash(&key), &key, b"value", attributes, now).expect("there is no limit");
            expected.insert(key, expires_at);
        }
        // Most rounds are interrupted.
        (0..random.usize(..4)).for_each(|_| _ = cache.expire_some(now));
        let longest = if random.u8(..8) == 0 { 30 * DAY } else { DAY };
        now.unix_ms += random.u64(..longest);
        if turn % 50 == 49 {
            while !cache.expire_some(now) {}
        }
        expected.retain(|key, &mut expires_at| {
            // A read removes what has expired; most is left to the sweeps.
            if random.u8(..8) > 0 {
                return true;
            }
            let hash = cache.store().hash(key);
            let found = cache.peek(hash, key, now).map(|view| view.attributes.expires_at);
            assert_eq!(found, (expires_at > now.unix_ms).then_some(expires_at), "turn {turn}");
            found.is_some()
        });
    }
}
