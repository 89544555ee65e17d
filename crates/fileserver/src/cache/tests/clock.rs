//! The lock-free cache, used by one thread, gives second chances exactly.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{
    laws::{self, Operation},
    *,
};

/// Numbers, versions, and whether they have been used, from the head of the queue on.
#[derive(Default)]
struct Model(VecDeque<(u64, u64, bool)>);

impl Model {
    fn get(&mut self, number: u64) -> Option<u64> {
        let found = self.0.iter_mut().find(|(other, ..)| *other == number)?;
        found.2 = true;
        Some(found.1)
    }

    fn insert(&mut self, number: u64, version: u64, entries: usize) {
        self.0.retain(|(other, ..)| *other != number);
        while self.0.len() == entries {
            let Some((number, version, is_used)) = self.0.pop_front() else { break };
            if is_used {
                self.0.push_back((number, version, false));
            }
        }
        self.0.push_back((number, version, false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_has_been_used_is_spared_once(operations in laws::operations(), limit in 1..12_usize) {
        let cache = LockFree::<Sparse, Item>::new(entries(limit));
        let mut model = Model::default();
        for (version, operation) in operations.iter().enumerate() {
            match *operation {
                Operation::Get(number) => {
                    prop_assert_eq!(cache.get(&id(number)).map(|item| item.version), model.get(number));
                }
                Operation::Insert { number, .. } => {
                    prop_assert!(cache.insert(&id(number), Item::new(version as u64, 1, 0)));
                    model.insert(number, version as u64, limit);
                }
                Operation::Remove(number) => {
                    cache.remove_if(&id(number), |_| true);
                    model.0.retain(|(other, ..)| *other != number);
                }
            }
        }
    }
}

/// One hand on one ring would take them in the order of insertion.
#[test]
fn entries_with_and_without_descriptors_give_way_alike() {
    let cache = LockFree::<Hashbrown, Item>::new(entries(100));
    let insert = |number: u64| cache.insert(&id(number), Item::new(number, 10, usize::from(number.is_multiple_of(5))));
    assert!((0..100).all(insert));
    assert!((100..200).step_by(2).all(insert));
    let gone = (0..100).filter(|number| cache.get(&id(*number)).is_none());
    let (open, in_memory): (Vec<_>, Vec<_>) = gone.partition(|number| number.is_multiple_of(5));
    assert_eq!(open.len() + in_memory.len(), 50);
    assert!((8..=14).contains(&open.len()), "{} of 20 with a descriptor, of 50 in all", open.len());
}

#[test]
fn when_descriptors_run_out_nothing_else_gives_way() {
    let cache = LockFree::<Hashbrown, Item>::new(CacheLimits { descriptors: 2, ..entries(100) });
    assert!((0..50).all(|number| cache.insert(&id(number), Item::new(number, 10, 0))));
    assert!((50..60).all(|number| cache.insert(&id(number), Item::new(number, 10, 1))));
    assert!((0..50).all(|number| cache.get(&id(number)).is_some()));
    assert_eq!((cache.used().entries, cache.used().descriptors, cache.evicted()), (52, 2, 8));
}

#[test]
fn repeated_replacement_does_not_fill_the_queue() {
    let cache = LockFree::<Std, Item>::new(entries(1_000));
    for version in 0..10_000 {
        assert!(cache.insert(&id(version % 10), Item::new(version, 10, 0)));
        assert!(cache.queued() <= 2 * 10 + 100, "{} nodes queued for 10 entries", cache.queued());
    }
    assert_eq!((cache.used().entries, cache.evicted()), (10, 0));
}
