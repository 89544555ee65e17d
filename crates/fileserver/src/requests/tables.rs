//! Tables that request maps are built on.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use slab::Slab;

use super::PartialRequest;

/// Partial requests by number.
pub trait Table: Default + Send + 'static {
    /// Adds a request under `number`, which has not been used before. Returns the number by which it is found.
    fn insert(&mut self, number: u64, request: PartialRequest) -> u64;
    fn get_mut(&mut self, number: u64) -> Option<&mut PartialRequest>;
    fn remove(&mut self, number: u64) -> Option<PartialRequest>;
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Table of the standard library, with its default hash function.
pub type StdTable = HashMap<u64, PartialRequest>;
/// Table of hashbrown.
pub type HashbrownTable = hashbrown::HashMap<u64, PartialRequest, RandomState>;
/// Table that numbers its entries itself.
pub type SlabTable = Slab<PartialRequest>;

macro_rules! hashed {
    ($table:ty) => {
        impl Table for $table {
            fn insert(&mut self, number: u64, request: PartialRequest) -> u64 {
                self.insert(number, request);
                number
            }

            #[inline]
            fn get_mut(&mut self, number: u64) -> Option<&mut PartialRequest> {
                self.get_mut(&number)
            }

            fn remove(&mut self, number: u64) -> Option<PartialRequest> {
                self.remove(&number)
            }

            fn len(&self) -> usize {
                self.len()
            }
        }
    };
}

hashed!(StdTable);
hashed!(HashbrownTable);

impl Table for SlabTable {
    fn insert(&mut self, _: u64, request: PartialRequest) -> u64 {
        self.insert(request) as u64
    }

    #[inline]
    fn get_mut(&mut self, number: u64) -> Option<&mut PartialRequest> {
        self.get_mut(usize::try_from(number).ok()?)
    }

    fn remove(&mut self, number: u64) -> Option<PartialRequest> {
        self.try_remove(usize::try_from(number).ok()?)
    }

    fn len(&self) -> usize {
        self.len()
    }
}
