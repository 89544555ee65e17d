//! Where kvcache keeps its strings.
//!
//! A [`Store`] is a map from keys to values that knows nothing of time; a [`Policy`] says which entry to give up; a
//! [`Cache`] is both together, with expiry and a memory limit. Nothing here reads a clock, takes a lock, or touches a
//! file or a socket. `unsafe` is confined to the packed store.

#![deny(unsafe_code)]

mod cache;
mod hash;
#[allow(unsafe_code, reason = "the one room for it: memory of its own, and what Rust has no safe word for")]
pub mod packed;
mod policy;
pub mod slotted;

use std::{fmt, mem::MaybeUninit, ptr::NonNull, sync::Arc};

use bytes::Bytes;
pub use cache::{Cache, CacheCounts, Moment, OutOfMemory};
pub use hash::KeyHasher;
pub use packed::{PackedScout, PackedStore};
pub use policy::{Policy, PolicyKind, SAMPLE_SIZE};
pub use slotted::{HashbrownStore, StdStore};

/// Values from this length on are kept as [`Bytes`] of their own, so that a reply can share them instead of copying.
pub const SHARED_MIN: usize = 16 * 1024;

/// What is kept beside a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Milliseconds since the Unix epoch; 0: never.
    pub expires_at: u64,
    /// A memcached client's own.
    pub flags: u32,
    /// A memcached client's unique number of this value; 0: none has been given out.
    pub version: u64,
    /// How the value is encoded, from 0 to 15: opaque to a store.
    pub encoding: u8,
}

/// One entry, as long as the store stands still.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub attributes: Attributes,
    /// The value again, when it is kept in a form that can be shared.
    pub shared: Option<&'a Bytes>,
}

/// How a store gets its memory.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub hasher: KeyHasher,
    /// Called once for each piece of memory (2 MiB, aligned to that), fresh or full: the place to ask the kernel for huge
    /// pages, which a pure crate cannot. The contents must stay, and others may be reading them.
    pub advise: fn(NonNull<[MaybeUninit<u8>]>),
    /// Called with memory whose contents are not needed any more; it must read as zeros afterwards, so that giving it
    /// back to the kernel or zeroing it are both right.
    pub release: fn(&mut [MaybeUninit<u8>]),
}

/// Looks ahead into a store without the lock that the store may be behind: nothing that it finds has to be true.
pub trait Scout: fmt::Debug + Send + Sync {
    type Hint;

    /// Asks for the memory that [`Scout::prefetch_entry`] will read.
    fn prefetch(&self, hash: u64, pin: &Pin);

    /// Asks for the memory that [`Store::find`] and [`Store::view`] will read.
    fn prefetch_entry(&self, hash: u64, pin: &Pin) -> Self::Hint;
}

/// For stores that have nothing to ask for.
impl Scout for () {
    type Hint = ();

    fn prefetch(&self, _: u64, _: &Pin) {}

    fn prefetch_entry(&self, _: u64, _: &Pin) {}
}

/// Keeps the memory of stores that scouts may be looking at; to be held for one batch of commands and no longer.
#[derive(Debug)]
pub struct Pin(crossbeam_epoch::Guard);

impl Pin {
    #[expect(clippy::new_without_default, reason = "it does something")]
    #[inline]
    pub fn new() -> Self {
        Self(crossbeam_epoch::pin())
    }

    /// Frees what no scout can be looking at any more; to be called now and then where nobody else may pin.
    pub fn collect() {
        crossbeam_epoch::pin().flush();
    }
}

/// A map from keys to values. Keys are looked up by a hash that the caller has computed, once, with
/// [`StoreOptions::hasher`].
///
/// Every entry has an *access word* of 32 bits that belongs to the policy. It stays in its block when the entry dies:
/// a new entry in the same block comes with the word of the dead one, one in fresh memory with 0.
pub trait Store: Send + Sized {
    /// Where an entry is. Good until the next `insert`, `replace`, `remove`, `compact` or `clear`.
    type Location: Copy;
    /// What a scout finds out about a hash; the default is nothing.
    type Hint: Copy + Default;
    /// What looks ahead.
    type Scout: Scout<Hint = Self::Hint>;

    fn new(options: StoreOptions) -> Self;

    /// Looks ahead into this store for as long as it is there, and whatever happens to it.
    fn scout(&self) -> Arc<Self::Scout>;

    /// The hash of a key, for one that comes from the store itself.
    fn hash(&self, key: &[u8]) -> u64;

    // --- lookup ---------------------------------------------------------------------------

    fn find(&self, hash: u64, key: &[u8]) -> Option<Self::Location>;

    /// [`Store::find`], with what [`Scout::prefetch_entry`] found out about the hash, however long ago.
    #[inline]
    fn find_hinted(&self, hint: Self::Hint, hash: u64, key: &[u8]) -> Option<Self::Location> {
        let _ = hint;
        self.find(hash, key)
    }

    fn view(&self, location: Self::Location) -> EntryView<'_>;

    /// [`Attributes::expires_at`] alone.
    #[inline]
    fn expires_at(&self, location: Self::Location) -> u64 {
        self.view(location).attributes.expires_at
    }

    /// The value alone, of an entry whose encoding is 0 and whose value cannot be shared: the usual one.
    #[inline]
    fn plain_value(&self, location: Self::Location) -> Option<&[u8]> {
        let EntryView { value, attributes, shared, .. } = self.view(location);
        (attributes.encoding == 0 && shared.is_none()).then_some(value)
    }

    fn access(&self, location: Self::Location) -> u32;

    fn set_access(&mut self, location: Self::Location, word: u32);

    /// A number for the entry's block, for a policy's queues.
    fn handle(&self, location: Self::Location) -> u32;

    /// The entry in the block that was once given this number: maybe another one by now, maybe none.
    fn locate(&self, handle: u32) -> Option<Self::Location>;

    // --- change ---------------------------------------------------------------------------

    /// Adds an entry whose key is not there.
    fn insert(&mut self, hash: u64, key: &[u8], value: &[u8], attributes: Attributes) -> Self::Location;

    /// Gives an entry another value and attributes. True: it has moved to another block, with that block's access word.
    fn replace(
        &mut self,
        hash: u64,
        location: Self::Location,
        value: &[u8],
        attributes: Attributes,
    ) -> (Self::Location, bool);

    /// Gives an entry another time to expire at (0: never) without moving or copying it, where that can be done. False:
    /// nothing has been done, and `replace` will do it.
    fn set_expiry(&mut self, location: Self::Location, expires_at: u64) -> bool {
        let _ = (location, expires_at);
        false
    }

    /// Records another encoding beside a value that stays as it is, without moving or copying anything.
    fn set_encoding(&mut self, location: Self::Location, encoding: u8);

    fn remove(&mut self, hash: u64, location: Self::Location);

    fn clear(&mut self);

    // --- traversal ------------------------------------------------------------------------

    /// Shows some entries and gives the cursor to go on with; 0 begins and ends. Every entry that is there from the
    /// first call to the last is shown at least once, whatever else happens in between.
    fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryView<'_>)) -> u64;

    /// An entry at random, more or less evenly, if there is any.
    fn sample(&self, random: u64) -> Option<Self::Location>;

    /// An entry that expires, at random, if there is any.
    fn sample_expiring(&self, random: u64) -> Option<Self::Location>;

    /// Entries that expire, a few of them at each call: all of them come up as the cursor goes round. Writes their
    /// places to `found` and gives the next cursor; 0 begins and ends.
    fn sweep_expiring(&self, cursor: u64, found: &mut Vec<Self::Location>) -> u64;

    // --- memory ---------------------------------------------------------------------------

    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries with a time to expire at.
    fn expiring(&self) -> usize;

    /// Memory held, as the kernel would count it: free blocks that were used before included.
    fn bytes(&self) -> usize;

    /// Bytes by which [`Store::bytes`] would grow if such an entry were added.
    fn growth(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize;

    /// Bytes that one such entry takes, without its share of the tables.
    fn footprint(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize;

    /// Frees memory of entries that are no longer there for entries of another size, moving what is in the way. An
    /// entry that moves takes its access word along, and `moved` is told its new handle: a policy's queues would lose
    /// it otherwise. False: there is nothing more to gain.
    fn compact(&mut self, key_len: usize, value_len: usize, attributes: Attributes, moved: &mut dyn FnMut(u32))
    -> bool;
}
