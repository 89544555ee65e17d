//! The storage of kvcache: stores, eviction policies, and the cache made of both.
//!
//! A [`Store`] is a map from keys to values that knows nothing of time; a [`Policy`] chooses the entry to evict; a
//! [`Cache`] is both together, with expiry and a memory limit. Nothing here reads a clock, takes a lock, or touches a
//! file or a socket. `unsafe` is confined to the packed store.

#![deny(unsafe_code)]

mod cache;
pub mod collections;
mod hash;
#[allow(unsafe_code, reason = "the packed store manages memory of its own")]
pub mod packed;
mod policy;
pub mod slotted;

use std::{
    fmt,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
pub use cache::{Cache, CacheCounts, Cause, EntryCopy, Moment, Observer, OutOfMemory, is_portable};
pub use hash::KeyHasher;
pub use packed::{PackedScout, PackedStore};
pub use policy::{Policy, PolicyKind, SAMPLE_SIZE};
pub use slotted::{HashbrownStore, StdStore};

/// Length from which on values are [`Bytes`] of their own, so that a reply can share them instead of copying.
pub const SHARED_MIN: usize = 16 * 1024;

/// Attributes that are kept beside a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Time of expiry in milliseconds since the Unix epoch; 0: never.
    pub expires_at: u64,
    /// Flags of a memcached client.
    pub flags: u32,
    /// Unique number of this value for memcached clients (CAS); 0: none has been given out.
    pub version: u64,
    /// Encoding of the value, from 0 to 15: opaque to a store.
    pub encoding: u8,
}

/// One entry, borrowed from a store.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub attributes: Attributes,
    /// The value again, when it is kept in a form that can be shared.
    pub shared: Option<&'a Bytes>,
}

/// Hasher of a store, and the hooks by which it gets and releases memory.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub hasher: KeyHasher,
    /// Called once for each chunk of memory (2 MiB, aligned to that) when it is full: the place to ask the kernel for huge
    /// pages, which a pure crate cannot. The contents must stay, and other threads may be reading them.
    pub advise: fn(NonNull<[MaybeUninit<u8>]>),
    /// Called with memory whose contents are not needed any more. It must read as zeros afterwards: both giving it back to
    /// the kernel and zeroing it are right.
    pub release: fn(&mut [MaybeUninit<u8>]),
}

/// Prefetches for lookups, without the lock that the store may be behind: nothing that it finds has to be true.
pub trait Scout: fmt::Debug + Send + Sync {
    type Hint;

    /// Prefetches the memory that [`Scout::prefetch_entry`] will read.
    fn prefetch(&self, hash: u64, pin: &Pin);

    /// Prefetches the memory that [`Store::find`] and [`Store::view`] will read.
    fn prefetch_entry(&self, hash: u64, pin: &Pin) -> Self::Hint;
}

/// The scout of stores that prefetch nothing.
impl Scout for () {
    type Hint = ();

    fn prefetch(&self, _: u64, _: &Pin) {}

    fn prefetch_entry(&self, _: u64, _: &Pin) {}
}

/// Guard that keeps the memory which scouts may be reading. Hold it for one batch of commands and no longer.
#[derive(Debug)]
pub struct Pin(crossbeam_epoch::Guard);

impl Pin {
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    #[inline]
    pub fn new() -> Self {
        Self(crossbeam_epoch::pin())
    }

    /// Frees the memory that no scout can be reading any more. Has to be called now and then where no other thread may pin.
    pub fn collect() {
        crossbeam_epoch::pin().flush();
    }

    /// Waits until every pin that is held now has been dropped. The thread must hold none. Whoever pins later sees what
    /// this thread has written before.
    pub fn synchronize() {
        let is_over = Arc::new(AtomicBool::new(false));
        let guard = crossbeam_epoch::pin();
        let over = Arc::clone(&is_over);
        guard.defer(move || over.store(true, Ordering::Release));
        drop(guard);
        while !is_over.load(Ordering::Acquire) {
            Self::collect();
            std::thread::yield_now();
        }
    }
}

/// A map from keys to values. Keys are looked up by a hash that the caller has computed, once, with
/// [`StoreOptions::hasher`].
///
/// Every entry has an *access word* of 32 bits that belongs to the policy. It stays in its block when the entry is
/// removed: a new entry in the same block begins with the word of the old one, an entry in fresh memory with 0. A store may
/// be told to keep none, and then they are all 0.
pub trait Store: Send + Sized {
    /// Location of an entry, valid until the next `insert`, `replace`, `remove`, `compact` or `clear`.
    type Location: Copy;
    /// Result of a scout for a hash; the default is no result.
    type Hint: Copy + Default;
    /// The scout of this store.
    type Scout: Scout<Hint = Self::Hint>;

    /// Bytes of entries that a store can address; [`Store::room`] says how many are left.
    const BYTES_MAX: usize = usize::MAX;

    fn new(options: StoreOptions) -> Self;

    /// Returns the scout of this store. It may outlive the store, and then finds nothing.
    fn scout(&self) -> Arc<Self::Scout>;

    /// Returns the hash of a key that comes from the store itself.
    fn hash(&self, key: &[u8]) -> u64;

    // --- lookup ---------------------------------------------------------------------------

    fn find(&self, hash: u64, key: &[u8]) -> Option<Self::Location>;

    /// [`Store::find`] with a hint that [`Scout::prefetch_entry`] has given for the hash, however long ago.
    #[inline]
    fn find_hinted(&self, hint: Self::Hint, hash: u64, key: &[u8]) -> Option<Self::Location> {
        let _ = hint;
        self.find(hash, key)
    }

    fn view(&self, location: Self::Location) -> EntryView<'_>;

    /// Returns [`Attributes::expires_at`] alone.
    #[inline]
    fn expires_at(&self, location: Self::Location) -> u64 {
        self.view(location).attributes.expires_at
    }

    /// Returns the value of an entry with encoding 0 whose value cannot be shared, which nearly all entries are.
    #[inline]
    fn plain_value(&self, location: Self::Location) -> Option<&[u8]> {
        let EntryView { value, attributes, shared, .. } = self.view(location);
        (attributes.encoding == 0 && shared.is_none()).then_some(value)
    }

    /// True if access words are kept; otherwise all are 0, whatever is written to them.
    #[inline]
    fn keeps_access(&self) -> bool {
        true
    }

    fn access(&self, location: Self::Location) -> u32;

    fn set_access(&mut self, location: Self::Location, word: u32);

    /// Returns the number of the entry's block, for a policy's queues.
    fn handle(&self, location: Self::Location) -> u32;

    /// Returns the entry in the block of this number: it may be another one by now, or none.
    fn locate(&self, handle: u32) -> Option<Self::Location>;

    // --- change ---------------------------------------------------------------------------

    /// Adds an entry whose key is not in the store.
    fn insert(&mut self, hash: u64, key: &[u8], value: &[u8], attributes: Attributes) -> Self::Location;

    /// Replaces value and attributes of an entry. True: it has moved to another block, with that block's access word.
    fn replace(
        &mut self,
        hash: u64,
        location: Self::Location,
        value: &[u8],
        attributes: Attributes,
    ) -> (Self::Location, bool);

    /// Changes the time of expiry (0: never) without moving or copying the entry, where that is possible. False: nothing has
    /// changed, and the caller has to `replace`.
    fn set_expiry(&mut self, location: Self::Location, expires_at: u64) -> bool {
        let _ = (location, expires_at);
        false
    }

    /// Changes the encoding beside a value that stays as it is, without moving or copying anything. Its lower three bits have
    /// to be those that it has: the upper one is a mark that says nothing of the value.
    fn set_encoding(&mut self, location: Self::Location, encoding: u8);

    fn remove(&mut self, hash: u64, location: Self::Location);

    fn clear(&mut self);

    /// Tells the store if access words are needed, which they are at first. If they are again, all are 0. It may ignore this,
    /// as one that has no room for them does; an empty store does so least.
    fn keep_access(&mut self, keeps: bool) {
        let _ = keeps;
    }

    /// Tells the store that every entry which has expired before this time, in milliseconds since the Unix epoch, is gone.
    fn note_swept(&mut self, unix_ms: u64) {
        let _ = unix_ms;
    }

    // --- traversal ------------------------------------------------------------------------

    /// Visits some entries and returns the cursor to go on with; 0 begins and ends. Every entry that is in the store from the
    /// first call to the last is visited at least once, whatever else happens in between.
    fn scan(&self, cursor: u64, visit: &mut dyn FnMut(EntryView<'_>)) -> u64;

    /// Returns an entry at random, more or less evenly, if there is any.
    fn sample(&self, random: u64) -> Option<Self::Location>;

    /// Returns an entry with a time of expiry, at random, if there is any.
    fn sample_expiring(&self, random: u64) -> Option<Self::Location>;

    /// Appends the locations of some entries with a time of expiry to `found`, and returns the next cursor; 0 begins and
    /// ends. All that expire at `due` (in milliseconds since the Unix epoch) or earlier come up in one round of the cursor,
    /// others may; those that [`Store::compact`] moves meanwhile come up in the next. The caller removes the former: in later
    /// rounds they need not come up again.
    fn sweep_expiring(&mut self, cursor: u64, due: u64, found: &mut Vec<Self::Location>) -> u64;

    /// Prefetches the memory that [`Store::remove`] reads to find an entry.
    #[inline]
    fn prefetch(&self, hash: u64) {
        let _ = hash;
    }

    // --- memory ---------------------------------------------------------------------------

    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries with a time of expiry.
    fn expiring(&self) -> usize;

    /// Returns the memory held, as the kernel would count it: free blocks that were used before included.
    fn bytes(&self) -> usize;

    /// Returns the bytes by which [`Store::bytes`] would grow if such an entry were added.
    fn growth(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize;

    /// Returns the bytes that the store can still address for pages of such entries; `usize::MAX` if it need not grow, or is
    /// far from its end. Adding an entry without any room is an error of the caller.
    #[inline]
    fn room(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize {
        let _ = (key_len, value_len, attributes);
        usize::MAX
    }

    /// Returns the bytes that one such entry takes, without its share of the tables.
    fn footprint(&self, key_len: usize, value_len: usize, attributes: Attributes) -> usize;

    /// Tells the store if its owner has a limit for it.
    fn set_limited(&mut self, is_limited: bool);

    /// True if there may be no room for another entry: because of a limit, or near the end of what can be addressed.
    fn is_bounded(&self) -> bool;

    /// Frees memory of removed entries for entries of another size, and moves the entries that are in the way. An entry that
    /// moves takes its access word along, and `moved` gets its new handle: a policy's queues would lose it otherwise. False:
    /// there is nothing more to gain.
    fn compact(&mut self, key_len: usize, value_len: usize, attributes: Attributes, moved: &mut dyn FnMut(u32))
    -> bool;
}
