//! Blocks for entries.
//!
//! Memory comes in chunks of 2 MiB, which are divided into pages of 64 KiB, which hold blocks of one size each. A
//! page keeps a list of its free blocks, so that it can go back to the pool as soon as nothing lives in it, and serve
//! blocks of another size. A block is addressed in units of 8 bytes; finding its chunk
//! takes a shift. All access is checked against the bounds of the chunk: an address that
//! is out of date reads something else, but never anything that is not there.

use std::{
    mem::MaybeUninit,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    classes::{self, CLASSES, PAGE, PAGE_UNITS, UNIT},
    entry::Header,
    memory::{Chunk, HUGE, Pieces, growth_of},
    scout::PackedScout,
};
use crate::StoreOptions;

/// Pages in a chunk, of the full size.
pub(super) const CHUNK_PAGES: usize = HUGE / PAGE;
/// Chunks that begin as small pages: what is unused of a huge page would be much beside fewer.
const SMALL_PIECES: usize = 8;
/// Units in a chunk.
const CHUNK_UNITS: usize = HUGE / UNIT;
/// Chunks that 32 bits of units reach.
const CHUNKS_MAX: usize = (1 << 32) / CHUNK_UNITS;
/// Empty pages that are kept for the next to ask; the kernel gets the others.
const RESERVE_PAGES: usize = 4;
/// Pages of a class that are compared to find the one to vacate.
const CANDIDATES: usize = 64;
/// Eras of an arena, before they could be taken for those of another, and where those of the next one begin.
const ERAS: u64 = 1 << 40;
static NEXT_ERA: AtomicU64 = AtomicU64::new(ERAS);
/// No page, and no block within a page.
const NONE: u32 = u32::MAX;
const NO_BLOCK: u16 = u16::MAX;

#[derive(Debug)]
pub(super) struct Arena {
    chunks: Vec<Chunk>,
    /// [`CHUNK_PAGES`] for each chunk.
    pages: Vec<Page>,
    classes: [Class; CLASSES],
    /// Empty pages whose memory is still there.
    reserve: Vec<u32>,
    /// Empty pages whose memory has been released.
    released: Vec<u32>,
    /// Pages whose memory is there.
    resident: usize,
    scout: Arc<PackedScout>,
    pieces: Pieces,
    release: fn(&mut [MaybeUninit<u8>]),
}

/// What is known of 64 KiB.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// The first free block that was in use once, and the first that never was: units from the page's beginning.
    free: u16,
    fresh: u16,
    /// Blocks in use.
    live: u16,
    class: u8,
    /// Among those of its class that have a free block.
    is_listed: bool,
    next: u32,
    previous: u32,
}

/// Blocks up to so many bytes are read whole in two cache lines, or nearly so.
const SMALL_MAX: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Class {
    /// The first of its pages that have a free block.
    first: u32,
    /// Free blocks on all of its pages.
    free: u32,
}

impl Arena {
    pub(super) fn new(options: &StoreOptions, scout: Arc<PackedScout>) -> Self {
        // What was found in the arena before this one is worth nothing here.
        scout.set_era(NEXT_ERA.fetch_add(ERAS, Ordering::Relaxed));
        Self {
            chunks: Vec::new(),
            pages: Vec::new(),
            classes: [Class { first: NONE, free: 0 }; CLASSES],
            reserve: Vec::new(),
            released: Vec::new(),
            resident: 0,
            scout,
            pieces: Pieces::new(options, SMALL_PIECES),
            release: options.release,
        }
    }

    /// From the beginning of a block to somewhere behind its end.
    #[inline]
    pub(super) fn block(&self, at: u32) -> &[u8] {
        let (chunk, start) = split(at);
        &self.chunks[chunk].bytes()[start..]
    }

    #[inline]
    pub(super) fn block_mut(&mut self, at: u32) -> &mut [u8] {
        let (chunk, start) = split(at);
        &mut self.chunks[chunk].bytes_mut()[start..]
    }

    /// Copies bytes of a block, from the offset that comes with it, to another or the same.
    pub(super) fn copy(&mut self, from: (u32, usize), to: (u32, usize), bytes: usize) {
        let ((from_chunk, start), (to_chunk, to_start)) = (split(from.0), split(to.0));
        let (from, to) = (start + from.1, to_start + to.1);
        match self.chunks.get_disjoint_mut([from_chunk, to_chunk]) {
            Ok([source, target]) => {
                target.bytes_mut()[to..][..bytes].copy_from_slice(&source.bytes()[from..][..bytes]);
            }
            Err(_) => self.chunks[from_chunk].bytes_mut().copy_within(from..from + bytes, to),
        }
    }

    /// Whether a block begins there that is in use.
    #[inline]
    pub(super) fn is_live(&self, at: u32) -> bool {
        let page_at = at % PAGE_UNITS as u32;
        self.pages.get(page_of(at)).is_some_and(|page| {
            page_at < u32::from(page.fresh)
                && page_at.is_multiple_of(classes::units(usize::from(page.class)) as u32)
                && Header::read(self.block(at)).is_live()
        })
    }

    /// Bytes of a block.
    #[cfg(test)]
    pub(super) fn block_bytes(&self, at: u32) -> usize {
        self.pages.get(page_of(at)).map_or(UNIT, |page| classes::units(usize::from(page.class)) * UNIT)
    }

    /// A block of a class. Its access word is there, its header is not.
    #[inline]
    pub(super) fn allocate(&mut self, class: usize) -> u32 {
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
                page.free = Header::read(&self.chunks[chunk].bytes()[start..]).link();
                at
            }
        };
        page.live += 1;
        self.classes[class].free -= 1;
        if usize::from(page.live) == classes::capacity(class) {
            self.unlist(number);
        }
        at
    }

    /// Another one whenever a block that was in use is not any more, and in every arena; never 0.
    #[inline(always)]
    pub(super) fn era(&self) -> u64 {
        self.scout.era()
    }

    #[inline]
    fn next_era(&self) {
        self.scout.set_era(self.era() + 1);
    }

    /// Gives a block back that [`Arena::allocate`] gave.
    #[inline]
    pub(super) fn free(&mut self, at: u32) {
        self.next_era();
        let number = page_of(at) as u32;
        let page = &mut self.pages[number as usize];
        let link = std::mem::replace(&mut page.free, (at % PAGE_UNITS as u32) as u16);
        page.live -= 1;
        let (is_empty, is_listed) = (page.live == 0, page.is_listed);
        self.classes[usize::from(page.class)].free += 1;
        Header::free(link).write(self.block_mut(at));
        if !is_listed {
            self.list(number);
        }
        if is_empty {
            self.detach(number);
            self.pool(number);
        }
    }

    // --- pages ----------------------------------------------------------------------------

    /// Bytes by which [`Arena::bytes`] grows with the next block of a class.
    #[inline]
    pub(super) fn growth(&self, class: usize) -> usize {
        match self.classes[class].first != NONE || !self.reserve.is_empty() {
            true => 0,
            false => self.page_growth(),
        }
    }

    /// Whether there is a free block of a class.
    pub(super) fn has_free(&self, class: usize) -> bool {
        self.classes[class].first != NONE
    }

    fn page_growth(&self) -> usize {
        let has_page = !self.released.is_empty() || self.chunks.last().is_some_and(|chunk| chunk.ready() < HUGE);
        match has_page {
            true => PAGE,
            // Beyond what can be addressed nothing fits.
            false if self.chunks.len() == CHUNKS_MAX => usize::MAX / 2,
            false => PAGE + growth_of(&self.pages, CHUNK_PAGES) + growth_of(&self.chunks, 1),
        }
    }

    /// Memory held.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let tables = self.chunks.capacity() * size_of::<Chunk>() + self.pages.capacity() * size_of::<Page>();
        self.resident * PAGE + tables + (self.reserve.capacity() + self.released.capacity()) * size_of::<u32>()
    }

    /// Gives a class a page that has nothing but free blocks.
    #[cold]
    #[inline(never)]
    fn add_page(&mut self, class: usize) {
        let number = self.take_page(class);
        let page = &mut self.pages[number as usize];
        (page.free, page.fresh, page.live, page.class) = (NO_BLOCK, 0, 0, class as u8);
        self.classes[class].free += classes::capacity(class) as u32;
        let is_large = classes::units(class) * UNIT > SMALL_MAX;
        self.scout.note_class(number * PAGE_UNITS as u32, class as u8, is_large);
        self.list(number);
    }

    fn take_page(&mut self, class: usize) -> u32 {
        if let Some(number) = self.reserve.pop() {
            if usize::from(self.pages[number as usize].class) != class {
                // What the policy has noted of blocks of another size means nothing to these.
                self.block_mut(number * PAGE_UNITS as u32)[..PAGE].fill(0);
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
        assert!(self.chunks.len() < CHUNKS_MAX, "a packed store holds at most 32 GiB of entries");
        let raw = self.pieces.next(&mut self.chunks);
        self.chunks.push(Chunk::new(raw));
        let page = Page { free: NO_BLOCK, fresh: 0, live: 0, class: 0, is_listed: false, next: NONE, previous: NONE };
        self.pages.extend([page; CHUNK_PAGES]);
        let classes = self.pages.as_chunks().0.iter().map(|pages: &[Page; CHUNK_PAGES]| pages.map(|page| page.class));
        self.scout.publish_chunks(self.chunks.iter().map(Chunk::start).zip(classes));
    }

    /// Takes a page away from its class.
    fn detach(&mut self, number: u32) {
        if self.pages[number as usize].is_listed {
            self.unlist(number);
        }
        let page = &self.pages[number as usize];
        let class = usize::from(page.class);
        self.classes[class].free -= (classes::capacity(class) - usize::from(page.live)) as u32;
    }

    /// Puts a page that belongs to no class at the disposal of all.
    fn pool(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        (page.free, page.fresh, page.live) = (NO_BLOCK, 0, 0);
        if self.reserve.len() < RESERVE_PAGES {
            self.reserve.push(number);
            return;
        }
        self.release(number);
    }

    /// Lets go of the memory of an empty page that has been kept. False: there is none.
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

    // --- compaction -----------------------------------------------------------------------

    /// Chooses a page whose entries fit other pages of its class, and takes it out of use; [`Arena::vacated`] is owed.
    pub(super) fn vacate(&mut self) -> Option<Vacated> {
        let spare = |class: &usize| self.classes[*class].free as usize / classes::capacity(*class);
        // A page can be emptied once a page's worth of blocks is free: those elsewhere hold what is left on it.
        let class = (0..CLASSES).max_by_key(spare).filter(|class| spare(class) > 0)?;
        let page = |number: u32| self.pages.get(number as usize);
        let listed = std::iter::successors(Some(self.classes[class].first), |&at| page(at).map(|page| page.next));
        let candidates = listed.take_while(|&at| at != NONE).take(CANDIDATES);
        let number = candidates.min_by_key(|&page| self.pages[page as usize].live)?;
        self.detach(number);
        let base = number * PAGE_UNITS as u32;
        let fresh = u32::from(self.pages[number as usize].fresh);
        let starts = (0..fresh).step_by(classes::units(class)).map(|at| base + at);
        let live = starts.filter(|&at| Header::read(self.block(at)).is_live()).collect();
        Some(Vacated { number, class, live })
    }

    /// Nothing on that page is needed any more.
    pub(super) fn vacated(&mut self, page: Vacated) {
        self.next_era();
        self.pool(page.number);
    }
}

/// A page out of use.
pub(super) struct Vacated {
    number: u32,
    pub(super) class: usize,
    /// Blocks that are to move elsewhere.
    pub(super) live: Vec<u32>,
}

/// The chunk of a block, and the byte at which it begins there.
#[inline]
pub(super) fn split(at: u32) -> (usize, usize) {
    (at as usize / CHUNK_UNITS, at as usize % CHUNK_UNITS * UNIT)
}

/// Which of a chunk's pages a block is on.
#[inline]
pub(super) fn page_in_chunk(at: u32) -> usize {
    page_of(at) % CHUNK_PAGES
}

#[inline]
fn page_of(at: u32) -> usize {
    at as usize / PAGE_UNITS
}

#[cfg(test)]
impl Arena {
    /// Blocks in use, after counting everything again.
    pub(super) fn checked_live(&self) -> usize {
        let mut free = [0; CLASSES];
        let mut live = 0;
        let mut listed = 0;
        for (number, page) in self.pages.iter().enumerate().filter(|(_, page)| page.fresh > 0 || page.is_listed) {
            let class = usize::from(page.class);
            let base = (number * PAGE_UNITS) as u32;
            let blocks = (0..u32::from(page.fresh)).step_by(classes::units(class)).map(|at| base + at);
            assert_eq!(blocks.filter(|&at| self.is_live(at)).count(), usize::from(page.live), "page {number}");
            let room = classes::capacity(class) - usize::from(page.live);
            assert_eq!(page.is_listed, room > 0, "page {number}");
            assert!(page.live > 0 || page.fresh == 0, "page {number} is empty and not in the pool");
            free[class] += room;
            live += usize::from(page.live);
            listed += usize::from(page.is_listed);
        }
        for (class, free) in free.into_iter().enumerate() {
            assert_eq!(self.classes[class].free as usize, free, "class {class}");
            let mut at = self.classes[class].first;
            while at != NONE {
                assert_eq!(usize::from(self.pages[at as usize].class), class);
                (at, listed) = (self.pages[at as usize].next, listed - 1);
            }
        }
        assert_eq!(listed, 0, "a page is in no list");
        let ready: usize = self.chunks.iter().map(|chunk| chunk.ready() / PAGE).sum();
        assert_eq!(self.resident, ready - self.released.len());
        live
    }
}
