//! Traversals of all entries, and random samples.

use super::{
    Location, PackedStore,
    segment::{Blocks as _, home_of},
    table::Cursor,
};
use crate::{EntryView, Store as _};

/// Most groups without an entry, or empty segments, that one step of a scan skips.
const SCAN_GROUPS: usize = 64;
/// Most segments without an entry that expires, that one step of a sweep skips.
const SWEEP_SEGMENTS: usize = 256;

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

    /// Finds the entries that expire in the next segment that has any, without reading other segments.
    pub(super) fn sweep_segment(&self, number: u64, found: &mut Vec<Location>) -> u64 {
        let mut number = number;
        for _ in 0..SWEEP_SEGMENTS {
            let cursor = self.table.cursor(number);
            number = self.table.after_segment(cursor);
            if self.table.counts(cursor).1 > 0 {
                for group in self.table.groups(cursor) {
                    for block in group.expiring().map(|slot| group.block(slot)) {
                        // The caller will read its time of expiry.
                        self.entries().prefetch(block);
                        found.push(Location(block));
                    }
                }
                break;
            }
            if number == 0 {
                break;
            }
        }
        number
    }
}

/// Mixes the bits of a random number, so that callers need not care which of them are good.
fn mix(random: u64) -> u64 {
    let mixed = (random ^ random >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
