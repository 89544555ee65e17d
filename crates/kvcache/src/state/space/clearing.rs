//! The end of all keys at once, and whoever is told of it and of all other changes.

use std::sync::{Arc, atomic::Ordering};

use store::{Cache, Observer, Store};

use super::{Keyspace, Space};

impl<S: Store> Space<S> {
    /// Removes everything, one shard after the other.
    pub fn clear(&self) {
        self.for_each_shard(Cache::clear);
        self.lock(0).note_cleared();
    }
}

impl<S: Store> Keyspace<'_, S> {
    /// Removes everything from every database.
    pub(crate) fn clear(&mut self) {
        self.lock_all();
        self.clear_by_shard();
        self.space.has_prefixed.store(false, Ordering::Relaxed);
    }

    /// Removes everything, one shard after the other.
    pub(crate) fn clear_by_shard(&mut self) {
        self.for_each_shard(Cache::clear);
        self.note_cleared();
    }

    /// Tells the observer that all keys are gone, or all of a database.
    pub(crate) fn note_cleared(&mut self) {
        self.shard(0).note_cleared();
    }

    /// Sets who is told of all changes from here on.
    pub(crate) fn observe(&mut self, observer: &Arc<dyn Observer>) {
        self.for_each_shard(|cache| cache.set_observer(Some(Arc::clone(observer))));
    }
}
