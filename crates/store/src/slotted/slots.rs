//! The slab of entries.

use super::record::{Record, allocated};
use crate::{Attributes, EntryView};

/// The number of no slot.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    hash: u64,
    /// `None` if the slot is vacant.
    record: Option<Record>,
    /// Access word; it outlives the record.
    access: u32,
    /// Next vacant slot, or next slot of the same hash.
    next: u32,
    /// Index in `Slots::expiring`.
    expiring: u32,
}

/// A slab of entries. A slot keeps its number while it is in use, except when the slab is compacted.
#[derive(Debug)]
pub struct Slots {
    slots: Vec<Slot>,
    /// First vacant slot.
    vacant: u32,
    used: usize,
    /// Slots whose entries expire, in no order.
    expiring: Vec<u32>,
    /// Bytes allocated by records.
    record_bytes: usize,
}

impl Default for Slots {
    fn default() -> Self {
        Self { slots: Vec::new(), vacant: NONE, used: 0, expiring: Vec::new(), record_bytes: 0 }
    }
}

impl Slots {
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Returns the number of slots, vacant ones included.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_used(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.record.is_some())
    }

    #[inline]
    fn record(&self, slot: u32) -> &Record {
        self.slots[slot as usize].record.as_ref().expect("a location is valid until the next change")
    }

    #[inline]
    fn record_mut(&mut self, slot: u32) -> &mut Record {
        self.slots[slot as usize].record.as_mut().expect("a location is valid until the next change")
    }

    #[inline]
    pub(super) fn holds(&self, slot: u32, hash: u64, key: &[u8]) -> bool {
        let Slot { hash: other, record, .. } = &self.slots[slot as usize];
        *other == hash && record.as_ref().is_some_and(|record| record.key() == key)
    }

    #[inline]
    pub(super) fn view(&self, slot: u32) -> EntryView<'_> {
        self.record(slot).view()
    }

    #[inline]
    pub(super) fn expires_at(&self, slot: u32) -> u64 {
        self.record(slot).expires_at()
    }

    #[inline]
    pub(super) fn hash(&self, slot: u32) -> u64 {
        self.slots[slot as usize].hash
    }

    #[inline]
    pub(super) fn access(&self, slot: u32) -> u32 {
        self.slots[slot as usize].access
    }

    #[inline]
    pub(super) fn set_access(&mut self, slot: u32, word: u32) {
        self.slots[slot as usize].access = word;
    }

    pub(super) fn next(&self, slot: u32) -> u32 {
        self.slots[slot as usize].next
    }

    pub(super) fn set_next(&mut self, slot: u32, next: u32) {
        self.slots[slot as usize].next = next;
    }

    pub(super) fn expiring(&self) -> &[u32] {
        &self.expiring
    }

    /// Returns the numbers of all entries.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.record.is_some());
        used.map(|(number, _)| number as u32)
    }

    // --- change ---------------------------------------------------------------------------

    pub(super) fn insert(&mut self, hash: u64, key: &[u8], value: &[u8], attributes: Attributes) -> u32 {
        let record = Record::new(key, value, attributes);
        self.record_bytes += record.bytes();
        let expires = record.expires();
        let number = self.vacant;
        let number = match self.slots.get_mut(number as usize) {
            Some(slot) => {
                self.vacant = slot.next;
                *slot = Slot { hash, record: Some(record), access: slot.access, next: NONE, expiring: NONE };
                number
            }
            None => {
                make_room(&mut self.slots);
                self.slots.push(Slot { hash, record: Some(record), access: 0, next: NONE, expiring: NONE });
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 entries")
            }
        };
        self.used += 1;
        self.note_expiry(number, expires);
        number
    }

    pub(super) fn replace(&mut self, slot: u32, value: &[u8], attributes: Attributes) {
        self.change(slot, |record| {
            if !record.overwrite(value, attributes) {
                *record = Record::new(record.key(), value, attributes);
            }
        });
    }

    pub(super) fn set_expiry(&mut self, slot: u32, expires_at: u64) -> bool {
        self.change(slot, |record| record.set_expiry(expires_at))
    }

    pub(super) fn set_encoding(&mut self, slot: u32, encoding: u8) {
        self.record_mut(slot).set_encoding(encoding);
    }

    fn change<T>(&mut self, slot: u32, change: impl FnOnce(&mut Record) -> T) -> T {
        let record = self.record_mut(slot);
        let before = record.bytes();
        let result = change(record);
        let (after, expires) = (record.bytes(), record.expires());
        self.record_bytes = self.record_bytes - before + after;
        self.note_expiry(slot, expires);
        result
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.note_expiry(number, false);
        let slot = &mut self.slots[number as usize];
        let Some(record) = slot.record.take() else { return };
        slot.next = self.vacant;
        self.vacant = number;
        self.used -= 1;
        self.record_bytes -= record.bytes();
    }

    #[inline]
    fn note_expiry(&mut self, number: u32, expires: bool) {
        let at = self.slots[number as usize].expiring;
        match (at != NONE, expires) {
            (false, true) => {
                self.slots[number as usize].expiring = self.expiring.len() as u32;
                make_room(&mut self.expiring);
                self.expiring.push(number);
            }
            (true, false) => {
                self.slots[number as usize].expiring = NONE;
                self.expiring.swap_remove(at as usize);
                if let Some(&last) = self.expiring.get(at as usize) {
                    self.slots[last as usize].expiring = at;
                }
            }
            (true, true) | (false, false) => {}
        }
    }

    /// Moves entries from the end into vacant slots until there are none; `moved` gets the old and the new number of each.
    pub(super) fn compact(&mut self, mut moved: impl FnMut(&mut Self, u32, u32)) {
        let mut hole = 0;
        loop {
            while self.slots.pop_if(|last| last.record.is_none()).is_some() {}
            while self.is_used(hole) {
                hole += 1;
            }
            if hole >= self.slots.len() {
                break;
            }
            self.slots.swap_remove(hole);
            let at = self.slots[hole].expiring;
            if at != NONE {
                self.expiring[at as usize] = hole as u32;
            }
            let from = self.slots.len() as u32;
            moved(self, from, hole as u32);
        }
        self.vacant = NONE;
        self.slots.shrink_to(self.slots.len() + step(self.slots.len()));
        self.expiring.shrink_to(self.expiring.len() + step(self.expiring.len()));
    }

    // --- memory ---------------------------------------------------------------------------

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        vec_bytes::<Slot>(self.slots.capacity()) + vec_bytes::<u32>(self.expiring.capacity()) + self.record_bytes
    }

    #[inline]
    pub(super) fn growth(&self, attributes: Attributes) -> usize {
        let slots = if self.vacant == NONE { vec_growth(&self.slots) } else { 0 };
        let expiring = if attributes.expires_at == 0 { 0 } else { vec_growth(&self.expiring) };
        slots + expiring
    }

    pub(super) const SLOT_BYTES: usize = size_of::<Slot>();
}

/// Returns the number of elements by which a vector grows: an eighth, where doubling would take far more than is needed.
const fn step(len: usize) -> usize {
    if len < 512 { 64 } else { len / 8 }
}

fn make_room<T>(vec: &mut Vec<T>) {
    if vec.len() == vec.capacity() {
        vec.reserve_exact(step(vec.len()));
    }
}

#[inline]
fn vec_bytes<T>(capacity: usize) -> usize {
    allocated(capacity * size_of::<T>())
}

#[inline]
fn vec_growth<T>(vec: &Vec<T>) -> usize {
    let (len, capacity) = (vec.len(), vec.capacity());
    if len < capacity { 0 } else { vec_bytes::<T>(len + step(len)) - vec_bytes::<T>(capacity) }
}
