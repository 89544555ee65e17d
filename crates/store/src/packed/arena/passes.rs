//! Passes through the blocks of a page: to find what has expired, and to vacate the page.

use super::{
    super::{
        address::page_of,
        classes::{self, PAGE_UNITS},
        entry::Header,
    },
    Arena, NEVER, NONE,
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
        let page = self.pages[number];
        let base = (number * PAGE_UNITS) as u32;
        let starts =
            (0..u32::from(page.fresh)).step_by(classes::units(usize::from(page.class))).map(move |at| base + at);
        starts.filter(|&at| Header::read(self.block(at)).is_live())
    }

    // --- compaction -----------------------------------------------------------------------

    /// Chooses a page whose entries fit into other pages of its class, and takes it out of use. [`Arena::finish_vacating`] has
    /// to follow.
    pub(in crate::packed) fn vacate(&mut self) -> Option<VacatedPage> {
        let spare = |class: &usize| self.classes[*class].free as usize / classes::capacity(*class);
        // A page can be emptied if as many blocks are free as a page has: the others then have room for its entries.
        let in_use = self.in_use.into_iter().enumerate().flat_map(|(word, mut rest)| {
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(64 * word + bit)
            })
        });
        let class = in_use.max_by_key(spare).filter(|class| spare(class) > 0)?;
        let page = |number: u32| self.pages.get(number as usize);
        let listed = std::iter::successors(Some(self.classes[class].first), |&at| page(at).map(|page| page.next));
        let candidates = listed.take_while(|&at| at != NONE).take(CANDIDATES);
        let number = candidates.min_by_key(|&page| self.pages[page as usize].live)?;
        self.detach(number);
        let live = self.live_blocks(number as usize).collect();
        Some(VacatedPage { number, class, live })
    }

    /// Notes that the entries of the page have been moved.
    pub(in crate::packed) fn finish_vacating(&mut self, page: VacatedPage) {
        self.next_generation();
        self.pool(page.number);
    }
}

/// A page that is being emptied.
pub(in crate::packed) struct VacatedPage {
    number: u32,
    pub(in crate::packed) class: usize,
    /// Blocks that have to move.
    pub(in crate::packed) live: Vec<u32>,
}
