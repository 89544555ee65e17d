//! Uses of an entry, and what it takes.

use store::Store;

use super::Item;

impl<S: Store> Item<'_, '_, S> {
    /// Counts as a use of the entry. False if there is none.
    pub(crate) fn touch(&mut self) -> bool {
        self.cache.touch(self.hash, &self.key, self.now)
    }

    pub(crate) fn idle_s(&mut self) -> Option<u32> {
        self.cache.idle_s(self.hash, &self.key, self.now)
    }

    pub(crate) fn frequency(&mut self) -> Option<u8> {
        self.cache.frequency(self.hash, &self.key, self.now)
    }

    /// Returns the bytes that the entry takes.
    pub(crate) fn footprint(&mut self) -> Option<usize> {
        self.cache.footprint(self.hash, &self.key, self.now)
    }
}
