//! A store that counts its memory in entries and hashes the same on every run, for tests that have to be exact.

use std::sync::Arc;

use store::{Attributes, EntryView, HashbrownStore, Store, StoreOptions};

/// "Bytes" per entry: enough that the memory of a policy's queues does not matter.
pub(crate) const ENTRY: usize = 1 << 24;

#[derive(Debug)]
pub(crate) struct Entries(HashbrownStore);

/// Hashes by FNV-1a, then by the finalizer of SplitMix64.
pub(crate) fn hash(key: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

impl Store for Entries {
    type Hint = ();
    type Location = <HashbrownStore as Store>::Location;

    type Scout = ();

    fn scout(&self) -> Arc<()> {
        Arc::default()
    }

    fn new(options: StoreOptions) -> Self {
        Self(HashbrownStore::new(options))
    }

    fn hash(&self, key: &[u8]) -> u64 {
        hash(key)
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<Self::Location> {
        self.0.find(hash, key)
    }

    fn view(&self, location: Self::Location) -> EntryView<'_> {
        self.0.view(location)
    }

    fn access(&self, location: Self::Location) -> u32 {
        self.0.access(location)
    }

    fn set_access(&mut self, location: Self::Location, word: u32) {
        self.0.set_access(location, word);
    }

    fn handle(&self, location: Self::Location) -> u32 {
        self.0.handle(location)
    }

    fn locate(&self, handle: u32) -> Option<Self::Location> {
        self.0.locate(handle)
    }

    fn insert(&mut self, hash: u64, key: &[u8], value: &[u8], attributes: Attributes) -> Self::Location {
        self.0.insert(hash, key, value, attributes)
    }

    fn replace(
        &mut self,
        hash: u64,
        location: Self::Location,
        value: &[u8],
        attributes: Attributes,
    ) -> (Self::Location, bool) {
        self.0.replace(hash, location, value, attributes)
    }

    fn set_encoding(&mut self, location: Self::Location, encoding: u8) {
        self.0.set_encoding(location, encoding);
    }

    fn remove(&mut self, hash: u64, location: Self::Location) {
        self.0.remove(hash, location);
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryView<'_>)) -> u64 {
        self.0.scan(cursor, visit)
    }

    fn sample(&self, random: u64) -> Option<Self::Location> {
        self.0.sample(random)
    }

    fn sample_expiring(&self, random: u64) -> Option<Self::Location> {
        self.0.sample_expiring(random)
    }

    fn sweep_expiring(&mut self, cursor: u64, due: u64, found: &mut Vec<Self::Location>) -> u64 {
        self.0.sweep_expiring(cursor, due, found)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn expiring(&self) -> usize {
        self.0.expiring()
    }

    fn bytes(&self) -> usize {
        self.len() * ENTRY
    }

    fn growth(&self, _: usize, _: usize, _: Attributes) -> usize {
        ENTRY
    }

    fn footprint(&self, _: usize, _: usize, _: Attributes) -> usize {
        ENTRY
    }

    fn set_limited(&mut self, is_limited: bool) {
        self.0.set_limited(is_limited);
    }

    fn is_bounded(&self) -> bool {
        self.0.is_bounded()
    }

    fn compact(&mut self, _: usize, _: usize, _: Attributes, _: &mut dyn FnMut(u32)) -> bool {
        false
    }
}
