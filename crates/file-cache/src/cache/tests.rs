use std::collections::HashMap;

use proptest::prelude::*;
use sys::beneath::{Metadata, OpenError};

use super::*;
use crate::FileState;

/// A body of some cost, told apart by its number.
#[derive(Debug)]
struct TestBody {
    number: usize,
    state: FileState,
    memory_bytes: usize,
    descriptors: usize,
}

impl Body for TestBody {
    fn state(&self) -> &FileState {
        &self.state
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    fn descriptors(&self) -> usize {
        self.descriptors
    }
}

const STATE: FileState =
    FileState { metadata: Metadata { device: 0, inode: 0, size: 0, modified_ns: 0, changed_ns: 0 }, is_settled: true };

fn body(number: usize, memory_bytes: usize, descriptors: usize) -> TestBody {
    TestBody { number, state: STATE, memory_bytes, descriptors }
}

fn entry(key: u8, body: TestBody, now_ns: u64) -> PathEntry<TestBody> {
    PathEntry::new(&[b'/', key], b"file", body, now_ns)
}

fn cache(limits: CacheLimits) -> PathCache<TestBody> {
    // Checks are never due.
    PathCache::new(Root::open(".").unwrap(), &limits, Duration::MAX)
}

fn number(cache: &PathCache<TestBody>, key: u8, now_ns: u64) -> Option<usize> {
    cache.with_current(&[b'/', key], now_ns, |body| body.number)
}

const UNBOUNDED: CacheLimits = CacheLimits { entries: 1 << 20, bytes: usize::MAX, descriptors: usize::MAX };

#[derive(Clone, Debug)]
enum Op {
    Insert(u8, usize),
    Pin(u8),
    Look(u8),
    Remove(u8),
    Evict(u8),
    RemoveOdd,
}

/// Memory and descriptors of the bodies that come.
const COSTS: [(usize, usize); 3] = [(10, 0), (6_000, 0), (500, 1)];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..30_u8;
    let op = prop_oneof![
        6 => (key(), 0..COSTS.len()).prop_map(|(key, cost)| Op::Insert(key, cost)),
        1 => key().prop_map(Op::Pin),
        6 => key().prop_map(Op::Look),
        2 => key().prop_map(Op::Remove),
        1 => key().prop_map(Op::Evict),
        1 => Just(Op::RemoveOdd),
    ];
    proptest::collection::vec(op, 0..200)
}

fn limits() -> impl Strategy<Value = CacheLimits> {
    let small = (0..12_usize, 1_000..60_000_usize, 0..4_usize);
    prop_oneof![small, Just((256, 16 << 20, 256))].prop_map(|(entries, bytes, descriptors)| CacheLimits {
        entries,
        bytes,
        descriptors,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens: no limit is passed, the budgets agree with the entries, a lookup finds the latest entry or none, and
    /// pinned entries go only when told to.
    #[test]
    fn limits_hold_and_lookups_are_right(ops in ops(), limits in limits()) {
        let cache = cache(limits);
        // Number of the latest body, and whether it is pinned.
        let mut latest: HashMap<u8, (usize, bool)> = HashMap::new();
        for (at, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(key, cost) => {
                    let (memory_bytes, descriptors) = COSTS[cost];
                    cache.insert(entry(key, body(at, memory_bytes, descriptors), at as u64));
                    if !latest.get(&key).is_some_and(|(_, is_pinned)| *is_pinned) {
                        latest.insert(key, (at, false));
                    }
                }
                Op::Pin(key) => {
                    let pinned = |number| PathEntry::pinned(&[b'/', key], body(number, 1 << 30, 9), at as u64);
                    let was_pinned = latest.get(&key).is_some_and(|(_, is_pinned)| *is_pinned);
                    prop_assert_eq!(cache.replace_pinned(pinned(at)), was_pinned);
                    prop_assert!(cache.replace_pinned(pinned(at)));
                    latest.insert(key, (at, true));
                }
                Op::Look(key) => {
                    let found = number(&cache, key, at as u64);
                    let want = latest.get(&key).copied();
                    prop_assert!(found.is_none_or(|found| Some(found) == want.map(|(number, _)| number)));
                    prop_assert!(found.is_some() || !want.is_some_and(|(_, is_pinned)| is_pinned));
                }
                Op::Remove(key) => {
                    cache.remove(&[b'/', key]);
                    latest.remove(&key);
                    prop_assert!(number(&cache, key, at as u64).is_none());
                }
                Op::Evict(key) => {
                    let (before, has_files) = (cache.len(), cache.entries().iter().any(|entry| !entry.is_pinned()));
                    prop_assert_eq!(cache.evict(&[b'/', key], u64::MAX), has_files);
                    prop_assert_eq!(cache.len(), before - usize::from(has_files));
                }
                Op::RemoveOdd => {
                    cache.remove_if(|entry| entry.path()[1] % 2 == 1);
                    latest.retain(|key, _| key % 2 == 0);
                }
            }
            let entries = cache.entries();
            let files = entries.iter().filter(|entry| !entry.is_pinned()).map(|entry| entry.cost());
            let sums = files.fold([0, 0, 0], |[entries, bytes, descriptors], cost| {
                [entries + 1, bytes + cost.bytes as u64, descriptors + cost.descriptors as u64]
            });
            prop_assert_eq!(cache.budgets.used(), sums);
            let limits = [limits.entries, limits.bytes, limits.descriptors];
            prop_assert!(sums.iter().zip(limits).all(|(sum, limit)| *sum <= limit as u64));
            let pinned = entries.iter().filter(|entry| entry.is_pinned()).count();
            prop_assert_eq!(pinned, latest.values().filter(|(_, is_pinned)| *is_pinned).count());
        }
    }
}

/// A file that is asked for between two evictions outlives those that are not.
#[test]
fn what_is_in_use_stays() {
    let cache = cache(CacheLimits { entries: 8, ..UNBOUNDED });
    cache.insert(entry(0, body(0, 10, 0), 0));
    for key in 1..100 {
        let now_ns = 10 * u64::from(key);
        assert!(number(&cache, 0, now_ns).is_some(), "lost before insertion {key}");
        cache.insert(entry(key, body(0, 10, 0), now_ns));
    }
    assert_eq!(cache.len(), 8);
}

#[test]
fn the_least_recently_used_goes_first() {
    let cache = cache(CacheLimits { entries: 3, ..UNBOUNDED });
    (1..=3).for_each(|key| drop(cache.insert(entry(key, body(0, 10, 0), u64::from(key)))));
    number(&cache, 1, 4);
    cache.insert(entry(4, body(0, 10, 0), 5));
    let is_there = [1, 2, 3, 4].map(|key| number(&cache, key, 6).is_some());
    assert_eq!(is_there, [true, false, true, true]);
}

#[test]
fn what_has_just_been_used_is_not_evicted_for_others() {
    let cache = cache(UNBOUNDED);
    cache.insert(entry(1, body(0, 10, 0), 100));
    assert!(!cache.evict(b"/x", 100));
    assert!(cache.evict(b"/x", 101));
    assert!(cache.is_empty());
}

/// An entry that could never be replaced by one of its size would block the cache; it is not taken at all.
#[test]
fn what_does_not_fit_evicts_nothing() {
    let cache = cache(CacheLimits { entries: 8, bytes: 4_000, descriptors: 0 });
    cache.insert(entry(0, body(0, 10, 0), 0));
    cache.insert(entry(1, body(1, 6_000, 0), 0));
    cache.insert(entry(2, body(2, 10, 1), 0));
    assert_eq!((number(&cache, 0, 0), cache.len()), (Some(0), 1));
}

#[test]
fn who_lacks_a_descriptor_evicts_one_that_has_it() {
    let cache = cache(CacheLimits { entries: 8, bytes: 1 << 20, descriptors: 1 });
    cache.insert(entry(0, body(0, 10, 0), 0));
    cache.insert(entry(1, body(1, 10, 1), 1));
    cache.insert(entry(2, body(2, 10, 1), 2));
    assert_eq!([0, 1, 2].map(|key| number(&cache, key, 3)), [Some(0), None, Some(2)]);
}

/// An entry that has been replaced meanwhile leaves its successor alone when it goes.
#[test]
fn only_the_entry_itself_is_removed() {
    let cache = cache(UNBOUNDED);
    let old = cache.insert(entry(0, body(0, 10, 0), 0));
    let new = cache.insert(entry(0, body(1, 10, 0), 0));
    assert!(!cache.remove_entry(&old));
    assert_eq!(number(&cache, 0, 0), Some(1));
    assert!(cache.remove_entry(&new));
    assert!(cache.is_empty());
}

fn find_file(cache: &PathCache<TestBody>, now: Duration) -> Result<(Arc<PathEntry<TestBody>>, Lookup), OpenError> {
    cache.find(b"/", now, |root| {
        let metadata = root.root().stat(b"file")?;
        let body = TestBody { state: FileState::new(metadata, now), ..body(0, 10, 0) };
        Ok(cache.insert(PathEntry::new(b"/", b"file", body, root.checked_ns())))
    })
}

/// One `stat` decides, and only one that finds no change counts for the next interval.
#[test]
fn an_entry_is_checked_once_an_interval_and_loaded_when_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "one").unwrap();
    let root = Root::open(directory.path()).unwrap();
    let cache = PathCache::new(root, &UNBOUNDED, Duration::from_secs(1));
    // The file has settled: its times are a minute old.
    let start = sys::clock::unix_coarse() + Duration::from_secs(60);
    let find = |seconds: u64| {
        let now = start + Duration::from_secs(seconds);
        find_file(&cache, now).map(|(_, lookup)| lookup)
    };
    assert_eq!(
        [0, 0, 1, 1, 2].map(find),
        [
            Ok::<_, OpenError>(Lookup::Miss),
            Ok(Lookup::Hit),
            Ok(Lookup::Revalidated),
            Ok(Lookup::Hit),
            Ok(Lookup::Revalidated)
        ]
    );
    std::fs::write(&path, "three").unwrap();
    assert_eq!([2, 3, 3].map(find), [Ok(Lookup::Hit), Ok(Lookup::Miss), Ok(Lookup::Hit)]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!([3, 4].map(find), [Ok(Lookup::Hit), Err(OpenError::Missing)]);
    assert!(cache.is_empty(), "what is gone leaves nothing behind");
}

/// Knowledge about a file that comes later makes its entry neither younger nor more recently used.
#[test]
fn an_updated_entry_is_as_old_as_before() {
    let second = Duration::from_secs(1);
    let cache = PathCache::new(Root::open(".").unwrap(), &UNBOUNDED, second);
    cache.insert(entry(b'a', body(1, 10, 0), 5));
    cache.update(b"/a", |body| Some(TestBody { number: body.number + 1, memory_bytes: 50, ..*body }));
    assert_eq!(number(&cache, b'a', 5), Some(2));
    assert_eq!(number(&cache, b'a', 5 + 1_000_000_000), None, "a check is due when it was");
    assert_eq!(cache.entries()[0].used_ns(), 5);
    assert_eq!(cache.used_bytes(), cache.entries()[0].cost().bytes as u64, "the replaced one is given back");
    cache.update(b"/a", |_| None);
    cache.update(b"/b", |_| panic!("there is none"));
    cache.replace_pinned(PathEntry::pinned(b"/p", body(9, 1, 0), 5));
    cache.update(b"/p", |_| panic!("it stands for no file"));
    assert_eq!((number(&cache, b'a', 5), number(&cache, b'p', 5), cache.len()), (Some(2), Some(9), 2));
}

/// A root that is replaced between two checks is served for at most the interval, by every entry.
#[test]
fn a_replaced_root_is_seen_after_the_interval_by_all() {
    let outer = tempfile::tempdir().unwrap();
    let path = |name: &str| outer.path().join(name);
    for name in ["root", "new"] {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(name).join("file"), name).unwrap();
    }
    let cache = PathCache::new(Root::open(path("root")).unwrap(), &UNBOUNDED, Duration::from_secs(1));
    let start = sys::clock::unix_coarse() + Duration::from_secs(60);
    let at = |ms: u64| start + Duration::from_millis(ms);
    find_file(&cache, at(0)).unwrap();
    // Found in the middle of the root's interval, and so due at its end.
    cache.remove(b"/");
    assert_eq!(find_file(&cache, at(500)).unwrap().1, Lookup::Miss);
    std::fs::rename(path("root"), path("old")).unwrap();
    std::fs::rename(path("new"), path("root")).unwrap();
    assert_eq!(find_file(&cache, at(999)).unwrap().1, Lookup::Hit, "within the interval");
    let (entry, lookup) = find_file(&cache, at(1_000)).unwrap();
    let there = Metadata::at(path("root/file")).unwrap();
    assert_eq!((lookup, entry.body().state.metadata), (Lookup::Miss, there));
}

#[test]
fn a_clock_that_was_set_back_empties_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "one").unwrap();
    let cache = PathCache::new(Root::open(directory.path()).unwrap(), &UNBOUNDED, Duration::from_secs(3_600));
    let start = sys::clock::unix_coarse() + Duration::from_secs(60);
    find_file(&cache, start).unwrap();
    let another_thread = start - Duration::from_millis(4);
    assert_eq!(find_file(&cache, another_thread).unwrap().1, Lookup::Revalidated, "a tick behind");
    assert_eq!(find_file(&cache, start - Duration::from_secs(30)).unwrap().1, Lookup::Miss);
}
