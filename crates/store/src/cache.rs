//! A store with expiry and a memory limit.

mod collection;
mod deadlines;
mod observer;
mod reclaim;
mod settings;
mod watch;

use std::sync::Arc;

pub use self::{
    collection::{EntryCopy, is_portable},
    observer::{Cause, Observer},
};
use self::{deadlines::Deadlines, watch::Watched};
use crate::{
    Attributes, EntryView, Policy, PolicyKind, Store, StoreOptions,
    collections::{Object, Objects},
};

/// An entry that only gets a time of expiry may exceed the limit by this fraction of it: it gives back more later.
const EXPIRY_SLACK: usize = 64;

/// The present time.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

impl Moment {
    /// Returns the clock of the policies: seconds in 24 bits, which wrap after 194 days.
    #[inline]
    pub fn clock(self) -> u32 {
        (self.unix_ms / 1000) as u32 & 0xff_ffff
    }
}

/// The entry does not fit, and no entry may be evicted for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Size of an entry that is to be added.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    key_len: usize,
    value_len: usize,
    attributes: Attributes,
}

/// Totals since the start, or since they were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    pub hits: u64,
    pub misses: u64,
    pub evicted: u64,
    pub expired: u64,
}

impl CacheCounts {
    /// Counts the last hit as a miss, because its entry is of no use to the client.
    #[cold]
    pub fn recount_hit_as_miss(&mut self) {
        self.hits = self.hits.saturating_sub(1);
        self.misses += 1;
    }
}

/// A map whose entries expire, and are evicted when memory runs out.
#[derive(Debug)]
#[repr(C)]
pub struct Cache<S> {
    pub counts: CacheCounts,
    store: S,
    policy: Policy,
    /// Limit in bytes; `usize::MAX`: no limit.
    limit: usize,
    /// The limit without the objects: that of all entries together.
    entries_limit: usize,
    watched: Watched,
    /// True if a write may have to do more than to write: keys are watched, or there are objects.
    is_observed: bool,
    /// Cursor of [`Cache::expire_some`].
    sweep: u64,
    /// Time at which its round began, in milliseconds since the Unix epoch; 0: what the round has passed may have changed.
    sweep_began: u64,
    /// Handles of entries that the sweep has found and that are to be removed, the last one first.
    expired: Vec<u32>,
    /// Time at which they had expired, in milliseconds since the Unix epoch.
    expired_at: u64,
    /// See [`Cache::track_use`].
    is_use_tracked: bool,
    /// True if uses of entries leave a trace: the store keeps access words, or the policy has queues.
    is_use_noted: bool,
    /// See [`Cache::set_allowance`].
    allowance: usize,
    /// The collections that are not packed.
    objects: Objects,
    deadlines: Deadlines,
}

impl<S: Store> Cache<S> {
    pub fn new(options: StoreOptions, policy: PolicyKind, limit: Option<usize>, seed: u64) -> Self {
        let mut policy = Policy::new(policy, seed);
        policy.set_limited(limit.is_some());
        let mut store = S::new(options);
        store.keep_access(policy.needs_access());
        store.set_limited(limit.is_some());
        Self {
            is_use_noted: store.keeps_access() || policy.has_queues(),
            store,
            policy,
            limit: limit.unwrap_or(usize::MAX),
            entries_limit: limit.unwrap_or(usize::MAX),
            watched: Watched::default(),
            is_observed: false,
            sweep: 0,
            sweep_began: 0,
            expired: Vec::new(),
            expired_at: 0,
            is_use_tracked: false,
            allowance: 0,
            objects: Objects::default(),
            deadlines: Deadlines::default(),
            counts: CacheCounts::default(),
        }
    }

    // --- reading --------------------------------------------------------------------------

    /// Returns the scout, for callers that do not hold the lock that the cache may be behind.
    pub fn scout(&self) -> Arc<S::Scout> {
        self.store.scout()
    }

    /// Returns an entry, counts the hit or miss, and notes the use.
    #[inline]
    pub fn get(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<EntryView<'_>> {
        let location = self.use_entry(S::Hint::default(), hash, key, now)?;
        Some(self.store.view(location))
    }

    /// Returns the location of the entry that [`Cache::get`] returns.
    #[inline(always)]
    pub fn use_entry(&mut self, hint: S::Hint, hash: u64, key: &[u8], now: Moment) -> Option<S::Location> {
        let location = self.count_entry(hint, hash, key, now)?;
        self.touch_location(location, now);
        Some(location)
    }

    /// Returns the location of an entry and counts the hit or miss, but does not note the use.
    #[inline(always)]
    pub fn count_entry(&mut self, hint: S::Hint, hash: u64, key: &[u8], now: Moment) -> Option<S::Location> {
        let Some(location) = self.find_hinted(hint, hash, key, now) else {
            self.counts.misses += 1;
            if self.is_observed {
                self.note_miss(key);
            }
            return None;
        };
        self.counts.hits += 1;
        Some(location)
    }

    /// Returns an entry without counting or noting a use.
    #[inline]
    pub fn peek(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<EntryView<'_>> {
        let location = self.find(hash, key, now)?;
        Some(self.store.view(location))
    }

    /// Notes a use of an entry. False: there is no such entry.
    pub fn touch(&mut self, hash: u64, key: &[u8], now: Moment) -> bool {
        let location = self.find(hash, key, now);
        location.inspect(|&location| self.touch_location(location, now)).is_some()
    }

    /// Returns the seconds since the last use of an entry; 0 if they are not known, since neither the policy nor anybody else
    /// needs them.
    pub fn idle_s(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<u32> {
        let location = self.find(hash, key, now)?;
        let is_known = self.is_use_tracked || self.policy.needs_access();
        Some(if is_known { Policy::idle_s(self.store.access(location), now.clock()) } else { 0 })
    }

    /// Returns the frequency of uses, on the policy's own scale from 0 to 255.
    pub fn frequency(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<u8> {
        let location = self.find(hash, key, now)?;
        Some(self.policy.frequency(self.store.access(location), now.clock()))
    }

    /// Returns the bytes that an entry takes, without its share of the tables.
    pub fn footprint(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<usize> {
        let location = self.find(hash, key, now)?;
        let view = self.store.view(location);
        let object = self.objects.get(view).map_or(0, Object::bytes);
        Some(self.store.footprint(view.key.len(), view.value.len(), view.attributes) + object)
    }

    #[inline(always)]
    fn find(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<S::Location> {
        self.find_hinted(S::Hint::default(), hash, key, now)
    }

    #[inline(always)]
    fn find_hinted(&mut self, hint: S::Hint, hash: u64, key: &[u8], now: Moment) -> Option<S::Location> {
        let location = self.store.find_hinted(hint, hash, key)?;
        if self.has_expired(location, now) {
            self.expire(hash, location);
            return None;
        }
        Some(location)
    }

    #[inline(always)]
    fn touch_location(&mut self, location: S::Location, now: Moment) {
        if !self.is_use_noted {
            return;
        }
        let before = self.store.access(location);
        let after = self.policy.on_use(before, now.clock());
        // Most hits leave the word as it is: the entry's line stays clean.
        if after != before {
            self.store.set_access(location, after);
        }
    }

    // --- writing --------------------------------------------------------------------------

    /// Adds or replaces an entry.
    #[inline(always)]
    pub fn set(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        self.set_hinted(S::Hint::default(), hash, key, value, attributes, now)
    }

    /// [`Cache::set`] with the hint of a scout.
    #[inline(always)]
    pub fn set_hinted(
        &mut self,
        hint: S::Hint,
        hash: u64,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        self.make_room(hash, key, Size { key_len: key.len(), value_len: value.len(), attributes }, now)?;
        let location = self.store.find_hinted(hint, hash, key);
        self.write(location, hash, key, value, attributes, now);
        Ok(())
    }

    #[inline(always)]
    fn write(
        &mut self,
        location: Option<S::Location>,
        hash: u64,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        now: Moment,
    ) {
        if self.is_observed {
            return self.write_observed(location, hash, key, value, attributes, now);
        }
        self.write_entry(location, hash, key, value, attributes, now);
    }

    /// Writes where somebody has to be told, or an object may have to be freed.
    #[cold]
    #[inline(never)]
    fn write_observed(
        &mut self,
        location: Option<S::Location>,
        hash: u64,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        now: Moment,
    ) {
        match (location, &self.watched.observer) {
            (Some(location), _) => self.free_object(location),
            (None, Some(observer)) => observer.added(key),
            (None, None) => {}
        }
        self.write_entry(location, hash, key, value, attributes, now);
        self.note_change(hash, key);
    }

    #[inline(always)]
    fn write_entry(
        &mut self,
        location: Option<S::Location>,
        hash: u64,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        now: Moment,
    ) {
        match location {
            Some(location) => self.overwrite(hash, location, value, attributes, now),
            None => {
                let location = self.store.insert(hash, key, value, attributes);
                if self.is_use_noted {
                    self.policy.on_insert(&mut self.store, location, hash, now.clock(), None);
                }
            }
        }
    }

    #[inline]
    fn overwrite(&mut self, hash: u64, location: S::Location, value: &[u8], attributes: Attributes, now: Moment) {
        if !self.is_use_noted {
            self.store.replace(hash, location, value, attributes);
            return;
        }
        let before = self.policy.on_use(self.store.access(location), now.clock());
        match self.store.replace(hash, location, value, attributes) {
            (location, true) => self.policy.on_insert(&mut self.store, location, hash, now.clock(), Some(before)),
            (location, false) => self.store.set_access(location, before),
        }
    }

    /// Evicts entries until a value of this length fits under the key, as [`Cache::set`] would, and adds nothing.
    pub fn reserve(&mut self, hash: u64, key: &[u8], value_len: usize, now: Moment) -> Result<(), OutOfMemory> {
        let size = Size { key_len: key.len(), value_len, attributes: Attributes::default() };
        self.make_room(hash, key, size, now)
    }

    /// Sets the bytes by which the limit may be exceeded where nothing can be evicted: for several changes that must be made
    /// all or not at all.
    pub fn set_allowance(&mut self, bytes: usize) {
        self.allowance = bytes;
    }

    /// Changes the time of expiry of an entry (0: never). False: there is no such entry.
    pub fn set_expiry(&mut self, hash: u64, key: &[u8], expires_at: u64, now: Moment) -> Result<bool, OutOfMemory> {
        let Some(location) = self.find(hash, key, now) else { return Ok(false) };
        if self.store.view(location).attributes.expires_at == expires_at {
            self.note_change(hash, key); // It counts as a change, even if only to what it was.
            return Ok(true);
        }
        if self.store.set_expiry(location, expires_at) {
            self.touch_location(location, now);
            self.note_change(hash, key);
            return Ok(true);
        }
        let view = self.store.view(location);
        let is_object = self.objects.get(view).is_some();
        let EntryView { value, attributes, .. } = view;
        let (value, attributes) = (value.to_vec(), Attributes { expires_at, ..attributes });
        let size = Size { key_len: key.len(), value_len: value.len(), attributes };
        if is_object {
            if !self.is_addressable(size) {
                return Err(OutOfMemory);
            }
            // Making room might evict the object. Its entry grows by a few bytes.
            self.write_entry(Some(location), hash, key, &value, attributes, now);
            self.note_change(hash, key);
            return Ok(true);
        }
        let limit = self.limit.saturating_add(self.limit / EXPIRY_SLACK);
        if self.make_room(hash, key, size, now).is_err()
            && (self.bytes_with(size) > limit || !self.is_addressable(size))
        {
            return Err(OutOfMemory);
        }
        // Making room may have moved or evicted it.
        let location = self.store.find(hash, key);
        self.write(location, hash, key, &value, attributes, now);
        Ok(true)
    }

    /// Changes the upper bit of the encoding beside a value, which stays as it is: this is neither a use of the entry nor a
    /// change. False: there is no such entry.
    pub fn set_encoding(&mut self, hash: u64, key: &[u8], encoding: u8, now: Moment) -> bool {
        let location = self.find(hash, key, now);
        location.inspect(|&location| self.store.set_encoding(location, encoding)).is_some()
    }

    /// Removes an entry. False: there was no such entry.
    pub fn remove(&mut self, hash: u64, key: &[u8], now: Moment) -> bool {
        let Some(location) = self.find(hash, key, now) else { return false };
        self.remove_entry(hash, location);
        self.note_change(hash, key);
        true
    }

    pub fn clear(&mut self) {
        self.touch_watched();
        self.store.clear();
        self.objects = Objects::default();
        self.deadlines = Deadlines::default();
        self.note_objects();
        self.policy.on_clear();
        self.restart_sweep();
    }

    // --- whole cache ---------------------------------------------------------------------

    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store together with the counts, for callers that read an entry before they know how to count it.
    #[inline]
    pub fn store_and_counts(&mut self) -> (&S, &mut CacheCounts) {
        (&self.store, &mut self.counts)
    }

    #[cfg(test)]
    pub(crate) fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    pub fn len(&self) -> usize {
        self.store.len()
    }

    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Returns the memory held.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.entry_bytes() + self.objects.bytes()
    }

    /// Returns the memory held without the objects.
    #[inline]
    fn entry_bytes(&self) -> usize {
        self.store.bytes() + self.policy.bytes()
    }

    /// Returns the memory held once an entry of these lengths has been added.
    pub fn bytes_with_entry(&self, key_len: usize, value_len: usize) -> usize {
        self.bytes_with(Size { key_len, value_len, attributes: Attributes::default() })
    }
}
