//! The store that is made for speed and size: one owner, two cache misses for a lookup, 2 to 8 bytes beside key and value.
//!
//! A `Table` of groups, one cache line each, leads from the hash to a block of the `Arena`, where header, key and value are
//! together. No operation ever rearranges the whole store: segments of the table split one by one, and pages of the arena
//! change their size class one by one. `unsafe` is in five modules: `memory` (bytes of chunks, prefetch), `group` (one load
//! of all tags), `segment`, `table` and `scout` (pointers to segments). Blocks are slices, with bounds.

mod address;
mod arena;
mod classes;
mod copy;
mod entries;
mod entry;
mod extents;
mod external;
mod group;
mod memory;
mod reshape;
mod scout;
mod segment;
mod table;
mod traversal;

use std::sync::Arc;

pub use self::scout::PackedScout;
use self::{
    arena::Arena,
    classes::UNIT,
    entries::Entries,
    entry::{ExpiryBase, Header},
    external::ExternalStrings,
    group::tag_of,
    memory::prefetch,
    table::Table,
};
use crate::{Attributes, EntryView, Store, StoreOptions};

/// The packed store.
///
/// It holds at most 8 GiB of entries ([`Store::BYTES_MAX`]), values that are kept as [`bytes::Bytes`] not included.
#[derive(Debug)]
pub struct PackedStore {
    table: Table,
    arena: Arena,
    external: ExternalStrings,
    options: StoreOptions,
    /// Base of the times of expiry that take four bytes.
    expiry_base: ExpiryBase,
    scout: Arc<PackedScout>,
}

/// The block of an entry. One that is out of date leads to another entry or to none, and does no harm beyond the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location(u32);

/// The block of the first entry whose tag matches, and the generation in which it was found. The default is of a generation
/// before all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    block: u32,
    generation: u64,
}

impl Store for PackedStore {
    type Location = Location;
    type Hint = Hint;
    type Scout = PackedScout;

    const BYTES_MAX: usize = arena::CHUNKS_MAX * memory::HUGE;

    fn new(options: StoreOptions) -> Self {
        Self::with_scout(options, true, Arc::default())
    }

    fn scout(&self) -> Arc<PackedScout> {
        Arc::clone(&self.scout)
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        self.options.hasher.hash(key)
    }

    // --- lookup ---------------------------------------------------------------------------

    #[inline(always)]
    fn find_hinted(&self, hint: Hint, hash: u64, key: &[u8]) -> Option<Location> {
        // A block that held an entry still holds it as long as no block has been freed.
        if hint.generation == self.arena.generation() && self.is_key(hint.block, key) {
            return Some(Location(hint.block));
        }
        self.find(hash, key)
    }

    #[inline(always)]
    fn find(&self, hash: u64, key: &[u8]) -> Option<Location> {
        let group = self.table.home(hash);
        // Not `Iterator::find`: the compiler would not inline its closure.
        for slot in group.with_tag(tag_of(hash)) {
            if self.is_key(group.block(slot), key) {
                return Some(Location(group.block(slot)));
            }
        }
        if group.has_overflowed() { self.find_in_overflow(hash, key) } else { None }
    }

    #[inline(always)]
    fn view(&self, location: Location) -> EntryView<'_> {
        let block = self.arena.block(location.0);
        let header = Header::read(block);
        let attributes = header.attributes(block, self.expiry_base);
        if header.has_external() {
            return self.view_with_external(header, block, attributes);
        }
        EntryView { key: header.key(block), value: header.value(block), attributes, shared: None }
    }

    #[inline(always)]
    fn expires_at(&self, location: Location) -> u64 {
        Header::expiry(self.arena.block(location.0), self.expiry_base)
    }

    #[inline(always)]
    fn plain_value(&self, location: Location) -> Option<&[u8]> {
        Header::plain_value(self.arena.block(location.0))
    }

    #[inline(always)]
    fn keeps_access(&self) -> bool {
        self.arena.has_access()
    }

    #[inline]
    fn access(&self, location: Location) -> u32 {
        self.arena.access(location.0)
    }

    #[inline]
    fn set_access(&mut self, location: Location, word: u32) {
        self.arena.set_access(location.0, word);
    }

    #[inline]
    fn handle(&self, location: Location) -> u32 {
        location.0
    }

    #[inline]
    fn locate(&self, handle: u32) -> Option<Location> {
        self.arena.is_live(handle).then_some(Location(handle))
    }

    // --- change ---------------------------------------------------------------------------

    #[inline]
    fn insert(&mut self, hash: u64, key: &[u8], value: &[u8], attributes: Attributes) -> Location {
        if attributes.expires_at != 0 && self.table.expiring() == 0 {
            self.expiry_base = ExpiryBase::around(attributes.expires_at);
        }
        let header = Header::new(key.len(), value.len(), attributes, self.expiry_base);
        let at = match header.has_external() {
            false => self.write(header, key, value, attributes),
            true => self.write_with_external(header, key, value, attributes),
        };
        let Self { table, arena, external, options, .. } = self;
        table.insert(hash, at, header.expires(), &Entries { arena, external, hasher: &options.hasher });
        Location(at)
    }

    #[inline(always)]
    fn replace(&mut self, hash: u64, location: Location, value: &[u8], attributes: Attributes) -> (Location, bool) {
        let base = self.expiry_base;
        let block = self.arena.block_mut(location.0);
        let old = Header::read(block);
        if old.is_usual(value.len(), attributes, base) {
            let is_earlier = old.replace_expiry(block, attributes.expires_at, base);
            old.write_value(block, value);
            // Most replacements expire later, and their page knows the earliest time already.
            if is_earlier {
                self.arena.note_expiry(location.0, attributes.expires_at);
            }
            return (location, false);
        }
        let new = old.with(value.len(), attributes, base);
        // Everything is as long as it was.
        if new == old && !new.is_shared() {
            new.write_attributes(block, attributes);
            new.write_value(block, value);
            self.arena.note_expiry(location.0, attributes.expires_at);
            return (location, false);
        }
        self.reshape(hash, location, new, value, attributes)
    }

    fn set_expiry(&mut self, location: Location, expires_at: u64) -> bool {
        let base = self.expiry_base;
        let block = self.arena.block_mut(location.0);
        let can = Header::read(block).set_expiry(block, expires_at, base);
        if can {
            self.arena.note_expiry(location.0, expires_at);
        }
        can
    }

    fn set_encoding(&mut self, location: Location, encoding: u8) {
        let block = self.arena.block_mut(location.0);
        let header = Header::read(block);
        if header.is_live() {
            header.with_encoding(encoding).write(block);
        }
    }

    #[inline]
    fn remove(&mut self, hash: u64, location: Location) {
        if !self.table.remove(hash, location.0) {
            return;
        }
        let block = self.arena.block(location.0);
        let header = Header::read(block);
        if header.has_external() {
            self.remove_external(header, location);
        }
        self.arena.free(location.0);
    }

    fn clear(&mut self) {
        let is_limited = self.arena.is_limited();
        *self = Self::with_scout(self.options.clone(), self.arena.has_access(), self.scout());
        self.set_limited(is_limited);
    }

    fn keep_access(&mut self, keeps: bool) {
        if keeps != self.arena.has_access() && (self.is_empty() || keeps && self.arena.can_add_access()) {
            self.move_to(Arena::new(&self.options, keeps, self.scout()));
        }
    }

    fn note_swept(&mut self, unix_ms: u64) {
        let base = ExpiryBase::around(unix_ms);
        if self.expiry_base.is_before(base) {
            self.expiry_base = base;
        }
    }

    // --- traversal ------------------------------------------------------------------------

    fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryView<'_>)) -> u64 {
        self.scan_group(cursor, visit)
    }

    fn sample(&self, random: u64) -> Option<Location> {
        self.sample_block(random).map(Location)
    }

    fn sample_expiring(&self, random: u64) -> Option<Location> {
        self.sample_expiring_block(random).map(Location)
    }

    fn sweep_expiring(&mut self, cursor: u64, due: u64, found: &mut Vec<Location>) -> u64 {
        self.sweep_page(cursor, due, found)
    }

    #[inline]
    fn prefetch(&self, hash: u64) {
        prefetch(self.table.home(hash));
    }

    // --- memory ---------------------------------------------------------------------------

    #[inline]
    fn len(&self) -> usize {
        self.table.len()
    }

    #[inline]
    fn expiring(&self) -> usize {
        self.table.expiring()
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.arena.bytes() + self.table.bytes() + self.external.bytes()
    }

    #[inline]
    fn growth(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize {
        let header = self.header(key_len, value_len, attributes);
        let block = self.table.growth() + self.arena.growth(self.arena.class_of(header.block_len()));
        match header.has_external() {
            false => block,
            true => {
                let shared_len = if header.is_shared() { value_len } else { 0 };
                block + self.external.growth(shared_len, external_bytes(header, key_len, value_len))
            }
        }
    }

    #[inline]
    fn room(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize {
        match self.arena.is_nearly_full() {
            false => usize::MAX,
            true => self.room_near_the_end(key_len, value_len, attributes),
        }
    }

    fn footprint(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize {
        let header = self.header(key_len, value_len, attributes);
        classes::units(self.arena.class_of(header.block_len())) * UNIT + external_bytes(header, key_len, value_len)
    }

    fn set_limited(&mut self, is_limited: bool) {
        self.arena.set_limited(is_limited);
    }

    #[inline(always)]
    fn is_bounded(&self) -> bool {
        self.arena.is_bounded()
    }

    fn compact(
        &mut self,
        key_len: usize,
        value_len: usize,
        attributes: Attributes,
        moved: &mut dyn FnMut(u32),
    ) -> bool {
        let class = self.arena.class_of(self.header(key_len, value_len, attributes).block_len());
        // The reserve is of no use for an entry of this size if there is a free block already.
        if self.arena.has_free(class) && self.arena.release_reserve() {
            return true;
        }
        self.vacate_page(moved) || self.external.release_reserve()
    }
}

impl PackedStore {
    /// Makes an empty store, which takes over the scout of the store before.
    fn with_scout(options: StoreOptions, has_access: bool, scout: Arc<PackedScout>) -> Self {
        // The generation of the arena is published last: a scout that reads it sees the new table.
        let table = Table::new(&options, Arc::clone(&scout));
        let arena = Arena::new(&options, has_access, Arc::clone(&scout));
        let (external, expiry_base) = (ExternalStrings::new(options.release), ExpiryBase::default());
        Self { table, arena, external, options, expiry_base, scout }
    }

    /// Returns the base for another entry with these attributes. Without entries that expire it can be any.
    #[inline]
    fn base_for(&self, attributes: Attributes) -> ExpiryBase {
        match self.table.expiring() {
            0 => ExpiryBase::around(attributes.expires_at),
            _ => self.expiry_base,
        }
    }

    #[inline]
    fn header(&self, key_len: usize, value_len: usize, attributes: Attributes) -> Header {
        Header::new(key_len, value_len, attributes, self.base_for(attributes))
    }

    /// [`Store::room`] where little is left. Apart, so that an insertion does not pay for what it needs.
    #[cold]
    #[inline(never)]
    fn room_near_the_end(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize {
        self.arena.room(self.arena.class_of(self.header(key_len, value_len, attributes).block_len()))
    }

    #[inline(always)]
    fn is_key(&self, block: u32, key: &[u8]) -> bool {
        let block = self.arena.block(block);
        Header::is_key(block, key) || key.len() > Header::KEY_MAX && self.is_long_key(block, key)
    }

    #[cold]
    fn is_long_key(&self, block: &[u8], key: &[u8]) -> bool {
        let header = Header::read(block);
        header.is_long_key() && self.key(header, block) == key
    }

    #[cold]
    #[inline(never)]
    fn find_in_overflow(&self, hash: u64, key: &[u8]) -> Option<Location> {
        self.table.find_in_overflow(hash, |block| self.is_key(block, key)).map(Location)
    }

    #[inline]
    fn write(&mut self, header: Header, key: &[u8], value: &[u8], attributes: Attributes) -> u32 {
        let at = self.arena.allocate(self.arena.class_of(header.block_len()), attributes.expires_at);
        let block = self.arena.block_mut(at);
        header.write(block);
        header.write_attributes(block, attributes);
        header.write_key(block, key);
        header.write_value(block, value);
        at
    }

    #[cold]
    #[inline(never)]
    fn write_with_external(&mut self, header: Header, key: &[u8], value: &[u8], attributes: Attributes) -> u32 {
        let key_number = header.is_long_key().then(|| self.external.add(key));
        let value_number = header.is_shared().then(|| self.external.add(value));
        let key = key_number.as_ref().map_or(key, |number| number);
        let value = value_number.as_ref().map_or(value, |number| number);
        self.write(header, key, value, attributes)
    }

    #[cold]
    #[inline(never)]
    fn remove_external(&mut self, header: Header, location: Location) {
        let block = self.arena.block(location.0);
        if header.is_long_key() {
            self.external.remove(header.key(block));
        }
        if header.is_shared() {
            self.external.remove(header.value(block));
        }
    }

    #[cold]
    #[inline(never)]
    fn view_with_external<'s>(&'s self, header: Header, block: &'s [u8], attributes: Attributes) -> EntryView<'s> {
        let shared = if header.is_shared() { self.external.get(header.value(block)) } else { None };
        let value: &[u8] = match shared {
            Some(shared) => shared,
            None => header.value(block),
        };
        EntryView { key: self.key(header, block), value, attributes, shared }
    }

    #[cold]
    fn key<'s>(&'s self, header: Header, block: &'s [u8]) -> &'s [u8] {
        self.entries().key(header, block)
    }

    fn entries(&self) -> Entries<'_> {
        Entries { arena: &self.arena, external: &self.external, hasher: &self.options.hasher }
    }
}

/// Returns the memory of the strings that are stored outside of the block.
fn external_bytes(header: Header, key_len: usize, value_len: usize) -> usize {
    let key = if header.is_long_key() { ExternalStrings::footprint(key_len) } else { 0 };
    let value = if header.is_shared() { ExternalStrings::footprint(value_len) } else { 0 };
    key + value
}

#[cfg(test)]
mod tests;
