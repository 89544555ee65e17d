//! Keys with the same group, the same tag, and the same segments.

use super::{plain, store};
use crate::Store;

/// Keys whose hashes have all bits of a mask in common.
fn colliding(mask: u64, count: usize) -> Vec<Vec<u8>> {
    let store = store();
    let keys = (0_u64..).map(|number| number.to_le_bytes().to_vec());
    keys.filter(|key| store.hash(key) & mask == 0x0000_aaaa_5555_5555 & mask).take(count).collect()
}

const GROUP: u64 = 0x3f;
const GROUP_AND_TAG: u64 = 0xff3f;
const SEGMENT: u64 = 0xff00_0000_0000;

fn all_are_kept(keys: &[Vec<u8>]) {
    let mut store = store();
    for (at, key) in keys.iter().enumerate() {
        store.set(key, key, plain());
        assert_eq!(store.get(key), Some(&key[..]));
        assert_eq!(store.len(), at + 1);
    }
    store.check();
    // Every other entry is removed, so that the rest has to be found behind gaps.
    for key in keys.iter().step_by(2) {
        assert!(store.delete(key));
    }
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(store.get(key).is_some(), at % 2 == 1);
    }
    for key in keys {
        store.set(key, b"again", plain());
    }
    assert!(keys.iter().all(|key| store.get(key) == Some(b"again")));
    for key in keys {
        assert!(store.delete(key));
    }
    assert!(keys.iter().all(|key| store.get(key).is_none()));
    store.check();
}

#[test]
fn entries_of_one_group_overflow_into_others() {
    all_are_kept(&colliding(GROUP, 700));
}

#[test]
fn entries_of_one_group_and_tag_are_told_apart() {
    all_are_kept(&colliding(GROUP_AND_TAG, 60));
}

#[test]
fn a_segment_is_split_until_hashes_differ() {
    let keys = colliding(SEGMENT, 1000);
    all_are_kept(&keys);
    let mut store = store();
    keys.iter().for_each(|key| _ = store.set(key, b"", plain()));
    // One sibling was left empty for each of eight bits.
    assert!(store.table.segments() >= 9, "{}", store.table.segments());
    let mut seen = 0;
    let mut cursor = store.scan(0, &mut |_| seen += 1);
    while cursor != 0 {
        cursor = store.scan(cursor, &mut |_| seen += 1);
    }
    assert_eq!(seen, keys.len());
    let sampled = (0..200).filter_map(|random| store.sample(random)).count();
    assert_eq!(sampled, 200, "wherever a sample begins, it comes to what is there");
}
