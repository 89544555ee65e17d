//! A store with a sense of time and of its limits.

use std::collections::HashMap;

use crate::{Attributes, Options, Policy, PolicyKind, Store, View};

/// Entries given up for one insertion before the store is asked to make their memory fit.
const EVICT_BEFORE_COMPACT: usize = 16;
/// Entries given up for one insertion at most; no single reply waits for more.
const EVICT_MAX: usize = 4096;

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

/// Totals since the start, or since they were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub hits: u64,
    pub misses: u64,
    pub evicted: u64,
    pub expired: u64,
}

/// Keys somebody wants to know changes of.
#[derive(Debug, Default)]
struct Watched {
    /// By hash: a collision is a needless abort of a transaction, no more. Watchers, and changes so far.
    keys: HashMap<u64, (usize, u64)>,
}

/// A map that forgets: entries expire, and give way to others when memory runs out.
#[derive(Debug)]
pub struct Cache<S> {
    store: S,
    policy: Policy,
    /// Bytes; `usize::MAX`: no limit.
    limit: usize,
    watched: Watched,
    /// Where [`Cache::expire_some`] goes on.
    sweep: u64,
    pub counts: Counts,
}

impl<S: Store> Cache<S> {
    pub fn new(options: Options, policy: PolicyKind, limit: Option<usize>, seed: u64) -> Self {
        Self {
            store: S::new(options),
            policy: Policy::new(policy, seed),
            limit: limit.unwrap_or(usize::MAX),
            watched: Watched::default(),
            sweep: 0,
            counts: Counts::default(),
        }
    }

    // --- reading --------------------------------------------------------------------------

    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.store.prefetch(hash);
    }

    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        self.store.prefetch_entry(hash);
    }

    /// An entry that a client reads: counted, and remembered as used.
    #[inline]
    pub fn get(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<View<'_>> {
        let Some(place) = self.find(hash, key, now) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        self.touch_place(place, now);
        Some(self.store.view(place))
    }

    /// An entry that nobody is said to have used.
    #[inline]
    pub fn peek(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<View<'_>> {
        let place = self.find(hash, key, now)?;
        Some(self.store.view(place))
    }

    /// Remembers an entry as used. False: it is not there.
    pub fn touch(&mut self, hash: u64, key: &[u8], now: Moment) -> bool {
        let place = self.find(hash, key, now);
        place.inspect(|&place| self.touch_place(place, now)).is_some()
    }

    /// Seconds since the last use of an entry.
    pub fn idle_s(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<u32> {
        let place = self.find(hash, key, now)?;
        Some(Policy::idle_s(self.store.access(place), now.clock()))
    }

    /// How often an entry has been used, on the policy's own scale from 0 to 255.
    pub fn frequency(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<u8> {
        let place = self.find(hash, key, now)?;
        Some(self.policy.frequency(self.store.access(place), now.clock()))
    }

    /// Bytes that an entry takes, without its share of the tables.
    pub fn footprint(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<usize> {
        let view = self.peek(hash, key, now)?;
        let (value, attributes) = (view.value.len(), view.attributes);
        Some(self.store.footprint(key.len(), value, attributes))
    }

    #[inline]
    fn find(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<S::Place> {
        let place = self.store.find(hash, key)?;
        let expires_at = self.store.view(place).attributes.expires_at;
        if expires_at != 0 && expires_at <= now.unix_ms {
            self.expire(hash, place);
            return None;
        }
        Some(place)
    }

    #[inline]
    fn touch_place(&mut self, place: S::Place, now: Moment) {
        let before = self.store.access(place);
        let after = self.policy.hit(before, now.clock());
        // Most hits leave the word as it is: the entry's line stays clean.
        if after != before {
            self.store.set_access(place, after);
        }
    }

    // --- writing --------------------------------------------------------------------------

    /// Adds or replaces an entry.
    #[inline]
    pub fn set(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        if self.limit != usize::MAX {
            self.make_room(key.len(), value.len(), attributes, now)?;
        }
        match self.store.find(hash, key) {
            Some(place) => self.overwrite(hash, place, value, attributes, now),
            None => {
                let place = self.store.insert(hash, key, value, attributes);
                self.policy.added(&mut self.store, place, hash, now.clock(), None);
            }
        }
        self.changed(hash);
        Ok(())
    }

    #[inline]
    fn overwrite(&mut self, hash: u64, place: S::Place, value: &[u8], attributes: Attributes, now: Moment) {
        let before = self.policy.hit(self.store.access(place), now.clock());
        match self.store.replace(hash, place, value, attributes) {
            (place, true) => self.policy.added(&mut self.store, place, hash, now.clock(), Some(before)),
            (place, false) => self.store.set_access(place, before),
        }
    }

    /// Gives an entry another time to expire at (0: never). False: it is not there.
    pub fn set_expiry(&mut self, hash: u64, key: &[u8], expires_at: u64, now: Moment) -> Result<bool, OutOfMemory> {
        let Some(view) = self.peek(hash, key, now) else { return Ok(false) };
        if view.attributes.expires_at == expires_at {
            self.changed(hash); // Somebody has changed it, if only to what it was.
            return Ok(true);
        }
        let (value, attributes) = (view.value.to_vec(), Attributes { expires_at, ..view.attributes });
        self.set(hash, key, &value, attributes, now).map(|()| true)
    }

    /// False: it was not there.
    pub fn remove(&mut self, hash: u64, key: &[u8], now: Moment) -> bool {
        let Some(place) = self.find(hash, key, now) else { return false };
        self.store.remove(hash, place);
        self.changed(hash);
        true
    }

    pub fn clear(&mut self) {
        self.touch_watched();
        self.store.clear();
        self.policy.cleared();
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

    // --- forgetting -----------------------------------------------------------------------

    /// Removes some of what has expired; called from time to time. True: a whole round is done.
    pub fn expire_some(&mut self, now: Moment) -> bool {
        if self.store.expiring() == 0 {
            return true;
        }
        let mut found = Vec::new();
        let next = self.store.sweep_expiring(self.sweep, &mut found);
        let expired = |store: &S, place| store.view(place).attributes.expires_at <= now.unix_ms;
        let keys = found.into_iter().filter(|&place| expired(&self.store, place));
        // Places do not outlive the first removal.
        let keys: Vec<_> = keys.map(|place| self.store.view(place).key.to_vec()).collect();
        for key in keys {
            let hash = self.store.hash(&key);
            let _ = self.find(hash, &key, now);
        }
        self.sweep = next;
        next == 0
    }

    #[cold]
    fn expire(&mut self, hash: u64, place: S::Place) {
        self.store.remove(hash, place);
        self.changed(hash);
        self.counts.expired += 1;
    }

    /// Gives entries up until such an entry fits.
    #[inline]
    fn make_room(
        &mut self,
        key_len: usize,
        value_len: usize,
        attributes: Attributes,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        match self.bytes() + self.store.growth(key_len, value_len, attributes) > self.limit {
            true => self.evict_for(key_len, value_len, attributes, now),
            false => Ok(()),
        }
    }

    #[cold]
    fn evict_for(
        &mut self,
        key_len: usize,
        value_len: usize,
        attributes: Attributes,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        for evicted in 1..=EVICT_MAX {
            let victim = self.policy.victim(&mut self.store, now.clock()).ok_or(OutOfMemory)?;
            let hash = self.store.hash(self.store.view(victim).key);
            self.store.remove(hash, victim);
            self.policy.evicted(hash);
            self.changed(hash);
            self.counts.evicted += 1;
            if evicted % EVICT_BEFORE_COMPACT == 0 {
                self.store.compact(key_len, value_len, attributes);
            }
            if self.bytes() + self.store.growth(key_len, value_len, attributes) <= self.limit {
                return Ok(());
            }
        }
        Err(OutOfMemory)
    }

    // --- the whole ------------------------------------------------------------------------

    pub fn store(&self) -> &S {
        &self.store
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
        self.policy.set_kind(kind);
    }

    /// `None`: no limit.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit.unwrap_or(usize::MAX);
    }
}
