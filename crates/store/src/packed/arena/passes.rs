//! Passes through the blocks of a page: to find what has expired, and to vacate the page.

use std::{cmp::Reverse, ops::Range};

use super::{
    super::{
        address::page_of,
        classes::{self, PAGE_UNITS, Part},
        entry::Header,
    },
    Arena, NEVER, NONE, Page,
};

/// Pages of a class that are compared to find the one to vacate.
const CANDIDATES: usize = 64;

impl Arena {
    // --- expiry ---------------------------------------------------------------------------

    /// Notes that the entry in a block expires, unless its time is 0.
    #[inline(always)]
    pub(in crate::packed) fn note_expiry(&mut self, at: u32, expires_at: u64) {
        self.pages[page_of(at)].note_expiry(expires_at);
    }

    /// Notes that no entry of a page expires earlier.
    pub(in crate::packed) fn set_earliest(&mut self, page: usize, expires_at: Option<u64>) {
        self.pages[page].earliest = expires_at.unwrap_or(NEVER);
    }

    /// Returns the number of pages, empty ones included.
    pub(in crate::packed) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// True if a page may have entries that expire at this time or earlier.
    pub(in crate::packed) fn may_be_due(&self, page: usize, due: u64) -> bool {
        self.pages[page].earliest <= due
    }

    /// Returns the blocks of a page that are in use.
    pub(in crate::packed) fn live_blocks(&self, number: usize) -> impl Iterator<Item = u32> {
        let starts = self.pages[number].starts().map(move |at| (number * PAGE_UNITS + at) as u32);
        starts.filter(|&at| Header::read(self.block(at)).is_live())
    }

    // --- compaction -----------------------------------------------------------------------

    /// Chooses a page whose entries fit into other pages of its class, and takes it out of use. [`Arena::finish_vacating`] has
    /// to follow.
    pub(in crate::packed) fn vacate(&mut self) -> Option<VacatedPage> {
        let in_use = self.in_use.into_iter().enumerate().flat_map(|(word, mut rest)| {
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(64 * word + bit)
            })
        });
        let most = in_use.clone().max_by_key(|&class| self.spare(class)).filter(|&class| self.spare(class) > 0)?;
        // It may have nothing but pairs, and too few free blocks to do without one.
        let span = self.candidate(most).or_else(|| in_use.filter_map(|class| self.candidate(class)).next())?;
        let class = self.pages[span.start as usize].class();
        span.clone().for_each(|number| self.detach(number));
        let live = span.clone().flat_map(|number| self.live_blocks(number as usize)).collect();
        Some(VacatedPage { span, class, live })
    }

    /// Returns the number of single pages whose entries would fit into the free blocks of a class.
    fn spare(&self, class: usize) -> u32 {
        self.classes[class].free / u32::from(classes::capacity(class, Part::Single))
    }

    /// Returns the page or pair of a class that has the fewest entries, of those that can be emptied: the others have as many
    /// free blocks as it has entries.
    fn candidate(&self, class: usize) -> Option<Range<u32>> {
        let page = |number: u32| self.pages.get(number as usize);
        let listed = std::iter::successors(Some(self.classes[class].first), |&at| page(at).map(|page| page.next));
        let listed = listed.take_while(|&at| at != NONE).take(CANDIDATES);
        if !classes::has_pairs(class) {
            let most = listed.min_by_key(|&number| Reverse(self.pages[number as usize].room));
            return most.filter(|_| self.spare(class) > 0).map(|number| number..number + 1);
        }
        let spans = listed.map(|number| self.span(number));
        let sum = |span: &Range<u32>, of: fn(&Page) -> usize| -> usize {
            self.pages[span.start as usize..span.end as usize].iter().map(of).sum()
        };
        let has_room = |span: &Range<u32>| sum(span, Page::capacity) <= self.classes[class].free as usize;
        spans.filter(has_room).min_by_key(|span| sum(span, Page::live) * 2 / span.len())
    }

    /// Notes that the entries of the page have been moved.
    pub(in crate::packed) fn finish_vacating(&mut self, page: VacatedPage) {
        self.next_generation();
        page.span.for_each(|number| self.pool(number));
    }
}

/// A page, or a pair, that is being emptied.
pub(in crate::packed) struct VacatedPage {
    span: Range<u32>,
    pub(in crate::packed) class: usize,
    /// Blocks that have to move.
    pub(in crate::packed) live: Vec<u32>,
}
