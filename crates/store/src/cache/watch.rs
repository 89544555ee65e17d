//! Keys that transactions watch.

use std::collections::HashMap;

use super::Cache;
use crate::Store;

/// Keys whose changes are counted.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Number of watchers and of changes, by hash. A collision only aborts a transaction that need not be aborted.
    pub(super) keys: HashMap<u64, (usize, u64)>,
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

    #[inline]
    pub(super) fn note_change(&mut self, hash: u64) {
        if !self.watched.keys.is_empty()
            && let Some((_, changes)) = self.watched.keys.get_mut(&hash)
        {
            *changes += 1;
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
