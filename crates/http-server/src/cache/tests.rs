use std::time::Duration;

use proptest::prelude::*;
use sys::beneath::Root;

use super::*;

/// Entries for real files, since only those have descriptors.
struct Files {
    _directory: tempfile::TempDir,
    root: Root,
}

impl Files {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for size in SIZES {
            std::fs::write(directory.path().join(size.to_string()), vec![b'x'; size]).unwrap();
        }
        Self { root: Root::open(directory.path()).unwrap(), _directory: directory }
    }

    fn entry(&self, key: u8, size: usize) -> Arc<Entry> {
        let opened = self.root.open_file(size.to_string().as_bytes()).unwrap();
        let loaded = Representation::load(opened, "text/plain", MEMORY_MAX, Duration::ZERO).unwrap();
        Arc::new(Entry::new(&[b'/', key], b"x", loaded, true, 0))
    }
}

const SIZES: [usize; 3] = [10, 6_000, 20_000];
const MEMORY_MAX: u64 = 10_000;

#[derive(Clone, Debug)]
enum Op {
    Insert(u8, usize),
    Look(u8),
    Remove(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..30_u8;
    let op = prop_oneof![
        3 => (key.clone(), 0..SIZES.len()).prop_map(|(key, size)| Op::Insert(key, SIZES[size])),
        3 => key.clone().prop_map(Op::Look),
        1 => key.prop_map(Op::Remove),
    ];
    proptest::collection::vec(op, 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens, no bound is passed, the books agree with the entries, and a look finds the latest entry or none.
    #[test]
    fn bounds_hold_and_looks_are_right(ops in ops(), entries in 1..12_usize, bytes in 1_000..60_000_usize, descriptors in 0..4_usize) {
        let files = Files::new();
        let limits = CacheLimits { entries, bytes, descriptors };
        let cache = Cache::new(limits);
        let mut latest: std::collections::HashMap<u8, Arc<Entry>> = Default::default();
        for op in ops {
            match op {
                Op::Insert(key, size) => {
                    let entry = files.entry(key, size);
                    cache.insert(Arc::clone(&entry));
                    latest.insert(key, entry);
                }
                Op::Look(key) => {
                    if let Some(found) = cache.look(&[b'/', key], Arc::clone) {
                        prop_assert!(Arc::ptr_eq(&found, &latest[&key]));
                    }
                }
                Op::Remove(key) => {
                    if let Some(entry) = latest.remove(&key) {
                        cache.remove(&entry);
                        prop_assert!(cache.look(&[b'/', key], |_| ()).is_none());
                    }
                }
            }
            let ring = cache.shards[0].read();
            let counted = ring.slots.iter().map(|slot| Used::by(&slot.entry)).fold(Used::default(), |sum, used| Used {
                entries: sum.entries + used.entries,
                bytes: sum.bytes + used.bytes,
                descriptors: sum.descriptors + used.descriptors,
            });
            drop(ring);
            prop_assert_eq!(cache.used(), counted);
            prop_assert!(Used::default().fits(counted, &limits));
        }
    }
}

/// A file that is asked for between two evictions outlives those that are not.
#[test]
fn what_is_used_stays() {
    let files = Files::new();
    let cache = Cache::new(CacheLimits { entries: 8, bytes: 1 << 20, descriptors: 0 });
    cache.insert(files.entry(0, 10));
    for key in 1..100 {
        assert!(cache.look(b"/\0", |_| ()).is_some(), "lost before insertion {key}");
        cache.insert(files.entry(key, 10));
    }
    assert_eq!(cache.used().entries, 8);
}

/// An entry that could never be replaced by one of its size would block the shard; it is not taken at all.
#[test]
fn what_does_not_fit_evicts_nothing() {
    let files = Files::new();
    let cache = Cache::new(CacheLimits { entries: 8, bytes: 4_000, descriptors: 0 });
    cache.insert(files.entry(0, 10));
    cache.insert(files.entry(1, 6_000));
    cache.insert(files.entry(2, 20_000));
    assert!(cache.look(b"/\0", |_| ()).is_some() && cache.used().entries == 1);
}

/// A removed entry that has been replaced meanwhile leaves its successor alone.
#[test]
fn only_the_entry_itself_is_removed() {
    let files = Files::new();
    let cache = Cache::new(CacheLimits { entries: 8, bytes: 1 << 20, descriptors: 0 });
    let (old, new) = (files.entry(0, 10), files.entry(0, 10));
    cache.insert(Arc::clone(&old));
    cache.insert(Arc::clone(&new));
    cache.remove(&old);
    assert!(cache.look(b"/\0", |entry| Arc::ptr_eq(entry, &new)).unwrap());
}

/// What may be read into memory fits the cache, however it is divided; else it would be read again for each request.
#[test]
fn the_largest_contents_fit_and_are_kept() {
    let files = Files::new();
    for (bytes, entries, descriptors) in
        [(64 << 20, 8192, 256), (64 << 20, 8192, 0), (64 << 20, 8192, 8), (64 << 20, 4, 256), (100 << 10, 8192, 256)]
    {
        let limits = CacheLimits { entries, bytes, descriptors };
        let shard = limits.divided_by(limits.shards());
        let entry = files.entry(0, 6_000);
        assert!(entry.held() - 6_000 <= ENTRY_OVERHEAD_MAX);
        assert!(limits.contents_max() + ENTRY_OVERHEAD_MAX <= shard.bytes && limits.contents_max() > 6_000);
        assert!(shard.entries > 0 && (shard.descriptors > 0 || descriptors == 0), "{limits:?}");
    }
    for off in [CacheLimits { entries: 0, ..SHARD_MIN }, CacheLimits { bytes: 0, ..SHARD_MIN }] {
        assert_eq!(off.contents_max(), 0);
    }
}
