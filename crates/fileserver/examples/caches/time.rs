//! Time for a hit and for an insertion that evicts, on one thread and on two.
//!
//! Every combination gets a slice of a few milliseconds in each round, in turn, and its fastest slice counts: what
//! else the machine does makes slices slower, never faster.

use std::{
    array, hint,
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

use bytes::Bytes;
use fileserver::cache::{Cache, CacheLimits, Hashbrown, LockFree, MutexLru, Refusing, Sparse, Std};
use wire::file::FileId;

use crate::{Value, id};

/// Entries of a full cache.
const ENTRIES: usize = 10_000;
/// Documents, inserted in turn: none is there any more when its turn comes.
const DOCUMENTS: usize = 4 * ENTRIES;
/// Calls of a thread that are timed together.
const SLICE: usize = 2 * ENTRIES;

/// Nanoseconds.
type Times = [f64; 4];

trait Measured {
    /// Hits on one thread and on two, insertions on one and on two.
    fn measure(&self, ids: &[FileId]) -> Times;
}

struct Full<C>(C);

impl<C: Cache<Value>> Measured for Full<C> {
    fn measure(&self, ids: &[FileId]) -> Times {
        let hit = |_: usize, random: &mut fastrand::Rng| {
            hint::black_box(self.0.get(&ids[random.usize(..ENTRIES)]).is_some());
        };
        let insert = |number: usize, _: &mut fastrand::Rng| {
            hint::black_box(self.0.insert(&ids[number % DOCUMENTS], fresh()));
        };
        let insertions = [1, 2].map(|threads| slice(threads, &insert));
        // All of them hits again.
        fill(&self.0, ids);
        let hits = [1, 2].map(|threads| slice(threads, &hit));
        [hits[0], hits[1], insertions[0], insertions[1]]
    }
}

fn fill<C: Cache<Value>>(cache: &C, ids: &[FileId]) {
    for id in &ids[..ENTRIES] {
        cache.insert(id, fresh());
    }
}

fn fresh() -> Value {
    Value::new(Bytes::from(vec![0; 64]), &Arc::new(0))
}

/// Nanoseconds for each of `SLICE` calls on each thread.
fn slice(threads: usize, act: &(impl Fn(usize, &mut fastrand::Rng) + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let run = |thread: usize| {
        let mut random = fastrand::Rng::with_seed(thread as u64);
        barrier.wait();
        let start = Instant::now();
        let first = ENTRIES + thread * SLICE;
        (first..first + SLICE).for_each(|number| act(number, &mut random));
        start.elapsed().as_nanos() as f64 / SLICE as f64
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let first = run(0);
        others.into_iter().map(|other| other.join().unwrap_or(f64::NAN)).fold(first, f64::max)
    })
}

fn full<C: Cache<Value>>(ids: &[FileId]) -> Box<dyn Measured> {
    let cache = C::new(CacheLimits { entries: ENTRIES, bytes: 1 << 40, descriptors: 0 });
    fill(&cache, ids);
    Box::new(Full(cache))
}

pub(crate) fn report(rounds: usize) {
    let ids: Vec<FileId> = (0..DOCUMENTS).map(id).collect();
    let caches = [
        ("none", "std", full::<Refusing<Std, Value>>(&ids)),
        ("none", "hashbrown", full::<Refusing<Hashbrown, Value>>(&ids)),
        ("none", "sparse", full::<Refusing<Sparse, Value>>(&ids)),
        ("mutex", "std", full::<MutexLru<Std, Value>>(&ids)),
        ("mutex", "hashbrown", full::<MutexLru<Hashbrown, Value>>(&ids)),
        ("mutex", "sparse", full::<MutexLru<Sparse, Value>>(&ids)),
        ("lockfree", "std", full::<LockFree<Std, Value>>(&ids)),
        ("lockfree", "hashbrown", full::<LockFree<Hashbrown, Value>>(&ids)),
        ("lockfree", "sparse", full::<LockFree<Sparse, Value>>(&ids)),
    ];
    let mut fastest = [[f64::INFINITY; 4]; 9];
    for _ in 0..rounds {
        for ((_, _, cache), fastest) in caches.iter().zip(&mut fastest) {
            let times = cache.measure(&ids);
            *fastest = array::from_fn(|at| fastest[at].min(times[at]));
        }
    }
    println!("| eviction | map | hit, ns | hit, 2 threads | insertion, ns | insertion, 2 threads |");
    println!("|---|---|---:|---:|---:|---:|");
    for ((eviction, map, _), times) in caches.iter().zip(fastest) {
        println!("| {eviction} | {map} | {} |", times.map(|ns| format!("{ns:.0}")).join(" | "));
    }
}
