//! Strings that are stored outside of the blocks: values that replies share, and long keys.

use bytes::Bytes;
use slab::Slab;

use super::{
    entry::{NUMBER_BYTES, number},
    extents::Extents,
    memory::Release,
};

/// Length from which on the usual allocator maps pages for each allocation.
const MAPPED_MIN: usize = 128 * 1024;
const KERNEL_PAGE: usize = 4096;

/// The external strings of a store. A block holds the number of its string.
#[derive(Debug)]
pub(super) struct ExternalStrings {
    extents: Extents,
    strings: Slab<Bytes>,
    /// Bytes of all strings.
    held: usize,
}

impl ExternalStrings {
    pub(super) fn new(release: Release) -> Self {
        Self { extents: Extents::new(release), strings: Slab::new(), held: 0 }
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.held + self.extents.reserve_bytes() + self.strings.capacity() * size_of::<Bytes>()
    }

    /// Returns the bytes by which [`ExternalStrings::bytes`] grows with another string, without the table.
    pub(super) fn footprint(len: usize) -> usize {
        if let Some(bytes) = Extents::footprint(len) {
            return bytes;
        }
        // The header of the allocator, and the counter that sharing needs.
        let overhead = 16 + 4 * size_of::<usize>();
        match len + overhead {
            len if len >= MAPPED_MIN => len.next_multiple_of(KERNEL_PAGE),
            len => len.next_multiple_of(16),
        }
    }

    /// Returns the bytes by which [`ExternalStrings::bytes`] grows with a value of this length, and perhaps a key, whose footprints are
    /// `footprint` together. 0: there is no external value.
    pub(super) fn growth(&self, value_len: usize, footprint: usize) -> usize {
        // What is in reserve counts already.
        footprint - self.extents.reserved_bytes(value_len) + self.table_growth(2)
    }

    fn table_growth(&self, more: usize) -> usize {
        match self.strings.len() + more > self.strings.capacity() {
            true => (self.strings.capacity() + 4) * size_of::<Bytes>(),
            false => 0,
        }
    }

    /// Adds a string and returns its number, as bytes.
    pub(super) fn add(&mut self, string: &[u8]) -> [u8; NUMBER_BYTES] {
        self.held += Self::footprint(string.len());
        let copy = match Extents::footprint(string.len()) {
            Some(_) => self.extents.copy(string),
            None => Bytes::copy_from_slice(string),
        };
        let number = u32::try_from(self.strings.insert(copy));
        number.expect("there are fewer strings than blocks").to_le_bytes()
    }

    pub(super) fn remove(&mut self, stored: &[u8]) {
        if let Some(string) = self.strings.try_remove(number(stored) as usize) {
            self.held -= Self::footprint(string.len());
        }
    }

    /// Gives free memory back that waits for other strings. False: there is none.
    pub(super) fn release_reserve(&self) -> bool {
        self.extents.release_reserve()
    }

    pub(super) fn get(&self, stored: &[u8]) -> Option<&Bytes> {
        self.strings.get(number(stored) as usize)
    }
}
