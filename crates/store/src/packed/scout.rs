//! What asks for memory ahead, without the lock that the store is behind.
//!
//! Whoever holds the lock publishes the directory and the addresses of chunks here; a scout follows them while others
//! change what they lead to. It reads nothing but atomics, takes nothing it finds for true (a [`Hint`] is checked under
//! the lock), and what it may be looking at is freed only once no scout is left that might (epochs: Keir Fraser,
//! Practical lock-freedom, 2004, section 5.2.3).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering},
};

use crossbeam_epoch::{Atomic, Guard, Owned};

use super::{
    Hint,
    arena::{CHUNK_PAGES, page_in_chunk, split},
    classes::{self, UNIT},
    group::tag_of,
    memory::{LINE, prefetch},
    segment::{Segment, home_of},
    table::index_of,
};
use crate::{Pin, Scout};

/// The usual entry, a short key and a short value: what is asked for ahead without looking how long an entry is.
const SMALL_BYTES: usize = 40;
/// Lines of an entry that are asked for ahead at most; the processor goes on by itself when they are read.
const LINES_AHEAD: usize = 17;

/// See the module's description.
#[derive(Debug, Default)]
pub struct PackedScout {
    directory: Atomic<Directory>,
    chunks: Atomic<Vec<Seen>>,
    /// Another one whenever a block that was in use is not any more, and in every arena; never 0 once there is one.
    era: AtomicU64,
    /// Some blocks are, or were, longer than two cache lines.
    has_large: AtomicBool,
}

/// What leads from a hash to its segment; entries change in place, the rest does not.
pub(super) type Segments = Arc<[AtomicPtr<Segment>]>;

#[derive(Debug)]
struct Directory {
    depth: u32,
    segments: Segments,
}

/// What is known of a chunk from outside.
#[derive(Debug)]
struct Seen {
    /// Only ever asked for, never read.
    start: AtomicPtr<u8>,
    /// The class of each of its pages.
    classes: [AtomicU8; CHUNK_PAGES],
}

impl Scout for PackedScout {
    type Hint = Hint;

    #[inline(always)]
    fn prefetch(&self, hash: u64, pin: &Pin) {
        if let Some(segment) = self.segment(hash, &pin.0) {
            prefetch(segment.group(home_of(hash)));
        }
    }

    #[inline(always)]
    fn prefetch_entry(&self, hash: u64, pin: &Pin) -> Hint {
        // Before anything else is looked at: what has been freed since shows in a later era.
        let era = self.era.load(Ordering::Acquire);
        let Some(segment) = self.segment(hash, &pin.0) else { return Hint::default() };
        let group = segment.group(home_of(hash));
        let Some(slot) = group.with_tag(tag_of(hash)).next() else { return Hint::default() };
        let block = group.block(slot);
        self.prefetch_block(block, &pin.0);
        Hint { block, era }
    }
}

impl PackedScout {
    #[inline(always)]
    fn segment<'g>(&self, hash: u64, guard: &'g Guard) -> Option<&'g Segment> {
        let directory = self.directory.load(Ordering::Acquire, guard);
        // SAFETY: what has been published is freed through `defer_destroy` only, after it was taken away from here: not
        // as long as `guard` lives, which was there before.
        let Directory { depth, segments } = unsafe { directory.as_ref() }?;
        let segment = segments.get(index_of(hash, *depth))?.load(Ordering::Acquire);
        // SAFETY: a published directory leads to segments of a table whose memory is freed through `Guard::defer` only,
        // after the directory was taken away; a segment was filled in before it was entered, and is never changed but
        // through atomics.
        unsafe { segment.as_ref() }
    }

    #[inline(always)]
    fn prefetch_block(&self, block: u32, guard: &Guard) {
        let (chunk, at) = split(block);
        // SAFETY: as for the directory.
        let chunks = unsafe { self.chunks.load(Ordering::Acquire, guard).as_ref() };
        let Some(chunk) = chunks.and_then(|chunks| chunks.get(chunk)) else { return };
        let first = chunk.start.load(Ordering::Relaxed).wrapping_add(at).cast_const();
        // A small entry may reach into the next line or not: asking twice is cheaper than a branch that is often
        // foretold wrongly, and than finding out how long it is.
        prefetch(first);
        prefetch(first.wrapping_add(SMALL_BYTES - 1));
        if self.has_large.load(Ordering::Relaxed) {
            let class = usize::from(chunk.classes[page_in_chunk(block)].load(Ordering::Relaxed));
            let lines = classes::units(class) * UNIT / LINE;
            (1..LINES_AHEAD.min(lines)).for_each(|line| prefetch(first.wrapping_add(line * LINE)));
        }
    }

    // --- by whoever holds the lock --------------------------------------------------------

    /// From here on scouts follow this directory.
    pub(super) fn publish(&self, depth: u32, segments: &Segments) {
        let guard = crossbeam_epoch::pin();
        let directory = Owned::new(Directory { depth, segments: Arc::clone(segments) });
        let before = self.directory.swap(directory, Ordering::AcqRel, &guard);
        if !before.is_null() {
            // SAFETY: nobody who pins from here on finds it any more.
            unsafe { guard.defer_destroy(before) };
        }
    }

    /// Scouts do not follow this directory any more, if they did; and once none is left that did, `memory` goes.
    pub(super) fn retire<T: Send + 'static>(&self, segments: &Segments, memory: T) {
        let guard = crossbeam_epoch::pin();
        let current = self.directory.load(Ordering::Acquire, &guard);
        // SAFETY: as for `segment`.
        if unsafe { current.as_ref() }.is_some_and(|current| Arc::ptr_eq(&current.segments, segments)) {
            self.directory.store(crossbeam_epoch::Shared::null(), Ordering::Release);
            // SAFETY: as for `publish`; only who holds the lock takes a directory away.
            unsafe { guard.defer_destroy(current) };
        }
        guard.defer(move || drop(memory));
        guard.flush();
    }

    /// From here on scouts know these chunks, given by their addresses and the classes of their pages.
    pub(super) fn publish_chunks(&self, chunks: impl Iterator<Item = (*mut u8, [u8; CHUNK_PAGES])>) {
        let guard = crossbeam_epoch::pin();
        let seen = |(start, classes): (*mut u8, [u8; CHUNK_PAGES])| Seen {
            start: AtomicPtr::new(start),
            classes: classes.map(AtomicU8::new),
        };
        let before = self.chunks.swap(Owned::new(chunks.map(seen).collect()), Ordering::AcqRel, &guard);
        if !before.is_null() {
            // SAFETY: as for `publish`.
            unsafe { guard.defer_destroy(before) };
        }
    }

    /// A page serves another class.
    pub(super) fn note_class(&self, block: u32, class: u8, is_large: bool) {
        let guard = crossbeam_epoch::pin();
        // SAFETY: as for `segment`.
        let chunks = unsafe { self.chunks.load(Ordering::Acquire, &guard).as_ref() };
        if let Some(chunk) = chunks.and_then(|chunks| chunks.get(split(block).0)) {
            chunk.classes[page_in_chunk(block)].store(class, Ordering::Relaxed);
        }
        if is_large {
            self.has_large.store(true, Ordering::Relaxed);
        }
    }

    /// That of whoever holds the lock.
    #[inline(always)]
    pub(super) fn era(&self) -> u64 {
        self.era.load(Ordering::Relaxed)
    }

    /// Owed after the table has forgotten a block and before the block is used for anything else.
    #[inline]
    pub(super) fn set_era(&self, era: u64) {
        self.era.store(era, Ordering::Release);
    }
}

impl Drop for PackedScout {
    fn drop(&mut self) {
        free(std::mem::take(&mut self.directory));
        free(std::mem::take(&mut self.chunks));
    }
}

fn free<T>(atomic: Atomic<T>) {
    // SAFETY: nobody else has the atomic any more, nor, since the scout is gone, what it leads to.
    drop(unsafe { atomic.try_into_owned() });
}
