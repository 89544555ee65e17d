//! A small hash table of fixed size, which is split in two when it is full.

use std::ptr::NonNull;

use super::{
    group::{self, Group, tag_of},
    memory::{ChunkSource, HUGE, RawChunk, growth_of},
};
use crate::StoreOptions;

/// Groups of a segment.
pub(super) const GROUPS: usize = 64;
/// Slots of a segment.
pub(super) const SLOTS: usize = GROUPS * group::SLOTS;
/// Number of entries by which the prefetching of keys is ahead when a segment is split.
const PREFETCH_DISTANCE: usize = 16;

/// A segment: sixty-four groups, exactly a page of the kernel.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(super) struct Segment([Group; GROUPS]);

/// Returns the number of the group that a hash names.
#[inline]
pub(super) fn home_of(hash: u64) -> usize {
    hash as usize % GROUPS
}

/// Returns the entry of a directory of `depth` bits that a hash names.
#[inline]
pub(super) fn index_of(hash: u64, depth: u32) -> usize {
    // At most 48 bits are left, of which the directory has as many as it has entries for.
    ((hash & 0xffff_ffff_ffff) >> (48 - depth)) as usize
}

/// The entries behind a table's blocks.
pub(super) trait Blocks {
    /// Returns the hash of the key in a block.
    fn hash(&self, block: u32) -> u64;

    /// Prefetches what [`Blocks::hash`] will read.
    fn prefetch(&self, block: u32);
}

impl Segment {
    const BYTES: usize = size_of::<Self>();

    fn empty() -> Self {
        Self(std::array::from_fn(|_| Group::default()))
    }

    fn clear(&self) {
        self.0.iter().for_each(Group::clear);
    }

    /// Returns a group; after the last comes the first.
    #[inline]
    pub(super) fn group(&self, at: usize) -> &Group {
        &self.0[at % GROUPS]
    }

    /// Adds a block. False: the segment is full.
    #[inline]
    pub(super) fn insert(&self, hash: u64, block: u32, expires: bool) -> bool {
        let home = home_of(hash);
        for at in home..home + GROUPS {
            if self.group(at).insert(tag_of(hash), block, expires) {
                return true;
            }
            self.group(at).add_overflow();
        }
        false
    }

    /// Empties a slot of a group; its entry belongs to the group `home`.
    #[inline]
    pub(super) fn remove(&self, home: usize, group: usize, slot: usize) {
        self.group(group).remove(slot);
        let passed = group.wrapping_sub(home) % GROUPS;
        (home..home + passed).for_each(|at| self.group(at).remove_overflow());
    }

    /// Moves the entries whose hashes have a certain bit to an empty segment. Returns their number, and the number of those
    /// that expire.
    pub(super) fn split(&self, upper: &Self, bit: u32, blocks: &impl Blocks) -> (u16, u16) {
        let mut entries = Vec::with_capacity(SLOTS);
        for group in &self.0 {
            entries.extend(group.used().map(|slot| (group.block(slot), group.is_expiring(slot))));
        }
        self.clear();
        let (mut len, mut expiring) = (0, 0);
        entries.iter().take(PREFETCH_DISTANCE).for_each(|&(block, _)| blocks.prefetch(block));
        for (at, &(block, expires)) in entries.iter().enumerate() {
            if let Some(&(later, _)) = entries.get(at + PREFETCH_DISTANCE) {
                blocks.prefetch(later);
            }
            let hash = blocks.hash(block);
            let is_upper = hash >> bit & 1 != 0;
            let target = if is_upper { upper } else { self };
            target.insert(hash, block, expires);
            len += u16::from(is_upper);
            expiring += u16::from(is_upper && expires);
        }
        (len, expiring)
    }
}

/// The memory of all segments. Single segments are never freed.
#[derive(Debug)]
pub(super) struct SegmentPool {
    chunks: Vec<RawChunk>,
    /// Bytes of the last chunk that are in use.
    used: usize,
    len: usize,
    source: ChunkSource,
}

impl SegmentPool {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self { chunks: Vec::new(), used: HUGE, len: 0, source: ChunkSource::new(options) }
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.len * Segment::BYTES + self.chunks.capacity() * size_of::<RawChunk>()
    }

    /// Returns the most bytes by which [`SegmentPool::bytes`] grows with another segment.
    #[inline]
    pub(super) fn growth(&self) -> usize {
        Segment::BYTES + growth_of(&self.chunks, 1)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes the memory of all segments.
    pub(super) fn take(&mut self) -> Vec<RawChunk> {
        std::mem::take(&mut self.chunks)
    }

    /// Makes an empty segment, valid as long as the memory. Nothing else points to it.
    pub(super) fn add(&mut self) -> NonNull<Segment> {
        if self.used == HUGE {
            let chunk = self.source.next(&mut self.chunks);
            self.chunks.push(chunk);
            self.used = 0;
        }
        let at = self.used;
        (self.used, self.len) = (at + Segment::BYTES, self.len + 1);
        let segment = self.chunks[self.chunks.len() - 1].address(at).cast::<Segment>();
        // SAFETY: chunks are multiples of a segment's size, which is its alignment too, and this one has room behind
        // `at`, of which nothing has been given out.
        unsafe { segment.write(Segment::empty()) };
        segment
    }
}
