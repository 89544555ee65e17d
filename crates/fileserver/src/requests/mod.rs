//! Partial requests by connection.
//!
//! Every connection has an entry from its opening to its end. Connections are spread over threads and may travel
//! between them, so the map is shared: parts behind a lock each, which are found by the key.

mod tables;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use clap::ValueEnum;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

pub use self::tables::{HashbrownTable, SlabTable, StdTable, Table};

/// Map that partial requests are kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RequestMapKind {
    /// the standard library's hash table and hash function
    #[value(alias = "umap")]
    Std,
    /// hashbrown's table with a faster hash function
    #[value(alias = "khash")]
    Hashbrown,
    /// an array indexed by connection
    #[default]
    Slab,
}

/// See [`RequestMapKind::Std`].
pub type StdRequests = Sharded<StdTable>;
/// See [`RequestMapKind::Hashbrown`].
pub type HashbrownRequests = Sharded<HashbrownTable>;
/// See [`RequestMapKind::Slab`].
pub type SlabRequests = Sharded<SlabTable>;

/// Number of independent parts.
const SHARDS: u64 = 16;

/// Request that has not arrived completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialRequest {
    /// Part that has arrived. An original id and a short framed one need no memory of their own.
    pub bytes: SmallVec<[u8; 16]>,
    /// Time of the first byte; while there are no bytes, the time at which the connection became idle.
    pub since: Instant,
}

/// Key of a connection in a [`RequestMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey(u64);

/// Map from connections to their partial requests.
pub trait RequestMap: Default + Send + Sync + 'static {
    /// Adds a connection.
    fn open(&self, since: Instant) -> RequestKey;

    /// Shows a connection's request to `act`, which has to be short, as it runs under a lock. `None` if there is no such
    /// connection.
    fn with<R>(&self, key: RequestKey, act: impl FnOnce(&mut PartialRequest) -> R) -> Option<R>;

    /// Removes a connection. Returns false if there was none. The key may be given out again.
    fn close(&self, key: RequestKey) -> bool;

    /// Number of open connections.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Entry of a connection; removed when this is dropped.
#[derive(Debug)]
pub struct Registration<R: RequestMap> {
    requests: Arc<R>,
    key: RequestKey,
}

impl<R: RequestMap> Registration<R> {
    pub fn new(requests: &Arc<R>, since: Instant) -> Self {
        Self { key: requests.open(since), requests: Arc::clone(requests) }
    }

    /// Shows the request to `act`, which has to be short, as it runs under a lock.
    #[inline]
    pub fn with<T>(&self, act: impl FnOnce(&mut PartialRequest) -> T) -> T {
        self.requests.with(self.key, act).expect("nobody else has the key, and it is closed by drop only")
    }
}

impl<R: RequestMap> Drop for Registration<R> {
    fn drop(&mut self) {
        self.requests.close(self.key);
    }
}

/// Request map of tables behind a lock each.
#[derive(Debug)]
pub struct Sharded<T> {
    shards: [Shard<T>; SHARDS as usize],
    opened: AtomicU64,
}

/// Two cache lines, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard<T>(Mutex<T>);

impl<T: Default> Default for Sharded<T> {
    fn default() -> Self {
        Self { shards: Default::default(), opened: AtomicU64::new(0) }
    }
}

impl<T> Sharded<T> {
    #[inline]
    fn shard(&self, number: u64) -> MutexGuard<'_, T> {
        self.shards[(number % SHARDS) as usize].0.lock()
    }
}

impl<T: Table> RequestMap for Sharded<T> {
    /// Adds a connection.
    fn open(&self, since: Instant) -> RequestKey {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let request = PartialRequest { bytes: SmallVec::new(), since };
        let in_shard = self.shard(number).insert(number / SHARDS, request);
        RequestKey(in_shard * SHARDS + number % SHARDS)
    }

    #[inline]
    fn with<R>(&self, key: RequestKey, act: impl FnOnce(&mut PartialRequest) -> R) -> Option<R> {
        self.shard(key.0).get_mut(key.0 / SHARDS).map(act)
    }

    fn close(&self, key: RequestKey) -> bool {
        let removed = self.shard(key.0).remove(key.0 / SHARDS);
        removed.is_some()
    }

    fn len(&self) -> usize {
        (0..SHARDS).map(|shard| self.shard(shard).len()).sum()
    }
}

#[cfg(test)]
mod tests;
