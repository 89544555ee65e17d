//! Laws of the packed store, checked against a map of the standard library.

mod collisions;
mod limit;
mod memory;
mod model;
mod pairs;
mod scouts;
mod traversal;

use std::mem::MaybeUninit;

use super::{Location, PackedStore};
use crate::{Attributes, KeyHasher, Store, StoreOptions};

fn options() -> StoreOptions {
    StoreOptions { hasher: KeyHasher::with_seed(5), advise: |_| (), release: |memory| memory.fill(MaybeUninit::new(0)) }
}

fn store() -> PackedStore {
    PackedStore::new(options())
}

fn plain() -> Attributes {
    Attributes::default()
}

fn expiring(expires_at: u64) -> Attributes {
    Attributes { expires_at, ..Attributes::default() }
}

impl PackedStore {
    /// Adds or replaces.
    fn set(&mut self, key: &[u8], value: &[u8], attributes: Attributes) -> Location {
        let hash = self.hash(key);
        match self.find(hash, key) {
            Some(location) => self.replace(hash, location, value, attributes).0,
            None => self.insert(hash, key, value, attributes),
        }
    }

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.find(self.hash(key), key).map(|location| self.view(location).value)
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let location = self.find(hash, key);
        location.inspect(|&location| self.remove(hash, location)).is_some()
    }

    /// Checks all counters.
    fn check(&self) {
        let mut blocks = self.table.collect_blocks(&self.entries());
        assert!(blocks.iter().all(|&block| self.arena.is_live(block)));
        assert_eq!(self.arena.count_live(), blocks.len());
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), self.len(), "two entries share a block");
        let used: usize = blocks.iter().map(|&block| self.arena.block_bytes(block)).sum();
        assert!(used + self.external.bytes() <= self.bytes());
    }
}
