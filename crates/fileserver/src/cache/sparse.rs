//! Hash table that needs little more memory than its entries.
//!
//! Places come in groups of 64. A group has a bitmap of the places that are taken and one array, exactly as long as
//! there are entries in it, in the order of their places: a free place costs a bit and its share of the group's head,
//! 3 bits in all. As free places are so cheap, half of them are left free, and the search from an entry's home place
//! to the next free one is short. A removed entry leaves no tombstone: the entries behind it move up.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use wire::file::FileId;

use super::{CacheMap, Keyed};

/// Number of places in a group: the bits of its bitmap.
const GROUP: usize = 64;
/// Least number of places for each entry: with fewer, the table doubles.
const PLACES_PER_ENTRY_MIN: usize = 2;
/// Largest number of places for each entry: with more, the table is halved.
const PLACES_PER_ENTRY_MAX: usize = 8;

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

/// Place of an entry, one of 64 in each group, counted through all groups.
type Place = usize;

impl<E> Group<E> {
    fn new() -> Self {
        Self { taken: 0, entries: Box::default() }
    }

    #[inline]
    fn is_taken(&self, place: Place) -> bool {
        self.taken & bit(place) != 0
    }

    /// Index of the entry at `place`, or the index that it would have.
    #[inline]
    fn index(&self, place: Place) -> usize {
        (self.taken & (bit(place) - 1)).count_ones() as usize
    }

    fn insert(&mut self, place: Place, entry: E) {
        let index = self.index(place);
        self.edit(|entries| {
            entries.reserve_exact(1);
            entries.insert(index, entry);
        });
        self.taken |= bit(place);
    }

    fn remove(&mut self, place: Place) -> E {
        let index = self.index(place);
        self.taken &= !bit(place);
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
fn bit(place: Place) -> u64 {
    1 << (place % GROUP)
}

impl<E> Default for SparseMap<E> {
    fn default() -> Self {
        Self { groups: Box::default(), len: 0, hasher: RandomState::default() }
    }
}

impl<E: Keyed> SparseMap<E> {
    fn places(&self) -> usize {
        self.groups.len() * GROUP
    }

    /// Place at which the search for an id begins. There must be groups.
    #[inline]
    fn home(&self, id: &FileId) -> Place {
        // The high bits, which foldhash mixes as well as the low ones.
        let shift = u64::BITS - self.places().trailing_zeros();
        (self.hasher.hash_one(id) >> shift) as Place
    }

    #[inline]
    fn next(&self, place: Place) -> Place {
        (place + 1) & (self.places() - 1)
    }

    #[inline]
    fn group(&self, place: Place) -> &Group<E> {
        &self.groups[place / GROUP]
    }

    /// Finds the place of an id's entry, or the free one where it would be. There must be groups, and free places in them.
    #[inline]
    fn find(&self, id: &FileId) -> (Place, Option<&E>) {
        let mut place = self.home(id);
        loop {
            let group = self.group(place);
            if !group.is_taken(place) {
                return (place, None);
            }
            let entry = &group.entries[group.index(place)];
            if entry.id() == id {
                return (place, Some(entry));
            }
            place = self.next(place);
        }
    }

    fn resize(&mut self, groups: usize) {
        let fresh = (0..groups).map(|_| Group::new()).collect();
        // Group by group, so that not everything is there twice.
        for group in std::mem::replace(&mut self.groups, fresh) {
            for entry in group.entries {
                let (place, _) = self.find(entry.id());
                self.groups[place / GROUP].insert(place, entry);
            }
        }
    }

    /// Fills the gap at `gap` with an entry further on whose search would stop at it, and the gap that leaves, and so on.
    fn close_gap(&mut self, mut gap: Place) {
        let mut place = self.next(gap);
        while self.group(place).is_taken(place) {
            let group = self.group(place);
            let home = self.home(group.entries[group.index(place)].id());
            let mask = self.places() - 1;
            // Lengths of the search: to the entry's place, and to the gap if it passes that.
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(gap) & mask {
                let entry = self.groups[place / GROUP].remove(place);
                self.groups[gap / GROUP].insert(gap, entry);
                gap = place;
            }
            place = self.next(place);
        }
    }
}

impl<E: Keyed> CacheMap<E> for SparseMap<E> {
    #[inline]
    fn get(&self, id: &FileId) -> Option<&E> {
        if self.groups.is_empty() { None } else { self.find(id).1 }
    }

    fn insert(&mut self, entry: E) -> Option<E> {
        if (self.len + 1) * PLACES_PER_ENTRY_MIN > self.places() && self.get(entry.id()).is_none() {
            self.resize((self.groups.len() * 2).max(1));
        }
        let (place, found) = self.find(entry.id());
        let is_new = found.is_none();
        let group = &mut self.groups[place / GROUP];
        if is_new {
            group.insert(place, entry);
            self.len += 1;
            return None;
        }
        let index = group.index(place);
        Some(std::mem::replace(&mut group.entries[index], entry))
    }

    fn remove(&mut self, id: &FileId) -> Option<E> {
        if self.groups.is_empty() {
            return None;
        }
        let (place, found) = self.find(id);
        found?;
        let removed = self.groups[place / GROUP].remove(place);
        self.close_gap(place);
        self.len -= 1;
        if self.len == 0 {
            self.groups = Box::default();
        } else if self.len * PLACES_PER_ENTRY_MAX < self.places() && self.groups.len() > 1 {
            self.resize(self.groups.len() / 2);
        }
        Some(removed)
    }

    fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
impl<E: Keyed> SparseMap<E> {
    /// Every array is as long as its bitmap says, and no entry has a free place between its home and its own.
    pub(super) fn assert_is_sound(&self) {
        let mut len = 0;
        for (number, group) in self.groups.iter().enumerate() {
            assert_eq!(group.entries.len(), group.taken.count_ones() as usize);
            len += group.entries.len();
            for place in (number * GROUP..(number + 1) * GROUP).filter(|&place| group.is_taken(place)) {
                let (found, _) = self.find(group.entries[group.index(place)].id());
                assert_eq!(found, place, "a search ends where the entry is");
            }
        }
        assert_eq!(len, self.len);
        assert!(self.groups.len() <= 1 || self.places() <= self.len * PLACES_PER_ENTRY_MAX);
        assert!(self.len * PLACES_PER_ENTRY_MIN <= self.places());
    }
}
