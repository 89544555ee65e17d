//! Measures a store in process: nanoseconds of processor time for a GET and a SET of random keys, one at a time and
//! through a rolling window (the fastest of many slices, and the median one), bytes for each key, and the longest
//! single insertion while it grows.
//!
//! `cargo run --release -p benches --example store_cost -- [store] [keys] [value bytes]`

#![allow(clippy::print_stdout, reason = "a report is what it is for")]

use std::{env, hint::black_box, time::Duration};

use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};
use store::{Attributes, HashbrownStore, KeyHasher, PackedStore, Pin, Scout as _, StdStore, Store, StoreOptions};

/// Commands between two stages of the window, as in kvcache.
const DEPTH: usize = 12;
const KEY_BYTES: usize = 16;
type Key = [u8; KEY_BYTES];
/// Requests that are timed together: they take less time than a time slice of the scheduler.
const SLICE: usize = 16 * 1024;
const ROUNDS: usize = 3;

fn main() {
    let mut arguments = env::args().skip(1);
    let store = arguments.next().unwrap_or_else(|| "packed".to_owned());
    let mut number = |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (keys, value_len) = (number(1_000_000), number(12));
    match store.as_str() {
        "packed" => report::<PackedStore>(keys, value_len),
        "std" => report::<StdStore>(keys, value_len),
        "hashbrown" => report::<HashbrownStore>(keys, value_len),
        _ => println!("stores: packed, std, hashbrown"),
    }
}

fn report<S: Store>(keys: usize, value_len: usize) {
    let mut random = fastrand::Rng::with_seed(1);
    let keys: Vec<Key> = (0..keys).map(|_| std::array::from_fn(|_| random.u8(b'a'..=b'z'))).collect();
    let value = vec![b'v'; value_len];
    let options = StoreOptions {
        hasher: KeyHasher::with_seed(1),
        advise: sys::memory::advise_huge_later,
        release: sys::memory::release,
    };
    let mut store = S::new(options);
    let before = resident();
    let mut longest = Duration::ZERO;
    let start = processor_time();
    for key in &keys {
        let at = processor_time();
        let hash = store.hash(key);
        if store.find(hash, key).is_none() {
            store.insert(hash, key, &value, Attributes::default());
        }
        longest = longest.max(processor_time() - at);
    }
    let filled = processor_time() - start;
    let per_key = |bytes: usize| bytes as f64 / store.len() as f64;
    println!("{} keys of {KEY_BYTES} + {value_len} B", store.len());
    println!("  bytes per key: {:.1} counted, {:.1} resident", per_key(store.bytes()), per_key(resident() - before));
    println!(
        "  filling: {:.1} ns each with the clock, longest {longest:?}",
        filled.as_nanos() as f64 / keys.len() as f64
    );

    // Blocks of requests are prepared beforehand, in their order of arrival.
    let requests: Vec<Key> = (0..1 << 20).map(|_| keys[random.usize(..keys.len())]).collect();
    drop(keys);
    let mut reply = vec![0; value_len.max(64)];
    let one = cost(&requests, |slice| slice.iter().for_each(|key| get(&store, store.hash(key), key, &mut reply)));
    let rolling =
        cost(&requests, |slice| roll(&mut store, slice, |store, hash, key| get(store, hash, key, &mut reply)));
    println!("  GET: {one} ns one at a time, {rolling} rolling");
    let one = cost(&requests, |slice| {
        for key in slice {
            let hash = store.hash(key);
            set(&mut store, hash, key, &value);
        }
    });
    let rolling = cost(&requests, |slice| roll(&mut store, slice, |store, hash, key| set(store, hash, key, &value)));
    println!("  SET: {one} ns one at a time, {rolling} rolling");
}

/// Processor time for each request in nanoseconds: of the fastest slice, and of the median one.
fn cost(requests: &[Key], mut serve: impl FnMut(&[Key])) -> String {
    let mut time = |slice: &[Key]| {
        let start = processor_time();
        serve(slice);
        (processor_time() - start).as_nanos() as f64 / slice.len() as f64
    };
    let rounds = (0..ROUNDS).flat_map(|_| requests.chunks_exact(SLICE));
    let mut times: Vec<f64> = rounds.map(&mut time).collect();
    times.sort_by(f64::total_cmp);
    format!("{:.1} ({:.1})", times[0], times[times.len() / 2])
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[inline]
fn get<S: Store>(store: &S, hash: u64, key: &Key, reply: &mut [u8]) {
    if let Some(place) = store.find(hash, key) {
        copy_out(store.view(place).value, reply);
    }
    black_box(reply);
}

#[inline]
fn set<S: Store>(store: &mut S, hash: u64, key: &Key, value: &[u8]) {
    match store.find(hash, key) {
        Some(place) => _ = store.replace(hash, place, value, Attributes::default()),
        None => _ = store.insert(hash, key, value, Attributes::default()),
    }
}

/// Runs requests as kvcache does: prefetches the bucket of each, its entry [`DEPTH`] requests later, and runs it after
/// as many again.
#[inline]
fn roll<S: Store>(store: &mut S, requests: &[Key], mut done: impl FnMut(&mut S, u64, &Key)) {
    const RING: usize = 32;
    let mut hashes = [0; RING];
    let (scout, pin) = (store.scout(), Pin::new());
    for at in 0..requests.len() + 2 * DEPTH {
        if let Some(key) = requests.get(at) {
            hashes[at % RING] = store.hash(key);
            scout.prefetch(hashes[at % RING], &pin);
        }
        if at >= DEPTH && at - DEPTH < requests.len() {
            scout.prefetch_entry(hashes[(at - DEPTH) % RING], &pin);
        }
        if let Some(key) = at.checked_sub(2 * DEPTH).and_then(|at| requests.get(at)) {
            done(store, hashes[(at - 2 * DEPTH) % RING], key);
        }
    }
}

/// Copies a value as for a reply: short values without a call.
#[inline]
fn copy_out(value: &[u8], reply: &mut [u8]) {
    match (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        (Some(first), Some(last)) if value.len() <= 16 => {
            reply[..8].copy_from_slice(first);
            reply[value.len() - 8..value.len()].copy_from_slice(last);
        }
        _ => reply[..value.len()].copy_from_slice(value),
    }
}

/// Returns the memory of this process.
fn resident() -> usize {
    let memory = Process::myself().and_then(|process| process.statm());
    memory.map_or(0, |memory| usize::try_from(memory.resident * procfs::page_size()).unwrap_or(usize::MAX))
}
