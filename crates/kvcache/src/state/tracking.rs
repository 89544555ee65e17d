//! Client-side caching: who has read what, and messages that it has changed.
//!
//! A client that has tracking enabled is told when a key that it has read changes, expires or is evicted; with BCAST, when
//! any key with one of its prefixes does. The store tells of changes under the lock of a shard. A key is remembered before
//! it is read, so that no change in between is missed.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use store::{Cause, Observer, Store};
use wire::resp::{Version, reply};

use super::{
    EventClass, Notifications,
    channels::Subscriber,
    clients::Profile,
    space::{Space, split_stored_key},
};

/// Channel of invalidations for clients of RESP2.
pub(crate) const CHANNEL: &[u8] = b"__redis__:invalidate";
/// Number of keys that are remembered by default.
const KEYS_MAX: usize = 1_000_000;

thread_local! {
    /// Client whose command this thread runs, if it is one that tracks; 0: none.
    static ORIGIN: Cell<u64> = const { Cell::new(0) };
}

/// Runs a command of a client that tracks: it is not told of its own changes if it does not want to be.
pub(crate) fn with_origin<T>(id: u64, run: impl FnOnce() -> T) -> T {
    let before = ORIGIN.replace(id);
    let result = run();
    ORIGIN.set(before);
    result
}

/// Mode of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrackingOptions {
    /// Number of the client that is told instead.
    pub(crate) redirect: Option<u64>,
    pub(crate) is_broadcast: bool,
    pub(crate) prefixes: Vec<Box<[u8]>>,
    pub(crate) is_opt_in: bool,
    pub(crate) is_opt_out: bool,
    pub(crate) is_no_loop: bool,
}

/// A client that has tracking enabled.
#[derive(Debug)]
struct Tracker {
    own: Arc<Subscriber>,
    /// Connection that is told instead, once it takes pushes.
    target: Option<(u64, Weak<Profile>)>,
    options: TrackingOptions,
}

/// Keys of a message.
#[derive(Clone, Copy)]
enum Invalid<'a> {
    Key(&'a [u8]),
    All,
}

#[derive(Debug, Default)]
struct Table {
    trackers: HashMap<u64, Tracker>,
    /// Clients that have read a key, by the key.
    readers: HashMap<Box<[u8]>, Vec<u64>, foldhash::fast::RandomState>,
    /// Clients in broadcasting mode, by prefix.
    prefixes: HashMap<Box<[u8]>, Vec<u64>>,
}

/// Clients that have tracking enabled, and what they have read.
#[derive(Debug)]
pub(crate) struct Tracking {
    table: Mutex<Table>,
    trackers: AtomicUsize,
    /// The store tells of changes.
    is_observing: AtomicBool,
    /// Setting `tracking-table-max-keys`; 0: no limit.
    pub(crate) keys_max: AtomicUsize,
    notifications: Arc<Notifications>,
}

/// Figures of INFO.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackingFigures {
    pub(crate) clients: usize,
    pub(crate) keys: usize,
    pub(crate) items: usize,
    pub(crate) prefixes: usize,
}

impl Tracking {
    pub(crate) fn new(notifications: &Arc<Notifications>) -> Self {
        Self {
            table: Mutex::default(),
            trackers: AtomicUsize::new(0),
            is_observing: AtomicBool::new(false),
            keys_max: AtomicUsize::new(KEYS_MAX),
            notifications: Arc::clone(notifications),
        }
    }

    /// True if anybody has to be told of changes.
    pub(crate) fn is_needed(&self) -> bool {
        self.trackers.load(Relaxed) > 0 || self.notifications.is_on()
    }

    /// Notes that the store tells of changes.
    pub(crate) fn note_observing(&self) {
        self.is_observing.store(true, Relaxed);
    }

    /// Has the store tell of changes no longer, once nobody has to be told.
    pub(crate) fn rest<S: Store>(&self, space: &Space<S>) {
        if self.is_needed() || !self.is_observing.swap(false, Relaxed) {
            return;
        }
        space.for_each_shard(|cache| {
            // Whoever is the first to need it again says so before he locks the shard.
            if !self.is_needed() {
                cache.set_observer(None);
            }
        });
    }

    pub(crate) fn figures(&self) -> TrackingFigures {
        let table = self.table.lock();
        TrackingFigures {
            clients: table.trackers.len(),
            keys: table.readers.len(),
            items: table.readers.values().map(Vec::len).sum(),
            prefixes: table.prefixes.len(),
        }
    }

    /// Enables tracking for a client, or replaces its options.
    pub(crate) fn enable(&self, own: &Arc<Subscriber>, target: Option<&Arc<Profile>>, options: TrackingOptions) {
        let mut table = self.table.lock();
        let id = own.id();
        table.leave_prefixes(id);
        if options.is_broadcast {
            for prefix in &options.prefixes {
                table.prefixes.entry(prefix.clone()).or_default().push(id);
            }
        }
        let target = options.redirect.zip(target.map(Arc::downgrade));
        table.trackers.insert(id, Tracker { own: Arc::clone(own), target, options });
        self.trackers.store(table.trackers.len(), Relaxed);
    }

    /// Ends tracking for a client. What it has read is forgotten as it changes.
    pub(crate) fn disable(&self, id: u64) {
        let mut table = self.table.lock();
        table.leave_prefixes(id);
        table.trackers.remove(&id);
        if table.trackers.is_empty() {
            table.readers = HashMap::default();
        }
        self.trackers.store(table.trackers.len(), Relaxed);
    }

    /// True if the client that is told instead of this one is gone.
    pub(crate) fn is_redirect_broken(&self, id: u64) -> bool {
        let table = self.table.lock();
        let target = table.trackers.get(&id).and_then(|tracker| tracker.target.as_ref());
        target.is_some_and(|(_, target)| target.strong_count() == 0)
    }

    /// Remembers that a client is about to read keys. Where there are too many, others are forgotten, and their readers
    /// told that they have changed.
    pub(crate) fn remember<'k>(&self, id: u64, keys: impl Iterator<Item = &'k [u8]>) {
        let mut table = self.table.lock();
        for key in keys {
            match table.readers.get_mut(key) {
                Some(readers) if readers.contains(&id) => {}
                Some(readers) => readers.push(id),
                None => drop(table.readers.insert(key.into(), vec![id])),
            }
        }
        let keys_max = self.keys_max.load(Relaxed);
        while keys_max > 0 && table.readers.len() > keys_max {
            let Some(victim) = table.readers.keys().next().cloned() else { break };
            table.tell_readers(&victim, None);
        }
    }

    fn invalidate(&self, key: &[u8], origin: Option<u64>) {
        let mut table = self.table.lock();
        table.tell_readers(key, origin);
        for (prefix, members) in &table.prefixes {
            if key.starts_with(prefix) {
                members.iter().for_each(|&id| table.tell(id, Invalid::Key(key), origin));
            }
        }
    }
}

impl Table {
    /// Tells those who have read a key, and forgets them.
    fn tell_readers(&mut self, key: &[u8], origin: Option<u64>) {
        for id in self.readers.remove(key).unwrap_or_default() {
            // One that has changed over to BCAST meanwhile has what it asked for then.
            if self.trackers.get(&id).is_some_and(|tracker| !tracker.options.is_broadcast) {
                self.tell(id, Invalid::Key(key), origin);
            }
        }
    }

    fn tell(&self, id: u64, invalid: Invalid<'_>, origin: Option<u64>) {
        if let Some(tracker) = self.trackers.get(&id)
            && !(tracker.options.is_no_loop && origin == Some(id))
        {
            tracker.tell(invalid);
        }
    }

    fn leave_prefixes(&mut self, id: u64) {
        self.prefixes.retain(|_, members| {
            members.retain(|&member| member != id);
            !members.is_empty()
        });
    }
}

impl Tracker {
    fn tell(&self, invalid: Invalid<'_>) {
        let Some((number, target)) = &self.target else {
            if self.own.version() == Version::Resp3 {
                push(&self.own, |out| {
                    reply::push(out, 2, Version::Resp3);
                    reply::bulk(out, b"invalidate");
                    write(out, invalid, Version::Resp3);
                });
            }
            return;
        };
        match target.upgrade() {
            None if self.own.version() == Version::Resp3 => push(&self.own, |out| {
                reply::push(out, 2, Version::Resp3);
                reply::bulk(out, b"tracking-redir-broken");
                reply::integer(out, i64::try_from(*number).unwrap_or(i64::MAX));
            }),
            None => {}
            Some(target) => {
                let Some(target) = target.subscriber() else { return };
                let version = target.version();
                if version == Version::Resp2 && !target.is_subscribed() {
                    return;
                }
                push(&target, |out| {
                    match version {
                        Version::Resp3 => {
                            reply::push(out, 2, version);
                            reply::bulk(out, b"invalidate");
                        }
                        Version::Resp2 => {
                            reply::array(out, 3);
                            reply::bulk(out, b"message");
                            reply::bulk(out, CHANNEL);
                        }
                    }
                    write(out, invalid, version);
                });
            }
        }
    }
}

fn push(to: &Subscriber, encode: impl FnOnce(&mut Vec<u8>)) {
    let mut out = Vec::new();
    encode(&mut out);
    // Dropped for a connection that is gone; one that is too slow is cut off.
    let _ = to.pusher().push(&Bytes::from(out));
}

fn write(out: &mut Vec<u8>, invalid: Invalid<'_>, version: Version) {
    match invalid {
        Invalid::Key(key) => {
            reply::array(out, 1);
            reply::bulk(out, key);
        }
        Invalid::All => reply::null(out, version),
    }
}

impl Observer for Tracking {
    fn changed(&self, key: &[u8], cause: Cause) {
        let (database, key) = split_stored_key(key);
        match cause {
            Cause::Written => {}
            Cause::Expired => self.notifications.publish(EventClass::Expired, database, "expired", key),
            Cause::Evicted => self.notifications.publish(EventClass::Evicted, database, "evicted", key),
        }
        if self.trackers.load(Relaxed) > 0 {
            let origin = Some(ORIGIN.get()).filter(|&id| id != 0 && cause == Cause::Written);
            self.invalidate(key, origin);
        }
    }

    fn added(&self, key: &[u8]) {
        let (database, key) = split_stored_key(key);
        self.notifications.publish(EventClass::New, database, "new", key);
    }

    fn missed(&self, key: &[u8]) {
        let (database, key) = split_stored_key(key);
        self.notifications.publish(EventClass::KeyMiss, database, "keymiss", key);
    }

    fn fields_expired(&self, key: &[u8], is_gone: bool) {
        let (database, key) = split_stored_key(key);
        self.notifications.publish(EventClass::Hash, database, "hexpired", key);
        if is_gone {
            self.notifications.publish(EventClass::Generic, database, "del", key);
        }
    }

    /// Tells all that everything they have read has changed.
    fn cleared(&self) {
        let mut table = self.table.lock();
        table.readers = HashMap::default();
        table.trackers.values().for_each(|tracker| tracker.tell(Invalid::All));
    }
}

/// State of tracking that a client itself has; tracking ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ClientTracking {
    all: Arc<Tracking>,
    id: u64,
    pub(crate) options: TrackingOptions,
    /// Set by CLIENT CACHING, for the next command or transaction.
    pub(crate) is_caching: bool,
}

impl ClientTracking {
    pub(crate) fn new(all: &Arc<Tracking>, id: u64, options: TrackingOptions) -> Self {
        Self { all: Arc::clone(all), id, options, is_caching: false }
    }

    /// Remembers keys that are about to be read, if the client's mode is such.
    pub(crate) fn remember<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let is_left_out = self.options.is_broadcast
            || self.options.is_opt_in && !self.is_caching
            || self.options.is_opt_out && self.is_caching;
        if !is_left_out {
            self.all.remember(self.id, keys);
        }
    }

    pub(crate) fn is_redirect_broken(&self) -> bool {
        self.all.is_redirect_broken(self.id)
    }
}

impl Drop for ClientTracking {
    fn drop(&mut self) {
        self.all.disable(self.id);
    }
}
