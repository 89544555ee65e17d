//! Traversals of all entries, and random samples.

use super::{
    Location, PackedStore,
    entry::Header,
    segment::{Blocks as _, home_of},
    table::Cursor,
};
use crate::{EntryView, Store as _};

/// Most groups without an entry, or empty segments, that one step of a scan skips.
const SCAN_GROUPS: usize = 64;
/// Most pages without an entry that has expired, that one step of a sweep skips.
const SWEEP_PAGES: usize = 1024;

impl PackedStore {
    /// Visits the entries that belong to the next group that has any. An entry is visited in the turn of its own group, even
    /// if it is in another: neither its group nor the order of segments changes when one is split.
    pub(super) fn scan_group(&self, number: u64, visit: &mut dyn FnMut(EntryView<'_>)) -> u64 {
        let mut number = number;
        for _ in 0..SCAN_GROUPS {
            let cursor = self.table.cursor(number);
            if self.table.counts(cursor).0 == 0 {
                number = self.table.after_segment(cursor);
            } else {
                number = self.table.after(cursor);
                if self.show_group(cursor, visit) {
                    break;
                }
            }
            if number == 0 {
                break;
            }
        }
        number
    }

    /// Visits the entries that belong to a group. False: there are none.
    fn show_group(&self, cursor: Cursor, visit: &mut dyn FnMut(EntryView<'_>)) -> bool {
        let mut has_any = false;
        for group in self.table.chain(cursor) {
            for block in group.used().map(|slot| group.block(slot)) {
                if home_of(self.entries().hash(block)) == cursor.group {
                    visit(self.view(Location(block)));
                    has_any = true;
                }
            }
        }
        has_any
    }

    /// Returns the first entry from a random slot on.
    pub(super) fn sample_block(&self, random: u64) -> Option<u32> {
        let random = mix(random);
        let cursor = self.table.random(random, |len, _| len > 0)?;
        let slot = (random >> 8) as usize % super::group::SLOTS;
        self.table.groups(cursor).find_map(|group| group.used().from(slot).next().map(|slot| group.block(slot)))
    }

    /// Returns the first entry that expires, from a random slot on.
    pub(super) fn sample_expiring_block(&self, random: u64) -> Option<u32> {
        if self.table.expiring() == 0 {
            return None;
        }
        let random = mix(random);
        let cursor = self.table.random(random, |_, expiring| expiring > 0)?;
        let slot = (random >> 8) as usize % super::group::SLOTS;
        self.table.groups(cursor).find_map(|group| group.expiring().from(slot).next().map(|slot| group.block(slot)))
    }

    /// Finds the entries that have expired in the next page that may have any, without reading other pages. Entries that come
    /// at about the same time and live equally long share pages, which then empty one after the other.
    pub(super) fn sweep_page(&mut self, number: u64, due: u64, found: &mut Vec<Location>) -> u64 {
        let pages = self.arena.pages();
        let first = usize::try_from(number).unwrap_or(usize::MAX).min(pages);
        let end = first.saturating_add(SWEEP_PAGES).min(pages);
        let page = (first..end).find(|&page| self.arena.may_be_due(page, due));
        if let Some(page) = page {
            let mut earliest: Option<u64> = None;
            for block in self.arena.live_blocks(page) {
                match Header::expiry(self.arena.block(block), self.expiry_base) {
                    0 => {}
                    at if at <= due => found.push(Location(block)),
                    at => earliest = Some(earliest.map_or(at, |earliest| earliest.min(at))),
                }
            }
            self.arena.set_earliest(page, earliest);
        }
        match page.map_or(end, |page| page + 1) {
            next if next == pages => 0,
            next => next as u64,
        }
    }
}

/// Mixes the bits of a random number, so that callers need not care which of them are good.
fn mix(random: u64) -> u64 {
    let mixed = (random ^ random >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
