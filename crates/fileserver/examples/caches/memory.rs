//! Bytes allocated for each entry, by a counting allocator: kept, and the most at once while the map grew.

use std::sync::Arc;

use allocation_counter::measure;
use bytes::Bytes;
use fileserver::cache::{
    Cache, CacheLimits, CacheMap, Hashbrown, HashbrownMap, LockFree, MutexLru, NoEviction, Sparse, SparseMap, Std,
    StdMap,
};
use wire::file::FileId;

use crate::{Value, id};

type Entry = (FileId, Value);

const ENTRIES: [usize; 5] = [1_000, 50_000, 100_000, 500_000, 1_000_000];

pub(crate) fn report() {
    println!("An entry is an id of {} bytes and a value of {}.\n", size_of::<FileId>(), size_of::<Value>());
    println!("| map | {} |", ENTRIES.map(|entries| format!("{entries} entries")).join(" | "));
    println!("|---|{}", "---:|".repeat(ENTRIES.len()));
    map::<StdMap<Entry>>("std");
    map::<HashbrownMap<Entry>>("hashbrown");
    map::<SparseMap<Entry>>("sparse");
    println!("\n| cache of 100000 entries, full | std | hashbrown | sparse |\n|---|---:|---:|---:|");
    caches(
        "none",
        [cache::<NoEviction<Std, Value>>, cache::<NoEviction<Hashbrown, Value>>, cache::<NoEviction<Sparse, Value>>],
    );
    caches(
        "mutex",
        [cache::<MutexLru<Std, Value>>, cache::<MutexLru<Hashbrown, Value>>, cache::<MutexLru<Sparse, Value>>],
    );
    caches(
        "lockfree",
        [cache::<LockFree<Std, Value>>, cache::<LockFree<Hashbrown, Value>>, cache::<LockFree<Sparse, Value>>],
    );
}

fn value() -> impl Fn() -> Value {
    let origin = Arc::new(0);
    move || Value::new(Bytes::from_static(b""), &origin)
}

/// Bytes allocated and not freed, and the most there were at once.
fn grow<T>(build: impl FnOnce() -> T) -> (u64, u64) {
    let mut built = None;
    let counted = measure(|| built = Some(build()));
    drop(built);
    (counted.bytes_current.unsigned_abs(), counted.bytes_max)
}

fn map<M: CacheMap<Entry>>(name: &str) {
    let cells = ENTRIES.map(|entries| {
        let value = value();
        let (kept, most) = grow(|| {
            let mut map = M::default();
            (0..entries).for_each(|number| drop(map.insert((id(number), value()))));
            map
        });
        let each = |bytes: u64| bytes as f64 / entries as f64;
        format!("{:.1} ({:.1})", each(kept), each(most))
    });
    println!("| {name} | {} |", cells.join(" | "));
}

fn caches(name: &str, caches: [fn() -> String; 3]) {
    println!("| {name} | {} |", caches.map(|cache| cache()).join(" | "));
}

fn cache<C: Cache<Value>>() -> String {
    const ENTRIES: usize = 100_000;
    let value = value();
    let (kept, _) = grow(|| {
        let cache = C::new(CacheLimits { entries: ENTRIES, bytes: 1 << 40, descriptors: 0 });
        (0..ENTRIES).for_each(|number| assert!(cache.insert(&id(number), value())));
        cache
    });
    format!("{:.1}", kept as f64 / ENTRIES as f64)
}
