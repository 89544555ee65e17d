//! Members one after the other, and a hash index of their positions.
//!
//! The last member takes the place of one that is removed, so every position below the length is a member: a random one
//! is a random position. A traversal goes down from the end: what moves while it is under way moves down from a position
//! that is not below, so what has not been visited stays below the cursor.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::slotted::allocated;

/// Entry of a [`Dense`] table.
pub(super) trait Keyed {
    fn key(&self) -> &[u8];
    /// Returns the bytes held outside the entry itself.
    fn heap_bytes(&self) -> usize;
}

/// Capacity below which a table is not shrunk, in entries.
const SHRINK_MIN: usize = 256;

/// Table of entries by their keys.
#[derive(Clone, Debug)]
pub(super) struct Dense<T> {
    entries: Vec<T>,
    positions: HashTable<u32>,
    hasher: RandomState,
    heap_bytes: usize,
}

impl<T> Default for Dense<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), positions: HashTable::new(), hasher: RandomState::default(), heap_bytes: 0 }
    }
}

fn hash(hasher: &RandomState, key: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(key);
    hasher.finish()
}

impl<T: Keyed> Dense<T> {
    pub(super) fn entries(&self) -> &[T] {
        &self.entries
    }

    /// Returns an entry for a change of anything but its key.
    pub(super) fn entry_mut(&mut self, position: usize) -> &mut T {
        &mut self.entries[position]
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        let is_it = |&position: &u32| self.entries[position as usize].key() == key;
        self.positions.find(hash(&self.hasher, key), is_it).map(|&position| position as usize)
    }

    /// Adds an entry whose key is not in the table, at the end.
    pub(super) fn push(&mut self, entry: T) {
        let Self { entries, positions, hasher, heap_bytes } = self;
        let position = u32::try_from(entries.len()).expect("2^32 members take more memory than there is");
        *heap_bytes += entry.heap_bytes();
        let hash_of = |position: &u32, entries: &[T]| hash(hasher, entries[*position as usize].key());
        let own = hash(hasher, entry.key());
        entries.push(entry);
        positions.insert_unique(own, position, |position| hash_of(position, entries));
    }

    /// Removes the entry at a position, which the last one takes.
    pub(super) fn swap_remove(&mut self, position: usize) -> T {
        let last = self.entries.len() - 1;
        self.forget(position);
        if position != last {
            let hash = hash(&self.hasher, self.entries[last].key());
            if let Some(moved) = self.positions.find_mut(hash, |&found| found as usize == last) {
                *moved = position as u32;
            }
        }
        let entry = self.entries.swap_remove(position);
        self.heap_bytes -= entry.heap_bytes();
        self.shrink();
        entry
    }

    fn forget(&mut self, position: usize) {
        let hash = hash(&self.hasher, self.entries[position].key());
        if let Ok(found) = self.positions.find_entry(hash, |&found| found as usize == position) {
            found.remove();
        }
    }

    /// Gives memory back once three quarters of it are free.
    fn shrink(&mut self) {
        let Self { entries, positions, hasher, .. } = self;
        if entries.capacity() >= SHRINK_MIN && entries.len() < entries.capacity() / 4 {
            entries.shrink_to(entries.len() * 2);
            positions.shrink_to(entries.len() * 2, |&position| hash(hasher, entries[position as usize].key()));
        }
    }

    /// Visits up to `count` entries from a cursor on and returns the next cursor; 0 begins and ends.
    pub(super) fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&T)) -> u64 {
        let len = self.entries.len();
        let end = match usize::try_from(cursor) {
            Ok(0) | Err(_) => len,
            Ok(cursor) => cursor.min(len),
        };
        let start = end.saturating_sub(count);
        self.entries[start..end].iter().rev().for_each(&mut visit);
        start as u64
    }

    /// Returns the memory held, the table itself excluded.
    pub(super) fn bytes(&self) -> usize {
        allocated(self.entries.capacity() * size_of::<T>())
            + allocated(self.positions.allocation_size())
            + self.heap_bytes
    }
}
