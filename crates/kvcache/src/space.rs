//! All keys: shards behind locks, and what a command sees of them.

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use proto::Now;
use store::{
    Attributes, Cache, CacheCounts, EntryView, KeyHasher, Moment, OutOfMemory, PolicyKind, Store, StoreOptions,
};

use crate::codec::Codec;

/// Databases that can be selected.
pub(crate) const DATABASES: u8 = 16;
/// What begins every key that is not of database 0, and every key of database 0 that begins like this by itself: the
/// number of the database follows. Thus one table holds all databases, and the usual key costs nothing.
pub(crate) const MARK: u8 = 0xff;

/// The keys of all databases, divided among shards by their hash.
#[derive(Debug)]
pub struct Space<S: Store> {
    shards: Box<[Shard<S>]>,
    /// Not among the shards, whose lines are written to all the time.
    scouts: Box<[Arc<S::Scout>]>,
    hasher: KeyHasher,
    codec: Codec,
    /// There may be keys of other databases than 0. Written by who holds the lock of such a key's shard.
    has_marked: AtomicBool,
}

/// Two cache lines, since processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<S: Store>(Mutex<Cache<S>>);

/// What a [`Space`] is made with.
#[derive(Clone, Debug)]
pub struct SpaceOptions {
    pub shards: usize,
    pub policy: PolicyKind,
    /// Bytes, for all shards together.
    pub memory_max: Option<usize>,
    pub codec: Codec,
    pub store: StoreOptions,
    pub seed: u64,
}

impl<S: Store> Space<S> {
    pub fn new(options: SpaceOptions) -> Self {
        let shards = options.shards.max(1);
        let limit = options.memory_max.map(|bytes| bytes / shards);
        let cache = |index: usize| {
            Cache::new(options.store.clone(), options.policy, limit, options.seed.wrapping_add(index as u64))
        };
        let caches: Vec<_> = (0..shards).map(cache).collect();
        Self {
            scouts: caches.iter().map(Cache::scout).collect(),
            shards: caches.into_iter().map(|cache| Shard(Mutex::new(cache))).collect(),
            hasher: options.store.hasher.clone(),
            codec: options.codec,
            has_marked: AtomicBool::new(false),
        }
    }

    /// Owed by everyone who adds a key of another database than 0 other than through `Keyspace::item`, before its
    /// shard is unlocked.
    pub fn note_marked(&self) {
        // Mostly set already, and then its line stays shared between processors.
        if !self.has_marked.load(Ordering::Relaxed) {
            self.has_marked.store(true, Ordering::Relaxed);
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

    /// Stores use the lower bits of a hash, so this uses the upper ones.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> usize {
        (((hash >> 48) * self.shards.len() as u64) >> 16) as usize
    }

    #[inline]
    pub fn lock(&self, shard: usize) -> MutexGuard<'_, Cache<S>> {
        // A command that panics leaves a cache that is still sound.
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks ahead into the shard of a hash, without its lock.
    #[inline(always)]
    pub(crate) fn scout(&self, hash: u64) -> &S::Scout {
        &self.scouts[self.shard_of(hash)]
    }

    /// Shows every shard, one after the other.
    pub fn each(&self, mut visit: impl FnMut(&mut Cache<S>)) {
        (0..self.shards.len()).for_each(|shard| visit(&mut self.lock(shard)));
    }

    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.each(|cache| bytes += cache.bytes());
        bytes
    }

    pub fn counts(&self) -> CacheCounts {
        let mut sum = CacheCounts::default();
        self.each(|cache| {
            sum.hits += cache.counts.hits;
            sum.misses += cache.counts.misses;
            sum.evicted += cache.counts.evicted;
            sum.expired += cache.counts.expired;
        });
        sum
    }

    pub fn set_memory_max(&self, bytes: Option<usize>) {
        let shards = self.shards.len();
        self.each(|cache| cache.set_limit(bytes.map(|bytes| bytes / shards)));
    }

    pub fn set_policy(&self, policy: PolicyKind) {
        self.each(|cache| cache.set_policy(policy));
    }
}

/// The key under which a key of a database is kept.
#[inline]
pub(crate) fn stored_key(database: u8, key: &[u8]) -> Cow<'_, [u8]> {
    if database == 0 && key.first() != Some(&MARK) {
        return Cow::Borrowed(key);
    }
    let mut stored = Vec::with_capacity(key.len() + 2);
    stored.extend_from_slice(&[MARK, database]);
    stored.extend_from_slice(key);
    Cow::Owned(stored)
}

/// The database and the key that a stored key stands for.
#[inline]
pub(crate) fn key_of(stored: &[u8]) -> (u8, &[u8]) {
    match stored {
        [MARK, database, key @ ..] => (*database, key),
        key => (0, key),
    }
}

/// What a command, or a batch of them, sees of the space: shards are locked as it asks for keys, at most one at a time
/// unless it holds all.
#[derive(Debug)]
pub(crate) struct Keyspace<'s, S: Store> {
    space: &'s Space<S>,
    held: Held<'s, S>,
    pub database: u8,
    /// The hash of the next key to be asked for, by whoever has computed it already.
    pub known_hash: Option<u64>,
    /// Reading a key counts as no use of it.
    pub no_touch: bool,
    pub now: Moment,
}

#[derive(Debug)]
enum Held<'s, S> {
    None,
    One(usize, MutexGuard<'s, Cache<S>>),
    All(Vec<MutexGuard<'s, Cache<S>>>),
}

impl<'s, S: Store> Keyspace<'s, S> {
    pub(crate) fn new(space: &'s Space<S>, now: Now) -> Self {
        let now = Moment { unix_ms: u64::try_from(now.unix.as_millis()).unwrap_or(u64::MAX) };
        Self { space, held: Held::None, database: 0, known_hash: None, no_touch: false, now }
    }

    pub(crate) fn space(&self) -> &'s Space<S> {
        self.space
    }

    /// The shard of a hash.
    #[inline(always)]
    pub(crate) fn cache(&mut self, hash: u64) -> &mut Cache<S> {
        self.shard(self.space.shard_of(hash))
    }

    #[inline(always)]
    pub(crate) fn shard(&mut self, index: usize) -> &mut Cache<S> {
        match &self.held {
            Held::One(held, _) if *held == index => {}
            Held::All(_) => {}
            Held::One(..) | Held::None => self.exchange(index),
        }
        match &mut self.held {
            Held::One(_, guard) => guard,
            Held::All(guards) => &mut guards[index],
            Held::None => unreachable!("a shard has just been locked"),
        }
    }

    #[inline(never)]
    fn exchange(&mut self, index: usize) {
        self.held = Held::None; // Unlocked before the next is locked: two held at a time could wait for each other.
        self.held = Held::One(index, self.space.lock(index));
    }

    /// From here on nobody else sees or changes a key.
    pub(crate) fn hold_all(&mut self) {
        if !matches!(self.held, Held::All(_)) {
            self.held = Held::None;
            self.held = Held::All((0..self.space.shards()).map(|index| self.space.lock(index)).collect());
        }
    }

    pub(crate) fn holds_all(&self) -> bool {
        matches!(self.held, Held::All(_))
    }

    /// Shows every shard. Unless all are held it is one after the other, and the last one stays locked.
    pub(crate) fn each(&mut self, mut visit: impl FnMut(&mut Cache<S>)) {
        (0..self.space.shards()).for_each(|shard| visit(self.shard(shard)));
    }

    /// Removes everything from every database.
    pub(crate) fn clear(&mut self) {
        self.hold_all();
        self.each(Cache::clear);
        self.space.has_marked.store(false, Ordering::Relaxed);
    }

    /// Every key is known to be of database 0. What is known of shards that are not locked may have changed.
    pub(crate) fn has_one_database(&self) -> bool {
        !self.space.has_marked.load(Ordering::Relaxed)
    }

    pub(crate) fn release(&mut self) {
        self.held = Held::None;
    }

    /// One key of the selected database.
    pub(crate) fn item<'k>(&mut self, key: &'k [u8]) -> Item<'_, 'k, S> {
        self.item_of(self.database, key)
    }

    /// One key of another database.
    pub(crate) fn item_of<'k>(&mut self, database: u8, key: &'k [u8]) -> Item<'_, 'k, S> {
        let key = stored_key(database, key);
        let (space, now, no_touch) = (self.space, self.now, self.no_touch);
        let hash = self.known_hash.take().unwrap_or_else(|| space.hash(&key));
        debug_assert_eq!(hash, space.hash(&key), "that of another key");
        let cache = self.cache(hash);
        if let Cow::Owned(_) = key {
            space.note_marked();
        }
        Item { cache, codec: &space.codec, hash, key, no_touch, now }
    }

    /// One key of database 0 whose hash is known, and which does not begin with [`MARK`].
    #[inline]
    pub(crate) fn item_with<'k>(&mut self, hash: u64, key: &'k [u8]) -> Item<'_, 'k, S> {
        let (space, now, no_touch) = (self.space, self.now, self.no_touch);
        Item { cache: self.cache(hash), codec: &space.codec, hash, key: Cow::Borrowed(key), no_touch, now }
    }
}

/// One key, whether or not there is anything under it.
#[derive(Debug)]
pub(crate) struct Item<'a, 'k, S> {
    cache: &'a mut Cache<S>,
    codec: &'a Codec,
    hash: u64,
    key: Cow<'k, [u8]>,
    no_touch: bool,
    now: Moment,
}

impl<S: Store> Item<'_, '_, S> {
    /// The value, for a client that reads it: counted as a hit or a miss, and remembered as used.
    pub(crate) fn get(&mut self) -> Option<Value<'_>> {
        if self.no_touch {
            return self.look();
        }
        let place = self.cache.use_entry(S::Hint::default(), self.hash, &self.key, self.now)?;
        Value::counted(self.codec, self.cache, place)
    }

    /// Counted, and not remembered as used.
    pub(crate) fn look(&mut self) -> Option<Value<'_>> {
        let place = self.cache.count_entry(S::Hint::default(), self.hash, &self.key, self.now)?;
        Value::counted(self.codec, self.cache, place)
    }

    /// The value, for a command that changes it; counts as no use.
    pub(crate) fn peek(&mut self) -> Option<Value<'_>> {
        let codec = self.codec;
        self.cache.peek(self.hash, &self.key, self.now).and_then(|view| Value::new(codec, view))
    }

    pub(crate) fn exists(&mut self) -> bool {
        self.attributes().is_some()
    }

    pub(crate) fn attributes(&mut self) -> Option<Attributes> {
        self.cache.peek(self.hash, &self.key, self.now).map(|view| view.attributes)
    }

    /// Keeps a value; its encoding is chosen here. It has no version yet, whatever `attributes` says: a memcached
    /// client that knows one must find it outdated.
    pub(crate) fn set(&mut self, value: &[u8], attributes: Attributes) -> Result<(), OutOfMemory> {
        self.set_with_version(value, Attributes { version: 0, ..attributes })
    }

    /// [`Item::set`] with a version.
    pub(crate) fn set_with_version(&mut self, value: &[u8], attributes: Attributes) -> Result<(), OutOfMemory> {
        let (value, encoding) = self.codec.encode(value);
        self.cache.set(self.hash, &self.key, &value, Attributes { encoding, ..attributes }, self.now)
    }

    /// Replaces what is kept beside the value, which stays as it is; the encoding may change only in what a
    /// [`Codec`] does not look at. False: there is nothing.
    pub(crate) fn annotate(&mut self, attributes: Attributes) -> Result<bool, OutOfMemory> {
        let Some(view) = self.cache.peek(self.hash, &self.key, self.now) else { return Ok(false) };
        let value = view.value.to_vec();
        self.cache.set(self.hash, &self.key, &value, attributes, self.now).map(|()| true)
    }

    /// Replaces the encoding in what a [`Codec`] does not look at. Nothing is copied, and nobody who watches the key
    /// is told.
    pub(crate) fn mark(&mut self, encoding: u8) {
        self.cache.set_encoding(self.hash, &self.key, encoding, self.now);
    }

    /// False: there was nothing.
    pub(crate) fn remove(&mut self) -> bool {
        self.cache.remove(self.hash, &self.key, self.now)
    }

    /// Milliseconds since the Unix epoch; 0: never. False: there is nothing.
    pub(crate) fn set_expiry(&mut self, expires_at: u64) -> Result<bool, OutOfMemory> {
        self.cache.set_expiry(self.hash, &self.key, expires_at, self.now)
    }

    /// Remembers it as used.
    pub(crate) fn touch(&mut self) -> bool {
        self.cache.touch(self.hash, &self.key, self.now)
    }

    pub(crate) fn idle_s(&mut self) -> Option<u32> {
        self.cache.idle_s(self.hash, &self.key, self.now)
    }

    pub(crate) fn frequency(&mut self) -> Option<u8> {
        self.cache.frequency(self.hash, &self.key, self.now)
    }

    /// Bytes that the entry takes.
    pub(crate) fn footprint(&mut self) -> Option<usize> {
        self.cache.footprint(self.hash, &self.key, self.now)
    }
}

/// A value as a client sees it.
#[derive(Debug)]
pub(crate) struct Value<'a> {
    pub bytes: Cow<'a, [u8]>,
    pub attributes: Attributes,
    /// The bytes again, when they can be shared instead of copied.
    pub shared: Option<&'a bytes::Bytes>,
}

impl<'a> Value<'a> {
    /// The value of an entry that has just been counted as a hit; if it cannot be decoded, it was a miss.
    #[inline]
    pub(crate) fn counted<S: Store>(codec: &Codec, cache: &'a mut Cache<S>, place: S::Location) -> Option<Self> {
        let (store, counts) = cache.store_and_counts();
        let value = Self::new(codec, store.view(place));
        if value.is_none() {
            counts.recount_hit_as_miss();
        }
        value
    }

    /// `None`: it cannot be decoded, and is as good as lost.
    fn new(codec: &Codec, view: EntryView<'a>) -> Option<Self> {
        let EntryView { value, attributes, shared, .. } = view;
        match codec.decode(value, attributes.encoding) {
            Some(Cow::Borrowed(bytes)) => Some(Self { bytes: Cow::Borrowed(bytes), attributes, shared }),
            Some(decoded) => Some(Self { bytes: decoded, attributes, shared: None }),
            None => None,
        }
    }
}
