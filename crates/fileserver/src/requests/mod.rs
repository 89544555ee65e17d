//! What is known of requests that have begun to arrive, by connection.
//!
//! Every connection has an entry from its opening to its end. Connections are spread over threads and may travel
//! between them, so the map is shared: parts behind a lock each, which are found by the key.

mod tables;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use smallvec::SmallVec;

pub use self::tables::{HashbrownTable, SlabTable, StdTable, Table};

service::choices! {
    /// Where partial requests are kept.
    pub enum RequestMapKind: "request-map", "--request-map", default Slab {
        /// the standard library's hash table and hash function
        Std = "std" | "umap",
        /// hashbrown's table with a faster hash function
        Hashbrown = "hashbrown" | "khash",
        /// an array in which a connection's number is its place
        Slab = "slab",
    }
}

/// See [`RequestMapKind::Std`].
pub type StdRequests = Sharded<StdTable>;
/// See [`RequestMapKind::Hashbrown`].
pub type HashbrownRequests = Sharded<HashbrownTable>;
/// See [`RequestMapKind::Slab`].
pub type SlabRequests = Sharded<SlabTable>;

/// Independent parts.
const SHARDS: u64 = 16;

/// A request that has not arrived in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialRequest {
    /// What of it is there. An original id and a short framed one need no memory of their own.
    pub bytes: SmallVec<[u8; 16]>,
    /// When it began; while there are no bytes, when the connection last had nothing to do.
    pub since: Instant,
}

/// A connection, to a [`RequestMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey(u64);

/// From connections to their partial requests.
pub trait RequestMap: Default + Send + Sync + 'static {
    fn open(&self, since: Instant) -> RequestKey;

    /// Shows a connection's request to `act`, under a lock: to be short. `None`: there is no such connection.
    fn with<R>(&self, key: RequestKey, act: impl FnOnce(&mut PartialRequest) -> R) -> Option<R>;

    /// Whether there was such a connection. Its key may be given out again.
    fn close(&self, key: RequestKey) -> bool;

    /// Connections that are open.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A connection's entry, which is there as long as this is.
#[derive(Debug)]
pub struct Registration<R: RequestMap> {
    requests: Arc<R>,
    key: RequestKey,
}

impl<R: RequestMap> Registration<R> {
    pub fn new(requests: &Arc<R>, since: Instant) -> Self {
        Self { key: requests.open(since), requests: Arc::clone(requests) }
    }

    /// Shows the request to `act`, under a lock: to be short.
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

/// Tables behind a lock each.
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
        // A table is left as it was or as it should be; what `act` leaves half changed is its connection's own.
        self.shards[(number % SHARDS) as usize].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Table> RequestMap for Sharded<T> {
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
