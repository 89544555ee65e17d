//! The way of pages: from the end of the last chunk or from the pool of empty ones to a class, and back.

use std::{mem, ops::Range};

use super::{
    super::{
        address::{CHUNK_PAGES, split},
        classes::{self, PAGE, PAGE_UNITS, Part, UNIT},
        memory::{Chunk, HUGE, growth_of},
    },
    Arena, NEVER, NO_BLOCK, NONE, Page,
};

/// Empty pages that are kept in reserve; the others are given back to the kernel.
const RESERVE_PAGES: usize = 4;
/// Pages that a class has before it gets pairs: beside less, the unused part of a pair would be much.
const PAIRS_FROM: u32 = 8;
/// Largest block that lies in two cache lines, or nearly so.
const SMALL_MAX: usize = 128;

impl Arena {
    /// Returns the bytes by which [`Arena::bytes`] grows with the next block of a class.
    #[inline]
    pub(in crate::packed) fn growth(&self, class: usize) -> usize {
        match self.classes[class].first != NONE || !self.reserve.is_empty() {
            true => 0,
            false => self.page_growth(class),
        }
    }

    #[inline]
    fn page_growth(&self, class: usize) -> usize {
        let pages = if self.takes_pair(class) { 2 * PAGE } else { PAGE };
        match self.has_released() || !self.is_last_full() {
            true => pages,
            false => pages + growth_of(&self.pages, CHUNK_PAGES) + growth_of(&self.chunks, 1),
        }
    }

    /// Returns the bytes of pages that can still be given to a class, or `usize::MAX` if it has a free block.
    #[cold]
    pub(in crate::packed) fn room(&self, class: usize) -> usize {
        match self.has_free(class) {
            true => usize::MAX,
            false => self.chunks_max * HUGE - (self.resident - self.reserve.len()) * PAGE,
        }
    }

    // --- from the pool --------------------------------------------------------------------

    /// Gives an empty page to a class, or two.
    #[cold]
    #[inline(never)]
    pub(super) fn add_page(&mut self, class: usize) {
        let span = self.take_span(class);
        let parts = match span.len() {
            1 => [Part::Single, Part::Empty],
            _ => [Part::First, Part::Second],
        };
        // The first is listed last, so that it is filled first.
        for (number, part) in span.zip(parts).rev() {
            self.begin(number, class, part);
        }
        self.in_use[class / 64] |= 1 << (class % 64);
    }

    fn begin(&mut self, number: u32, class: usize, part: Part) {
        let (fresh, room) = (classes::start(class, part) as u16, classes::capacity(class, part));
        let page = &mut self.pages[number as usize];
        *page = Page { free: NO_BLOCK, fresh, room, class: class as u8, part, earliest: NEVER, ..*page };
        self.classes[class].free += u32::from(room);
        self.pages_of[class] += 1;
        let is_large = classes::units(class) * UNIT > SMALL_MAX;
        self.scout.note_class(number * PAGE_UNITS as u32, class as u8, is_large);
        self.list(number);
    }

    /// Takes a page, or a pair, out of the pool, or from the end of the last chunk. A single page whose memory is there comes
    /// before a pair whose memory is not: it takes no more memory, and what is vacated for another class is used.
    fn take_span(&mut self, class: usize) -> Range<u32> {
        if let Some(first) = self.wants_pair(class).then(|| self.reserved_pair()).flatten() {
            self.reserve.retain(|&number| number & !1 != first);
            (first..first + 2).for_each(|number| self.clean(number, class));
            return first..first + 2;
        }
        if let Some(number) = self.reserve.pop() {
            self.clean(number, class);
            return number..number + 1;
        }
        let pages = if self.takes_pair(class) { 2 } else { 1 };
        self.resident += pages;
        let first = match self.has_released() {
            true => self.take_released(pages),
            false => self.take_new(pages),
        };
        first..first + pages as u32
    }

    /// True if a class has pairs, and is large enough for them.
    #[inline]
    fn wants_pair(&self, class: usize) -> bool {
        classes::has_pairs(class) && self.pages_of[class] >= PAIRS_FROM
    }

    /// True if a class gets a pair next, provided that nothing is in reserve.
    #[inline]
    fn takes_pair(&self, class: usize) -> bool {
        self.wants_pair(class)
            && match (self.released_pairs, self.released) {
                (NONE, NONE) => self.last_ready().is_multiple_of(2),
                // A gap that is filled is better than memory behind it: nothing may ever come that fits it better.
                (NONE, _) => false,
                _ => true,
            }
    }

    /// Returns the first page of a pair that is in reserve.
    fn reserved_pair(&self) -> Option<u32> {
        self.reserve.iter().copied().find(|&number| number % 2 == 0 && self.reserve.contains(&(number + 1)))
    }

    /// Prepares a page of the reserve for a class.
    fn clean(&mut self, number: u32, class: usize) {
        // The access words of blocks that began elsewhere mean nothing for these.
        if self.pages[number as usize].class() != class || classes::has_pairs(class) {
            let (chunk, start) = split(number * PAGE_UNITS as u32);
            self.chunks[chunk].bytes_mut()[start..][..PAGE].fill(0);
        }
    }

    fn has_released(&self) -> bool {
        self.released != NONE || self.released_pairs != NONE
    }

    /// Takes one page or two whose memory has been released. One is taken from a pair where there is no other.
    fn take_released(&mut self, pages: usize) -> u32 {
        let is_pair = pages == 2 || self.released == NONE;
        let list = if is_pair { &mut self.released_pairs } else { &mut self.released };
        let first = *list;
        unlink(&mut self.pages, list, first);
        if is_pair && pages == 1 {
            link(&mut self.pages, &mut self.released, first + 1);
        }
        let (chunk, start) = split(first * PAGE_UNITS as u32);
        self.chunks[chunk].reclaim(start..start + pages * PAGE);
        first
    }

    /// Takes pages that never were in use.
    fn take_new(&mut self, pages: usize) -> u32 {
        if self.is_last_full() {
            self.add_chunk();
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let first = index * CHUNK_PAGES + chunk.ready() / PAGE;
        chunk.extend(pages * PAGE);
        first as u32
    }

    /// Returns the number of pages of the last chunk that have been begun.
    fn last_ready(&self) -> usize {
        self.chunks.last().map_or(0, |chunk| chunk.ready() / PAGE)
    }

    fn is_last_full(&self) -> bool {
        self.chunks.last().is_none_or(|chunk| chunk.ready() == HUGE)
    }

    fn add_chunk(&mut self) {
        assert!(self.chunks.len() < self.chunks_max, "the caller has asked for room");
        let raw = self.source.next(&mut self.chunks);
        self.chunks.push(Chunk::new(raw));
        self.note_bounds();
        self.pages.extend([Page::EMPTY; CHUNK_PAGES]);
        let classes = self.pages.as_chunks().0.iter().map(|pages: &[Page; CHUNK_PAGES]| pages.map(|page| page.class));
        self.scout.publish_chunks(self.chunks.iter().map(Chunk::start).zip(classes));
    }

    // --- to the pool ----------------------------------------------------------------------

    /// Returns the pages that a page goes back with: itself, or the pair.
    pub(super) fn span(&self, number: u32) -> Range<u32> {
        match self.pages[number as usize].part {
            Part::First | Part::Second => (number & !1)..(number | 1) + 1,
            Part::Single | Part::Empty | Part::Released => number..number + 1,
        }
    }

    /// Takes an empty page from its class. One of a pair stays until the other is empty.
    pub(super) fn retire(&mut self, number: u32) {
        let span = self.span(number);
        if span.clone().all(|number| self.pages[number as usize].live() == 0) {
            span.clone().for_each(|number| self.detach(number));
            span.for_each(|number| self.pool(number));
        }
    }

    /// Takes a page from its class.
    pub(super) fn detach(&mut self, number: u32) {
        let Page { room, .. } = self.pages[number as usize];
        let class = self.pages[number as usize].class();
        if room > 0 {
            self.unlist(number);
        }
        self.classes[class].free -= u32::from(room);
        self.pages_of[class] -= 1;
    }

    /// Puts a page that belongs to no class into the reserve, or releases it.
    pub(super) fn pool(&mut self, number: u32) {
        let page = &mut self.pages[number as usize];
        // The class tells what is on the page.
        *page = Page { class: page.class, ..Page::EMPTY };
        if self.reserve.len() < RESERVE_PAGES {
            self.reserve.push(number);
            return;
        }
        self.release(number);
    }

    /// Releases the memory of a page of the reserve. False: there is none.
    pub(in crate::packed) fn release_reserve(&mut self) -> bool {
        let number = self.reserve.pop();
        number.is_some_and(|number| {
            self.release(number);
            true
        })
    }

    fn release(&mut self, number: u32) {
        let (chunk, start) = split(number * PAGE_UNITS as u32);
        self.chunks[chunk].release(start..start + PAGE, self.release);
        self.resident -= 1;
        self.pages[number as usize].part = Part::Released;
        let other = number ^ 1;
        match self.pages[other as usize].part {
            Part::Released => {
                unlink(&mut self.pages, &mut self.released, other);
                link(&mut self.pages, &mut self.released_pairs, number & !1);
            }
            Part::Single | Part::First | Part::Second | Part::Empty => {
                link(&mut self.pages, &mut self.released, number);
            }
        }
    }

    // --- lists ----------------------------------------------------------------------------

    /// Puts a page into the list of those of its class that have a free block.
    pub(super) fn list(&mut self, number: u32) {
        let class = self.pages[number as usize].class();
        link(&mut self.pages, &mut self.classes[class].first, number);
    }

    pub(super) fn unlist(&mut self, number: u32) {
        let class = self.pages[number as usize].class();
        unlink(&mut self.pages, &mut self.classes[class].first, number);
    }
}

/// Puts a page in front of a list.
fn link(pages: &mut [Page], first: &mut u32, number: u32) {
    let next = mem::replace(first, number);
    if let Some(next) = pages.get_mut(next as usize) {
        next.previous = number;
    }
    let page = &mut pages[number as usize];
    (page.next, page.previous) = (next, NONE);
}

/// Takes a page out of a list.
fn unlink(pages: &mut [Page], first: &mut u32, number: u32) {
    let Page { next, previous, .. } = pages[number as usize];
    match pages.get_mut(previous as usize) {
        Some(previous) => previous.next = next,
        None => *first = next,
    }
    if let Some(next) = pages.get_mut(next as usize) {
        next.previous = previous;
    }
}
