//! Time for a hit and for an insertion that evicts, on one thread and on two.
//!
//! Every combination gets a slice of a fraction of a millisecond in each round, in turn, and its fastest slice counts:
//! what else the machine does makes slices slower, never faster.

use std::{
    array,
    hint::{self, black_box},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use bytes::Bytes;
use fileserver::cache::{Cache, CacheLimits, Hashbrown, LockFree, MutexLru, NoEviction, Sparse, Std};
use wire::file::FileId;

use crate::{Value, id};

/// Numbers of documents: those of the original's benchmark, and more than a processor's nearest cache holds.
const ENTRIES: [usize; 2] = [30, 10_000];
/// Number of calls of a thread that are timed together.
const SLICE: usize = 1_000;

trait Measured {
    /// Nanoseconds for hits on one thread and on two, and for insertions on one and on two.
    fn measure(&self, ids: &[FileId]) -> [f64; 4];
}

struct Pair<C> {
    /// Cache for hits: full, and left so.
    still: C,
    /// Cache for insertions, which go round so many documents that each has been evicted when it comes again.
    moving: C,
    position: AtomicUsize,
}

impl<C: Cache<Value>> Measured for Pair<C> {
    fn measure(&self, ids: &[FileId]) -> [f64; 4] {
        let hit = |random: &mut fastrand::Rng| {
            black_box(self.still.get(&ids[random.usize(..ids.len() / 4)]).is_some());
        };
        let insert = |_: &mut fastrand::Rng| {
            let number = self.position.fetch_add(1, Ordering::Relaxed) % ids.len();
            black_box(self.moving.insert(&ids[number], fresh()));
        };
        [slice(1, &hit), slice(2, &hit), slice(1, &insert), slice(2, &insert)]
    }
}

fn fresh() -> Value {
    Value::new(Bytes::from(vec![0; 64]), &Arc::new(0))
}

/// Nanoseconds for each of `SLICE` calls on each thread, from the first start to the last end: threads that have not
/// run at the same time do not look fast.
fn slice(threads: usize, act: &(impl Fn(&mut fastrand::Rng) + Sync)) -> f64 {
    let ready = AtomicUsize::new(0);
    let run = |thread: usize| {
        let mut random = fastrand::Rng::with_seed(thread as u64);
        (0..SLICE / 10).for_each(|_| act(&mut random));
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            hint::spin_loop();
        }
        let start = Instant::now();
        (0..SLICE).for_each(|_| act(&mut random));
        (start, Instant::now())
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let first = run(0);
        let (start, end) = others
            .into_iter()
            .filter_map(|other| other.join().ok())
            .fold(first, |all, one| (all.0.min(one.0), all.1.max(one.1)));
        (end - start).as_nanos() as f64 / SLICE as f64
    })
}

fn pair<C: Cache<Value>>(ids: &[FileId]) -> Box<dyn Measured> {
    let entries = ids.len() / 4;
    let full = || {
        let cache = C::new(CacheLimits { entries, bytes: 1 << 40, descriptors: 0 });
        for id in &ids[..entries] {
            cache.insert(id, fresh());
        }
        cache
    };
    Box::new(Pair { still: full(), moving: full(), position: AtomicUsize::new(entries) })
}

pub(crate) fn report(rounds: usize) {
    ENTRIES.into_iter().for_each(|entries| report_for(entries, rounds));
}

fn report_for(entries: usize, rounds: usize) {
    let ids: Vec<FileId> = (0..4 * entries).map(id).collect();
    let caches = [
        ("none", "std", pair::<NoEviction<Std, Value>>(&ids)),
        ("none", "hashbrown", pair::<NoEviction<Hashbrown, Value>>(&ids)),
        ("none", "sparse", pair::<NoEviction<Sparse, Value>>(&ids)),
        ("mutex", "std", pair::<MutexLru<Std, Value>>(&ids)),
        ("mutex", "hashbrown", pair::<MutexLru<Hashbrown, Value>>(&ids)),
        ("mutex", "sparse", pair::<MutexLru<Sparse, Value>>(&ids)),
        ("lockfree", "std", pair::<LockFree<Std, Value>>(&ids)),
        ("lockfree", "hashbrown", pair::<LockFree<Hashbrown, Value>>(&ids)),
        ("lockfree", "sparse", pair::<LockFree<Sparse, Value>>(&ids)),
    ];
    let mut fastest = [[f64::INFINITY; 4]; 9];
    for _ in 0..rounds {
        for ((_, _, cache), fastest) in caches.iter().zip(&mut fastest) {
            let times = cache.measure(&ids);
            *fastest = array::from_fn(|at| fastest[at].min(times[at]));
        }
    }
    println!("| {entries} entries: eviction | map | hit, ns | hit, 2 threads | insertion, ns | insertion, 2 threads |");
    println!("|---|---|---:|---:|---:|---:|");
    for ((eviction, map, _), times) in caches.iter().zip(fastest) {
        println!("| {eviction} | {map} | {} |", times.map(|ns| format!("{ns:.0}")).join(" | "));
    }
    println!();
}
