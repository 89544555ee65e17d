use super::*;
use crate::{
    KeyHasher, PackedStore, PolicyKind, StdStore, StoreOptions,
    collections::{FieldExpiry, Hash},
};

const NOW: Moment = Moment { unix_ms: 1000 };

fn cache<S: Store>(policy: PolicyKind, limit: Option<usize>) -> Cache<S> {
    let options = StoreOptions {
        hasher: KeyHasher::with_seed(1),
        advise: |_| (),
        release: |memory| memory.fill(std::mem::MaybeUninit::new(0)),
    };
    Cache::new(options, policy, limit, 1)
}

/// Sets a field of a hash; long values make it an object.
fn set<S: Store>(cache: &mut Cache<S>, key: &str, field: u32, value: &[u8]) -> Result<bool, ChangeError> {
    let hash = cache.store().hash(key.as_bytes());
    cache.change_collection(hash, key.as_bytes(), value.len() + 40, NOW, |it: &mut Hash| {
        (true, it.set(&field.to_be_bytes(), value, FieldExpiry::Keep))
    })
}

fn len<S: Store>(cache: &mut Cache<S>, key: &str) -> Option<usize> {
    let hash = cache.store().hash(key.as_bytes());
    let location = cache.locate(hash, key.as_bytes(), NOW)?;
    cache.collection::<Hash>(location).ok().map(|view| view.len(0))
}

fn objects_go_with_their_entries_in<S: Store>() {
    type End<S> = fn(&mut Cache<S>, u64);
    let ends: [(&str, End<S>); 7] = [
        ("removed", |cache, hash| assert!(cache.remove(hash, b"k", NOW))),
        ("overwritten", |cache, hash| cache.set(hash, b"k", b"v", Attributes::default(), NOW).unwrap()),
        ("expired", |cache, hash| {
            cache.set_expiry(hash, b"k", 2000, NOW).unwrap();
            assert_eq!(len(cache, "k"), Some(1), "a time of expiry leaves the object alone");
            assert!(cache.get(hash, b"k", Moment { unix_ms: 2000 }).is_none());
        }),
        ("swept", |cache, hash| {
            cache.set_expiry(hash, b"k", 2000, NOW).unwrap();
            while !cache.expire_some(Moment { unix_ms: 2000 }) {}
            cache.expire_some(Moment { unix_ms: 2000 });
        }),
        ("cleared", |cache, _| cache.clear()),
        ("emptied", |cache, hash| {
            let removed =
                cache.change_collection(hash, b"k", 0, NOW, |it: &mut Hash| (true, it.remove(&1_u32.to_be_bytes())));
            assert_eq!(removed, Ok(true));
            assert!(cache.is_empty());
        }),
        ("taken", |cache, hash| drop(cache.take_entry(hash, b"k", NOW))),
    ];
    for (what, end) in ends {
        let mut cache = cache::<S>(PolicyKind::NoEviction, None);
        let hash = cache.store().hash(b"k");
        set(&mut cache, "k", 1, &[7; 100_000]).unwrap();
        assert!(cache.bytes() > 100_000 && cache.is_observed, "{what}");
        assert!(cache.footprint(hash, b"k", NOW).unwrap() > 100_000, "{what}");
        end(&mut cache, hash);
        assert!(cache.objects.is_empty() && cache.objects.bytes() == 0 && !cache.is_observed, "{what}");
    }
}

#[test]
fn objects_go_with_their_entries() {
    objects_go_with_their_entries_in::<StdStore>();
    objects_go_with_their_entries_in::<PackedStore>();
}

#[test]
fn large_objects_are_evicted_and_the_limit_holds() {
    const LIMIT: usize = 4 << 20;
    let mut cache = cache::<PackedStore>(PolicyKind::AllKeysLru, Some(LIMIT));
    for number in 0..200 {
        set(&mut cache, &format!("hash{number}"), 1, &[7; 100_000]).unwrap();
        assert!(cache.bytes() <= LIMIT, "{}", cache.bytes());
    }
    assert!(cache.counts.evicted > 100);
    assert_eq!(len(&mut cache, "hash199"), Some(1));
    // A string needs the room of objects, too.
    for number in 0..2000_u32 {
        let key = number.to_be_bytes();
        let hash = cache.store().hash(&key);
        cache.set(hash, &key, &[7; 3000], Attributes::default(), NOW).unwrap();
        assert!(cache.bytes() <= LIMIT, "{}", cache.bytes());
    }
    let left = (0..200).filter(|number| len(&mut cache, &format!("hash{number}")).is_some()).count();
    assert!(left < 30, "{left}");
}

/// The table of a hash doubles now and then, which is more than one field takes.
#[test]
fn a_hash_that_outgrows_what_was_foreseen_evicts_others() {
    const LIMIT: usize = 1 << 20;
    let mut cache = cache::<PackedStore>(PolicyKind::AllKeysLru, Some(LIMIT));
    for field in 0..5000_u32 {
        let now = Moment { unix_ms: NOW.unix_ms + u64::from(field) * 1000 };
        // So that there is no room but what a field is expected to take.
        for number in 0..3_u32 {
            let key = (field * 3 + number).to_be_bytes();
            let hash = cache.store().hash(&key);
            cache.set(hash, &key, &[7; 100], Attributes::default(), now).unwrap();
        }
        let hash = cache.store().hash(b"hash");
        let set = |it: &mut Hash| (true, it.set(&field.to_be_bytes(), b"value", FieldExpiry::Keep));
        assert_eq!(cache.change_collection(hash, b"hash", 49, now, set), Ok(true));
        assert!(cache.bytes() <= LIMIT, "{} after {field}", cache.bytes());
    }
    assert_eq!(len(&mut cache, "hash"), Some(5000));
}

#[test]
fn without_memory_a_collection_stays_as_it_is() {
    let mut cache = cache::<PackedStore>(PolicyKind::NoEviction, None);
    set(&mut cache, "small", 1, b"1").unwrap();
    set(&mut cache, "small", 3, b"1").unwrap();
    set(&mut cache, "large", 1, &[7; 100_000]).unwrap();
    cache.set_limit(Some(cache.bytes() + 1000));
    for key in ["small", "large", "new"] {
        assert_eq!(set(&mut cache, key, 2, &[7; 10_000]), Err(ChangeError::OutOfMemory), "{key}");
    }
    assert_eq!(["small", "large", "new"].map(|key| len(&mut cache, key)), [Some(2), Some(1), None]);
    // Removing a part needs no memory, even far above the limit.
    cache.set_limit(Some(1000));
    for key in ["small", "large"] {
        let hash = cache.store().hash(key.as_bytes());
        let removed = cache
            .change_collection(hash, key.as_bytes(), 0, NOW, |it: &mut Hash| (true, it.remove(&1_u32.to_be_bytes())));
        assert_eq!(removed, Ok(true), "{key}");
    }
    assert_eq!((len(&mut cache, "small"), len(&mut cache, "large")), (Some(1), None));
}

#[test]
fn a_change_is_seen_by_those_who_watch_the_key() {
    for value in [&b"1"[..], &[7; 100]] {
        let mut cache = cache::<PackedStore>(PolicyKind::NoEviction, None);
        let hash = cache.store().hash(b"k");
        let since = cache.watch(hash);
        set(&mut cache, "k", 1, value).unwrap();
        assert!(cache.unwatch(hash, since));
        let since = cache.watch(hash);
        set(&mut cache, "k", 2, value).unwrap();
        assert!(cache.unwatch(hash, since));
        let since = cache.watch(hash);
        cache.change_collection(hash, b"k", 9, NOW, |_: &mut Hash| (false, ())).unwrap();
        assert!(!cache.unwatch(hash, since), "nothing has changed");
    }
}

#[test]
fn an_entry_can_be_copied_and_moved() {
    for value in [&b"1"[..], &[7; 100]] {
        let mut cache = cache::<StdStore>(PolicyKind::NoEviction, None);
        let [a, b, c] = [b"a", b"b", b"c"].map(|key| cache.store().hash(key));
        set(&mut cache, "a", 1, value).unwrap();
        let copy = cache.copy_entry(a, b"a", NOW).unwrap();
        cache.put_entry(b, b"b", copy, NOW).unwrap();
        set(&mut cache, "a", 2, value).unwrap();
        let moved = cache.take_entry(a, b"a", NOW).unwrap();
        cache.put_entry(c, b"c", moved, NOW).unwrap();
        assert_eq!(["a", "b", "c"].map(|key| len(&mut cache, key)), [None, Some(1), Some(2)]);
    }
}

#[test]
fn a_portable_value_makes_the_same_entry() {
    for value in [&b"1"[..], &[7; 100]] {
        let mut cache = cache::<PackedStore>(PolicyKind::NoEviction, None);
        set(&mut cache, "k", 1, value).unwrap();
        let (k, l) = (cache.store().hash(b"k"), cache.store().hash(b"l"));
        let location = cache.locate(k, b"k", NOW).unwrap();
        let view = cache.store().view(location);
        let (portable, attributes) = (cache.portable_value(view).into_owned(), view.attributes);
        let name = cache.encoding_name(location);
        assert!(is_portable(&portable, attributes.encoding) && !is_portable(&portable[1..], attributes.encoding));
        cache.set_portable(l, b"l", &portable, attributes, NOW).unwrap();
        let location = cache.locate(l, b"l", NOW).unwrap();
        assert_eq!(cache.encoding_name(location), name);
        assert_eq!(cache.store().view(location).attributes, attributes);
        assert_eq!(len(&mut cache, "l"), Some(1));
    }
}
