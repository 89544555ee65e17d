//! Entries that get another block: one, those of a page, or all.

use super::{Location, PackedStore, arena::Arena, entry::Header, memory::prefetch, segment::Blocks as _};
use crate::Attributes;

impl PackedStore {
    /// Moves all entries to an arena that is empty. Their access words are 0 there.
    pub(super) fn move_to(&mut self, mut arena: Arena) {
        let mut number = 0;
        loop {
            let cursor = self.table.cursor(number);
            for group in self.table.groups(cursor) {
                for slot in group.used() {
                    let entry = self.arena.block(group.block(slot));
                    let len = Header::read(entry).block_len();
                    let at = arena.allocate(arena.class_of(len), Header::expiry(entry, self.expiry_base));
                    arena.block_mut(at)[..len].copy_from_slice(&entry[..len]);
                    group.set_block(slot, at);
                }
            }
            number = self.table.after_segment(cursor);
            if number == 0 {
                break;
            }
        }
        arena.set_limited(self.arena.is_limited());
        self.arena = arena;
    }

    /// Moves the entries of a page to other pages, and tells their new handles. False: there is no page to be gained.
    pub(super) fn vacate_page(&mut self, moved: &mut dyn FnMut(u32)) -> bool {
        let Some(page) = self.arena.vacate() else { return false };
        let hashes: Vec<u64> = page.live.iter().map(|&from| self.entries().hash(from)).collect();
        hashes.iter().for_each(|&hash| prefetch(self.table.home(hash)));
        for (&from, &hash) in page.live.iter().zip(&hashes) {
            let expires_at = Header::expiry(self.arena.block(from), self.expiry_base);
            let to = self.arena.allocate(page.class, expires_at);
            // The whole block: the access word goes along.
            self.arena.copy_block(from, to, page.class);
            self.table.moved(hash, from, to);
            moved(to);
        }
        self.arena.finish_vacating(page);
        true
    }

    /// Replaces a value by one of another length, or with other attributes beside it.
    #[inline(never)]
    pub(super) fn reshape(
        &mut self,
        hash: u64,
        location: Location,
        new: Header,
        value: &[u8],
        attributes: Attributes,
    ) -> (Location, bool) {
        let block = self.arena.block(location.0);
        let old = Header::read(block);
        if !old.is_live() {
            return (location, false);
        }
        if old.is_shared() {
            self.external.remove(old.value(block));
        }
        let new = match attributes.expires_at {
            0 => new,
            _ => {
                self.expiry_base = self.base_for(attributes);
                old.with(value.len(), attributes, self.expiry_base)
            }
        };
        let number = new.is_shared().then(|| self.external.add(value));
        let value = number.as_ref().map_or(value, |number| number);
        let (old_class, new_class) = (self.arena.class_of(old.block_len()), self.arena.class_of(new.block_len()));
        let at = match old_class == new_class {
            true => {
                self.arena.note_expiry(location.0, attributes.expires_at);
                location.0
            }
            false => self.arena.allocate(new_class, attributes.expires_at),
        };
        self.arena.copy((location.0, old.key_at()), (at, new.key_at()), old.key_len());
        let block = self.arena.block_mut(at);
        new.write(block);
        new.write_attributes(block, attributes);
        new.write_value(block, value);
        if at != location.0 {
            self.table.moved(hash, location.0, at);
            self.arena.free(location.0);
        }
        if new.expires() != old.expires() {
            self.table.set_expiring(hash, at, new.expires());
        }
        (Location(at), at != location.0)
    }
}
