//! Checks of an arena's counters and lists, for tests.

use super::{Arena, CLASSES, NONE, PAGE, PAGE_UNITS, classes};

impl Arena {
    /// Lowers the limit of what can be addressed.
    pub(in crate::packed) fn limit_chunks(&mut self, chunks: usize) {
        self.chunks_max = chunks;
        self.note_bounds();
    }

    /// Checks all counters and lists, and returns the number of blocks in use.
    pub(in crate::packed) fn count_live(&self) -> usize {
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
        assert_eq!(self.is_bounded, self.is_limited || self.is_nearly_full());
        let ready: usize = self.chunks.iter().map(|chunk| chunk.ready() / PAGE).sum();
        assert_eq!(self.resident, ready - self.released.len());
        live
    }
}
