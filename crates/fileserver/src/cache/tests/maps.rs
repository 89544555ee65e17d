//! Comparison of every map with a `BTreeMap`.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Change {
    Insert(u64),
    Remove(u64),
    /// Inserts a range of numbers.
    Fill(u64, u64),
    Empty(u64, u64),
}

fn change() -> impl Strategy<Value = Change> {
    let range = || (0..300_u64, 0..300_u64).prop_map(|(from, len)| (from, from + len));
    prop_oneof![
        8 => (0..40_u64).prop_map(Change::Insert),
        8 => (0..40_u64).prop_map(Change::Remove),
        4 => (0..600_u64).prop_map(Change::Remove),
        1 => range().prop_map(|(from, to)| Change::Fill(from, to)),
        1 => range().prop_map(|(from, to)| Change::Empty(from, to)),
    ]
}

/// Makes `changes` to a map and to the model, and compares them after each change and in the end.
fn check<M: CacheMap<(FileId, u64)>>(changes: &[Change], look: impl Fn(&M)) -> Result<(), TestCaseError> {
    let (mut map, mut model) = (M::default(), BTreeMap::new());
    let mut version = 0;
    let mut insert = |map: &mut M, model: &mut BTreeMap<u64, u64>, number| {
        version += 1;
        let before = map.insert((id(number), version)).map(|(_, version)| version);
        prop_assert_eq!(before, model.insert(number, version));
        prop_assert_eq!(map.get(&id(number)), Some(&(id(number), version)));
        Ok(())
    };
    let remove = |map: &mut M, model: &mut BTreeMap<u64, u64>, number| {
        let before = map.remove(&id(number)).map(|(_, version)| version);
        prop_assert_eq!(before, model.remove(&number));
        prop_assert_eq!(map.get(&id(number)), None);
        Ok(())
    };
    for change in changes {
        match *change {
            Change::Insert(number) => insert(&mut map, &mut model, number)?,
            Change::Remove(number) => remove(&mut map, &mut model, number)?,
            Change::Fill(from, to) => (from..to).try_for_each(|number| insert(&mut map, &mut model, number))?,
            Change::Empty(from, to) => (from..to).try_for_each(|number| remove(&mut map, &mut model, number))?,
        }
        prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
        look(&map);
    }
    let copy = map.clone();
    for number in 0..600 {
        let expected = model.get(&number);
        prop_assert_eq!(map.get(&id(number)).map(|(_, version)| version), expected);
        prop_assert_eq!(copy.get(&id(number)).map(|(_, version)| version), expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_map_agrees_with_a_btreemap(changes in proptest::collection::vec(change(), 0..120)) {
        check::<StdMap<_>>(&changes, |_| ())?;
        check::<HashbrownMap<_>>(&changes, |_| ())?;
        check::<SparseMap<_>>(&changes, SparseMap::assert_is_sound)?;
    }
}

#[test]
fn a_sparse_map_gives_memory_back_when_it_shrinks() {
    let bytes = |build: &dyn Fn() -> SparseMap<(FileId, u64)>| {
        let mut kept = None;
        let info = allocation_counter::measure(|| kept = Some(build()));
        drop(kept);
        info.bytes_current
    };
    let filled = |removed: u64| {
        let mut map = SparseMap::default();
        (0..10_000).for_each(|number| assert!(map.insert((id(number * 4), number)).is_none()));
        (0..removed).for_each(|number| assert!(map.remove(&id(number * 4)).is_some()));
        map
    };
    let (full, tenth) = (bytes(&|| filled(0)), bytes(&|| filled(9_000)));
    assert!(tenth * 8 < full, "{tenth} bytes for a tenth of what takes {full}");
    assert_eq!(bytes(&|| filled(10_000)), 0);
    let entry = size_of::<(FileId, u64)>() as i64;
    assert!(full < 10_000 * (entry + 3), "{full} bytes for 10,000 entries of {entry}");
}
