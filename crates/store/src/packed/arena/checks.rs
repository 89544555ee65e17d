//! Checks of an arena's counters and lists, for tests.

use std::iter;

use super::{Arena, CLASSES, NONE, PAGE, PAGE_UNITS, Part, classes};

impl Arena {
    /// Lowers the limit of what can be addressed.
    pub(in crate::packed) fn limit_chunks(&mut self, chunks: usize) {
        self.chunks_max = chunks;
        self.note_bounds();
    }

    /// Returns the number of pages that are parts of pairs.
    pub(in crate::packed) fn paired(&self) -> usize {
        self.pages.iter().filter(|page| matches!(page.part, Part::First | Part::Second)).count()
    }

    /// Checks all counters and lists, and returns the number of blocks in use.
    pub(in crate::packed) fn count_live(&self) -> usize {
        let (mut free, mut pages_of, mut listed) = ([0; CLASSES], [0; CLASSES], [0; CLASSES]);
        let (mut live, mut released, mut released_pairs) = (0, 0, 0);
        for (number, page) in self.pages.iter().enumerate() {
            let class = page.class();
            let other = &self.pages[number ^ 1];
            match page.part {
                Part::Empty => assert_eq!((page.fresh, page.room), (0, 0), "page {number}"),
                Part::Released if other.part == Part::Released => released_pairs += 1,
                Part::Released => released += 1,
                Part::Single => assert!(page.live() > 0, "page {number} is empty and not in the pool"),
                Part::First | Part::Second => {
                    let parts = [Part::First, Part::Second].map(|part| (class, part));
                    assert_eq!(parts[number % 2], (class, page.part), "page {number}");
                    assert_eq!(parts[1 - number % 2], (other.class(), other.part), "page {number}");
                    assert!(page.live() + other.live() > 0, "pair {number} is empty and not in the pool");
                }
            }
            if matches!(page.part, Part::Empty | Part::Released) {
                continue;
            }
            let blocks = page.starts().map(|at| (number * PAGE_UNITS + at) as u32);
            assert_eq!(blocks.filter(|&at| self.is_live(at)).count(), page.live(), "page {number}");
            let units = usize::from(page.fresh) - classes::start(class, page.part);
            assert!(units <= page.capacity() * classes::units(class), "page {number}");
            free[class] += u32::from(page.room);
            pages_of[class] += 1;
            listed[class] += usize::from(page.room > 0);
            live += page.live();
        }
        for (class, free) in free.into_iter().enumerate() {
            assert_eq!(self.classes[class].free, free, "class {class}");
            assert_eq!(self.pages_of[class], pages_of[class], "class {class}");
            let list = self.collect(self.classes[class].first);
            assert_eq!(list.len(), listed[class], "class {class}");
            assert!(
                list.iter().all(|&at| self.pages[at as usize].class() == class && self.pages[at as usize].room > 0)
            );
        }
        assert_eq!(self.collect(self.released).len(), released);
        assert_eq!(2 * self.collect(self.released_pairs).len(), released_pairs);
        let ready: usize = self.chunks.iter().map(|chunk| chunk.ready() / PAGE).sum();
        assert_eq!(self.resident, ready - released - released_pairs);
        assert!(self.reserve.iter().all(|&at| self.pages[at as usize].part == Part::Empty));
        assert_eq!(self.is_bounded, self.is_limited || self.is_nearly_full());
        live
    }

    /// Returns the pages of a list.
    fn collect(&self, first: u32) -> Vec<u32> {
        let next = |at: u32| Some(at).filter(|&at| at != NONE);
        iter::successors(next(first), |&at| next(self.pages[at as usize].next)).take(self.pages.len() + 1).collect()
    }
}
