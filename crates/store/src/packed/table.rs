//! From hashes to blocks: an extendible hash table whose segments split one at a time.
//!
//! A directory, indexed by leading bits of the hash, says which segment an entry is in; a segment is a small table of
//! 64 groups, in which an entry is in the group that the hash names or, if that was full, in one of the next. A segment
//! that is full is divided in two, which takes as long as moving its entries, whatever the size of the table; the
//! directory is copied when it doubles, 14 bytes for each segment.
//!
//! Bits of the hash: 0 to 5 the group, 8 to 15 the tag, 16 to 47 the directory, from the upper end. Nothing depends on
//! the upper 16, which may have been used to divide entries among tables.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

use super::{
    group::{Group, tag_of},
    scout::{self, PackedScout},
    segment::{GROUPS, SLOTS, Segment, Segments, home_of},
};
use crate::StoreOptions;

/// Entries at which a segment is divided: five of six slots.
const FULL: u16 = (SLOTS * 5 / 6) as u16;
/// Bits of the hash that a directory can use.
const FIELD_BITS: u32 = 32;
/// Bits that it does use at most; hashes of 768 entries that agree in so many are no hashes.
const DEPTH_MAX: u32 = 28;
/// Bytes of the directory for each of its entries.
const DIRECTORY_ENTRY: usize = size_of::<AtomicPtr<Segment>>() + size_of::<Span>();

#[derive(Debug)]
pub(super) struct Table {
    /// Bits of the hash that index the directory.
    depth: u32,
    /// Several neighbours are the same segment when it uses fewer bits. Scouts follow it, too.
    directory: scout::Segments,
    /// As many, about the same segments.
    spans: Vec<Span>,
    segments: Segments,
    scout: Arc<PackedScout>,
    len: usize,
    expiring: usize,
}

/// What is known of a segment without touching it.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Entries, and those that expire: true in the first of neighbours that are the same segment.
    len: u16,
    expiring: u16,
    /// Bits of the hash that its entries have in common: true in all of them.
    depth: u8,
}

/// Where the table keeps something.
#[derive(Clone, Copy, Debug)]
struct Position {
    index: usize,
    group: usize,
    slot: usize,
}

/// A place in the order of hashes, from which a traversal goes on: leading bits of the hash, and a group. Dividing a
/// segment changes neither.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The first neighbour of a segment.
    index: usize,
    pub(super) group: usize,
}

impl Table {
    pub(super) fn new(options: &StoreOptions, scout: Arc<PackedScout>) -> Self {
        let mut segments = Segments::new(options);
        let directory = Arc::new([AtomicPtr::new(segments.add().as_ptr())]);
        scout.publish(0, &(Arc::clone(&directory) as scout::Segments));
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

    /// Bytes by which [`Table::bytes`] grows with another entry at most: whether its segment is full is not known.
    #[inline]
    pub(super) fn growth(&self) -> usize {
        self.segments.growth() + self.directory.len() * DIRECTORY_ENTRY
    }

    #[inline]
    fn index_of(&self, hash: u64) -> usize {
        index_of(hash, self.depth)
    }

    /// The first of neighbours that are the same segment.
    #[inline]
    fn first_of(&self, index: usize) -> usize {
        index & !(self.width(index) - 1)
    }

    /// Neighbours that are the same segment.
    #[inline]
    fn width(&self, index: usize) -> usize {
        1 << (self.depth - u32::from(self.spans[index].depth))
    }

    #[inline]
    fn segment(&self, index: usize) -> &Segment {
        let segment = self.directory[index].load(Ordering::Relaxed);
        // SAFETY: what is in the directory was given by `segments`, which frees nothing before the table is dropped;
        // and segments change through atomics only.
        unsafe { &*segment }
    }

    // --- lookup ---------------------------------------------------------------------------

    /// The group that a hash names.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> &Group {
        self.segment(self.index_of(hash)).group(home_of(hash))
    }

    /// The block of which `is` says that it is meant, if it is in one of the groups behind that which the hash names.
    pub(super) fn find_further(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let segment = self.segment(self.index_of(hash));
        for at in 1..GROUPS {
            let group = segment.group(home_of(hash) + at);
            if let Some(slot) = group.with_tag(tag_of(hash)).find(|&slot| is(group.block(slot))) {
                return Some(group.block(slot));
            }
            if !group.is_passed() {
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
            if !group.is_passed() {
                break;
            }
        }
        None
    }

    // --- change ---------------------------------------------------------------------------

    /// Adds a block. `blocks` tells the hashes of those that have to move.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, block: u32, expires: bool, blocks: &impl Blocks) {
        let mut index = self.index_of(hash);
        let mut first = self.first_of(index);
        while self.spans[first].len >= FULL && self.divide(index, blocks) {
            index = self.index_of(hash);
            first = self.first_of(index);
        }
        let is_in = self.segment(index).insert(hash, block, expires);
        assert!(is_in, "hashes of different keys are all the same");
        self.count(first, true, expires);
    }

    /// Forgets a block. False: it was not there.
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

    /// Notes that an entry has moved to another block. False: it was not there.
    pub(super) fn moved(&mut self, hash: u64, from: u32, to: u32) -> bool {
        let Some(Position { index, group, slot }) = self.position(hash, from) else { return false };
        self.segment(index).group(group).set_block(slot, to);
        true
    }

    /// Notes whether an entry expires.
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

    /// Divides a segment. False: there is no bit left to do it by.
    #[cold]
    #[inline(never)]
    fn divide(&mut self, index: usize, blocks: &impl Blocks) -> bool {
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
        // SAFETY: good as long as the table, and changed through atomics only.
        let upper = unsafe { sibling.as_ref() };
        let moved = self.segment(first).divide(upper, 47 - depth, blocks);
        let before = self.spans[first];
        for at in first..first + 2 * half {
            self.spans[at] = Span { depth: before.depth + 1, ..Span::default() };
        }
        for neighbour in &self.directory[first + half..first + 2 * half] {
            // A scout that finds it finds what it was filled with.
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

    /// The place of a number that [`Table::after`] gave, or 0: the beginning.
    pub(super) fn cursor(&self, number: u64) -> Cursor {
        let field = number / GROUPS as u64 % (1 << FIELD_BITS);
        let index = self.first_of((field >> (FIELD_BITS - self.depth)) as usize);
        Cursor { index, group: (number % GROUPS as u64) as usize }
    }

    /// The number of the place behind a group; 0 behind the last.
    pub(super) fn after(&self, cursor: Cursor) -> u64 {
        if cursor.group + 1 < GROUPS {
            return self.number(cursor.index) + cursor.group as u64 + 1;
        }
        self.after_segment(cursor)
    }

    /// The number of the place behind a segment; 0 behind the last.
    pub(super) fn after_segment(&self, cursor: Cursor) -> u64 {
        match cursor.index + self.width(cursor.index) {
            end if end == self.directory.len() => 0,
            next => self.number(next),
        }
    }

    fn number(&self, index: usize) -> u64 {
        ((index as u64) << (FIELD_BITS - self.depth)) * GROUPS as u64
    }

    /// Entries of the segment at a place, and those that expire.
    pub(super) fn counts(&self, cursor: Cursor) -> (u16, u16) {
        let span = &self.spans[cursor.index];
        (span.len, span.expiring)
    }

    /// The groups where the entries are that belong to the group at a place.
    pub(super) fn chain(&self, cursor: Cursor) -> impl Iterator<Item = &Group> {
        let segment = self.segment(cursor.index);
        let mut is_passed = true;
        let groups = (0..GROUPS).map(move |at| segment.group(cursor.group + at));
        groups.take_while(move |group| std::mem::replace(&mut is_passed, group.is_passed()))
    }

    /// All groups of the segment at a place, beginning with the one that is named.
    pub(super) fn groups(&self, cursor: Cursor) -> impl Iterator<Item = &Group> {
        let segment = self.segment(cursor.index);
        (0..GROUPS).map(move |at| segment.group(cursor.group + at))
    }

    /// A segment with entries that `counts` accepts: the first behind a random place, with a group to begin with.
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

/// The entry of a directory to which a hash belongs.
#[inline]
pub(super) fn index_of(hash: u64, depth: u32) -> usize {
    // At most 48 bits are left, of which the directory has as many as it has entries for.
    ((hash & 0xffff_ffff_ffff) >> (48 - depth)) as usize
}

/// What the table asks about blocks.
pub(super) trait Blocks {
    /// The hash of the key of the entry there.
    fn hash(&self, block: u32) -> u64;

    /// It is about to be asked.
    fn prefetch(&self, block: u32);
}

#[cfg(test)]
impl Table {
    /// All blocks, after counting everything again.
    pub(super) fn checked_blocks(&self, blocks: &impl Blocks) -> Vec<u32> {
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
