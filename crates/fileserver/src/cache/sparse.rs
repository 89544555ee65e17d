//! Hash table that needs little more memory than its entries.
//!
//! Slots come in groups of 64. A group has a bitmap of the slots that are taken and one array, exactly as long as
//! there are entries in it, in the order of their slots: a free slot costs a bit and its share of the group's head,
//! 3 bits in all. As free slots are so cheap, half of them are left free, and the search from an entry's home slot
//! to the next free one is short. A removed entry leaves no tombstone: the entries behind it move up.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use wire::file::FileId;

use super::{CacheMap, HasId};

/// Number of slots in a group: the bits of its bitmap.
const GROUP: usize = 64;
/// Least number of slots for each entry: with fewer, the table doubles.
const SLOTS_PER_ENTRY_MIN: usize = 2;
/// Largest number of slots for each entry: with more, the table is halved.
const SLOTS_PER_ENTRY_MAX: usize = 8;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct SparseMap<E> {
    /// Groups; their number is 0 or a power of two.
    groups: Box<[Group<E>]>,
    len: usize,
    hasher: RandomState,
}

#[derive(Clone, Debug)]
struct Group<E> {
    taken: u64,
    entries: Box<[E]>,
}

/// Slot of an entry, one of 64 in each group, counted through all groups.
type Slot = usize;

impl<E> Group<E> {
    fn new() -> Self {
        Self { taken: 0, entries: Box::default() }
    }

    #[inline]
    fn is_taken(&self, slot: Slot) -> bool {
        self.taken & bit(slot) != 0
    }

    /// Index of the entry at `slot`, or the index that it would have.
    #[inline]
    fn index(&self, slot: Slot) -> usize {
        (self.taken & (bit(slot) - 1)).count_ones() as usize
    }

    fn insert(&mut self, slot: Slot, entry: E) {
        let index = self.index(slot);
        self.edit(|entries| {
            entries.reserve_exact(1);
            entries.insert(index, entry);
        });
        self.taken |= bit(slot);
    }

    fn remove(&mut self, slot: Slot) -> E {
        let index = self.index(slot);
        self.taken &= !bit(slot);
        self.edit(|entries| entries.remove(index))
    }

    /// Edits the array as a vector, whose capacity is exact before and after.
    fn edit<R>(&mut self, edit: impl FnOnce(&mut Vec<E>) -> R) -> R {
        let mut entries = std::mem::take(&mut self.entries).into_vec();
        let result = edit(&mut entries);
        self.entries = entries.into_boxed_slice();
        result
    }
}

#[inline]
fn bit(slot: Slot) -> u64 {
    1 << (slot % GROUP)
}

impl<E> Default for SparseMap<E> {
    fn default() -> Self {
        Self { groups: Box::default(), len: 0, hasher: RandomState::default() }
    }
}

impl<E: HasId> SparseMap<E> {
    fn slots(&self) -> usize {
        self.groups.len() * GROUP
    }

    /// Slot at which the search for an id begins. There must be groups.
    #[inline]
    fn home(&self, id: &FileId) -> Slot {
        // The high bits, which foldhash mixes as well as the low ones.
        let shift = u64::BITS - self.slots().trailing_zeros();
        (self.hasher.hash_one(id) >> shift) as Slot
    }

    #[inline]
    fn next(&self, slot: Slot) -> Slot {
        (slot + 1) & (self.slots() - 1)
    }

    #[inline]
    fn group(&self, slot: Slot) -> &Group<E> {
        &self.groups[slot / GROUP]
    }

    /// Finds the slot of an id's entry, or the free one where it would be. There must be groups, and free slots in them.
    #[inline]
    fn find(&self, id: &FileId) -> (Slot, Option<&E>) {
        let mut slot = self.home(id);
        loop {
            let group = self.group(slot);
            if !group.is_taken(slot) {
                return (slot, None);
            }
            let entry = &group.entries[group.index(slot)];
            if entry.id() == id {
                return (slot, Some(entry));
            }
            slot = self.next(slot);
        }
    }

    fn resize(&mut self, groups: usize) {
        let fresh = (0..groups).map(|_| Group::new()).collect();
        // Group by group, so that not everything is there twice.
        for group in std::mem::replace(&mut self.groups, fresh) {
            for entry in group.entries {
                let (slot, _) = self.find(entry.id());
                self.groups[slot / GROUP].insert(slot, entry);
            }
        }
    }

    /// Fills the gap at `gap` with an entry further on whose search would stop at it, and the gap that leaves, and so on.
    fn close_gap(&mut self, mut gap: Slot) {
        let mut slot = self.next(gap);
        while self.group(slot).is_taken(slot) {
            let group = self.group(slot);
            let home = self.home(group.entries[group.index(slot)].id());
            let mask = self.slots() - 1;
            // Lengths of the search: to the entry's slot, and to the gap if it passes that.
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(gap) & mask {
                let entry = self.groups[slot / GROUP].remove(slot);
                self.groups[gap / GROUP].insert(gap, entry);
                gap = slot;
            }
            slot = self.next(slot);
        }
    }
}

impl<E: HasId> CacheMap<E> for SparseMap<E> {
    #[inline]
    fn get(&self, id: &FileId) -> Option<&E> {
        if self.groups.is_empty() { None } else { self.find(id).1 }
    }

    fn insert(&mut self, entry: E) -> Option<E> {
        if (self.len + 1) * SLOTS_PER_ENTRY_MIN > self.slots() && self.get(entry.id()).is_none() {
            self.resize((self.groups.len() * 2).max(1));
        }
        let (slot, found) = self.find(entry.id());
        let is_new = found.is_none();
        let group = &mut self.groups[slot / GROUP];
        if is_new {
            group.insert(slot, entry);
            self.len += 1;
            return None;
        }
        let index = group.index(slot);
        Some(std::mem::replace(&mut group.entries[index], entry))
    }

    fn remove(&mut self, id: &FileId) -> Option<E> {
        if self.groups.is_empty() {
            return None;
        }
        let (slot, found) = self.find(id);
        found?;
        let removed = self.groups[slot / GROUP].remove(slot);
        self.close_gap(slot);
        self.len -= 1;
        if self.len == 0 {
            self.groups = Box::default();
        } else if self.len * SLOTS_PER_ENTRY_MAX < self.slots() && self.groups.len() > 1 {
            self.resize(self.groups.len() / 2);
        }
        Some(removed)
    }

    fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
impl<E: HasId> SparseMap<E> {
    /// Every array is as long as its bitmap says, and no entry has a free slot between its home and its own.
    pub(super) fn assert_is_sound(&self) {
        let mut len = 0;
        for (number, group) in self.groups.iter().enumerate() {
            assert_eq!(group.entries.len(), group.taken.count_ones() as usize);
            len += group.entries.len();
            for slot in (number * GROUP..(number + 1) * GROUP).filter(|&slot| group.is_taken(slot)) {
                let (found, _) = self.find(group.entries[group.index(slot)].id());
                assert_eq!(found, slot, "a search ends where the entry is");
            }
        }
        assert_eq!(len, self.len);
        assert!(self.groups.len() <= 1 || self.slots() <= self.len * SLOTS_PER_ENTRY_MAX);
        assert!(self.len * SLOTS_PER_ENTRY_MIN <= self.slots());
    }
}
