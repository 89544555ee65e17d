//! The index of a slab: from the hash of a key to the number of its slot.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasherDefault, Hasher},
};

use hashbrown::HashTable;

use super::{
    record::allocated,
    slots::{NONE, Slots},
};

/// A table of slots by hash.
pub trait Index: fmt::Debug + Default + Send {
    fn find(&self, slots: &Slots, hash: u64, key: &[u8]) -> Option<u32>;

    /// Adds a slot that is not there.
    fn insert(&mut self, slots: &mut Slots, hash: u64, slot: u32);

    /// Removes a slot that is there.
    fn remove(&mut self, slots: &mut Slots, hash: u64, slot: u32);

    /// Notes that a slot has another number.
    fn renumber(&mut self, slots: &mut Slots, hash: u64, from: u32, to: u32);

    /// Builds a new table if the present one is much too large, or has too many tombstones. True if it did.
    fn rebuild(&mut self, slots: &mut Slots) -> bool;

    fn bytes(&self) -> usize;

    /// Returns the bytes by which it may grow at the next insertion.
    fn growth(&self) -> usize;
}

/// Size and occupancy of a Swiss table.
#[derive(Clone, Copy, Debug)]
struct Occupancy {
    /// Bytes of an element.
    element: usize,
    len: usize,
    /// Elements that it holds without growing: the more tombstones, the fewer.
    capacity: usize,
    /// Elements that it holds without growing if there are no tombstones.
    full: usize,
}

impl Occupancy {
    /// Returns the number of buckets, seven of eight of which can be used.
    fn buckets(full: usize) -> usize {
        if full == 0 { 0 } else { (full * 8 / 7).next_power_of_two() }
    }

    /// Returns the bytes of a table: an element and a control byte per bucket, and one more group of control bytes.
    fn bytes_of(&self, buckets: usize) -> usize {
        if buckets == 0 { 0 } else { allocated(buckets * (self.element + 1) + 16) }
    }

    fn bytes(&self) -> usize {
        self.bytes_of(Self::buckets(self.full))
    }

    fn growth(&self) -> usize {
        // With so many tombstones the table is rehashed in place.
        let cleaned = self.len < self.full / 2;
        match self.len < self.capacity || cleaned {
            true => 0,
            false => self.bytes_of((Self::buckets(self.full) * 2).max(4)) - self.bytes(),
        }
    }

    /// Returns the capacity of a new table, if one should be built.
    fn capacity_to_rebuild(&self) -> Option<usize> {
        let tombstones = self.full - self.capacity;
        match () {
            () if self.len < self.full / 8 => Some(self.len * 2),
            () if tombstones > self.full / 16 => Some(self.full),
            () => None,
        }
    }
}

/// An index on the standard library's map. Slots of the same hash form a list.
#[derive(Debug, Default)]
pub struct StdIndex {
    first: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    full: usize,
}

/// The hasher of keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0 << 8 | u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl StdIndex {
    fn occupancy(&self) -> Occupancy {
        let (len, capacity) = (self.first.len(), self.first.capacity());
        Occupancy { element: size_of::<(u64, u32)>(), len, capacity, full: self.full }
    }

    /// Replaces `from` by `to` in the list of a hash.
    fn redirect(&mut self, slots: &mut Slots, hash: u64, from: u32, to: u32) {
        let Some(first) = self.first.get_mut(&hash) else { return };
        if *first == from {
            match to {
                NONE => drop(self.first.remove(&hash)),
                to => *first = to,
            }
            return;
        }
        let mut at = *first;
        while at != NONE && slots.next(at) != from {
            at = slots.next(at);
        }
        if at != NONE {
            slots.set_next(at, to);
        }
    }
}

impl Index for StdIndex {
    #[inline]
    fn find(&self, slots: &Slots, hash: u64, key: &[u8]) -> Option<u32> {
        let mut slot = *self.first.get(&hash)?;
        while slot != NONE {
            if slots.holds(slot, hash, key) {
                return Some(slot);
            }
            slot = slots.next(slot);
        }
        None
    }

    fn insert(&mut self, slots: &mut Slots, hash: u64, slot: u32) {
        let next = self.first.insert(hash, slot).unwrap_or(NONE);
        slots.set_next(slot, next);
        self.full = self.full.max(self.first.capacity());
    }

    fn remove(&mut self, slots: &mut Slots, hash: u64, slot: u32) {
        let next = slots.next(slot);
        self.redirect(slots, hash, slot, next);
    }

    fn renumber(&mut self, slots: &mut Slots, hash: u64, from: u32, to: u32) {
        self.redirect(slots, hash, from, to);
    }

    fn rebuild(&mut self, slots: &mut Slots) -> bool {
        let Some(capacity) = self.occupancy().capacity_to_rebuild() else { return false };
        self.first = HashMap::with_capacity_and_hasher(capacity, BuildHasherDefault::default());
        self.full = self.first.capacity();
        let numbers: Vec<u32> = slots.numbers().collect();
        for number in numbers {
            self.insert(slots, slots.hash(number), number);
        }
        true
    }

    fn bytes(&self) -> usize {
        self.occupancy().bytes()
    }

    fn growth(&self) -> usize {
        self.occupancy().growth()
    }
}

/// An index on hashbrown's table, which holds nothing but slot numbers.
#[derive(Debug, Default)]
pub struct HashbrownIndex {
    table: HashTable<u32>,
    full: usize,
}

impl HashbrownIndex {
    fn occupancy(&self) -> Occupancy {
        Occupancy { element: size_of::<u32>(), len: self.table.len(), capacity: self.table.capacity(), full: self.full }
    }
}

impl Index for HashbrownIndex {
    #[inline]
    fn find(&self, slots: &Slots, hash: u64, key: &[u8]) -> Option<u32> {
        self.table.find(hash, |&slot| slots.holds(slot, hash, key)).copied()
    }

    fn insert(&mut self, slots: &mut Slots, hash: u64, slot: u32) {
        self.table.insert_unique(hash, slot, |&slot| slots.hash(slot));
        self.full = self.full.max(self.table.capacity());
    }

    fn remove(&mut self, _: &mut Slots, hash: u64, slot: u32) {
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
    }

    fn renumber(&mut self, _: &mut Slots, hash: u64, from: u32, to: u32) {
        if let Some(slot) = self.table.find_mut(hash, |&slot| slot == from) {
            *slot = to;
        }
    }

    fn rebuild(&mut self, slots: &mut Slots) -> bool {
        let Some(capacity) = self.occupancy().capacity_to_rebuild() else { return false };
        self.table = HashTable::with_capacity(capacity);
        self.full = self.table.capacity();
        for number in slots.numbers() {
            self.table.insert_unique(slots.hash(number), number, |&slot| slots.hash(slot));
        }
        true
    }

    fn bytes(&self) -> usize {
        self.occupancy().bytes()
    }

    fn growth(&self) -> usize {
        self.occupancy().growth()
    }
}
