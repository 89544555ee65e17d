//! Addresses of blocks: a block is named by its distance from the beginning of the arena, in units of 2 bytes.

use super::{
    classes::{PAGE, PAGE_UNITS, UNIT},
    memory::HUGE,
};

/// Pages in a chunk.
pub(super) const CHUNK_PAGES: usize = HUGE / PAGE;
/// Units in a chunk.
pub(super) const CHUNK_UNITS: usize = HUGE / UNIT;

/// Returns the chunk of a block, and the byte at which the block begins there.
#[inline]
pub(super) fn split(at: u32) -> (usize, usize) {
    (at as usize / CHUNK_UNITS, at as usize % CHUNK_UNITS * UNIT)
}

/// Returns the number of a block's page within its chunk.
#[inline]
pub(super) fn page_in_chunk(at: u32) -> usize {
    page_of(at) % CHUNK_PAGES
}

/// Returns the number of a block's page.
#[inline]
pub(super) fn page_of(at: u32) -> usize {
    at as usize / PAGE_UNITS
}
