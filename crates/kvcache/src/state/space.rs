//! All keys: shards behind locks, and the view that commands have of them.

mod clearing;
mod collections;
mod pinned;
mod usage;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use proto::Now;
use store::{
    Attributes, Cache, CacheCounts, KeyHasher, Moment, OutOfMemory, PolicyKind, Store, StoreOptions,
    collections::WrongType,
};

use crate::{codec::Codec, value::Value};

/// Number of databases that can be selected.
pub(crate) const DATABASES: u8 = 16;
/// First byte of the stored form of every key that is not of database 0, or that begins with this byte itself; the number
/// of the database follows. So one table holds all databases, and an ordinary key costs nothing.
pub(crate) const DATABASE_PREFIX: u8 = 0xff;

/// Memory that stores allocate at a time, with room to spare.
const PAGES_BYTES: usize = 128 << 10;
/// Length of the key and of the value of a small entry.
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 12;

/// The keys of all databases, divided among shards by their hash.
#[derive(Debug)]
pub struct Space<S: Store> {
    shards: Box<[Shard<S>]>,
    /// Readers of the shards without their locks; kept apart from them, whose cache lines are written all the time.
    scouts: Box<[Arc<S::Scout>]>,
    hasher: KeyHasher,
    codec: Codec,
    /// True if there may be keys of other databases than 0. Written under the lock of such a key's shard.
    has_prefixed: AtomicBool,
    /// Watched keys that were given up while their shards were locked: their hashes, and since when they were watched.
    late_unwatches: Mutex<Vec<(u64, u64)>>,
}

/// One shard, aligned to two cache lines, since processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<S: Store>(Mutex<Cache<S>>);

/// Options of a [`Space`].
#[derive(Clone, Debug)]
pub struct SpaceOptions {
    pub shards: usize,
    pub policy: PolicyKind,
    /// Bytes for the entries of all shards together.
    pub memory_max: Option<usize>,
    pub codec: Codec,
    pub store: StoreOptions,
    pub seed: u64,
    /// True if the time of each entry's last use is kept even where no policy needs it.
    pub is_use_tracked: bool,
}

impl<S: Store> Space<S> {
    /// Limit of the number of shards: 16 bits of a hash choose one.
    pub const SHARDS_MAX: usize = 1 << 16;

    pub fn new(options: SpaceOptions) -> Self {
        let shards = options.shards.max(1);
        let limit = options.memory_max.map(|bytes| bytes / shards);
        let cache = |index: usize| {
            let seed = options.seed.wrapping_add(index as u64);
            let mut cache = Cache::new(options.store.clone(), options.policy, limit, seed);
            if options.is_use_tracked {
                cache.track_use();
            }
            cache
        };
        let caches: Vec<_> = (0..shards).map(cache).collect();
        Self {
            scouts: caches.iter().map(Cache::scout).collect(),
            shards: caches.into_iter().map(|cache| Shard(Mutex::new(cache))).collect(),
            hasher: options.store.hasher.clone(),
            codec: options.codec,
            has_prefixed: AtomicBool::new(false),
            late_unwatches: Mutex::default(),
        }
    }

    /// Records that there is a key of another database than 0. Whoever adds one other than through `Keyspace::item` must
    /// call this before its shard is unlocked.
    pub fn note_prefixed(&self) {
        // It is mostly set already, and then its cache line stays shared between processors.
        if !self.has_prefixed.load(Ordering::Relaxed) {
            self.has_prefixed.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    pub fn codec(&self) -> &Codec {
        &self.codec
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the shard of a hash. Stores use the lower bits of a hash, so this uses the upper ones.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> usize {
        (((hash >> 48) * self.shards.len() as u64) >> 16) as usize
    }

    #[inline]
    pub fn lock(&self, shard: usize) -> MutexGuard<'_, Cache<S>> {
        // A command that panics leaves a cache that is still sound.
        self.shards[shard].0.lock()
    }

    /// Returns the scout of the shard of a hash, which looks into it without its lock.
    #[inline(always)]
    pub(crate) fn scout(&self, hash: u64) -> &S::Scout {
        &self.scouts[self.shard_of(hash)]
    }

    /// Visits every shard, one after the other.
    pub fn for_each_shard(&self, mut visit: impl FnMut(&mut Cache<S>)) {
        (0..self.shards.len()).for_each(|shard| visit(&mut self.lock(shard)));
    }

    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.for_each_shard(|cache| bytes += cache.bytes());
        bytes
    }

    pub fn counts(&self) -> CacheCounts {
        let mut sum = CacheCounts::default();
        self.for_each_shard(|cache| {
            sum.hits += cache.counts.hits;
            sum.misses += cache.counts.misses;
            sum.evicted += cache.counts.evicted;
            sum.expired += cache.counts.expired;
        });
        sum
    }

    /// Returns the least memory limit with which every shard can hold a small entry. The space must be empty.
    pub fn memory_min(&self) -> usize {
        let mut shard_bytes = 0;
        self.for_each_shard(|cache| shard_bytes = cache.bytes_with_entry(KEY_BYTES, VALUE_BYTES).max(shard_bytes));
        shard_bytes * self.shards.len()
    }

    pub fn set_memory_max(&self, bytes: Option<usize>) {
        let shards = self.shards.len();
        self.for_each_shard(|cache| cache.set_limit(bytes.map(|bytes| bytes / shards)));
    }

    pub fn set_policy(&self, policy: PolicyKind) {
        self.for_each_shard(|cache| cache.set_policy(policy));
    }
}

/// Returns the stored form of a key.
#[inline]
pub(crate) fn stored_key(database: u8, key: &[u8]) -> Cow<'_, [u8]> {
    if database == 0 && key.first() != Some(&DATABASE_PREFIX) {
        return Cow::Borrowed(key);
    }
    let mut stored = Vec::with_capacity(key.len() + 2);
    stored.extend_from_slice(&[DATABASE_PREFIX, database]);
    stored.extend_from_slice(key);
    Cow::Owned(stored)
}

/// Returns the database and the key that a stored key stands for.
#[inline]
pub(crate) fn split_stored_key(stored: &[u8]) -> (u8, &[u8]) {
    match stored {
        [DATABASE_PREFIX, database, key @ ..] => (*database, key),
        key => (0, key),
    }
}

/// View that a command, or a batch of commands, has of the space. Shards are locked as keys are asked for, at most one at
/// a time unless all are locked.
#[derive(Debug)]
pub(crate) struct Keyspace<'s, S: Store> {
    space: &'s Space<S>,
    locked: Locked<'s, S>,
    pub database: u8,
    /// Hash of the next key to be asked for, if it has been computed already.
    pub known_hash: Option<u64>,
    /// True if reading a key does not count as a use of it.
    pub is_no_touch: bool,
    pub now: Moment,
    /// Bytes by which each shard may exceed its limit now.
    allowance: usize,
    /// True while the shards of a script stay locked; see [`Keyspace::pin`].
    is_pinned: bool,
    /// The same time in milliseconds, rounded up: what expires so long after it is never early.
    pub now_rounded_up_ms: u64,
}

#[derive(Debug)]
enum Locked<'s, S> {
    None,
    One(usize, MutexGuard<'s, Cache<S>>),
    /// Shards of a script, in order.
    Some(Vec<(usize, MutexGuard<'s, Cache<S>>)>),
    All(Vec<MutexGuard<'s, Cache<S>>>),
}

impl<'s, S: Store> Keyspace<'s, S> {
    pub(crate) fn new(space: &'s Space<S>, now: Now) -> Self {
        let unix_ms = now.unix.as_secs().saturating_mul(1000).saturating_add(now.unix.subsec_millis().into());
        let has_fraction = !now.unix.subsec_nanos().is_multiple_of(1_000_000);
        Self {
            space,
            locked: Locked::None,
            database: 0,
            known_hash: None,
            is_no_touch: false,
            now: Moment { unix_ms },
            allowance: 0,
            is_pinned: false,
            now_rounded_up_ms: unix_ms.saturating_add(has_fraction.into()),
        }
    }

    pub(crate) fn space(&self) -> &'s Space<S> {
        self.space
    }

    /// Returns the shard of a hash, locked.
    #[inline(always)]
    pub(crate) fn cache(&mut self, hash: u64) -> &mut Cache<S> {
        self.shard(self.space.shard_of(hash))
    }

    #[inline(always)]
    pub(crate) fn shard(&mut self, index: usize) -> &mut Cache<S> {
        match &self.locked {
            Locked::One(locked, _) if *locked == index => {}
            Locked::All(_) => {}
            Locked::Some(guards) if guards.iter().any(|(locked, _)| *locked == index) => {}
            Locked::One(..) | Locked::Some(_) | Locked::None => self.lock_shard(index),
        }
        match &mut self.locked {
            Locked::One(_, guard) => guard,
            Locked::All(guards) => &mut guards[index],
            Locked::Some(guards) => {
                let at = guards.iter().position(|(locked, _)| *locked == index);
                &mut guards[at.unwrap_or(0)].1
            }
            Locked::None => unreachable!("a shard has just been locked"),
        }
    }

    #[inline(never)]
    fn lock_shard(&mut self, index: usize) {
        self.locked = Locked::None; // Unlocked before the next is locked: two threads with two locks each could wait for each other.
        self.locked = Locked::One(index, self.space.lock(index));
    }

    /// Locks all shards: from here on no other thread sees or changes a key. A script has locked those that it needs.
    pub(crate) fn lock_all(&mut self) {
        if !self.is_pinned && !matches!(self.locked, Locked::All(_)) {
            self.locked = Locked::None;
            self.locked = Locked::All((0..self.space.shards()).map(|index| self.space.lock(index)).collect());
        }
    }

    pub(crate) fn has_locked_all(&self) -> bool {
        matches!(self.locked, Locked::All(_))
    }

    /// Visits every shard, or those of a script. Unless all are locked it is one after the other, and the last one stays
    /// locked.
    pub(crate) fn for_each_shard(&mut self, mut visit: impl FnMut(&mut Cache<S>)) {
        match &mut self.locked {
            Locked::One(_, guard) if self.is_pinned => return visit(guard),
            Locked::Some(guards) => return guards.iter_mut().for_each(|(_, guard)| visit(guard)),
            Locked::One(..) | Locked::None | Locked::All(_) => {}
        }
        (0..self.space.shards()).for_each(|shard| visit(self.shard(shard)));
    }

    /// Locks all shards, and lets them exceed the memory limit while `change` stores `bytes`: all of them or, where memory
    /// has not been reserved before, none.
    pub(crate) fn with_allowance<T>(&mut self, bytes: usize, change: impl FnOnce(&mut Self) -> T) -> T {
        self.lock_all();
        let before = self.allowance;
        // Entries are longer than their values, and the last one may need a page of its own.
        let allowance = before.max(bytes.saturating_mul(2).saturating_add(PAGES_BYTES));
        self.allowance = allowance;
        self.for_each_shard(|cache| cache.set_allowance(allowance));
        let result = change(self);
        self.allowance = before;
        self.for_each_shard(|cache| cache.set_allowance(before));
        result
    }

    /// True if every key is known to be of database 0. For shards that are not locked it may have changed meanwhile.
    pub(crate) fn has_one_database(&self) -> bool {
        !self.space.has_prefixed.load(Ordering::Relaxed)
    }

    /// Unlocks all shards.
    pub(crate) fn unlock(&mut self) {
        self.locked = Locked::None;
    }

    /// Returns the item of a key of the selected database.
    pub(crate) fn item<'k>(&mut self, key: &'k [u8]) -> Item<'_, 'k, S> {
        self.item_in(self.database, key)
    }

    /// Returns the item of a key of any database.
    pub(crate) fn item_in<'k>(&mut self, database: u8, key: &'k [u8]) -> Item<'_, 'k, S> {
        let key = stored_key(database, key);
        let (space, now, is_no_touch) = (self.space, self.now, self.is_no_touch);
        let hash = self.known_hash.take().unwrap_or_else(|| space.hash(&key));
        debug_assert_eq!(hash, space.hash(&key), "the hash of another key");
        let cache = self.cache(hash);
        if let Cow::Owned(_) = key {
            space.note_prefixed();
        }
        Item { cache, codec: &space.codec, hash, key, is_no_touch, now }
    }

    /// Returns the item of a key of database 0 whose hash is known, and which does not begin with [`DATABASE_PREFIX`].
    #[inline]
    pub(crate) fn item_with_hash<'k>(&mut self, hash: u64, key: &'k [u8]) -> Item<'_, 'k, S> {
        let (space, now, is_no_touch) = (self.space, self.now, self.is_no_touch);
        Item { cache: self.cache(hash), codec: &space.codec, hash, key: Cow::Borrowed(key), is_no_touch, now }
    }
}

/// One key, with or without an entry.
#[derive(Debug)]
pub(crate) struct Item<'a, 'k, S> {
    cache: &'a mut Cache<S>,
    codec: &'a Codec,
    hash: u64,
    key: Cow<'k, [u8]>,
    is_no_touch: bool,
    now: Moment,
}

impl<S: Store> Item<'_, '_, S> {
    /// Returns the value, for a client that reads it: counted as a hit or a miss, and as a use.
    pub(crate) fn get(&mut self) -> Result<Option<Value<'_>>, WrongType> {
        if self.is_no_touch {
            return self.get_untouched();
        }
        let location = self.cache.use_entry(S::Hint::default(), self.hash, &self.key, self.now);
        location.map_or(Ok(None), |location| Value::from_hit(self.codec, self.cache, location))
    }

    /// Returns the value: counted as a hit or a miss, and not as a use.
    pub(crate) fn get_untouched(&mut self) -> Result<Option<Value<'_>>, WrongType> {
        let location = self.cache.count_entry(S::Hint::default(), self.hash, &self.key, self.now);
        location.map_or(Ok(None), |location| Value::from_hit(self.codec, self.cache, location))
    }

    /// Returns the value, for a command that changes it; not counted.
    pub(crate) fn peek(&mut self) -> Result<Option<Value<'_>>, WrongType> {
        let codec = self.codec;
        let view = self.cache.peek(self.hash, &self.key, self.now);
        view.map_or(Ok(None), |view| Value::decode(codec, view))
    }

    pub(crate) fn exists(&mut self) -> bool {
        self.attributes().is_some()
    }

    pub(crate) fn attributes(&mut self) -> Option<Attributes> {
        self.cache.peek(self.hash, &self.key, self.now).map(|view| view.attributes)
    }

    /// Returns the attributes, for a client that asks about the key: counted as a hit or a miss, and not as a use.
    pub(crate) fn look_up(&mut self) -> Option<Attributes> {
        self.cache.count_entry(S::Hint::default(), self.hash, &self.key, self.now)?;
        self.attributes()
    }

    /// Evicts entries until a value of this length fits.
    pub(crate) fn reserve(&mut self, value_len: usize) -> Result<(), OutOfMemory> {
        self.cache.reserve(self.hash, &self.key, value_len, self.now)
    }

    /// Stores a value; its encoding is chosen here. It has no version, whatever `attributes` says: a memcached client that
    /// knows one must find it outdated.
    pub(crate) fn set(&mut self, value: &[u8], attributes: Attributes) -> Result<(), OutOfMemory> {
        self.set_with_version(value, Attributes { version: 0, ..attributes })
    }

    /// Stores a value with a version.
    pub(crate) fn set_with_version(&mut self, value: &[u8], attributes: Attributes) -> Result<(), OutOfMemory> {
        let (value, encoding) = self.codec.encode(value);
        self.cache.set(self.hash, &self.key, &value, Attributes { encoding, ..attributes }, self.now)
    }

    /// Replaces the attributes of a string. Of its encoding only the bits that a [`Codec`] ignores may change. False if
    /// there is none.
    pub(crate) fn set_attributes(&mut self, attributes: Attributes) -> Result<bool, OutOfMemory> {
        if self.kind().is_some() {
            return Ok(false);
        }
        let Some(view) = self.cache.peek(self.hash, &self.key, self.now) else { return Ok(false) };
        let value = view.value.to_vec();
        self.cache.set(self.hash, &self.key, &value, attributes, self.now).map(|()| true)
    }

    /// Replaces the bits of a string's encoding that a [`Codec`] ignores. Nothing is copied, and the key does not count as
    /// changed for those who watch it.
    pub(crate) fn set_encoding(&mut self, encoding: u8) {
        if self.kind().is_none() {
            self.cache.set_encoding(self.hash, &self.key, encoding, self.now);
        }
    }

    /// Removes the entry. False if there was none.
    pub(crate) fn remove(&mut self) -> bool {
        self.cache.remove(self.hash, &self.key, self.now)
    }

    /// Sets the time of expiry, in milliseconds since the Unix epoch; 0: never. False if there is no entry.
    pub(crate) fn set_expiry(&mut self, expires_at: u64) -> Result<bool, OutOfMemory> {
        self.cache.set_expiry(self.hash, &self.key, expires_at, self.now)
    }
}
