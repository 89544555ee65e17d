//! Stores in safe Rust: a slab of entries, and a table of their numbers.
//!
//! The packed store is compared with them. A lookup costs three cache misses (table, slot, record), a table
//! doubles all at once, and memory comes from the global allocator, so that [`StoreOptions::advise`] and
//! [`StoreOptions::release`] are never called.

mod index;
mod record;
mod slots;

use std::sync::Arc;

pub use index::{HashbrownIndex, Index, StdIndex};
pub(crate) use record::allocated;
pub use slots::Slots;

use self::record::Record;
use crate::{Attributes, EntryView, KeyHasher, Store, StoreOptions};

/// Most entries that one step of [`Store::scan`] visits, and most slots that it checks.
const SCAN_ENTRIES: usize = 8;
const SCAN_SLOTS: usize = 64;
/// Most entries that one step of [`Store::sweep_expiring`] finds.
const SWEEP_ENTRIES: usize = 32;
/// Slots that are tried at random for a sample, before the next one in use is taken.
const SAMPLE_TRIES: usize = 32;

/// A slab of entries with an [`Index`]. Locations and handles are numbers of slots.
#[derive(Debug)]
pub struct Slotted<I> {
    hasher: KeyHasher,
    index: I,
    slots: Slots,
    is_limited: bool,
}

/// A store on the standard library's hash map.
pub type StdStore = Slotted<StdIndex>;
/// A store on hashbrown's hash table.
pub type HashbrownStore = Slotted<HashbrownIndex>;

impl<I: Index> Store for Slotted<I> {
    type Location = u32;
    type Hint = ();
    type Scout = ();

    fn new(options: StoreOptions) -> Self {
        Self { hasher: options.hasher, index: I::default(), slots: Slots::default(), is_limited: false }
    }

    fn scout(&self) -> Arc<()> {
        Arc::default()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    // --- lookup ---------------------------------------------------------------------------

    #[inline]
    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.index.find(&self.slots, hash, key)
    }

    #[inline]
    fn view(&self, location: u32) -> EntryView<'_> {
        self.slots.view(location)
    }

    #[inline]
    fn expires_at(&self, location: u32) -> u64 {
        self.slots.expires_at(location)
    }

    #[inline]
    fn access(&self, location: u32) -> u32 {
        self.slots.access(location)
    }

    #[inline]
    fn set_access(&mut self, location: u32, word: u32) {
        self.slots.set_access(location, word);
    }

    #[inline]
    fn handle(&self, location: u32) -> u32 {
        location
    }

    #[inline]
    fn locate(&self, handle: u32) -> Option<u32> {
        self.slots.is_used(handle as usize).then_some(handle)
    }

    // --- change ---------------------------------------------------------------------------

    fn insert(&mut self, hash: u64, key: &[u8], value: &[u8], attributes: Attributes) -> u32 {
        let slot = self.slots.insert(hash, key, value, attributes);
        self.index.insert(&mut self.slots, hash, slot);
        slot
    }

    fn replace(&mut self, _: u64, location: u32, value: &[u8], attributes: Attributes) -> (u32, bool) {
        self.slots.replace(location, value, attributes);
        (location, false)
    }

    fn set_expiry(&mut self, location: u32, expires_at: u64) -> bool {
        self.slots.set_expiry(location, expires_at)
    }

    fn set_encoding(&mut self, location: u32, encoding: u8) {
        self.slots.set_encoding(location, encoding);
    }

    fn remove(&mut self, hash: u64, location: u32) {
        self.index.remove(&mut self.slots, hash, location);
        self.slots.remove(location);
    }

    fn clear(&mut self) {
        (self.index, self.slots) = (I::default(), Slots::default());
    }

    // --- traversal ------------------------------------------------------------------------

    /// Goes from the last slot to the first, because entries move to lower slots when the slab is compacted: an entry that has
    /// not been visited stays ahead. The cursor is the number of the next slot plus one.
    fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryView<'_>)) -> u64 {
        let end = from_cursor(cursor, self.slots.len());
        let mut at = end;
        let mut shown = 0;
        while at > 0 && shown < SCAN_ENTRIES && end - at < SCAN_SLOTS {
            at -= 1;
            if self.slots.is_used(at) {
                visit(self.slots.view(at as u32));
                shown += 1;
            }
        }
        at as u64
    }

    fn sample(&self, random: u64) -> Option<u32> {
        let len = self.slots.len();
        if self.slots.used() == 0 {
            return None;
        }
        let mut state = random;
        let tries = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            below(len, state)
        });
        let found = tries.take(SAMPLE_TRIES).find(|&slot| self.slots.is_used(slot));
        let start = below(len, random);
        let found = found.or_else(|| (start..len).chain(0..start).find(|&slot| self.slots.is_used(slot)));
        found.map(|slot| slot as u32)
    }

    fn sample_expiring(&self, random: u64) -> Option<u32> {
        let expiring = self.slots.expiring();
        // Mixed as in `sample`, so that callers need not care for the low bits.
        let mixed = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        expiring.get(below(expiring.len(), mixed)).copied()
    }

    /// Goes from the last to the first: an entry that is removed meanwhile is replaced by the last, which has come up already.
    fn sweep_expiring(&mut self, cursor: u64, _: u64, found: &mut Vec<u32>) -> u64 {
        let expiring = self.slots.expiring();
        let end = from_cursor(cursor, expiring.len());
        let start = end.saturating_sub(SWEEP_ENTRIES);
        found.extend_from_slice(&expiring[start..end]);
        start as u64
    }

    // --- memory ---------------------------------------------------------------------------

    #[inline]
    fn len(&self) -> usize {
        self.slots.used()
    }

    #[inline]
    fn expiring(&self) -> usize {
        self.slots.expiring().len()
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.slots.bytes() + self.index.bytes()
    }

    #[inline]
    fn growth(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize {
        Record::bytes_of(key_len, value_len, attributes) + self.slots.growth(attributes) + self.index.growth()
    }

    fn footprint(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize {
        Slots::SLOT_BYTES + Record::bytes_of(key_len, value_len, attributes)
    }

    fn set_limited(&mut self, is_limited: bool) {
        self.is_limited = is_limited;
    }

    #[inline]
    fn is_bounded(&self) -> bool {
        self.is_limited
    }

    /// Compacts the slab if half of it is vacant, and rebuilds the table if it is much too large or a sixteenth of it are
    /// tombstones. Both take time in proportion to the number of entries, and both are rare in proportion to it.
    fn compact(&mut self, _: usize, _: usize, _: Attributes, moved: &mut dyn FnMut(u32)) -> bool {
        let is_sparse = self.slots.used() < self.slots.len() / 2;
        if is_sparse {
            self.slots.compact(|slots, from, to| {
                self.index.renumber(slots, slots.hash(to), from, to);
                moved(to);
            });
        }
        self.index.rebuild(&mut self.slots) || is_sparse
    }
}

/// Returns the end of the next step of a traversal that goes backwards.
fn from_cursor(cursor: u64, len: usize) -> usize {
    match usize::try_from(cursor) {
        Ok(0) | Err(_) => len,
        Ok(cursor) => cursor.min(len),
    }
}

/// Returns a number below `len`, from a random one.
fn below(len: usize, random: u64) -> usize {
    ((u128::from(random) * len as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of every key in this test: collisions of 64 bits are rare, not impossible.
    const HASH: u64 = 7;

    fn keys_of_one_hash_are_told_apart<I: Index>() {
        let options = StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| (), release: |_| () };
        let mut store = Slotted::<I>::new(options);
        let mut random = fastrand::Rng::with_seed(1);
        let mut there = [false; 40];
        for _ in 0..4000 {
            let number = random.usize(..there.len());
            let key = [number as u8];
            match store.find(HASH, &key) {
                Some(location) if random.bool() => {
                    store.remove(HASH, location);
                    there[number] = false;
                }
                Some(location) => assert_eq!(store.view(location).value, key),
                None => {
                    store.insert(HASH, &key, &key, Attributes::default());
                    there[number] = true;
                }
            }
            if random.u8(..50) == 0 {
                // So many entries are removed at once that the rest is compacted.
                for number in (0..there.len()).filter(|number| number % 4 != 0) {
                    if let Some(location) = store.find(HASH, &[number as u8]) {
                        store.remove(HASH, location);
                        there[number] = false;
                    }
                }
                store.compact(1, 1, Attributes::default(), &mut |_| ());
            }
            let found = (0..there.len()).map(|number| store.find(HASH, &[number as u8]).is_some());
            assert!(found.eq(there.iter().copied()));
        }
    }

    #[test]
    fn keys_of_one_hash_are_told_apart_by_the_std_store() {
        keys_of_one_hash_are_told_apart::<StdIndex>();
    }

    #[test]
    fn keys_of_one_hash_are_told_apart_by_the_hashbrown_store() {
        keys_of_one_hash_are_told_apart::<HashbrownIndex>();
    }
}
