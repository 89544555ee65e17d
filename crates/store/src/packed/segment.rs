//! A small hash table of fixed size, which divides in two when it is full.

use std::ptr::NonNull;

use super::{
    group::{self, Group, tag_of},
    memory::{HUGE, Pieces, Raw, growth_of},
    table::Blocks,
};
use crate::StoreOptions;

/// Pieces of memory that begin as small pages: room for about a million entries.
const SMALL_PIECES: usize = 4;
/// Groups of a segment.
pub(super) const GROUPS: usize = 64;
/// Slots of a segment.
pub(super) const SLOTS: usize = GROUPS * group::SLOTS;
/// Entries whose keys are asked for before the first of them is read, when a segment is divided.
const AHEAD: usize = 16;

/// Sixty-four groups, exactly a page of the kernel.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(super) struct Segment([Group; GROUPS]);

/// The group to which a hash belongs.
#[inline]
pub(super) fn home_of(hash: u64) -> usize {
    hash as usize % GROUPS
}

impl Segment {
    const BYTES: usize = size_of::<Self>();

    fn empty() -> Self {
        Self(std::array::from_fn(|_| Group::default()))
    }

    fn clear(&self) {
        self.0.iter().for_each(Group::clear);
    }

    /// A group; behind the last comes the first.
    #[inline]
    pub(super) fn group(&self, at: usize) -> &Group {
        &self.0[at % GROUPS]
    }

    /// Adds a block. False: there is no room.
    #[inline]
    pub(super) fn insert(&self, hash: u64, block: u32, expires: bool) -> bool {
        let home = home_of(hash);
        for at in home..home + GROUPS {
            if self.group(at).insert(tag_of(hash), block, expires) {
                return true;
            }
            self.group(at).pass();
        }
        false
    }

    /// Empties a slot of a group in which an entry is that belongs to `home`.
    #[inline]
    pub(super) fn remove(&self, home: usize, group: usize, slot: usize) {
        self.group(group).remove(slot);
        let passed = group.wrapping_sub(home) % GROUPS;
        (home..home + passed).for_each(|at| self.group(at).unpass());
    }

    /// Moves the entries whose hashes have a certain bit to an empty segment. Gives their number, and that of those
    /// that expire.
    pub(super) fn divide(&self, upper: &Self, bit: u32, blocks: &impl Blocks) -> (u16, u16) {
        let mut entries = Vec::with_capacity(SLOTS);
        for group in &self.0 {
            entries.extend(group.used().map(|slot| (group.block(slot), group.is_expiring(slot))));
        }
        self.clear();
        let (mut len, mut expiring) = (0, 0);
        entries.iter().take(AHEAD).for_each(|&(block, _)| blocks.prefetch(block));
        for (at, &(block, expires)) in entries.iter().enumerate() {
            if let Some(&(later, _)) = entries.get(at + AHEAD) {
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

/// Memory for segments. There is no way to give one back.
#[derive(Debug)]
pub(super) struct Segments {
    chunks: Vec<Raw>,
    /// Bytes of the last chunk that are in use.
    used: usize,
    len: usize,
    pieces: Pieces,
}

impl Segments {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self { chunks: Vec::new(), used: HUGE, len: 0, pieces: Pieces::new(options, SMALL_PIECES) }
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.len * Segment::BYTES + self.chunks.capacity() * size_of::<Raw>()
    }

    /// Bytes by which [`Segments::bytes`] grows with another segment at most.
    #[inline]
    pub(super) fn growth(&self) -> usize {
        Segment::BYTES + growth_of(&self.chunks, 1)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The memory of all segments that have been given.
    pub(super) fn take(&mut self) -> Vec<Raw> {
        std::mem::take(&mut self.chunks)
    }

    /// An empty segment that nobody else points to, good as long as the memory.
    pub(super) fn add(&mut self) -> NonNull<Segment> {
        if self.used == HUGE {
            let chunk = self.pieces.next(&mut self.chunks);
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
