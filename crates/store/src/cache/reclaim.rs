//! The ways in which a cache gets memory back: expiry and eviction.

use smallvec::SmallVec;

use super::{Cache, Cause, Moment, OutOfMemory, Size};
use crate::{EntryView, Store};

/// Entries evicted before the store is asked to compact their memory.
const EVICT_BEFORE_COMPACT: u64 = 16;
/// Entries evicted at a time after the limit has been lowered.
const SHRINK_ENTRIES: usize = 64;
/// Steps of the search for expired entries when no other entry may be evicted.
const EXPIRE_STEPS: usize = 16;
/// Most expired entries that one step removes.
const EXPIRE_ENTRIES: usize = 128;
/// Addressable bytes of a store that are left to changes which must be made all or not at all, and to those that only shrink
/// an entry.
const HEADROOM: usize = 16 << 20;

impl<S: Store> Cache<S> {
    /// Removes some expired entries, and fields of hashes. Has to be called from time to time. True: a whole round is done.
    pub fn expire_some(&mut self, now: Moment) -> bool {
        let has_expired_fields = self.expire_fields(now);
        if self.expired.is_empty() {
            if self.store.expiring() == 0 {
                self.sweep = 0;
                return has_expired_fields;
            }
            self.find_expired(now);
        }
        self.remove_expired();
        let is_round = self.sweep == 0 && self.expired.is_empty();
        if is_round {
            self.store.note_swept(self.sweep_began);
        }
        is_round && has_expired_fields
    }

    fn find_expired(&mut self, now: Moment) {
        if self.sweep == 0 {
            self.sweep_began = now.unix_ms;
        }
        let mut found = Vec::new();
        self.sweep = self.store.sweep_expiring(self.sweep, now.unix_ms, &mut found);
        found.retain(|&location| self.has_expired(location, now));
        // Locations are invalid after the first removal; handles are not.
        self.expired = found.into_iter().rev().map(|location| self.store.handle(location)).collect();
        self.expired_at = now.unix_ms;
    }

    /// Removes some of the entries that [`Cache::find_expired`] has found.
    fn remove_expired(&mut self) {
        // Not the present time: the clock may have been set back, and the store need not find them again.
        let then = Moment { unix_ms: self.expired_at };
        let handles = self.expired.split_off(self.expired.len().saturating_sub(EXPIRE_ENTRIES));
        let hash_of = |handle: u32| {
            let location = self.store.locate(handle).filter(|&location| self.has_expired(location, then))?;
            let hash = self.store.hash(self.store.view(location).key);
            self.store.prefetch(hash);
            Some((handle, hash))
        };
        let hashes: SmallVec<[(u32, u64); EXPIRE_ENTRIES]> = handles.into_iter().rev().filter_map(hash_of).collect();
        for (handle, hash) in hashes {
            if let Some(location) = self.store.locate(handle) {
                self.expire(hash, location);
            }
        }
        if self.expired.is_empty() {
            self.expired = Vec::new();
        }
    }

    /// Begins a new round of the sweep: entries may have moved to where it has been.
    pub(super) fn restart_sweep(&mut self) {
        (self.sweep, self.expired) = (0, Vec::new());
    }

    #[inline]
    pub(super) fn has_expired(&self, location: S::Location, now: Moment) -> bool {
        let expires_at = self.store.expires_at(location);
        expires_at != 0 && expires_at <= now.unix_ms
    }

    #[cold]
    #[inline(never)]
    pub(super) fn expire(&mut self, hash: u64, location: S::Location) {
        self.lose(hash, location, Cause::Expired);
        self.counts.expired += 1;
    }

    /// Removes an entry that nobody has asked to remove.
    #[inline]
    fn lose(&mut self, hash: u64, location: S::Location, cause: Cause) {
        if self.is_observed {
            self.note_loss(hash, location, cause);
        }
        self.store.remove(hash, location);
    }

    /// Notes that an entry is about to go, while its key can still be read, and frees its object.
    #[cold]
    #[inline(never)]
    fn note_loss(&mut self, hash: u64, location: S::Location, cause: Cause) {
        self.watched.count(hash);
        if let Some(observer) = &self.watched.observer {
            observer.changed(self.store.view(location).key, cause);
        }
        self.free_object(location);
    }

    /// Evicts some entries after the limit has been lowered. Has to be called from time to time. True: there is nothing more
    /// to do.
    pub fn shrink_some(&mut self, now: Moment) -> bool {
        for _ in 0..SHRINK_ENTRIES {
            if self.bytes() <= self.limit || !self.evict(now) {
                return true;
            }
        }
        self.compact(Size::default());
        self.bytes() <= self.limit
    }

    /// Evicts entries until one of this size fits.
    #[inline(always)]
    pub(super) fn make_room(&mut self, hash: u64, key: &[u8], size: Size, now: Moment) -> Result<(), OutOfMemory> {
        match self.store.is_bounded() {
            false => Ok(()),
            true => self.make_room_within_bounds(hash, key, size, now),
        }
    }

    #[inline]
    fn make_room_within_bounds(&mut self, hash: u64, key: &[u8], size: Size, now: Moment) -> Result<(), OutOfMemory> {
        let is_within = self.limit == usize::MAX || self.entry_bytes_with(size) <= self.entries_limit;
        match is_within && self.has_room(size) {
            true => Ok(()),
            false => self.evict_for(hash, key, size, now).or_else(|error| self.allow(size).ok_or(error)),
        }
    }

    /// Returns `Some` if an entry of this size may exceed the limit: see [`Cache::set_allowance`].
    #[cold]
    fn allow(&self, size: Size) -> Option<()> {
        let is_allowed = self.allowance > 0 && self.bytes_with(size) <= self.limit.saturating_add(self.allowance);
        (is_allowed && self.is_addressable(size)).then_some(())
    }

    /// True if the store can address an entry of this size, and some more.
    #[inline]
    pub(super) fn has_room(&self, Size { key_len, value_len, attributes }: Size) -> bool {
        self.store.room(key_len, value_len, attributes) >= HEADROOM
    }

    /// True if the store can address an entry of this size.
    #[inline]
    pub(super) fn is_addressable(&self, Size { key_len, value_len, attributes }: Size) -> bool {
        self.store.room(key_len, value_len, attributes) > 0
    }

    /// Returns the memory held once such an entry has been added.
    pub(super) fn bytes_with(&self, size: Size) -> usize {
        self.entry_bytes_with(size) + self.objects.bytes()
    }

    /// Returns the same without the objects.
    #[inline]
    fn entry_bytes_with(&self, Size { key_len, value_len, attributes }: Size) -> usize {
        self.entry_bytes() + self.store.growth(key_len, value_len, attributes) + self.policy.growth()
    }

    #[cold]
    fn evict_for(&mut self, hash: u64, key: &[u8], size: Size, now: Moment) -> Result<(), OutOfMemory> {
        // What takes far less than the limit need not be measured.
        let may_exceed = size.key_len + size.value_len >= self.limit / 2;
        if may_exceed && self.footprint_of(size) > self.limit {
            return Err(OutOfMemory);
        }
        match self.fits_in_place(hash, key, size) {
            true => Ok(()),
            false => self.evict_until(size, 0, now),
        }
    }

    /// Evicts entries until one of this size fits, and objects may grow by `growth` bytes beside it. However many have to go:
    /// a page of large entries takes the place of ten thousand small ones.
    #[cold]
    pub(super) fn evict_until(&mut self, size: Size, growth: usize, now: Moment) -> Result<(), OutOfMemory> {
        let before = self.bytes();
        // On the way to a lowered limit, it is enough that some entries go and the excess does not grow.
        let (goal, least) = match before > self.limit {
            true => (before + self.policy.growth(), SHRINK_ENTRIES),
            false => (self.limit, 1),
        };
        for evicted in 1.. {
            // Without a limit nobody has agreed to evictions.
            let evicted_any = self.limit != usize::MAX && self.evict(now) || self.expire_any(now);
            // Counted over all insertions: if each evicts one entry only, a page of another size would never become free.
            let gone = self.counts.evicted + self.counts.expired;
            if !evicted_any || gone.is_multiple_of(EVICT_BEFORE_COMPACT) {
                self.compact(size);
            }
            let bytes = self.bytes_with(size) + growth;
            let is_enough = evicted >= least || evicted > 1 && !evicted_any;
            if (bytes <= self.limit || bytes <= goal && is_enough) && self.has_room(size) {
                return Ok(());
            }
            if !evicted_any {
                break;
            }
        }
        Err(OutOfMemory)
    }

    /// True if there is an entry for the key and another value of this size takes no more memory.
    fn fits_in_place(&self, hash: u64, key: &[u8], size: Size) -> bool {
        self.store.find(hash, key).is_some_and(|location| {
            let EntryView { key, value, attributes, .. } = self.store.view(location);
            let present = Size { key_len: key.len(), value_len: value.len(), attributes };
            let expires = |size: Size| size.attributes.expires_at != 0;
            self.footprint_of(present) == self.footprint_of(size) && expires(present) == expires(size)
        })
    }

    fn footprint_of(&self, Size { key_len, value_len, attributes }: Size) -> usize {
        self.store.footprint(key_len, value_len, attributes)
    }

    /// Evicts the entry that the policy chooses. False: there is none.
    pub(super) fn evict(&mut self, now: Moment) -> bool {
        let Some(victim) = self.policy.choose_victim(&mut self.store, now.clock()) else { return false };
        let hash = self.store.hash(self.store.view(victim).key);
        if self.has_expired(victim, now) {
            self.expire(hash, victim);
            return true;
        }
        self.lose(hash, victim, Cause::Evicted);
        self.policy.on_evict(hash);
        self.counts.evicted += 1;
        true
    }

    /// Removes some expired entries. False: none was found.
    fn expire_any(&mut self, now: Moment) -> bool {
        let before = self.counts.expired;
        (0..EXPIRE_STEPS).any(|_| {
            self.expire_some(now);
            self.counts.expired != before
        })
    }

    fn compact(&mut self, Size { key_len, value_len, attributes }: Size) {
        let mut moved = Vec::new();
        self.store.compact(key_len, value_len, attributes, &mut |handle| moved.push(handle));
        if !moved.is_empty() {
            // They may be where the sweep has been.
            self.sweep_began = 0;
        }
        moved.into_iter().for_each(|handle| self.policy.on_move(&self.store, handle));
    }
}
