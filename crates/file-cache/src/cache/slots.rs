//! One shard: a table of indices into a list, so that a sample of the list is quickly taken.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::{Body, PathEntry, limits::Reserved};

/// Entries that are compared when one has to go.
const SAMPLE: usize = 8;

#[derive(Debug)]
pub(super) struct Slots<B> {
    table: HashTable<usize>,
    list: Vec<Slot<B>>,
    /// Index at which the next sample begins.
    hand: usize,
}

/// An entry and its share of the budgets, which goes back when the slot is dropped.
#[derive(Debug)]
pub(super) struct Slot<B> {
    hash: u64,
    pub(super) entry: Arc<PathEntry<B>>,
    /// `None` for a pinned entry.
    _reserved: Option<Reserved>,
}

impl<B> Slot<B> {
    pub(super) fn new(hash: u64, entry: Arc<PathEntry<B>>, reserved: Option<Reserved>) -> Self {
        Self { hash, entry, _reserved: reserved }
    }
}

impl<B> Default for Slots<B> {
    fn default() -> Self {
        Self { table: HashTable::new(), list: Vec::new(), hand: 0 }
    }
}

impl<B: Body> Slots<B> {
    #[inline]
    pub(super) fn get(&self, hash: u64, path: &[u8]) -> Option<&Arc<PathEntry<B>>> {
        let at = *self.table.find(hash, |&at| self.list[at].entry.path() == path)?;
        Some(&self.list[at].entry)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<PathEntry<B>>> {
        self.list.iter().map(|slot| &slot.entry)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds a slot for a path that has none.
    pub(super) fn insert(&mut self, slot: Slot<B>) {
        let list = &self.list;
        self.table.insert_unique(slot.hash, list.len(), |&at| list[at].hash);
        self.list.push(slot);
    }

    pub(super) fn remove(&mut self, hash: u64, path: &[u8]) -> Option<Slot<B>> {
        let found = self.table.find_entry(hash, |&at| self.list[at].entry.path() == path).ok()?;
        let (at, _) = found.remove();
        let removed = self.list.swap_remove(at);
        // The last slot has moved into the gap.
        let from = self.list.len();
        if let Some(moved) = self.list.get(at)
            && let Some(index) = self.table.find_mut(moved.hash, |&index| index == from)
        {
            *index = at;
        }
        Some(removed)
    }

    /// Takes out the least recently used entry of a sample, if it was last used before `before_ns`. Only entries that
    /// can help are sampled, and never a pinned one.
    pub(super) fn take_victim(&mut self, before_ns: u64, can_help: impl Fn(&PathEntry<B>) -> bool) -> Option<Slot<B>> {
        let len = self.list.len();
        let from_hand = (0..len).map(|step| &self.list[(self.hand + step) % len]);
        let candidates = from_hand.enumerate().filter(|(_, slot)| !slot.entry.is_pinned() && can_help(&slot.entry));
        let oldest = candidates.take(SAMPLE).min_by_key(|(_, slot)| slot.entry.used_ns());
        let (step, victim) = oldest.filter(|(_, slot)| slot.entry.used_ns() < before_ns)?;
        let (hash, victim) = (victim.hash, Arc::clone(&victim.entry));
        self.hand = (self.hand + step + 1) % len;
        self.remove(hash, victim.path())
    }
}
