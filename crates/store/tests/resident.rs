//! The memory that a store reports, compared with the resident set of the process. That is why this test has a binary of its
//! own: in a process with others it would count their memory.

#![cfg(target_os = "linux")]

use std::mem::MaybeUninit;

use procfs::process::Process;
use store::{Attributes, KeyHasher, PackedStore, Store, StoreOptions};

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let status = Process::myself().and_then(|process| process.status()).expect("Linux has /proc");
    let kib = status.vmrss.expect("a process has memory");
    usize::try_from(kib * 1024).expect("it fits the address space")
}

fn assert_near(counted: usize, resident: usize, what: &str) {
    assert!(counted.abs_diff(resident) * 10 <= resident, "{what}: {counted} counted, {resident} resident");
}

#[test]
fn bytes_counted_are_bytes_resident() {
    const KEYS: u32 = 1_000_000;
    let release = |memory: &mut [MaybeUninit<u8>]| memory.fill(MaybeUninit::new(0));
    let new = || PackedStore::new(StoreOptions { hasher: KeyHasher::with_seed(2), advise: |_| (), release });
    let key = |number: u32| -> [u8; 16] { std::array::from_fn(|at| number.to_le_bytes()[at % 4]) };
    let insert = |store: &mut PackedStore, number: u32, value: &[u8]| {
        let hash = store.hash(&key(number));
        store.insert(hash, &key(number), value, Attributes::default());
    };

    let before = resident();
    let mut store = new();
    (0..KEYS).for_each(|number| insert(&mut store, number, b"twelve bytes"));
    assert_near(store.bytes(), resident() - before, "small entries");
    let each = store.bytes() as f64 / f64::from(KEYS);
    assert!(each < 52.0, "{each} bytes per key");
    drop(store);

    let before = resident();
    let mut store = new();
    let value = vec![b'v'; 40_000];
    let mut random = fastrand::Rng::with_seed(6);
    for number in 0..20_000 {
        let len = [10, 100, 1000, 5000, 12_000, 40_000][random.usize(..6)];
        insert(&mut store, number, &value[..random.usize(..len)]);
    }
    assert_near(store.bytes(), resident() - before, "mixed sizes");
}
