//! Prefetching without the lock that the store is behind.
//!
//! The thread that holds the lock publishes the directory and the addresses of chunks here. A scout follows them while other
//! threads change what they lead to. It reads nothing but atomics, and takes nothing that it finds for true: a [`Hint`] is
//! checked under the lock. Memory that a scout may be reading is freed only when no such scout is left (epochs: Keir Fraser,
//! Practical lock-freedom, 2004, section 5.2.3).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering},
};

use crossbeam_epoch::{Atomic, Guard, Owned};

use super::{
    Hint,
    address::{CHUNK_PAGES, page_in_chunk, split},
    classes::{self, UNIT},
    group::tag_of,
    memory::{LINE, prefetch},
    segment::{Segment, home_of, index_of},
};
use crate::{Pin, Scout};

/// Bytes of a usual entry, which has a short key and a short value: they are prefetched whatever the length of the entry.
const SMALL_BYTES: usize = 40;
/// Most cache lines of an entry that are prefetched; the processor prefetches the next ones by itself.
const LINES_AHEAD: usize = 17;

/// The scout of a [`super::PackedStore`].
#[derive(Debug, Default)]
pub struct PackedScout {
    directory: Atomic<Directory>,
    chunks: Atomic<Vec<ChunkInfo>>,
    /// Changes whenever a block is freed, and with every arena; never 0 once there is an arena.
    generation: AtomicU64,
    /// True if some blocks are, or were, longer than two cache lines.
    has_large: AtomicBool,
}

/// The entries of a directory. Only the pointers change in place.
pub(super) type SegmentPointers = Arc<[AtomicPtr<Segment>]>;

#[derive(Debug)]
struct Directory {
    depth: u32,
    segments: SegmentPointers,
}

/// A chunk as scouts know it.
#[derive(Debug)]
struct ChunkInfo {
    /// Only prefetched, never read.
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
        // Read before anything else: a block that is freed afterwards belongs to an older generation.
        let generation = self.generation.load(Ordering::Acquire);
        let Some(segment) = self.segment(hash, &pin.0) else { return Hint::default() };
        let group = segment.group(home_of(hash));
        let Some(slot) = group.with_tag(tag_of(hash)).next() else { return Hint::default() };
        let block = group.block(slot);
        self.prefetch_block(block, &pin.0);
        Hint { block, generation }
    }
}

impl PackedScout {
    #[inline(always)]
    fn segment<'g>(&self, hash: u64, guard: &'g Guard) -> Option<&'g Segment> {
        let directory = self.directory.load(Ordering::Acquire, guard);
        // SAFETY: a published directory is freed through `defer_destroy` only, after it was taken away from here: not as long
        // as `guard` lives, which was made before.
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
        // A small entry may or may not reach into the next line: a second prefetch is cheaper than a branch that is often
        // mispredicted, and than reading the length.
        prefetch(first);
        prefetch(first.wrapping_add(SMALL_BYTES - 1));
        if self.has_large.load(Ordering::Relaxed) {
            let class = usize::from(chunk.classes[page_in_chunk(block)].load(Ordering::Relaxed));
            let lines = classes::units(class) * UNIT / LINE;
            (1..LINES_AHEAD.min(lines)).for_each(|line| prefetch(first.wrapping_add(line * LINE)));
        }
    }

    // --- under the lock -------------------------------------------------------------------

    /// Publishes a directory.
    pub(super) fn publish(&self, depth: u32, segments: &SegmentPointers) {
        let guard = crossbeam_epoch::pin();
        let directory = Owned::new(Directory { depth, segments: Arc::clone(segments) });
        let before = self.directory.swap(directory, Ordering::AcqRel, &guard);
        if !before.is_null() {
            // SAFETY: a thread that pins from here on does not find it any more.
            unsafe { guard.defer_destroy(before) };
        }
    }

    /// Withdraws a directory, if it is the published one. `memory` is dropped when no scout can be reading it.
    pub(super) fn retire<T: Send + 'static>(&self, segments: &SegmentPointers, memory: T) {
        let guard = crossbeam_epoch::pin();
        let current = self.directory.load(Ordering::Acquire, &guard);
        // SAFETY: as for `segment`.
        if unsafe { current.as_ref() }.is_some_and(|current| Arc::ptr_eq(&current.segments, segments)) {
            self.directory.store(crossbeam_epoch::Shared::null(), Ordering::Release);
            // SAFETY: as for `publish`; only the thread that holds the lock takes a directory away.
            unsafe { guard.defer_destroy(current) };
        }
        guard.defer(move || drop(memory));
        guard.flush();
    }

    /// Publishes the chunks, by their addresses and the classes of their pages.
    pub(super) fn publish_chunks(&self, chunks: impl Iterator<Item = (*mut u8, [u8; CHUNK_PAGES])>) {
        let guard = crossbeam_epoch::pin();
        let seen = |(start, classes): (*mut u8, [u8; CHUNK_PAGES])| ChunkInfo {
            start: AtomicPtr::new(start),
            classes: classes.map(AtomicU8::new),
        };
        let before = self.chunks.swap(Owned::new(chunks.map(seen).collect()), Ordering::AcqRel, &guard);
        if !before.is_null() {
            // SAFETY: as for `publish`.
            unsafe { guard.defer_destroy(before) };
        }
    }

    /// Publishes the new class of a page.
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

    /// Returns the generation, for the thread that holds the lock.
    #[inline(always)]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Sets the generation. Has to be called after the table has dropped a block and before the block is used again.
    #[inline]
    pub(super) fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Release);
    }
}

impl Drop for PackedScout {
    fn drop(&mut self) {
        free(std::mem::take(&mut self.directory));
        free(std::mem::take(&mut self.chunks));
    }
}

fn free<T>(atomic: Atomic<T>) {
    // SAFETY: the scout is gone, so no other thread has the atomic, or what it leads to.
    drop(unsafe { atomic.try_into_owned() });
}
