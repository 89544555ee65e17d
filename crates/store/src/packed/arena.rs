//! The allocator of blocks.
//!
//! Memory comes in chunks of 2 MiB, which are divided into pages of 64 KiB, which hold blocks of one size each. A page has a
//! list of its free blocks, so that it can go back to the pool as soon as it is empty, and serve blocks of another size. Two
//! pages of large blocks may be a pair, with a block that begins on the first and ends on the second: it belongs to the first,
//! and both go back when both are empty. A block is addressed in units of 2 bytes; finding its chunk takes a shift. All access
//! is checked against the bounds of the chunk: an address that is out of date reads another block, but never memory that is
//! not there.

#[cfg(test)]
mod checks;
mod passes;
mod pool;

use std::{
    iter::StepBy,
    mem::MaybeUninit,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    address::{CHUNK_PAGES, CHUNK_UNITS, page_of, split},
    classes::{self, BLOCK_MAX, CLASSES, PAGE, PAGE_UNITS, Part, UNIT, class_of},
    entry::Header,
    memory::{Chunk, ChunkSource},
    scout::PackedScout,
};
use crate::StoreOptions;

/// Chunks that 32 bits of units reach.
pub(super) const CHUNKS_MAX: usize = (1 << 32) / CHUNK_UNITS;
/// Chunks that are left of them when [`Arena::room`] has to be asked for.
const CHUNKS_NEAR: usize = 16;
/// Bytes of an access word.
const ACCESS_BYTES: usize = 4;
/// Generations of one arena. Those of the next arena begin behind them, so that no two arenas share one.
const GENERATIONS: u64 = 1 << 40;
static NEXT_GENERATION: AtomicU64 = AtomicU64::new(GENERATIONS);
/// No page, and no block within a page.
const NONE: u32 = u32::MAX;
const NO_BLOCK: u16 = u16::MAX;
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Arena {
    chunks: Vec<Chunk>,
    /// [`CHUNK_PAGES`] for each chunk.
    pages: Vec<Page>,
    classes: [Class; CLASSES],
    /// A bit for each class that has had a page. The others need no look for pages to vacate.
    in_use: [u64; CLASSES.div_ceil(64)],
    /// Pages of each class.
    pages_of: [u32; CLASSES],
    /// Empty pages whose memory is still there.
    reserve: Vec<u32>,
    /// The first of the pages whose memory has been released, while that of their neighbours is there.
    released: u32,
    /// The first of the even pages whose memory has been released together with that of the page behind them.
    released_pairs: u32,
    /// Pages whose memory is there.
    resident: usize,
    scout: Arc<PackedScout>,
    source: ChunkSource,
    release: fn(&mut [MaybeUninit<u8>]),
    /// Bytes of the access word in front of each entry: 4, or 0 if there are none.
    access_bytes: usize,
    /// [`CHUNKS_MAX`], or less in tests.
    chunks_max: usize,
    /// See [`crate::Store::set_limited`].
    is_limited: bool,
    /// True if there is a limit, or little of the addressable memory is left: one byte to look at for each write.
    is_bounded: bool,
}

/// State of a page.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// The first free block that was in use once, and the first that never was, in units from the beginning of the page.
    free: u16,
    fresh: u16,
    /// Blocks that are free. If there are any, the page is in the list of such pages of its class.
    room: u16,
    class: u8,
    part: Part,
    next: u32,
    previous: u32,
    /// No entry of the page expires earlier, in milliseconds since the Unix epoch; [`NEVER`] if none expires.
    earliest: u64,
}

impl Page {
    const EMPTY: Self = Self {
        free: NO_BLOCK,
        fresh: 0,
        room: 0,
        class: 0,
        part: Part::Empty,
        next: NONE,
        previous: NONE,
        earliest: NEVER,
    };

    fn class(&self) -> usize {
        usize::from(self.class)
    }

    /// Returns the number of blocks.
    fn capacity(&self) -> usize {
        usize::from(classes::capacity(self.class(), self.part))
    }

    /// Returns the number of blocks in use.
    fn live(&self) -> usize {
        self.capacity() - usize::from(self.room)
    }

    /// Returns the units of the page at which the blocks begin that have ever been in use.
    fn starts(&self) -> StepBy<Range<usize>> {
        (classes::start(self.class(), self.part)..usize::from(self.fresh)).step_by(classes::units(self.class()))
    }

    /// Notes that an entry expires, unless its time is 0.
    #[inline(always)]
    fn note_expiry(&mut self, expires_at: u64) {
        if expires_at != 0 {
            self.earliest = self.earliest.min(expires_at);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Class {
    /// The first of its pages with a free block.
    first: u32,
    /// Free blocks on all of its pages.
    free: u32,
}

impl Arena {
    pub(super) fn new(options: &StoreOptions, has_access: bool, scout: Arc<PackedScout>) -> Self {
        // Hints from the arena before this one must not be taken for valid.
        scout.set_generation(NEXT_GENERATION.fetch_add(GENERATIONS, Ordering::Relaxed));
        Self {
            chunks: Vec::new(),
            pages: Vec::new(),
            classes: [Class { first: NONE, free: 0 }; CLASSES],
            in_use: [0; CLASSES.div_ceil(64)],
            pages_of: [0; CLASSES],
            reserve: Vec::new(),
            released: NONE,
            released_pairs: NONE,
            resident: 0,
            scout,
            source: ChunkSource::new(options),
            release: options.release,
            access_bytes: if has_access { ACCESS_BYTES } else { 0 },
            chunks_max: CHUNKS_MAX,
            is_limited: false,
            is_bounded: false,
        }
    }

    /// Returns the bytes from the beginning of a block's entry to somewhere behind the end of the block.
    #[inline]
    pub(super) fn block(&self, at: u32) -> &[u8] {
        let (chunk, start) = split(at);
        &self.chunks[chunk].bytes()[start + self.access_bytes..]
    }

    #[inline]
    pub(super) fn block_mut(&mut self, at: u32) -> &mut [u8] {
        let (chunk, start) = split(at);
        &mut self.chunks[chunk].bytes_mut()[start + self.access_bytes..]
    }

    /// Returns the class of blocks for entries of so many bytes.
    #[inline]
    pub(super) fn class_of(&self, entry_bytes: usize) -> usize {
        class_of(self.access_bytes + entry_bytes)
    }

    pub(super) fn has_access(&self) -> bool {
        self.access_bytes > 0
    }

    /// Returns the access word of a block; 0 if there are none.
    #[inline]
    pub(super) fn access(&self, at: u32) -> u32 {
        let (chunk, start) = split(at);
        let word = self.chunks[chunk].bytes()[start..].first_chunk().filter(|_| self.has_access());
        word.map_or(0, |&word| u32::from_ne_bytes(word))
    }

    #[inline]
    pub(super) fn set_access(&mut self, at: u32, word: u32) {
        let (chunk, start) = split(at);
        if self.has_access() {
            self.chunks[chunk].bytes_mut()[start..][..ACCESS_BYTES].copy_from_slice(&word.to_ne_bytes());
        }
    }

    /// Copies a whole block of a class, its access word included.
    pub(super) fn copy_block(&mut self, from: u32, to: u32, class: usize) {
        self.copy_bytes((from, 0), (to, 0), classes::units(class) * UNIT);
    }

    /// Copies bytes of an entry to another or the same; each comes with an offset.
    pub(super) fn copy(&mut self, from: (u32, usize), to: (u32, usize), bytes: usize) {
        let at = self.access_bytes;
        self.copy_bytes((from.0, from.1 + at), (to.0, to.1 + at), bytes);
    }

    /// Copies bytes of a block to another or the same; each comes with an offset.
    fn copy_bytes(&mut self, from: (u32, usize), to: (u32, usize), bytes: usize) {
        let ((from_chunk, start), (to_chunk, to_start)) = (split(from.0), split(to.0));
        let (from, to) = (start + from.1, to_start + to.1);
        match self.chunks.get_disjoint_mut([from_chunk, to_chunk]) {
            Ok([source, target]) => {
                target.bytes_mut()[to..][..bytes].copy_from_slice(&source.bytes()[from..][..bytes]);
            }
            Err(_) => self.chunks[from_chunk].bytes_mut().copy_within(from..from + bytes, to),
        }
    }

    /// True if a block that is in use begins there.
    #[inline]
    pub(super) fn is_live(&self, at: u32) -> bool {
        let page_at = at as usize % PAGE_UNITS;
        self.pages.get(page_of(at)).is_some_and(|page| {
            let start = classes::start(page.class(), page.part);
            page_at < usize::from(page.fresh)
                && page_at >= start
                && ((page_at - start) as u32).is_multiple_of(classes::units(page.class()) as u32)
                && Header::read(self.block(at)).is_live()
        })
    }

    /// Returns the size of a block.
    #[cfg(test)]
    pub(super) fn block_bytes(&self, at: u32) -> usize {
        self.pages.get(page_of(at)).map_or(UNIT, |page| classes::units(page.class()) * UNIT)
    }

    /// Allocates a block of a class, for an entry that expires at this time, in milliseconds since the Unix epoch; 0: never.
    /// Its access word is valid, its header is not.
    #[inline]
    pub(super) fn allocate(&mut self, class: usize, expires_at: u64) -> u32 {
        if self.classes[class].first == NONE {
            self.add_page(class);
        }
        let number = self.classes[class].first;
        let page = &mut self.pages[number as usize];
        let base = number * PAGE_UNITS as u32;
        let at = match page.free {
            NO_BLOCK => {
                let fresh = page.fresh;
                page.fresh += classes::units(class) as u16;
                base + u32::from(fresh)
            }
            free => {
                let at = base + u32::from(free);
                let (chunk, start) = split(at);
                page.free = Header::link(&self.chunks[chunk].bytes()[start + self.access_bytes..]);
                at
            }
        };
        page.room -= 1;
        page.note_expiry(expires_at);
        let is_full = page.room == 0;
        self.classes[class].free -= 1;
        if is_full {
            self.unlist(number);
        }
        at
    }

    /// Returns the generation. It changes whenever a block is freed, differs between arenas, and is never 0.
    #[inline(always)]
    pub(super) fn generation(&self) -> u64 {
        self.scout.generation()
    }

    #[inline]
    fn next_generation(&self) {
        self.scout.set_generation(self.generation() + 1);
    }

    /// Frees a block of [`Arena::allocate`].
    #[inline]
    pub(super) fn free(&mut self, at: u32) {
        self.next_generation();
        let number = page_of(at) as u32;
        let page = &mut self.pages[number as usize];
        let link = std::mem::replace(&mut page.free, (at % PAGE_UNITS as u32) as u16);
        let was_full = page.room == 0;
        page.room += 1;
        let is_empty = usize::from(page.room) == page.capacity();
        self.classes[page.class()].free += 1;
        Header::write_free(self.block_mut(at), link);
        if was_full {
            self.list(number);
        }
        if is_empty {
            self.retire(number);
        }
    }

    // --- pages ----------------------------------------------------------------------------

    /// True if there is a free block of a class.
    pub(super) fn has_free(&self, class: usize) -> bool {
        self.classes[class].first != NONE
    }

    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    pub(super) fn set_limited(&mut self, is_limited: bool) {
        self.is_limited = is_limited;
        self.note_bounds();
    }

    fn note_bounds(&mut self) {
        self.is_bounded = self.is_limited || self.is_nearly_full();
    }

    /// True if there is a limit, or little of the addressable memory is left.
    #[inline(always)]
    pub(super) fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    /// True if little of the addressable memory is left.
    #[inline]
    pub(super) fn is_nearly_full(&self) -> bool {
        self.chunks.len() + CHUNKS_NEAR > self.chunks_max
    }

    /// True if all entries can be addressed with an access word in front of each.
    pub(super) fn can_add_access(&self) -> bool {
        let mut live = [0; CLASSES];
        for page in &self.pages {
            live[page.class()] += page.live();
        }
        let longer = |class: usize| class_of((classes::units(class) * UNIT + ACCESS_BYTES).min(BLOCK_MAX));
        let capacity = |class: usize| usize::from(classes::capacity(longer(class), Part::Single));
        let pages = live.iter().enumerate().map(|(class, &live)| live.div_ceil(capacity(class)));
        pages.sum::<usize>() <= self.chunks_max * CHUNK_PAGES
    }

    /// Returns the memory held.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let tables = self.chunks.capacity() * size_of::<Chunk>() + self.pages.capacity() * size_of::<Page>();
        self.resident * PAGE + tables + self.reserve.capacity() * size_of::<u32>()
    }
}
