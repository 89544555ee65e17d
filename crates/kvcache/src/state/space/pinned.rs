//! Shards that a script keeps locked from its first command to its last, and what others do meanwhile.

use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use store::{EntryCopy, Store};

use super::{Keyspace, Locked, Space, stored_key};

impl<S: Store> Space<S> {
    /// Forgets a watched key, without waiting for its shard: a script may keep it for long.
    pub(in crate::state) fn unwatch_soon(&self, hash: u64, since: u64) {
        match self.shards[self.shard_of(hash)].0.try_lock() {
            Some(mut cache) => {
                cache.unwatch(hash, since);
            }
            None => self.late_unwatches.lock().push((hash, since)),
        }
    }

    /// Forgets the watched keys that could not be forgotten at once. Must be called now and then.
    pub(crate) fn finish_unwatches(&self) {
        for (hash, since) in std::mem::take(&mut *self.late_unwatches.lock()) {
            self.lock(self.shard_of(hash)).unwatch(hash, since);
        }
    }
}

impl<S: Store> Keyspace<'_, S> {
    /// Locks the shards of these keys and of no others until [`Keyspace::unpin`]; in their order, as everybody does who
    /// locks more than one.
    pub(crate) fn pin(&mut self, keys: &[&[u8]]) {
        if self.space.shards() == 1 {
            self.shard(0);
            self.is_pinned = true;
            return;
        }
        let mut shards: SmallVec<[usize; 8]> = keys.iter().map(|key| self.shard_of(key)).collect();
        shards.sort_unstable();
        shards.dedup();
        match shards[..] {
            [] => self.locked = Locked::None,
            [shard] => {
                self.shard(shard);
            }
            _ => {
                self.locked = Locked::None;
                self.locked = Locked::Some(shards.iter().map(|&shard| (shard, self.space.lock(shard))).collect());
            }
        }
        self.is_pinned = true;
    }

    /// Locks all shards until [`Keyspace::unpin`].
    pub(crate) fn pin_all(&mut self) {
        self.is_pinned = false;
        self.lock_all();
        self.is_pinned = true;
    }

    /// Unlocks what a script has locked.
    pub(crate) fn unpin(&mut self) {
        self.is_pinned = false;
        self.unlock();
    }

    /// True if the shard of this key of the selected database is locked.
    pub(crate) fn has_locked(&self, key: &[u8]) -> bool {
        match &self.locked {
            Locked::None => false,
            Locked::All(_) => true,
            Locked::One(shard, _) => *shard == self.shard_of(key),
            Locked::Some(guards) => {
                let wanted = self.shard_of(key);
                guards.iter().any(|(shard, _)| *shard == wanted)
            }
        }
    }

    /// True if every shard is locked.
    pub(crate) fn has_locked_every_shard(&self) -> bool {
        match &self.locked {
            Locked::None => false,
            Locked::All(_) => true,
            Locked::One(..) => self.space.shards() == 1,
            Locked::Some(guards) => self.space.shards() == guards.len(),
        }
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        if self.space.shards() == 1 {
            return 0;
        }
        self.space.shard_of(self.space.hash(&stored_key(self.database, key)))
    }

    /// Returns a copy of the entry of a key, to be put back by [`Keyspace::put_back`].
    pub(crate) fn stored(&mut self, key: &[u8]) -> Option<EntryCopy> {
        let (hash, key, now) = (self.hash_of(key), stored_key(self.database, key), self.now);
        self.cache(hash).copy_entry(hash, &key, now)
    }

    /// Returns the bytes of the key's collection that a copy would copy one by one; 0: it has none, or a packed one.
    pub(crate) fn object_bytes(&mut self, key: &[u8]) -> usize {
        let (hash, key, now) = (self.hash_of(key), stored_key(self.database, key), self.now);
        self.cache(hash).object_bytes(hash, &key, now)
    }

    /// Gives a key of a database the value that it had before. A full memory is exceeded rather than a value lost.
    pub(crate) fn put_back(&mut self, database: u8, key: &[u8], before: Option<EntryCopy>) {
        let key = stored_key(database, key);
        let (hash, now) = (self.space.hash(&key), self.now);
        if database != 0 {
            self.space.has_prefixed.store(true, Ordering::Relaxed);
        }
        let cache = self.cache(hash);
        match before {
            None => {
                cache.remove(hash, &key, now);
            }
            Some(entry) => {
                cache.set_allowance(entry.bytes().saturating_mul(2).saturating_add(super::PAGES_BYTES));
                // The allowance has room for it.
                let _ = cache.put_entry(hash, &key, entry, now);
                cache.set_allowance(0);
            }
        }
    }

    fn hash_of(&self, key: &[u8]) -> u64 {
        self.space.hash(&stored_key(self.database, key))
    }
}
