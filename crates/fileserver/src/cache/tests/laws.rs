//! Laws of every cache, used by one thread.

use std::collections::HashMap;

use clap::ValueEnum;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
pub(super) enum Operation {
    Get(u64),
    Insert {
        number: u64,
        bytes: usize,
        descriptors: usize,
    },
    /// Removes an entry whose version is even.
    Remove(u64),
}

pub(super) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let insert = (0..24_u64, prop_oneof![9 => 0..400_usize, 1 => 0..5_000_usize], 0..5_usize);
    let one = prop_oneof![
        4 => (0..24_u64).prop_map(Operation::Get),
        4 => insert.prop_map(|(number, bytes, descriptors)| Operation::Insert {
            number, bytes, descriptors: descriptors.saturating_sub(2)
        }),
        1 => (0..24_u64).prop_map(Operation::Remove),
    ];
    proptest::collection::vec(one, 0..200)
}

pub(super) fn limits() -> impl Strategy<Value = CacheLimits> {
    (0..12_usize, 0..4_000_usize, 0..6_usize).prop_map(|(entries, bytes, descriptors)| CacheLimits {
        entries,
        bytes,
        descriptors,
    })
}

fn is_within(used: &Usage, limits: &CacheLimits) -> bool {
    used.entries <= limits.entries && used.bytes <= limits.bytes && used.descriptors <= limits.descriptors
}

/// Checks the laws: a cache gets what was inserted last or nothing, stays within every limit, knows its cost, and drops what
/// it does not keep.
fn keep_to_the_laws<C: Cache<Item>>(
    name: &str,
    operations: &[Operation],
    limits: CacheLimits,
) -> Result<(), TestCaseError> {
    let live = Live::default();
    let cache = C::new(limits);
    let mut last: HashMap<u64, Item> = HashMap::new();
    for (version, operation) in operations.iter().enumerate() {
        match *operation {
            Operation::Get(number) => {
                let found = cache.get(&id(number)).map(|item| item.version);
                let expected = last.get(&number).map(|item| item.version);
                prop_assert!(found.is_none() || found == expected, "{} has {:?} for {:?}", name, found, expected);
            }
            Operation::Insert { number, bytes, descriptors } => {
                let item = Item::new(version as u64, bytes, descriptors);
                let is_kept = cache.insert(&id(number), item.clone().counted(&live));
                let fits_alone = is_within(&Usage::of_entry(&id(number), &item), &limits);
                prop_assert!(fits_alone || !is_kept, "{} keeps what exceeds a limit by itself", name);
                prop_assert_eq!(cache.get(&id(number)).is_some(), is_kept);
                last.insert(number, item);
            }
            Operation::Remove(number) => {
                let is_stale = |item: &Item| item.version.is_multiple_of(2);
                let was_there = cache.get(&id(number));
                let is_removed = cache.remove_if(&id(number), is_stale);
                prop_assert_eq!(is_removed, was_there.as_ref().is_some_and(is_stale));
                prop_assert_eq!(cache.get(&id(number)).is_some(), was_there.is_some() && !is_removed);
            }
        }
        prop_assert!(is_within(&cache.used(), &limits), "{} uses {:?} of {:?}", name, cache.used(), limits);
    }
    let mut held = Usage::default();
    for number in 0..24 {
        cache.get(&id(number)).into_iter().for_each(|item| held.add(&Usage::of_entry(&id(number), &item)));
    }
    prop_assert_eq!(cache.used(), held);
    prop_assert_eq!(live.count(), held.entries, "{} keeps what cannot be got", name);
    drop(cache);
    prop_assert_eq!(live.count(), 0);
    Ok(())
}

/// Checks the laws for the table of caches, in which nothing is returned.
fn keep<C: Cache<Item>>(name: &str, operations: &[Operation], limits: CacheLimits) {
    if let Err(error) = keep_to_the_laws::<C>(name, operations, limits) {
        panic!("{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_cache_keeps_to_the_laws(operations in operations(), limits in limits()) {
        every_cache!(keep(&operations, limits));
        let nothing: &NoCache = &Cache::<Item>::new(limits);
        assert!(!nothing.insert(&id(1), Item::new(1, 0, 0)));
        assert!(Cache::<Item>::get(nothing, &id(1)).is_none());
        assert_eq!(Cache::<Item>::used(nothing), Usage::default());
    }

    /// It holds as many of the last ids as there is room for, in the order of their insertion, duplicates included, and no
    /// value.
    #[test]
    fn the_order_of_use_holds_the_last_ids_and_no_values(operations in operations(), limits in limits()) {
        let live = Live::default();
        let order: UseOrder = Cache::<Item>::new(limits);
        let mut model: Vec<u64> = Vec::new();
        let mut uses_in_all = 0;
        for (version, operation) in operations.iter().enumerate() {
            let Operation::Insert { number, bytes, descriptors } = *operation else { continue };
            let item = Item::new(version as u64, bytes, descriptors);
            prop_assert!(!order.insert(&id(number), item.counted(&live)));
            prop_assert!(Cache::<Item>::get(&order, &id(number)).is_none());
            prop_assert!(!order.remove_if(&id(number), |_: &Item| true));
            let cost = |ids: &[u64]| ids.iter().fold(Usage::default(), |mut used, &number| {
                used.add(&Usage::of_id(&id(number)));
                used
            });
            // By itself it may be too much for any list; then nothing changes.
            if is_within(&cost(&[number]), &limits) {
                model.push(number);
                uses_in_all += 1;
                while !is_within(&cost(&model), &limits) {
                    model.remove(0);
                }
            }
            prop_assert_eq!(Cache::<Item>::used(&order), cost(&model));
            prop_assert_eq!(Cache::<Item>::evicted(&order), uses_in_all - model.len() as u64);
        }
        prop_assert_eq!(live.count(), 0, "a value was kept");
    }

    /// It keeps what fits beside the entries that are there, and nothing else.
    #[test]
    fn a_cache_without_eviction_keeps_what_came_first(operations in operations(), limits in limits()) {
        let cache = NoEviction::<Hashbrown, Item>::new(limits);
        let mut model: HashMap<u64, Item> = HashMap::new();
        for (version, operation) in operations.iter().enumerate() {
            let Operation::Insert { number, bytes, descriptors } = *operation else { continue };
            let item = Item::new(version as u64, bytes, descriptors);
            model.remove(&number);
            let mut after = Usage::of_entry(&id(number), &item);
            model.iter().for_each(|(number, item)| after.add(&Usage::of_entry(&id(*number), item)));
            // An entry without a descriptor is not refused for the want of one, and there never are too many.
            let fits = is_within(&after, &limits);
            prop_assert_eq!(cache.insert(&id(number), item.clone()), fits);
            if fits {
                model.insert(number, item);
            }
        }
        for number in 0..24 {
            let found = cache.get(&id(number)).map(|item| item.version);
            prop_assert_eq!(found, model.get(&number).map(|item| item.version));
        }
        prop_assert_eq!(cache.evicted(), 0);
    }
}

#[test]
fn cache_maps_have_the_names_of_the_original() {
    let kinds = [CacheMapKind::Std, CacheMapKind::Hashbrown, CacheMapKind::Sparse];
    for (name, kind) in ["umap", "khash", "sparsehash"].into_iter().zip(kinds) {
        assert_eq!(CacheMapKind::from_str(name, false), Ok(kind));
    }
}
