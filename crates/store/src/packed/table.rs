//! The way from a hash to a block: an extendible hash table whose segments split one at a time.
//!
//! A directory, indexed by leading bits of the hash, leads to the segment of an entry. A segment is a small table of 64
//! groups; an entry is in the group that the hash names or, if that was full, in one of the next. A full segment is split in
//! two, which takes as long as moving its entries, whatever the size of the table. The directory is copied when it doubles,
//! 14 bytes for each segment.
//!
//! Bits of the hash: 0 to 5 the group, 8 to 15 the tag, 16 to 47 the directory, from the upper end. Nothing depends on
//! the upper 16, which may have been used to split entries among tables.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

use super::{
    group::{Group, tag_of},
    scout::{PackedScout, SegmentPointers},
    segment::{Blocks, GROUPS, SLOTS, Segment, SegmentPool, home_of, index_of},
};
use crate::StoreOptions;

/// Number of entries at which a segment is split: seven of eight slots.
const FULL: u16 = (SLOTS * 7 / 8) as u16;
/// Bits of the hash that a directory can use.
const FIELD_BITS: u32 = 32;
/// Most bits that it uses. Only hashes that are not random agree in more bits in all 768 entries of a segment.
const DEPTH_MAX: u32 = 28;
/// Bytes of the directory for each of its entries.
const DIRECTORY_ENTRY: usize = size_of::<AtomicPtr<Segment>>() + size_of::<Span>();

#[derive(Debug)]
pub(super) struct Table {
    /// Bits of the hash that index the directory.
    depth: u32,
    /// Pointers to segments. Several neighbours are the same if the segment uses fewer bits. Scouts read it, too.
    directory: SegmentPointers,
    /// Counters of the same segments.
    spans: Vec<Span>,
    segments: SegmentPool,
    scout: Arc<PackedScout>,
    len: usize,
    expiring: usize,
}

/// Counters of a segment, which are read without touching it.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Number of entries, and of those that expire: valid in the first of neighbours that are the same segment.
    len: u16,
    expiring: u16,
    /// Number of bits of the hash that its entries have in common: valid in all of these neighbours.
    depth: u8,
}

/// Position of an entry in the table.
#[derive(Clone, Copy, Debug)]
struct Position {
    index: usize,
    group: usize,
    slot: usize,
}

/// A position in the order of hashes, from which a traversal goes on: leading bits of the hash, and a group. Splitting a
/// segment changes neither.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The first neighbour of a segment.
    index: usize,
    pub(super) group: usize,
}

impl Table {
    pub(super) fn new(options: &StoreOptions, scout: Arc<PackedScout>) -> Self {
        let mut segments = SegmentPool::new(options);
        let directory = Arc::new([AtomicPtr::new(segments.add().as_ptr())]);
        scout.publish(0, &(Arc::clone(&directory) as SegmentPointers));
        Self { depth: 0, directory, spans: vec![Span::default()], segments, scout, len: 0, expiring: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn expiring(&self) -> usize {
        self.expiring
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.segments.bytes() + self.directory.len() * DIRECTORY_ENTRY
    }

    /// Returns the most bytes by which [`Table::bytes`] grows with another entry, whose segment may be full.
    #[inline]
    pub(super) fn growth(&self) -> usize {
        self.segments.growth() + self.directory.len() * DIRECTORY_ENTRY
    }

    #[inline]
    fn index_of(&self, hash: u64) -> usize {
        index_of(hash, self.depth)
    }

    /// Returns the first of the neighbours that are the same segment.
    #[inline]
    fn first_of(&self, index: usize) -> usize {
        index & !(self.width(index) - 1)
    }

    /// Returns the number of neighbours that are the same segment.
    #[inline]
    fn width(&self, index: usize) -> usize {
        1 << (self.depth - u32::from(self.spans[index].depth))
    }

    #[inline]
    fn segment(&self, index: usize) -> &Segment {
        let segment = self.directory[index].load(Ordering::Relaxed);
        // SAFETY: the directory has pointers of `segments` only, which frees nothing before the table is dropped; and
        // segments change through atomics only.
        unsafe { &*segment }
    }

    // --- lookup ---------------------------------------------------------------------------

    /// Returns the group that a hash names.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> &Group {
        self.segment(self.index_of(hash)).group(home_of(hash))
    }

    /// Returns the block that `is` accepts, if it is in one of the groups behind the one that the hash names.
    pub(super) fn find_in_overflow(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let segment = self.segment(self.index_of(hash));
        for at in 1..GROUPS {
            let group = segment.group(home_of(hash) + at);
            if let Some(slot) = group.with_tag(tag_of(hash)).find(|&slot| is(group.block(slot))) {
                return Some(group.block(slot));
            }
            if !group.has_overflowed() {
                break;
            }
        }
        None
    }

    fn position(&self, hash: u64, block: u32) -> Option<Position> {
        let index = self.index_of(hash);
        let segment = self.segment(index);
        for at in 0..GROUPS {
            let group = segment.group(home_of(hash) + at);
            if let Some(slot) = group.with_tag(tag_of(hash)).find(|&slot| group.block(slot) == block) {
                return Some(Position { index, group: (home_of(hash) + at) % GROUPS, slot });
            }
            if !group.has_overflowed() {
                break;
            }
        }
        None
    }

    // --- change ---------------------------------------------------------------------------

    /// Adds a block. `blocks` gives the hashes of blocks that have to move.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, block: u32, expires: bool, blocks: &impl Blocks) {
        let mut index = self.index_of(hash);
        let mut first = self.first_of(index);
        while self.spans[first].len >= FULL && self.split(index, blocks) {
            index = self.index_of(hash);
            first = self.first_of(index);
        }
        let is_in = self.segment(index).insert(hash, block, expires);
        assert!(is_in, "hashes of different keys are all the same");
        self.count(first, true, expires);
    }

    /// Removes a block. False: it was not there.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, block: u32) -> bool {
        let Some(Position { index, group, slot }) = self.position(hash, block) else { return false };
        let expires = self.segment(index).group(group).is_expiring(slot);
        self.segment(index).remove(home_of(hash), group, slot);
        self.count(self.first_of(index), false, expires);
        true
    }

    #[inline]
    fn count(&mut self, first: usize, is_added: bool, expires: bool) {
        let span = &mut self.spans[first];
        let expires = u16::from(expires);
        if is_added {
            (span.len, span.expiring) = (span.len + 1, span.expiring + expires);
            (self.len, self.expiring) = (self.len + 1, self.expiring + usize::from(expires));
        } else {
            (span.len, span.expiring) = (span.len - 1, span.expiring - expires);
            (self.len, self.expiring) = (self.len - 1, self.expiring - usize::from(expires));
        }
    }

    /// Notes that an entry has moved to another block. False: there was no such entry.
    pub(super) fn moved(&mut self, hash: u64, from: u32, to: u32) -> bool {
        let Some(Position { index, group, slot }) = self.position(hash, from) else { return false };
        self.segment(index).group(group).set_block(slot, to);
        true
    }

    /// Notes if an entry has a time of expiry.
    pub(super) fn set_expiring(&mut self, hash: u64, block: u32, expires: bool) {
        let Some(Position { index, group, slot }) = self.position(hash, block) else { return };
        let first = self.first_of(index);
        let group = self.segment(index).group(group);
        let before = group.is_expiring(slot);
        group.set_expiring(slot, expires);
        let expiring = usize::from(self.spans[first].expiring) + usize::from(expires) - usize::from(before);
        self.spans[first].expiring = expiring as u16;
        self.expiring = self.expiring + usize::from(expires) - usize::from(before);
    }

    /// Splits a segment. False: there is no bit left to split it by.
    #[cold]
    #[inline(never)]
    fn split(&mut self, index: usize, blocks: &impl Blocks) -> bool {
        let depth = u32::from(self.spans[index].depth);
        if depth == DEPTH_MAX {
            return false;
        }
        let mut first = self.first_of(index);
        if depth == self.depth {
            self.double();
            first *= 2;
        }
        let half = self.width(first) / 2;
        let sibling = self.segments.add();
        // SAFETY: valid as long as the table, and changed through atomics only.
        let upper = unsafe { sibling.as_ref() };
        let moved = self.segment(first).split(upper, 47 - depth, blocks);
        let before = self.spans[first];
        for at in first..first + 2 * half {
            self.spans[at] = Span { depth: before.depth + 1, ..Span::default() };
        }
        for neighbour in &self.directory[first + half..first + 2 * half] {
            // Release: a scout that finds the segment finds its entries.
            neighbour.store(sibling.as_ptr(), Ordering::Release);
        }
        (self.spans[first + half].len, self.spans[first + half].expiring) = moved;
        (self.spans[first].len, self.spans[first].expiring) = (before.len - moved.0, before.expiring - moved.1);
        true
    }

    fn double(&mut self) {
        let segments = self.directory.iter().map(|segment| segment.load(Ordering::Relaxed));
        self.directory =
            segments.flat_map(|segment| iter::repeat_with(move || AtomicPtr::new(segment)).take(2)).collect();
        self.spans = self.spans.iter().flat_map(|&span| [span; 2]).collect();
        self.depth += 1;
        self.scout.publish(self.depth, &self.directory);
    }

    // --- traversal ------------------------------------------------------------------------

    /// Returns the cursor of a number that [`Table::after`] has returned; 0 is the beginning.
    pub(super) fn cursor(&self, number: u64) -> Cursor {
        let field = number / GROUPS as u64 % (1 << FIELD_BITS);
        let index = self.first_of((field >> (FIELD_BITS - self.depth)) as usize);
        Cursor { index, group: (number % GROUPS as u64) as usize }
    }

    /// Returns the number of the cursor behind a group; 0 behind the last.
    pub(super) fn after(&self, cursor: Cursor) -> u64 {
        if cursor.group + 1 < GROUPS {
            return self.number(cursor.index) + cursor.group as u64 + 1;
        }
        self.after_segment(cursor)
    }

    /// Returns the number of the cursor behind a segment; 0 behind the last.
    pub(super) fn after_segment(&self, cursor: Cursor) -> u64 {
        match cursor.index + self.width(cursor.index) {
            end if end == self.directory.len() => 0,
            next => self.number(next),
        }
    }

    fn number(&self, index: usize) -> u64 {
        ((index as u64) << (FIELD_BITS - self.depth)) * GROUPS as u64
    }

    /// Returns the number of entries of the segment at a cursor, and of those that expire.
    pub(super) fn counts(&self, cursor: Cursor) -> (u16, u16) {
        let span = &self.spans[cursor.index];
        (span.len, span.expiring)
    }

    /// Returns the groups that may hold the entries of the group at a cursor.
    pub(super) fn chain(&self, cursor: Cursor) -> impl Iterator<Item = &Group> {
        let segment = self.segment(cursor.index);
        let mut has_overflowed = true;
        let groups = (0..GROUPS).map(move |at| segment.group(cursor.group + at));
        groups.take_while(move |group| std::mem::replace(&mut has_overflowed, group.has_overflowed()))
    }

    /// Returns all groups of the segment at a cursor, beginning with the one at the cursor.
    pub(super) fn groups(&self, cursor: Cursor) -> impl Iterator<Item = &Group> {
        let segment = self.segment(cursor.index);
        (0..GROUPS).map(move |at| segment.group(cursor.group + at))
    }

    /// Returns the first segment from a random one on whose counts `accepts` takes, with a random group to begin with.
    pub(super) fn random(&self, random: u64, accepts: impl Fn(u16, u16) -> bool) -> Option<Cursor> {
        let size = self.directory.len();
        let start = self.first_of((random >> 16) as usize % size);
        let mut at = start;
        loop {
            let cursor = Cursor { index: at, group: random as usize % GROUPS };
            let (len, expiring) = self.counts(cursor);
            if accepts(len, expiring) {
                return Some(cursor);
            }
            at = (at + self.width(at)) % size;
            if at == start {
                return None;
            }
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let memory = self.segments.take();
        self.scout.retire(&self.directory, memory);
    }
}

#[cfg(test)]
impl Table {
    /// Checks all counters, and returns all blocks.
    pub(super) fn collect_blocks(&self, blocks: &impl Blocks) -> Vec<u32> {
        let mut all = Vec::new();
        let mut expiring = 0;
        let mut index = 0;
        while index < self.directory.len() {
            assert_eq!(self.first_of(index), index);
            let width = self.width(index);
            let segment = |at: usize| self.directory[at].load(Ordering::Relaxed);
            assert!((index..index + width).all(|at| segment(at) == segment(index)));
            let before = (all.len(), expiring);
            for group in self.groups(Cursor { index, group: 0 }) {
                expiring += group.expiring().count();
                assert!(group.expiring().all(|slot| group.used().any(|used| used == slot)));
                all.extend(group.used().map(|slot| group.block(slot)));
            }
            let counted = (all.len() - before.0, expiring - before.1);
            assert_eq!(counted, (self.spans[index].len.into(), self.spans[index].expiring.into()));
            for &block in &all[before.0..] {
                assert_eq!(self.first_of(self.index_of(blocks.hash(block))), index);
            }
            index += width;
        }
        assert_eq!((all.len(), expiring), (self.len, self.expiring));
        all
    }

    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }
}
