//! The allocator of blocks.
//!
//! Memory comes in chunks of 2 MiB, which are divided into pages of 64 KiB, which hold blocks of one size each. A page has a
//! list of its free blocks, so that it can go back to the pool as soon as it is empty, and serve blocks of another size. A
//! block is addressed in units of 2 bytes; finding its chunk takes a shift. All access is checked against the bounds of the
//! chunk: an address that is out of date reads another block, but never memory that is not there.

#[cfg(test)]
mod checks;
mod passes;

use std::{
    mem::MaybeUninit,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    address::{CHUNK_PAGES, CHUNK_UNITS, page_of, split},
    classes::{self, BLOCK_MAX, CLASSES, PAGE, PAGE_UNITS, UNIT, class_of},
    entry::Header,
    memory::{Chunk, ChunkSource, HUGE, growth_of},
    scout::PackedScout,
};
use crate::StoreOptions;

/// Chunks that 32 bits of units reach.
pub(super) const CHUNKS_MAX: usize = (1 << 32) / CHUNK_UNITS;
/// Chunks that are left of them when [`Arena::room`] has to be asked for.
const CHUNKS_NEAR: usize = 16;
/// Bytes of an access word.
const ACCESS_BYTES: usize = 4;
/// Empty pages that are kept in reserve; the others are given back to the kernel.
const RESERVE_PAGES: usize = 4;
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
    /// Empty pages whose memory is still there.
    reserve: Vec<u32>,
    /// Empty pages whose memory has been released.
    released: Vec<u32>,
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
    /// Blocks in use.
    live: u16,
    class: u8,
    /// True if the page is in the list of pages of its class with a free block.
    is_listed: bool,
    next: u32,
    previous: u32,
    /// No entry of the page expires earlier, in milliseconds since the Unix epoch; [`NEVER`] if none expires.
    earliest: u64,
}

impl Page {
    /// Notes that an entry expires, unless its time is 0.
    #[inline(always)]
    fn note_expiry(&mut self, expires_at: u64) {
        if expires_at != 0 {
            self.earliest = self.earliest.min(expires_at);
        }
    }
}

/// Largest block that lies in two cache lines, or nearly so.
const SMALL_MAX: usize = 128;

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
            reserve: Vec::new(),
            released: Vec::new(),
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
        let page_at = at % PAGE_UNITS as u32;
        self.pages.get(page_of(at)).is_some_and(|page| {
            page_at < u32::from(page.fresh)
                && page_at.is_multiple_of(classes::units(usize::from(page.class)) as u32)
                && Header::read(self.block(at)).is_live()
        })
    }

    /// Returns the size of a block.
    #[cfg(test)]
    pub(super) fn block_bytes(&self, at: u32) -> usize {
        self.pages.get(page_of(at)).map_or(UNIT, |page| classes::units(usize::from(page.class)) * UNIT)
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
        page.live += 1;
        page.note_expiry(expires_at);
        self.classes[class].free -= 1;
        if usize::from(page.live) == classes::capacity(class) {
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
        page.live -= 1;
        let (is_empty, is_listed) = (page.live == 0, page.is_listed);
        self.classes[usize::from(page.class)].free += 1;
        Header::write_free(self.block_mut(at), link);
        if !is_listed {
            self.list(number);
        }
        if is_empty {
            self.detach(number);
            self.pool(number);
        }
    }

    // --- pages ----------------------------------------------------------------------------

    /// Returns the bytes by which [`Arena::bytes`] grows with the next block of a class.
    #[inline]
    pub(super) fn growth(&self, class: usize) -> usize {
        match self.classes[class].first != NONE || !self.reserve.is_empty() {
            true => 0,
            false => self.page_growth(),
        }
    }

    /// True if there is a free block of a class.
    pub(super) fn has_free(&self, class: usize) -> bool {
        self.classes[class].first != NONE
    }

    fn page_growth(&self) -> usize {
        let has_page = !self.released.is_empty() || self.chunks.last().is_some_and(|chunk| chunk.ready() < HUGE);
        match has_page {
            true => PAGE,
            false => PAGE + growth_of(&self.pages, CHUNK_PAGES) + growth_of(&self.chunks, 1),
        }
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

    /// Returns the bytes of pages that can still be given to a class, or `usize::MAX` if it has a free block.
    #[cold]
    pub(super) fn room(&self, class: usize) -> usize {
        if self.has_free(class) {
            return usize::MAX;
        }
        let begun = self.chunks.last().map_or(0, |chunk| HUGE - chunk.ready());
        let pages = self.reserve.len() + self.released.len();
        pages * PAGE + begun + (self.chunks_max - self.chunks.len()) * HUGE
    }

    /// True if all entries can be addressed with an access word in front of each.
    pub(super) fn can_add_access(&self) -> bool {
        let mut live = [0; CLASSES];
        for page in &self.pages {
            live[usize::from(page.class)] += usize::from(page.live);
        }
        let longer = |class: usize| class_of((classes::units(class) * UNIT + ACCESS_BYTES).min(BLOCK_MAX));
        let pages = live.iter().enumerate().map(|(class, &live)| live.div_ceil(classes::capacity(longer(class))));
        pages.sum::<usize>() <= self.chunks_max * CHUNK_PAGES
    }

    /// Returns the memory held.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let tables = self.chunks.capacity() * size_of::<Chunk>() + self.pages.capacity() * size_of::<Page>();
        self.resident * PAGE + tables + (self.reserve.capacity() + self.released.capacity()) * size_of::<u32>()
    }

    /// Gives an empty page to a class.
    #[cold]
    #[inline(never)]
    fn add_page(&mut self, class: usize) {
        let number = self.take_page(class);
        let page = &mut self.pages[number as usize];
        (page.free, page.fresh, page.live, page.class) = (NO_BLOCK, 0, 0, class as u8);
        page.earliest = NEVER;
        self.classes[class].free += classes::capacity(class) as u32;
        self.in_use[class / 64] |= 1 << (class % 64);
        let is_large = classes::units(class) * UNIT > SMALL_MAX;
        self.scout.note_class(number * PAGE_UNITS as u32, class as u8, is_large);
        self.list(number);
    }

    fn take_page(&mut self, class: usize) -> u32 {
        if let Some(number) = self.reserve.pop() {
            if usize::from(self.pages[number as usize].class) != class {
                // The access words of blocks of another size mean nothing for these.
                let (chunk, start) = split(number * PAGE_UNITS as u32);
                self.chunks[chunk].bytes_mut()[start..][..PAGE].fill(0);
            }
            return number;
        }
        self.resident += 1;
        if let Some(number) = self.released.pop() {
            let (chunk, start) = split(number * PAGE_UNITS as u32);
            self.chunks[chunk].reclaim(start..start + PAGE);
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.ready() == HUGE) {
            self.add_chunk();
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let page = index * CHUNK_PAGES + chunk.ready() / PAGE;
        chunk.extend(PAGE);
        page as u32
    }

    fn add_chunk(&mut self) {
        assert!(self.chunks.len() < self.chunks_max, "the caller has asked for room");
        let raw = self.source.next(&mut self.chunks);
        self.chunks.push(Chunk::new(raw));
        self.note_bounds();
        let (next, previous) = (NONE, NONE);
        let page =
            Page { free: NO_BLOCK, fresh: 0, live: 0, class: 0, is_listed: false, next, previous, earliest: NEVER };
        self.pages.extend([page; CHUNK_PAGES]);
        let classes = self.pages.as_chunks().0.iter().map(|pages: &[Page; CHUNK_PAGES]| pages.map(|page| page.class));
        self.scout.publish_chunks(self.chunks.iter().map(Chunk::start).zip(classes));
    }

    /// Takes a page from its class.
    fn detach(&mut self, number: u32) {
        if self.pages[number as usize].is_listed {
            self.unlist(number);
        }
        let page = &self.pages[number as usize];
        let class = usize::from(page.class);
        self.classes[class].free -= (classes::capacity(class) - usize::from(page.live)) as u32;
    }

    /// Puts a page that belongs to no class into the reserve, or releases it.
    fn pool(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        (page.free, page.fresh, page.live, page.earliest) = (NO_BLOCK, 0, 0, NEVER);
        if self.reserve.len() < RESERVE_PAGES {
            self.reserve.push(number);
            return;
        }
        self.release(number);
    }

    /// Releases the memory of a page of the reserve. False: there is none.
    pub(super) fn release_reserve(&mut self) -> bool {
        let number = self.reserve.pop();
        number.is_some_and(|number| {
            self.release(number);
            true
        })
    }

    fn release(&mut self, number: u32) {
        let (chunk, start) = split(number * PAGE_UNITS as u32);
        self.chunks[chunk].release(start..start + PAGE, self.release);
        self.released.push(number);
        self.resident -= 1;
    }

    fn list(&mut self, number: u32) {
        let class = &mut self.classes[usize::from(self.pages[number as usize].class)];
        let next = std::mem::replace(&mut class.first, number);
        if let Some(next) = self.pages.get_mut(next as usize) {
            next.previous = number;
        }
        let page = &mut self.pages[number as usize];
        (page.is_listed, page.next, page.previous) = (true, next, NONE);
    }

    fn unlist(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        page.is_listed = false;
        let Page { next, previous, class, .. } = *page;
        match self.pages.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.classes[usize::from(class)].first = next,
        }
        if let Some(next) = self.pages.get_mut(next as usize) {
            next.previous = previous;
        }
    }
}
