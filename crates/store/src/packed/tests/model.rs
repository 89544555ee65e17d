use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::{
    super::{Hint, Location},
    store,
};
use crate::{Attributes, Pin, Scout as _, Store};

/// Lengths of values around every change of layout: none, one class and the next, the longest beside half a header and the
/// next, the largest block, an external value.
const LENGTHS: [usize; 18] =
    [0, 1, 4, 12, 13, 31, 32, 64, 200, 500, 2000, 5000, 8200, 13_072, 13_100, 16_383, 16_384, 70_000];
/// Lengths of keys: usual, none, the longest that fits a header, and longer.
const KEY_LENGTHS: [usize; 7] = [16, 3, 20, 255, 256, 1000, 16];

#[derive(Clone, Debug)]
enum Change {
    Set {
        key: u16,
        len: usize,
        fill: u8,
        attributes: Attributes,
    },
    Remove {
        key: u16,
    },
    SetExpiry {
        key: u16,
        expires_at: u64,
    },
    SetEncoding {
        key: u16,
        encoding: u8,
    },
    SetAccess {
        key: u16,
        word: u32,
    },
    Compact,
    Clear,
    /// Adds many entries at once, so that segments are split.
    Fill {
        from: u16,
        count: u16,
    },
    Empty {
        from: u16,
        count: u16,
    },
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let zero_or = |some: u64| prop_oneof![3 => Just(0), 1 => 1..=some];
    (zero_or(u64::MAX), zero_or(u64::from(u32::MAX)), zero_or(u64::MAX), 0..16_u8).prop_map(
        |(expires_at, flags, version, encoding)| Attributes { expires_at, flags: flags as u32, version, encoding },
    )
}

fn change(keys: u16) -> impl Strategy<Value = Change> {
    let key = 0..keys;
    let expires_at = prop_oneof![Just(0), any::<u64>()];
    prop_oneof![
        12 => (key.clone(), prop::sample::select(&LENGTHS[..]), any::<u8>(), attributes())
            .prop_map(|(key, len, fill, attributes)| Change::Set { key, len, fill, attributes }),
        6 => key.clone().prop_map(|key| Change::Remove { key }),
        2 => (key.clone(), expires_at).prop_map(|(key, expires_at)| Change::SetExpiry { key, expires_at }),
        2 => (key.clone(), 0..16_u8).prop_map(|(key, encoding)| Change::SetEncoding { key, encoding }),
        2 => (key.clone(), any::<u32>()).prop_map(|(key, word)| Change::SetAccess { key, word }),
        2 => Just(Change::Compact),
        1 => (key.clone(), 1..2000_u16).prop_map(|(from, count)| Change::Fill { from, count }),
        1 => (key, 1..2000_u16).prop_map(|(from, count)| Change::Empty { from, count }),
    ]
}

fn key(number: u16) -> Vec<u8> {
    let mut key = vec![b'k'; KEY_LENGTHS[usize::from(number) % KEY_LENGTHS.len()]];
    let digits = number.to_be_bytes();
    key[..2].copy_from_slice(&digits);
    key
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: Vec<u8>,
    attributes: Attributes,
    access: u32,
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Locations and handles found lately.
    hints: Vec<(Vec<u8>, Hint)>,
}

impl Model {
    fn set(&mut self, store: &mut super::PackedStore, key: Vec<u8>, value: Vec<u8>, attributes: Attributes) {
        let hash = store.hash(&key);
        let (scout, pin) = (store.scout(), Pin::new());
        scout.prefetch(hash, &pin);
        let hint = scout.prefetch_entry(hash, &pin);
        self.hints.truncate(30);
        self.hints.insert(0, (key.clone(), hint));
        let location = match store.find(hash, &key) {
            Some(location) => {
                let before = store.access(location);
                let (after, has_moved) = store.replace(hash, location, &value, attributes);
                assert_eq!(has_moved, after != location);
                assert!(has_moved || store.access(after) == before);
                after
            }
            None => store.insert(hash, &key, &value, attributes),
        };
        assert_eq!(store.find(hash, &key), Some(location));
        assert_eq!(store.locate(store.handle(location)), Some(location));
        let access = store.access(location);
        self.entries.insert(key, Entry { value, attributes, access });
    }

    fn remove(&mut self, store: &mut super::PackedStore, key: &[u8]) {
        let hash = store.hash(key);
        let location = store.find(hash, key);
        assert_eq!(location.is_some(), self.entries.remove(key).is_some());
        if let Some(location) = location {
            store.remove(hash, location);
            assert_eq!(store.locate(store.handle(location)), None);
            // Out of date, and harmless.
            store.remove(hash, location);
            assert_eq!(store.find(hash, key), None);
        }
    }

    fn apply(&mut self, store: &mut super::PackedStore, change: Change) {
        match change {
            Change::Set { key: number, len, fill, attributes } => {
                self.set(store, key(number), vec![fill; len], attributes);
            }
            Change::Remove { key: number } => self.remove(store, &key(number)),
            Change::Fill { from, count } => {
                for number in from..from.saturating_add(count) {
                    self.set(store, key(number), vec![number as u8; 12], Attributes::default());
                }
            }
            Change::Empty { from, count } => {
                (from..from.saturating_add(count)).for_each(|number| self.remove(store, &key(number)));
            }
            Change::SetExpiry { key: number, expires_at } => {
                let key = key(number);
                if let Some(location) = store.find(store.hash(&key), &key)
                    && store.set_expiry(location, expires_at)
                {
                    self.entries.get_mut(&key).expect("the store has it").attributes.expires_at = expires_at;
                }
            }
            Change::SetEncoding { key: number, encoding } => {
                let key = key(number);
                if let Some(location) = store.find(store.hash(&key), &key) {
                    let entry = self.entries.get_mut(&key).expect("the store has it");
                    // The upper bit only.
                    entry.attributes.encoding = encoding & 8 | entry.attributes.encoding & 7;
                    store.set_encoding(location, entry.attributes.encoding);
                }
            }
            Change::SetAccess { key: number, word } => {
                let key = key(number);
                if let Some(location) = store.find(store.hash(&key), &key) {
                    store.set_access(location, word);
                    self.entries.get_mut(&key).expect("the store has it").access = word;
                }
            }
            Change::Compact => {
                let bytes = store.bytes();
                let mut moved = Vec::new();
                store.compact(16, 12, Attributes::default(), &mut |handle| moved.push(handle));
                assert!(moved.iter().all(|&handle| store.locate(handle).is_some()));
                assert!(store.bytes() <= bytes + 1024);
            }
            Change::Clear => {
                store.clear();
                self.entries.clear();
            }
        }
        for (key, hint) in &self.hints {
            let hash = store.hash(key);
            assert_eq!(store.find_hinted(*hint, hash, key), store.find(hash, key), "a hint is at most useless");
        }
        assert_eq!(store.len(), self.entries.len());
        let expires = |entry: &&Entry| entry.attributes.expires_at != 0;
        assert_eq!(store.expiring(), self.entries.values().filter(expires).count());
    }

    fn compare(&self, store: &super::PackedStore) {
        store.check();
        for (key, entry) in &self.entries {
            let location = store.find(store.hash(key), key).expect("every entry is found");
            let view = store.view(location);
            assert_eq!((view.key, view.value), (&key[..], &entry.value[..]));
            assert_eq!(view.attributes, entry.attributes);
            assert_eq!(store.access(location), entry.access);
            assert!(view.shared.is_some() || entry.value.len() < crate::SHARED_MIN);
            assert!(view.shared.is_none_or(|shared| *shared == entry.value));
        }
        let sampled = store.sample(store.bytes() as u64);
        assert_eq!(sampled.is_some(), !self.entries.is_empty());
        let is_known = |location: Location| self.entries.contains_key(store.view(location).key);
        assert!(sampled.is_none_or(is_known));
        let sampled = store.sample_expiring(store.bytes() as u64);
        assert_eq!(sampled.is_some(), store.expiring() > 0);
        assert!(sampled.is_none_or(|location| store.view(location).attributes.expires_at != 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_store_behaves_like_a_map(
        changes in prop_oneof![vec(change(12), 1..300), vec(change(3000), 1..150)],
        clear in 0..400_usize,
    ) {
        let (mut store, mut model) = (store(), Model::default());
        for (at, change) in changes.into_iter().enumerate() {
            model.apply(&mut store, change);
            if at == clear {
                model.apply(&mut store, Change::Clear);
            }
        }
        model.compare(&store);
    }

    /// Wherever they come from, even if they were never given out.
    #[test]
    fn stale_handles_and_locations_do_no_harm(
        changes in vec(change(3000), 1..40),
        handles in vec(prop_oneof![0..20_000_u32, any::<u32>()], 100),
    ) {
        let (mut store, mut model) = (store(), Model::default());
        let mut locations: Vec<Location> = Vec::new();
        for change in changes {
            locations.extend(store.sample(locations.len() as u64));
            model.apply(&mut store, change);
        }
        for handle in handles {
            if let Some(location) = store.locate(handle) {
                assert!(model.entries.contains_key(store.view(location).key));
            }
        }
        for location in locations {
            // It may panic when there is no such memory any more, but not touch any.
            let _ = std::panic::catch_unwind(|| store.view(location).value.len());
        }
        model.compare(&store);
    }
}

#[test]
fn a_long_history_leaves_the_store_consistent() {
    let (mut store, mut model) = (store(), Model::default());
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..30_000 {
        let number = random.u16(..6000);
        match random.u8(..10) {
            // The share of large values changes from time to time, so that pages change their class.
            0..6 => {
                let lengths = if round / 5000 % 2 == 0 { 0..8 } else { 0..13 };
                let len = LENGTHS[random.usize(lengths)];
                let expires_at = if random.u8(..4) == 0 { random.u64(..) } else { 0 };
                let attributes = Attributes { expires_at, ..Attributes::default() };
                model.set(&mut store, key(number), vec![number as u8; len], attributes);
            }
            6..9 => model.remove(&mut store, &key(number)),
            _ => _ = store.compact(16, 12, Attributes::default(), &mut |_| ()),
        }
        if round % 5000 == 0 {
            model.compare(&store);
        }
    }
    model.compare(&store);
    assert!(store.arena.paired() > 0, "large blocks have had pairs of pages");
    let keys: Vec<_> = model.entries.keys().cloned().collect();
    keys.iter().for_each(|key| model.remove(&mut store, key));
    store.check();
    assert_eq!((store.len(), store.expiring()), (0, 0));
    assert_eq!(store.scan(0, &mut |_| unreachable!("nothing is left")), 0);
}
