//! The entries behind the table's blocks.

use super::{arena::Arena, entry::Header, external::ExternalStrings, memory::prefetch, segment::Blocks};
use crate::KeyHasher;

/// Entries as the table sees them.
pub(super) struct Entries<'s> {
    pub(super) arena: &'s Arena,
    pub(super) external: &'s ExternalStrings,
    pub(super) hasher: &'s KeyHasher,
}

impl<'s> Entries<'s> {
    #[inline]
    pub(super) fn key(&self, header: Header, block: &'s [u8]) -> &'s [u8] {
        match header.is_long_key() {
            false => header.key(block),
            true => self.external.get(header.key(block)).map_or(&[], |key| key),
        }
    }
}

impl Blocks for Entries<'_> {
    #[inline]
    fn hash(&self, at: u32) -> u64 {
        let block = self.arena.block(at);
        self.hasher.hash(self.key(Header::read(block), block))
    }

    #[inline]
    fn prefetch(&self, at: u32) {
        prefetch(self.arena.block(at).as_ptr());
    }
}
