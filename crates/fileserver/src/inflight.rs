//! Loads in flight: concurrent misses for one id load it once ("singleflight").

use std::{collections::HashMap, hash::BuildHasher, sync::Arc};

use foldhash::fast::RandomState;
use wire::file::FileId;

use crate::sync::{Lock, Primitives, Real};

/// Independent parts; a power of two.
const SHARDS: usize = 16;

/// Waiters for each load. `W` is what a waiter leaves behind, such as a [`proto::Promise`].
///
/// The order that makes one load of many misses: a miss [joins](Self::join). The one that gets the [`InflightLoad`] looks
/// into the cache once more, since the load before may have completed between its miss and its joining. Then it loads,
/// inserts into the cache, and only then [completes](InflightLoad::complete). The number of waiters is bounded by the replies
/// that connections may have outstanding.
pub struct InflightLoads<W: Send + 'static, P: Primitives = Real> {
    shards: Box<[P::Lock<Waiting<W>>]>,
    hasher: RandomState,
}

type Waiting<W> = HashMap<FileId, Vec<W>, RandomState>;

impl<W: Send + 'static, P: Primitives> Default for InflightLoads<W, P> {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| P::Lock::default()).collect(), hasher: RandomState::default() }
    }
}

impl<W: Send + 'static, P: Primitives> InflightLoads<W, P> {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the load to the first that asks for `id`, who has to load it. The others get `None`, and what `wait` makes
    /// for them is handed out by [`InflightLoad::complete`].
    pub fn join(self: &Arc<Self>, id: &FileId, wait: impl FnOnce() -> W) -> Option<InflightLoad<W, P>> {
        self.shard(id).with(|waiting| {
            if let Some(waiters) = waiting.get_mut(id) {
                waiters.push(wait());
                return None;
            }
            waiting.insert(id.clone(), Vec::new());
            Some(InflightLoad { inflight: Arc::clone(self), id: id.clone(), has_ended: false })
        })
    }

    /// Number of loads in flight.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.with(|waiting| waiting.len())).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn shard(&self, id: &FileId) -> &P::Lock<Waiting<W>> {
        &self.shards[self.hasher.hash_one(id) as usize & (SHARDS - 1)]
    }
}

/// Duty to load one document. Dropped without having completed, it drops the waiters, and the next miss loads.
#[must_use]
pub struct InflightLoad<W: Send + 'static, P: Primitives = Real> {
    inflight: Arc<InflightLoads<W, P>>,
    id: FileId,
    has_ended: bool,
}

impl<W: Send + 'static, P: Primitives> InflightLoad<W, P> {
    pub fn id(&self) -> &FileId {
        &self.id
    }

    /// Ends the load and returns its waiters.
    pub fn complete(mut self) -> Vec<W> {
        // Ended once more when it is dropped, it would take the waiters of the next load of the same document.
        self.has_ended = true;
        self.end()
    }

    fn end(&self) -> Vec<W> {
        self.inflight.shard(&self.id).with(|waiting| waiting.remove(&self.id)).unwrap_or_default()
    }
}

impl<W: Send + 'static, P: Primitives> Drop for InflightLoad<W, P> {
    fn drop(&mut self) {
        if !self.has_ended {
            // Outside the lock: a dropped promise wakes a driver.
            drop(self.end());
        }
    }
}

#[cfg(test)]
mod tests;
