//! A store with a sense of time and of its limits.

mod forget;

use std::{collections::HashMap, sync::Arc};

use crate::{Attributes, EntryView, Policy, PolicyKind, Store, StoreOptions};

/// An entry that only gets a time to expire at may exceed the limit by this fraction of it: it will give back more.
const EXPIRY_SLACK: usize = 64;

/// The time, as a cache needs it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

impl Moment {
    /// What policies reckon with: seconds, in 24 bits that wrap after 194 days.
    #[inline]
    pub fn clock(self) -> u32 {
        (self.unix_ms / 1000) as u32 & 0xff_ffff
    }
}

/// The entry does not fit, and there is nothing that may be given up for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// What an entry will need.
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
    /// The entry that has just been counted as a hit is worth nothing to who asked for it.
    #[cold]
    pub fn recount_hit_as_miss(&mut self) {
        self.hits = self.hits.saturating_sub(1);
        self.misses += 1;
    }
}

/// Keys somebody wants to know changes of.
#[derive(Debug, Default)]
struct Watched {
    /// By hash: a collision is a needless abort of a transaction, no more. Watchers, and changes so far.
    keys: HashMap<u64, (usize, u64)>,
}

/// A map that forgets: entries expire, and give way to others when memory runs out.
#[derive(Debug)]
#[repr(C)]
pub struct Cache<S> {
    pub counts: CacheCounts,
    store: S,
    policy: Policy,
    /// Bytes; `usize::MAX`: no limit.
    limit: usize,
    watched: Watched,
    /// Where [`Cache::expire_some`] goes on.
    sweep: u64,
}

impl<S: Store> Cache<S> {
    pub fn new(options: StoreOptions, policy: PolicyKind, limit: Option<usize>, seed: u64) -> Self {
        let mut policy = Policy::new(policy, seed);
        policy.set_limited(limit.is_some());
        Self {
            store: S::new(options),
            policy,
            limit: limit.unwrap_or(usize::MAX),
            watched: Watched::default(),
            sweep: 0,
            counts: CacheCounts::default(),
        }
    }

    // --- reading --------------------------------------------------------------------------

    /// Looks ahead for who does not hold the lock that the cache may be behind.
    pub fn scout(&self) -> Arc<S::Scout> {
        self.store.scout()
    }

    /// An entry that a client reads: counted, and remembered as used.
    #[inline]
    pub fn get(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<EntryView<'_>> {
        let location = self.use_entry(S::Hint::default(), hash, key, now)?;
        Some(self.store.view(location))
    }

    /// Where the entry is that [`Cache::get`] shows.
    #[inline(always)]
    pub fn use_entry(&mut self, hint: S::Hint, hash: u64, key: &[u8], now: Moment) -> Option<S::Location> {
        let location = self.count_entry(hint, hash, key, now)?;
        self.touch_location(location, now);
        Some(location)
    }

    /// [`Cache::use_entry`], counted and not remembered as used.
    #[inline(always)]
    pub fn count_entry(&mut self, hint: S::Hint, hash: u64, key: &[u8], now: Moment) -> Option<S::Location> {
        let Some(location) = self.find_hinted(hint, hash, key, now) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        Some(location)
    }

    /// An entry that nobody is said to have used.
    #[inline]
    pub fn peek(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<EntryView<'_>> {
        let location = self.find(hash, key, now)?;
        Some(self.store.view(location))
    }

    /// Remembers an entry as used. False: it is not there.
    pub fn touch(&mut self, hash: u64, key: &[u8], now: Moment) -> bool {
        let location = self.find(hash, key, now);
        location.inspect(|&location| self.touch_location(location, now)).is_some()
    }

    /// Seconds since the last use of an entry.
    pub fn idle_s(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<u32> {
        let location = self.find(hash, key, now)?;
        Some(Policy::idle_s(self.store.access(location), now.clock()))
    }

    /// How often an entry has been used, on the policy's own scale from 0 to 255.
    pub fn frequency(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<u8> {
        let location = self.find(hash, key, now)?;
        Some(self.policy.frequency(self.store.access(location), now.clock()))
    }

    /// Bytes that an entry takes, without its share of the tables.
    pub fn footprint(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<usize> {
        let EntryView { key, value, attributes, .. } = self.peek(hash, key, now)?;
        let (key_len, value_len) = (key.len(), value.len());
        Some(self.store.footprint(key_len, value_len, attributes))
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

    /// [`Cache::set`], with what a scout found out.
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
        match location {
            Some(location) => self.overwrite(hash, location, value, attributes, now),
            None => {
                let location = self.store.insert(hash, key, value, attributes);
                self.policy.on_insert(&mut self.store, location, hash, now.clock(), None);
            }
        }
        self.changed(hash);
    }

    #[inline]
    fn overwrite(&mut self, hash: u64, location: S::Location, value: &[u8], attributes: Attributes, now: Moment) {
        let before = self.policy.on_use(self.store.access(location), now.clock());
        match self.store.replace(hash, location, value, attributes) {
            (location, true) => self.policy.on_insert(&mut self.store, location, hash, now.clock(), Some(before)),
            (location, false) => self.store.set_access(location, before),
        }
    }

    /// Gives an entry another time to expire at (0: never). False: it is not there.
    pub fn set_expiry(&mut self, hash: u64, key: &[u8], expires_at: u64, now: Moment) -> Result<bool, OutOfMemory> {
        let Some(location) = self.find(hash, key, now) else { return Ok(false) };
        if self.store.view(location).attributes.expires_at == expires_at {
            self.changed(hash); // Somebody has changed it, if only to what it was.
            return Ok(true);
        }
        if self.store.set_expiry(location, expires_at) {
            self.touch_location(location, now);
            self.changed(hash);
            return Ok(true);
        }
        let EntryView { value, attributes, .. } = self.store.view(location);
        let (value, attributes) = (value.to_vec(), Attributes { expires_at, ..attributes });
        let size = Size { key_len: key.len(), value_len: value.len(), attributes };
        let limit = self.limit.saturating_add(self.limit / EXPIRY_SLACK);
        if self.make_room(hash, key, size, now).is_err() && self.bytes_with(size) > limit {
            return Err(OutOfMemory);
        }
        // Making room may have moved it, or taken it.
        let location = self.store.find(hash, key);
        self.write(location, hash, key, &value, attributes, now);
        Ok(true)
    }

    /// Records another encoding beside a value, which stays as it is: this is neither a use of the entry nor a change.
    /// False: it is not there.
    pub fn set_encoding(&mut self, hash: u64, key: &[u8], encoding: u8, now: Moment) -> bool {
        let location = self.find(hash, key, now);
        location.inspect(|&location| self.store.set_encoding(location, encoding)).is_some()
    }

    /// False: it was not there.
    pub fn remove(&mut self, hash: u64, key: &[u8], now: Moment) -> bool {
        let Some(location) = self.find(hash, key, now) else { return false };
        self.store.remove(hash, location);
        self.changed(hash);
        true
    }

    pub fn clear(&mut self) {
        self.touch_watched();
        self.store.clear();
        self.policy.on_clear();
        self.sweep = 0;
    }

    /// Counts a change of every watched key that is there.
    fn touch_watched(&mut self) {
        let Self { store, watched, .. } = self;
        let mut cursor = 0;
        while !watched.keys.is_empty() {
            cursor = store.scan(cursor, &mut |view| {
                if let Some((_, changes)) = watched.keys.get_mut(&store.hash(view.key)) {
                    *changes += 1;
                }
            });
            if cursor == 0 {
                break;
            }
        }
    }

    // --- watching -------------------------------------------------------------------------

    /// Changes of a key so far; they are counted until [`Cache::unwatch`].
    pub fn watch(&mut self, hash: u64) -> u64 {
        let (watchers, changes) = self.watched.keys.entry(hash).or_default();
        *watchers += 1;
        *changes
    }

    /// Owed for every [`Cache::watch`]. True: the key has changed since.
    pub fn unwatch(&mut self, hash: u64, since: u64) -> bool {
        let Some((watchers, changes)) = self.watched.keys.get_mut(&hash) else { return true };
        let changed = *changes != since;
        *watchers -= 1;
        if *watchers == 0 {
            self.watched.keys.remove(&hash);
        }
        changed
    }

    #[inline]
    fn changed(&mut self, hash: u64) {
        if !self.watched.keys.is_empty()
            && let Some((_, changes)) = self.watched.keys.get_mut(&hash)
        {
            *changes += 1;
        }
    }

    // --- the whole ------------------------------------------------------------------------

    pub fn store(&self) -> &S {
        &self.store
    }

    /// For who learns from an entry how to count it.
    #[inline]
    pub fn store_and_counts(&mut self) -> (&S, &mut CacheCounts) {
        (&self.store, &mut self.counts)
    }

    pub fn len(&self) -> usize {
        self.store.len()
    }

    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Memory held.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.store.bytes() + self.policy.bytes()
    }

    pub fn policy(&self) -> PolicyKind {
        self.policy.kind()
    }

    pub fn set_policy(&mut self, kind: PolicyKind) {
        if kind != self.policy.kind() {
            self.policy.set_kind(kind);
            self.policy.restart(self.store.len());
        }
    }

    /// Bytes; `None`: no limit.
    pub fn limit(&self) -> Option<usize> {
        (self.limit != usize::MAX).then_some(self.limit)
    }

    /// `None`: no limit. One that has been lowered is reached by [`Cache::shrink_some`], and by and by as entries are set.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        if limit.is_some() != (self.limit != usize::MAX) {
            self.policy.set_limited(limit.is_some());
            self.policy.restart(self.store.len());
        }
        self.limit = limit.unwrap_or(usize::MAX);
    }
}
