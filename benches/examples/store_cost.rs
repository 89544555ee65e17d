//! What a store costs in process: nanoseconds for a GET and a SET of random keys, one at a time and through a rolling
//! window, bytes for each key, and the longest single insertion while it grows.
//!
//! `cargo run --release -p benches --example store_cost -- [store] [keys] [value bytes]`

#![allow(clippy::print_stdout, reason = "a report is what it is for")]

use std::{
    env,
    hint::black_box,
    time::{Duration, Instant},
};

use store::{Attributes, HashbrownStore, KeyHasher, Options, Packed, StdStore, Store};

/// Commands between two stages of the window, as in kvcache.
const DEPTH: usize = 12;
const KEY_BYTES: usize = 16;
/// Each figure is the least of so many rounds; other processes take their share of time.
const ROUNDS: usize = 5;

fn main() {
    let mut arguments = env::args().skip(1);
    let store = arguments.next().unwrap_or_else(|| "packed".to_owned());
    let mut number = |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (keys, value_len) = (number(1_000_000), number(12));
    match store.as_str() {
        "packed" => report::<Packed>(keys, value_len),
        "std" => report::<StdStore>(keys, value_len),
        "hashbrown" => report::<HashbrownStore>(keys, value_len),
        _ => println!("stores: packed, std, hashbrown"),
    }
}

fn report<S: Store>(keys: usize, value_len: usize) {
    let mut random = fastrand::Rng::with_seed(1);
    let keys: Vec<[u8; KEY_BYTES]> = (0..keys).map(|_| std::array::from_fn(|_| random.u8(b'a'..=b'z'))).collect();
    let value = vec![b'v'; value_len];
    let options =
        Options { hasher: KeyHasher::with_seed(1), advise: sys::memory::advise_huge, release: sys::memory::release };
    let mut store = S::new(options);
    let before = resident();
    let mut longest = Duration::ZERO;
    let start = Instant::now();
    for key in &keys {
        let at = Instant::now();
        let hash = store.hash(key);
        if store.find(hash, key).is_none() {
            store.insert(hash, key, &value, Attributes::default());
        }
        longest = longest.max(at.elapsed());
    }
    let filled = start.elapsed();
    let per_key = |bytes: usize| bytes as f64 / store.len() as f64;
    println!("{} keys of {KEY_BYTES} + {value_len} B", store.len());
    println!("  bytes per key: {:.1} counted, {:.1} resident", per_key(store.bytes()), per_key(resident() - before));
    println!("  filling: {:.1} ns each, longest {longest:?}", filled.as_nanos() as f64 / keys.len() as f64);

    // Blocks of requests are prepared beforehand, in the order in which they come in.
    let requests: Vec<[u8; KEY_BYTES]> = (0..1 << 20).map(|_| keys[random.usize(..keys.len())]).collect();
    drop(keys);
    let mut reply = vec![0; value_len.max(64)];
    let one = least(&requests, || requests.iter().for_each(|key| get(&store, store.hash(key), key, &mut reply)));
    let rolling = least(&requests, || roll(&mut store, &requests, |store, hash, key| get(store, hash, key, &mut reply)));
    println!("  GET: {one:.1} ns one at a time, {rolling:.1} rolling");
    let one = least(&requests, || {
        for key in &requests {
            let hash = store.hash(key);
            set(&mut store, hash, key, &value);
        }
    });
    let rolling = least(&requests, || roll(&mut store, &requests, |store, hash, key| set(store, hash, key, &value)));
    println!("  SET: {one:.1} ns one at a time, {rolling:.1} rolling");
}

/// Nanoseconds for each request in the shortest of some rounds.
fn least(requests: &[[u8; KEY_BYTES]], mut round: impl FnMut()) -> f64 {
    let mut time = || {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / requests.len() as f64
    };
    (0..ROUNDS).map(|_| time()).fold(f64::INFINITY, f64::min)
}

#[inline]
fn get<S: Store>(store: &S, hash: u64, key: &[u8; KEY_BYTES], reply: &mut [u8]) {
    if let Some(place) = store.find(hash, key) {
        copy_out(store.view(place).value, reply);
    }
    black_box(reply);
}

#[inline]
fn set<S: Store>(store: &mut S, hash: u64, key: &[u8; KEY_BYTES], value: &[u8]) {
    match store.find(hash, key) {
        Some(place) => _ = store.replace(hash, place, value, Attributes::default()),
        None => _ = store.insert(hash, key, value, Attributes::default()),
    }
}

/// Runs requests as kvcache does: the bucket of each is asked for, [`DEPTH`] requests later the entry, and after as many
/// again it is done.
#[inline]
fn roll<S: Store>(
    store: &mut S,
    requests: &[[u8; KEY_BYTES]],
    mut done: impl FnMut(&mut S, u64, &[u8; KEY_BYTES]),
) {
    const RING: usize = 32;
    let mut hashes = [0; RING];
    for at in 0..requests.len() + 2 * DEPTH {
        if let Some(key) = requests.get(at) {
            hashes[at % RING] = store.hash(key);
            store.prefetch(hashes[at % RING]);
        }
        if at >= DEPTH && at - DEPTH < requests.len() {
            store.prefetch_entry(hashes[(at - DEPTH) % RING]);
        }
        if let Some(key) = at.checked_sub(2 * DEPTH).and_then(|at| requests.get(at)) {
            done(store, hashes[(at - 2 * DEPTH) % RING], key);
        }
    }
}

/// As a reply is made: short values without a call.
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

/// Memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
}
