//! Loads under way: concurrent misses for one id load it once.

use std::{collections::HashMap, hash::BuildHasher, sync::Arc};

use foldhash::fast::RandomState;
use wire::file::FileId;

use crate::sync::{Lock, Primitives, Real};

/// Independent parts; a power of two.
const SHARDS: usize = 16;

/// Who waits for which load. `W` is whatever has to be told, say a [`proto::Promise`].
///
/// The order that makes one load of many misses: a miss [joins](Self::join); whoever gets the [`Flight`] looks into the
/// cache once more, since the flight before may have landed between its miss and its joining; then it loads, inserts
/// into the cache, and only then [lands](Flight::land). How many may wait is bounded by how many replies connections
/// may have outstanding.
pub struct Flights<W: Send + 'static, P: Primitives = Real> {
    shards: Box<[P::Lock<Waiting<W>>]>,
    hasher: RandomState,
}

type Waiting<W> = HashMap<FileId, Vec<W>, RandomState>;

impl<W: Send + 'static, P: Primitives> Default for Flights<W, P> {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| P::Lock::default()).collect(), hasher: RandomState::default() }
    }
}

impl<W: Send + 'static, P: Primitives> Flights<W, P> {
    pub fn new() -> Self {
        Self::default()
    }

    /// The flight, for the first to ask for `id`: it loads. For everybody else nothing; what `wait` makes will be
    /// handed out by [`Flight::land`].
    pub fn join(self: &Arc<Self>, id: &FileId, wait: impl FnOnce() -> W) -> Option<Flight<W, P>> {
        self.shard(id).with(|waiting| {
            if let Some(waiters) = waiting.get_mut(id) {
                waiters.push(wait());
                return None;
            }
            waiting.insert(id.clone(), Vec::new());
            Some(Flight { flights: Arc::clone(self), id: id.clone() })
        })
    }

    /// Loads under way.
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

/// The duty to load one document. Dropped without having landed, it drops who waits, and the next miss loads.
#[must_use]
pub struct Flight<W: Send + 'static, P: Primitives = Real> {
    flights: Arc<Flights<W, P>>,
    id: FileId,
}

impl<W: Send + 'static, P: Primitives> Flight<W, P> {
    pub fn id(&self) -> &FileId {
        &self.id
    }

    /// Ends the flight; who has to be told.
    pub fn land(self) -> Vec<W> {
        self.end()
    }

    fn end(&self) -> Vec<W> {
        self.flights.shard(&self.id).with(|waiting| waiting.remove(&self.id)).unwrap_or_default()
    }
}

impl<W: Send + 'static, P: Primitives> Drop for Flight<W, P> {
    fn drop(&mut self) {
        // Outside the lock: a dropped promise wakes a driver.
        drop(self.end());
    }
}

#[cfg(test)]
mod tests;
