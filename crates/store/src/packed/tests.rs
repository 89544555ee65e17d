//! Laws of the packed store, with a map of the standard library as the judge.

mod collisions;
mod memory;
mod model;
mod scouts;
mod traversal;

use std::mem::MaybeUninit;

use super::{Packed, Place};
use crate::{Attributes, KeyHasher, Options, Store};

fn options() -> Options {
    Options { hasher: KeyHasher::with_seed(5), advise: |_| (), release: |memory| memory.fill(MaybeUninit::new(0)) }
}

fn store() -> Packed {
    Packed::new(options())
}

fn plain() -> Attributes {
    Attributes::default()
}

fn expiring(expires_at: u64) -> Attributes {
    Attributes { expires_at, ..Attributes::default() }
}

impl Packed {
    /// Adds or replaces.
    fn set(&mut self, key: &[u8], value: &[u8], attributes: Attributes) -> Place {
        let hash = self.hash(key);
        match self.find(hash, key) {
            Some(place) => self.replace(hash, place, value, attributes).0,
            None => self.insert(hash, key, value, attributes),
        }
    }

    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.find(self.hash(key), key).map(|place| self.view(place).value)
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let place = self.find(hash, key);
        place.inspect(|&place| self.remove(hash, place)).is_some()
    }

    /// Counts everything again.
    fn check(&self) {
        let mut blocks = self.table.checked_blocks(&self.entries());
        assert!(blocks.iter().all(|&block| self.arena.is_live(block)));
        assert_eq!(self.arena.checked_live(), blocks.len());
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), self.len(), "two entries share a block");
        let used: usize = blocks.iter().map(|&block| self.arena.block_bytes(block)).sum();
        assert!(used + self.outside.bytes() <= self.bytes());
    }
}
