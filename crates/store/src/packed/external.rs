//! Strings that have no place in a block: values that replies share, and long keys.

use bytes::Bytes;
use slab::Slab;

use super::entry::{NUMBER_BYTES, number};

/// From here on the usual allocator maps pages for each piece.
const MAPPED_MIN: usize = 128 * 1024;
const KERNEL_PAGE: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Outside {
    strings: Slab<Bytes>,
    /// Memory of all strings.
    held: usize,
}

impl Outside {
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.held + self.strings.capacity() * size_of::<Bytes>()
    }

    /// Bytes by which [`Outside::bytes`] grows with another string, but for the table.
    pub(super) fn footprint(len: usize) -> usize {
        // What allocators keep beside each piece, and the counter that sharing needs.
        let overhead = 16 + 4 * size_of::<usize>();
        match len + overhead {
            len if len >= MAPPED_MIN => len.next_multiple_of(KERNEL_PAGE),
            len => len.next_multiple_of(16),
        }
    }

    /// Bytes by which the table grows with so many more strings.
    pub(super) fn growth(&self, more: usize) -> usize {
        match self.strings.len() + more > self.strings.capacity() {
            true => (self.strings.capacity() + 4) * size_of::<Bytes>(),
            false => 0,
        }
    }

    /// Keeps a string. The number that stands for it, as bytes.
    pub(super) fn add(&mut self, string: &[u8]) -> [u8; NUMBER_BYTES] {
        self.held += Self::footprint(string.len());
        let number = u32::try_from(self.strings.insert(Bytes::copy_from_slice(string)));
        number.expect("there are fewer strings than blocks").to_ne_bytes()
    }

    pub(super) fn remove(&mut self, stored: &[u8]) {
        if let Some(string) = self.strings.try_remove(number(stored) as usize) {
            self.held -= Self::footprint(string.len());
        }
    }

    pub(super) fn get(&self, stored: &[u8]) -> Option<&Bytes> {
        self.strings.get(number(stored) as usize)
    }
}
