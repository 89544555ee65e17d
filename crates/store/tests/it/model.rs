//! A cache compared with the simplest map that has its behaviour.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{prelude::*, test_runner::TestRunner};
use store::{Attributes, Cache, Moment, PolicyKind, SHARED_MIN, Store};

use crate::{NOW, cache};

/// Number of keys, so small that operations meet on the same key.
const KEYS: u8 = 24;

#[derive(Clone, Debug)]
enum Op {
    Get(u8),
    Touch(u8),
    Set {
        key: u8,
        len: usize,
        fill: u8,
        attributes: Attributes,
    },
    /// Milliseconds from now; 0: never.
    SetExpiry(u8, u64),
    SetEncoding(u8, u8),
    Remove(u8),
    Clear,
    Advance(u64),
    ExpireSome,
    Sample(u64),
    Watch(u8),
    Unwatch(u8),
    ScanAll,
}

/// Returns a value of any length, with all bytes.
fn key(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => vec![0],
        2 => vec![0xff; 255],
        3 => vec![b'k'; 256],
        4 => (0..70_000_u32).map(|byte| byte as u8).collect(),
        5 => vec![b'k'; 65_535],
        6 => vec![b'k'; 65_536],
        _ => format!("key:{number}\r\n{}", "x".repeat(usize::from(number))).into_bytes(),
    }
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let rare = |any: BoxedStrategy<u64>| prop_oneof![3 => Just(0), 1 => any];
    let expires_in = rare((1..20_000_u64).boxed());
    (expires_in, rare(any::<u32>().prop_map(u64::from).boxed()), rare(any::<u64>().boxed()), 0..16_u8).prop_map(
        |(expires_at, flags, version, encoding)| Attributes { expires_at, flags: flags as u32, version, encoding },
    )
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..KEYS;
    let len = prop_oneof![
        6 => 0..80_usize,
        3 => 0..3000_usize,
        1 => SHARED_MIN - 200..SHARED_MIN + 200,
        1 => prop_oneof![Just(SHARED_MIN - 1), Just(SHARED_MIN), Just(100_000)],
    ];
    let set = (key(), len, any::<u8>(), attributes());
    let op = prop_oneof![
        6 => key().prop_map(Op::Get),
        1 => key().prop_map(Op::Touch),
        8 => set.prop_map(|(key, len, fill, attributes)| Op::Set { key, len, fill, attributes }),
        2 => (key(), prop_oneof![Just(0), 1..20_000_u64]).prop_map(|(key, expires_in)| Op::SetExpiry(key, expires_in)),
        1 => (key(), 0..16_u8).prop_map(|(key, encoding)| Op::SetEncoding(key, encoding)),
        3 => key().prop_map(Op::Remove),
        1 => (0..8000_u64).prop_map(Op::Advance),
        1 => Just(Op::ExpireSome),
        1 => any::<u64>().prop_map(Op::Sample),
        1 => key().prop_map(Op::Watch),
        1 => key().prop_map(Op::Unwatch),
        1 => prop_oneof![9 => Just(Op::ScanAll), 1 => Just(Op::Clear)],
    ];
    proptest::collection::vec(op, 1..200)
}

/// Change of a watched key. The model cannot know if the cache has already removed an expired entry.
#[derive(Clone, Copy, PartialEq)]
enum Changed {
    No,
    Perhaps,
    Yes,
}

struct Pair<S> {
    cache: Cache<S>,
    map: BTreeMap<Vec<u8>, (Vec<u8>, Attributes)>,
    /// Result of `watch`, and change since then, by key.
    watched: BTreeMap<u8, (u64, Changed)>,
    now: Moment,
    reads: u64,
}

pub(crate) fn check<S: Store>() {
    let config = ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&ops(), |ops| {
        let cache = cache::<S>(PolicyKind::AllKeysLfu, None);
        let mut pair = Pair { cache, map: BTreeMap::new(), watched: BTreeMap::new(), now: NOW, reads: 0 };
        ops.into_iter().try_for_each(|op| pair.step(op))?;
        pair.finish()
    });
    outcome.expect("they agree");
}

impl<S: Store> Pair<S> {
    fn hash(&self, key: &[u8]) -> u64 {
        self.cache.store().hash(key)
    }

    fn is_live(&self, attributes: Attributes) -> bool {
        attributes.expires_at == 0 || attributes.expires_at > self.now.unix_ms
    }

    /// Returns the entries of the map that have not expired.
    fn expected(&self, key: &[u8]) -> Option<(Vec<u8>, Attributes)> {
        self.map.get(key).filter(|(_, attributes)| self.is_live(*attributes)).cloned()
    }

    fn note_change(&mut self, number: u8) {
        self.watched.entry(number).and_modify(|(_, changed)| *changed = Changed::Yes);
    }

    fn note_possible_change(&mut self, number: u8) {
        self.watched.entry(number).and_modify(|(_, changed)| {
            if *changed == Changed::No {
                *changed = Changed::Perhaps;
            }
        });
    }

    fn expiry_in(&self, ms: u64) -> u64 {
        if ms == 0 { 0 } else { self.now.unix_ms + ms }
    }

    fn step(&mut self, op: Op) -> Result<(), TestCaseError> {
        let now = self.now;
        match op {
            Op::Get(number) => {
                self.reads += 1;
                let (key, hash) = (key(number), self.hash(&key(number)));
                let expected = self.expected(&key);
                let view = self.cache.get(hash, &key, now);
                if let Some(view) = view {
                    prop_assert_eq!(view.key, &key[..]);
                    prop_assert!(view.shared.is_none_or(|shared| shared == view.value));
                    prop_assert!(view.shared.is_some() || view.value.len() < SHARED_MIN);
                }
                prop_assert_eq!(view.map(|view| (view.value.to_vec(), view.attributes)), expected);
            }
            Op::Touch(number) => {
                let (key, hash) = (key(number), self.hash(&key(number)));
                prop_assert_eq!(self.cache.touch(hash, &key, now), self.expected(&key).is_some());
            }
            Op::Set { key: number, len, fill, attributes } => {
                let (key, hash) = (key(number), self.hash(&key(number)));
                let value: Vec<u8> = (0..len).map(|at| fill.wrapping_add((at / 3) as u8)).collect();
                let attributes = Attributes { expires_at: self.expiry_in(attributes.expires_at), ..attributes };
                prop_assert_eq!(self.cache.set(hash, &key, &value, attributes, now), Ok(()));
                self.map.insert(key, (value, attributes));
                self.note_change(number);
            }
            Op::SetExpiry(number, expires_in) => {
                let (key, hash) = (key(number), self.hash(&key(number)));
                let (expected, expires_at) = (self.expected(&key), self.expiry_in(expires_in));
                prop_assert_eq!(self.cache.set_expiry(hash, &key, expires_at, now), Ok(expected.is_some()));
                if let Some((value, attributes)) = expected {
                    // Even if only to what it was: watchers are told.
                    self.note_change(number);
                    self.map.insert(key, (value, Attributes { expires_at, ..attributes }));
                }
            }
            Op::SetEncoding(number, encoding) => {
                let (key, hash) = (key(number), self.hash(&key(number)));
                let expected = self.expected(&key);
                // The upper bit only.
                let encoding = encoding & 8 | expected.as_ref().map_or(0, |(_, attributes)| attributes.encoding & 7);
                prop_assert_eq!(self.cache.set_encoding(hash, &key, encoding, now), expected.is_some());
                if let Some((value, attributes)) = expected {
                    self.map.insert(key, (value, Attributes { encoding, ..attributes }));
                }
            }
            Op::Remove(number) => {
                let (key, hash) = (key(number), self.hash(&key(number)));
                let was_there = self.expected(&key).is_some();
                prop_assert_eq!(self.cache.remove(hash, &key, now), was_there);
                // Expired entries stay in the map: the model cannot know when the cache removes them.
                if was_there {
                    self.map.remove(&key);
                    self.note_change(number);
                }
            }
            Op::Clear => {
                self.cache.clear();
                // A key without an entry does not change.
                for number in 0..KEYS {
                    match self.map.get(&key(number)).map(|(_, attributes)| self.is_live(*attributes)) {
                        None => {}
                        Some(true) => self.note_change(number),
                        Some(false) => self.note_possible_change(number),
                    }
                }
                self.map.clear();
                prop_assert!(self.cache.is_empty() && self.cache.store().expiring() == 0);
            }
            Op::Advance(ms) => self.now.unix_ms += ms,
            Op::ExpireSome => {
                self.cache.expire_some(now);
            }
            Op::Sample(random) => self.sample(random)?,
            Op::Watch(number) => {
                let hash = self.hash(&key(number));
                self.watched.entry(number).or_insert_with(|| (self.cache.watch(hash), Changed::No));
            }
            Op::Unwatch(number) => self.unwatch(number)?,
            Op::ScanAll => self.scan_all()?,
        }
        prop_assert!(self.cache.len() <= self.map.len() && self.cache.store().expiring() <= self.cache.len());
        Ok(())
    }

    fn sample(&self, random: u64) -> Result<(), TestCaseError> {
        let store = self.cache.store();
        let (any, expiring) = (store.sample(random), store.sample_expiring(random));
        prop_assert_eq!(any.is_some(), !store.is_empty());
        prop_assert_eq!(expiring.is_some(), store.expiring() > 0);
        for view in [any, expiring].into_iter().flatten().map(|location| store.view(location)) {
            prop_assert_eq!(self.map.get(view.key), Some(&(view.value.to_vec(), view.attributes)));
        }
        prop_assert!(expiring.is_none_or(|location| store.view(location).attributes.expires_at != 0));
        Ok(())
    }

    fn unwatch(&mut self, number: u8) -> Result<(), TestCaseError> {
        let Some((since, changed)) = self.watched.remove(&number) else { return Ok(()) };
        let (hash, key) = (self.hash(&key(number)), key(number));
        let may_have_expired = self.map.get(&key).is_some_and(|(_, attributes)| !self.is_live(*attributes));
        let says = self.cache.unwatch(hash, since);
        let is_right = match changed {
            Changed::Yes => says,
            Changed::Perhaps => true,
            Changed::No => !says || may_have_expired,
        };
        prop_assert!(is_right);
        Ok(())
    }

    fn scan_all(&self) -> Result<(), TestCaseError> {
        let (mut seen, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = self.cache.store().scan(cursor, &mut |view| {
                seen.insert(view.key.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        for (key, (_, attributes)) in &self.map {
            prop_assert!(seen.contains(key) || !self.is_live(*attributes));
        }
        prop_assert_eq!(seen.len(), self.cache.len());
        Ok(())
    }

    /// Checks that exactly the entries that have not expired are left, and that none is left after removing them.
    fn finish(mut self) -> Result<(), TestCaseError> {
        for _ in 0..2 {
            while !self.cache.expire_some(self.now) {}
        }
        let now = self.now;
        self.map.retain(|_, (_, attributes)| attributes.expires_at == 0 || attributes.expires_at > now.unix_ms);
        prop_assert_eq!(self.cache.len(), self.map.len());
        self.scan_all()?;
        let expiring = self.map.values().filter(|(_, attributes)| attributes.expires_at != 0).count();
        prop_assert_eq!(self.cache.store().expiring(), expiring);
        prop_assert_eq!(self.cache.counts.hits + self.cache.counts.misses, self.reads);
        for (key, (value, attributes)) in std::mem::take(&mut self.map) {
            let hash = self.hash(&key);
            let view = self.cache.peek(hash, &key, now);
            prop_assert_eq!(view.map(|view| (view.value.to_vec(), view.attributes)), Some((value, attributes)));
            prop_assert!(self.cache.remove(hash, &key, now));
        }
        prop_assert!(self.cache.is_empty());
        Ok(())
    }
}
