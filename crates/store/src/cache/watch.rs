//! Keys that transactions watch, and whoever is told of all changes.

use std::{collections::HashMap, sync::Arc};

use super::{Cache, Cause, Observer};
use crate::Store;

/// Keys whose changes are counted, and whoever is told of all changes.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Number of watchers and of changes, by hash. A collision only aborts a transaction that need not be aborted.
    pub(super) keys: HashMap<u64, (usize, u64)>,
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl Watched {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.observer.is_none()
    }

    #[cold]
    fn note(&mut self, hash: u64, key: &[u8]) {
        self.count(hash);
        if let Some(observer) = &self.observer {
            observer.changed(key, Cause::Written);
        }
    }

    pub(super) fn count(&mut self, hash: u64) {
        if let Some((_, changes)) = self.keys.get_mut(&hash) {
            *changes += 1;
        }
    }
}

impl<S: Store> Cache<S> {
    /// Begins to watch a key and returns the number of its changes so far.
    pub fn watch(&mut self, hash: u64) -> u64 {
        let (watchers, changes) = self.watched.keys.entry(hash).or_default();
        *watchers += 1;
        self.is_observed = true;
        *changes
    }

    /// Ends a [`Cache::watch`], which returned `since`. True: the key has changed in between.
    pub fn unwatch(&mut self, hash: u64, since: u64) -> bool {
        let Some((watchers, changes)) = self.watched.keys.get_mut(&hash) else { return true };
        let changed = *changes != since;
        *watchers -= 1;
        if *watchers == 0 {
            self.watched.keys.remove(&hash);
            self.note_objects();
        }
        changed
    }

    /// Sets who is told of all changes from here on.
    pub fn set_observer(&mut self, observer: Option<Arc<dyn Observer>>) {
        self.watched.observer = observer;
        self.note_objects();
    }

    /// Tells the observer that all entries are gone, which [`Cache::clear`] leaves to its caller: there may be other caches
    /// to be cleared with it.
    pub fn note_cleared(&self) {
        if let Some(observer) = &self.watched.observer {
            observer.cleared();
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note_miss(&self, key: &[u8]) {
        if let Some(observer) = &self.watched.observer {
            observer.missed(key);
        }
    }

    #[inline]
    pub(super) fn note_change(&mut self, hash: u64, key: &[u8]) {
        if self.is_observed {
            self.watched.note(hash, key);
        }
    }

    /// Counts a change of every watched key that has an entry.
    pub(super) fn touch_watched(&mut self) {
        let Self { store, watched, .. } = self;
        let mut cursor = 0;
        while !watched.keys.is_empty() {
            cursor = store.scan(cursor, &mut |view| {
                if let Some((_, changes)) = watched.keys.get_mut(&store.hash(view.key)) {
                    *changes += 1;
                }
            });
            if cursor == 0 {
                break;
            }
        }
    }
}
