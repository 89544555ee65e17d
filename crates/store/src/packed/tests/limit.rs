//! The end of what a store can address.

use super::{PackedStore, expiring, options, plain};
use crate::{
    Attributes, Cache, Moment, OutOfMemory, PolicyKind, Store,
    collections::{FieldExpiry, Hash},
};

/// Chunks that a store may have here.
const CHUNKS: usize = 18;
const NOW: Moment = Moment { unix_ms: 1 };

fn cache(policy: PolicyKind, limit: Option<usize>) -> Cache<PackedStore> {
    let mut cache = Cache::<PackedStore>::new(options(), policy, limit, 1);
    cache.store_mut().arena.limit_chunks(CHUNKS);
    cache
}

fn set(cache: &mut Cache<PackedStore>, number: u32, len: usize, attributes: Attributes) -> Result<(), OutOfMemory> {
    let key = number.to_be_bytes();
    let hash = cache.store().hash(&key);
    cache.set(hash, &key, &vec![number as u8; len], attributes, NOW)
}

/// Adds entries of a length until one is refused, and returns their number.
fn fill(cache: &mut Cache<PackedStore>, len: usize, attributes: Attributes) -> u32 {
    (0..).find(|&number| set(cache, number, len, attributes).is_err()).expect("there is an end")
}

#[test]
fn a_store_without_room_refuses_and_still_changes_what_it_has() {
    let mut cache = cache(PolicyKind::AllKeysLru, None);
    let count = fill(&mut cache, 1000, plain());
    assert!((15_000..30_000).contains(&count), "{count}");
    assert_eq!(set(&mut cache, count, 40, plain()), Err(OutOfMemory), "no page is left for another size");
    assert_eq!((cache.len(), cache.counts.evicted), (count as usize, 0));
    // In place, and in the place of one that goes.
    assert_eq!(set(&mut cache, 5, 1000, plain()), Ok(()));
    assert!(cache.remove(cache.store().hash(&7_u32.to_be_bytes()), &7_u32.to_be_bytes(), NOW));
    assert_eq!(set(&mut cache, count, 1000, plain()), Ok(()));
    // Pages of entries that are gone serve other sizes.
    for number in 100..5000_u32 {
        let key = number.to_be_bytes();
        assert!(cache.remove(cache.store().hash(&key), &key, NOW));
    }
    (0..1000).for_each(|number| assert_eq!(set(&mut cache, 1_000_000 + number, 3000, plain()), Ok(())));
    cache.store().check();
}

#[test]
fn what_has_expired_makes_room_in_a_store_without_a_limit() {
    let mut cache = cache(PolicyKind::NoEviction, None);
    let count = fill(&mut cache, 1000, expiring(1000));
    let (key, later) = (u32::MAX.to_be_bytes(), Moment { unix_ms: 1000 });
    let hash = cache.store().hash(&key);
    assert_eq!(cache.set(hash, &key, &[1; 1000], plain(), later), Ok(()));
    assert!(cache.counts.expired > 0 && cache.len() <= count as usize);
}

/// Beyond the limit that the entries may reach there is room for those that must not be refused half way.
#[test]
fn an_allowance_ends_where_nothing_can_be_addressed() {
    let mut cache = cache(PolicyKind::NoEviction, None);
    let count = fill(&mut cache, 1000, plain());
    cache.set_allowance(1 << 40);
    let more =
        (count..).find(|&number| set(&mut cache, number, 1000, plain()).is_err()).expect("there is an end") - count;
    assert!((10_000..20_000).contains(&more), "{more} after {count}");
    cache.set_allowance(0);
    // Other ways to grow find the end, too.
    let key = 3_u32.to_be_bytes();
    let hash = cache.store().hash(&key);
    assert_eq!(cache.set_expiry(hash, &key, 5000, NOW), Err(OutOfMemory));
    let added = cache.change_collection(cache.store().hash(b"hash"), b"hash", 10, NOW, |it: &mut Hash| {
        (it.set(b"field", b"value", FieldExpiry::Keep), ())
    });
    assert!(added.is_err());
    cache.store_mut().keep_access(true);
    assert_eq!(cache.store().access(cache.store().find(hash, &key).expect("it is there")), 0);
    assert_eq!(cache.len(), (count + more) as usize);
    cache.store().check();
}

#[test]
fn entries_are_evicted_where_no_more_can_be_addressed() {
    let mut cache = cache(PolicyKind::AllKeysLru, Some(1 << 30));
    for number in 0..40_000 {
        assert_eq!(set(&mut cache, number, [1000, 1000, 300][number as usize % 3], plain()), Ok(()), "{number}");
    }
    assert!(cache.counts.evicted > 5000 && cache.store().bytes() < 1 << 26);
    cache.store().check();
}
