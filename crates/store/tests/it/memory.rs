//! The memory that a store reports, compared with its allocations.

use store::{Attributes, HashbrownStore, StdStore, Store};

use crate::options;

/// Average bytes that an allocator adds to an allocation: 8 before it, and up to 15 to the next multiple of 16.
const OVERHEAD: f64 = 15.5;

fn check<S: Store>() {
    let mut random = fastrand::Rng::with_seed(8);
    let attributes = |random: &mut fastrand::Rng| Attributes {
        expires_at: random.u64(..2) * 1000,
        flags: random.u32(..2),
        ..Attributes::default()
    };
    for entries in [1000, 7000, 7200, 14_000, 40_000] {
        for lens in [0..16, 0..200, 900..1100, 15_000..18_000] {
            let entries = if lens.start > 10_000 { entries / 20 } else { entries };
            let mut kept = None;
            let mut announced = Ok(());
            let info = allocation_counter::measure(|| {
                let mut store = S::new(options());
                for number in 0..entries {
                    let (key, len) = (u64::to_le_bytes(number), random.usize(lens.clone()));
                    let attributes = attributes(&mut random);
                    let most = store.bytes() + store.growth(key.len(), len, attributes);
                    store.insert(store.hash(&key), &key, &vec![0; len], attributes);
                    if store.bytes() > most {
                        announced = Err(number);
                    }
                    // Churn leaves vacant slots and tombstones.
                    if number % 8 == 7 {
                        let gone = u64::to_le_bytes(number / 2);
                        let hash = store.hash(&gone);
                        if let Some(location) = store.find(hash, &gone) {
                            store.remove(hash, location);
                        }
                    }
                }
                kept = Some(store);
            });
            let store = kept.expect("it was made");
            let held = info.bytes_current as f64 + info.count_current as f64 * OVERHEAD;
            let says = store.bytes() as f64;
            assert!((says / held - 1.0).abs() < 0.1, "{entries} of {lens:?}: says {says}, holds {held}");
            assert_eq!(announced, Ok(()), "no insertion takes more than was announced");
        }
    }
}

#[test]
fn the_std_store_reports_its_memory() {
    check::<StdStore>();
}

#[test]
fn the_hashbrown_store_reports_its_memory() {
    check::<HashbrownStore>();
}

#[test]
fn memory_is_given_back() {
    fn check<S: Store>() {
        let mut store = S::new(options());
        let info = allocation_counter::measure(|| {
            for number in 0..20_000_u64 {
                let key = number.to_le_bytes();
                store.insert(store.hash(&key), &key, &[0; 50], Attributes { expires_at: 1, ..Attributes::default() });
            }
            for number in 100..20_000_u64 {
                let key = number.to_le_bytes();
                let location = store.find(store.hash(&key), &key).expect("it is there");
                store.remove(store.hash(&key), location);
            }
            while store.compact(8, 50, Attributes::default(), &mut |_| ()) {}
        });
        assert!(info.bytes_current < 50_000, "{} bytes for a hundred entries", info.bytes_current);
        assert!(store.bytes() < 50_000, "says {}", store.bytes());
        store.clear();
        assert_eq!(store.bytes(), 0);
    }
    check::<StdStore>();
    check::<HashbrownStore>();
}
