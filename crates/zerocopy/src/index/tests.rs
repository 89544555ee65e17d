use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::resources::{Limits, Resources};

#[derive(Clone, Debug)]
enum Op {
    Insert(u8),
    Overlay(u8),
    Look(u8),
    Remove(u8),
    Evict(u8),
    RemoveOdd,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..40_u8;
    let op = prop_oneof![
        4 => key().prop_map(Op::Insert),
        1 => key().prop_map(Op::Overlay),
        4 => key().prop_map(Op::Look),
        1 => key().prop_map(Op::Remove),
        1 => key().prop_map(Op::Evict),
        1 => Just(Op::RemoveOdd),
    ];
    proptest::collection::vec(op, 0..200)
}

fn file() -> Arc<CachedFile> {
    let limits = Limits { pipe_bytes: 0, pipe_size: 0, descriptors: 0, mapped_bytes: 0 };
    Arc::new(CachedFile::of_nothing(&Arc::new(Resources::new(&limits, None))))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A look finds the latest entry or none, no more files are kept than allowed, and overlays only go when told to.
    #[test]
    fn bounds_hold_and_overlays_stay(ops in ops(), entries in prop_oneof![0..12_usize, Just(256)]) {
        let (index, file) = (Index::new(entries), file());
        let mut latest: HashMap<u8, Arc<Entry>> = HashMap::new();
        for (now, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(key) => {
                    let entry = Arc::new(Entry::new(&[key], Some(b"x"), Arc::clone(&file), now as u64));
                    let left = index.insert(Arc::clone(&entry));
                    if !latest.get(&key).is_some_and(|there| there.is_overlay()) {
                        latest.insert(key, entry);
                    }
                    prop_assert!(left.iter().all(|entry| !entry.is_overlay()));
                }
                Op::Overlay(key) => {
                    let entry = Arc::new(Entry::new(&[key], None, Arc::clone(&file), now as u64));
                    let is_there = latest.get(&key).is_some_and(|there| there.is_overlay());
                    prop_assert_eq!(index.insert_new_overlay(Arc::clone(&entry)).is_err(), is_there);
                    index.insert(Arc::clone(&entry));
                    latest.insert(key, entry);
                }
                Op::Look(key) => {
                    let found = index.look(&[key], Arc::clone);
                    let want = latest.get(&key);
                    prop_assert!(found.as_ref().is_none_or(|found| Arc::ptr_eq(found, want.unwrap())));
                    prop_assert!(found.is_some() || !want.is_some_and(|want| want.is_overlay()));
                }
                Op::Remove(key) => {
                    index.remove(&[key]);
                    latest.remove(&key);
                    prop_assert!(index.look(&[key], |_| ()).is_none());
                }
                Op::Evict(key) => {
                    prop_assert!(index.evict(&[key], u64::MAX).is_none_or(|evicted| !evicted.is_overlay()));
                }
                Op::RemoveOdd => {
                    for removed in index.remove_if(|entry| entry.key[0] % 2 == 1) {
                        latest.remove(&removed.key[0]);
                    }
                }
            }
            let all = index.all();
            let overlays = all.iter().filter(|entry| entry.is_overlay()).count();
            prop_assert!(all.len() - overlays <= entries);
            prop_assert_eq!(overlays, latest.values().filter(|entry| entry.is_overlay()).count());
        }
    }
}

#[test]
fn the_least_recently_used_goes_first() {
    let (index, file) = (Index::new(3), file());
    for key in 1..=3 {
        index.insert(Arc::new(Entry::new(&[key], Some(b"x"), Arc::clone(&file), u64::from(key))));
    }
    index.look(&[1], |entry| entry.used(1_000_000_000));
    let left = index.insert(Arc::new(Entry::new(&[4], Some(b"x"), file, 5)));
    assert_eq!(left.iter().map(|entry| entry.key[0]).collect::<Vec<_>>(), [2]);
}
