//! Comparison of the mutex cache with a list in the order of use.

use proptest::prelude::*;

use super::{
    laws::{self, Operation},
    *,
};

/// From the least to the most recently used.
struct Model {
    order: Vec<(u64, Item)>,
    limits: CacheLimits,
    evicted: u64,
}

impl Model {
    fn used(&self) -> Usage {
        let mut used = Usage::default();
        self.order.iter().for_each(|(number, item)| used.add(&Usage::of_entry(&id(*number), item)));
        used
    }

    fn remove(&mut self, number: u64) -> Option<Item> {
        let at = self.order.iter().position(|(other, _)| *other == number)?;
        Some(self.order.remove(at).1)
    }

    fn get(&mut self, number: u64) -> Option<u64> {
        let item = self.remove(number)?;
        let version = item.version;
        self.order.push((number, item));
        Some(version)
    }

    fn insert(&mut self, number: u64, item: Item) -> bool {
        self.remove(number);
        let more = Usage::of_entry(&id(number), &item);
        let limits = self.limits;
        if more.entries > limits.entries || more.bytes > limits.bytes || more.descriptors > limits.descriptors {
            return false;
        }
        loop {
            let used = self.used();
            let at = if used.descriptors + more.descriptors > limits.descriptors {
                self.order.iter().position(|(_, item)| item.descriptors > 0)
            } else if used.entries == limits.entries || used.bytes + more.bytes > limits.bytes {
                Some(0)
            } else {
                break;
            };
            self.order.remove(at.expect("what is too little is in use"));
            self.evicted += 1;
        }
        self.order.push((number, item));
        true
    }
}

fn agree<M: MapFamily>(operations: &[Operation], limits: CacheLimits) -> Result<(), TestCaseError> {
    let cache = MutexLru::<M, Item>::new(limits);
    let mut model = Model { order: Vec::new(), limits, evicted: 0 };
    for (version, operation) in operations.iter().enumerate() {
        match *operation {
            Operation::Get(number) => {
                prop_assert_eq!(cache.get(&id(number)).map(|item| item.version), model.get(number))
            }
            Operation::Insert { number, bytes, descriptors } => {
                let item = Item::new(version as u64, bytes, descriptors);
                prop_assert_eq!(cache.insert(&id(number), item.clone()), model.insert(number, item));
            }
            Operation::Remove(number) => {
                let is_stale = model.order.iter().any(|(other, item)| *other == number && item.version % 2 == 0);
                prop_assert_eq!(cache.remove_if(&id(number), |item| item.version % 2 == 0), is_stale);
                if is_stale {
                    model.remove(number);
                }
            }
        }
        prop_assert_eq!((cache.used(), cache.evicted()), (model.used(), model.evicted));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_mutex_cache_evicts_in_the_exact_order_of_use(operations in laws::operations(), limits in laws::limits()) {
        agree::<Std>(&operations, limits)?;
        agree::<Hashbrown>(&operations, limits)?;
        agree::<Sparse>(&operations, limits)?;
    }
}
