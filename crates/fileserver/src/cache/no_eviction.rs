//! Cache that never evicts.

use parking_lot::RwLock;
use wire::file::FileId;

use super::{Cache, CacheLimits, CacheMap, MapFamily, Usage, Value};

/// Cache that keeps what came first; what does not fit beside it is not kept.
pub struct NoEviction<M: MapFamily, V: Value> {
    contents: RwLock<Contents<M, V>>,
    limits: CacheLimits,
}

struct Contents<M: MapFamily, V: Value> {
    map: M::Map<(FileId, V)>,
    used: Usage,
}

impl<M: MapFamily, V: Value> Contents<M, V> {
    fn remove(&mut self, id: &FileId) -> Option<(FileId, V)> {
        let removed = self.map.remove(id)?;
        self.used.subtract(&Usage::of_entry(&removed.0, &removed.1));
        Some(removed)
    }
}

impl<M: MapFamily, V: Value> Cache<V> for NoEviction<M, V> {
    fn new(limits: CacheLimits) -> Self {
        let contents = Contents { map: M::Map::default(), used: Usage::default() };
        Self { contents: RwLock::new(contents), limits }
    }

    #[inline]
    fn get(&self, id: &FileId) -> Option<V> {
        self.contents.read().map.get(id).map(|(_, value)| value.clone())
    }

    fn insert(&self, id: &FileId, value: V) -> bool {
        let more = Usage::of_entry(id, &value);
        let mut contents = self.contents.write();
        let before = contents.remove(id);
        let is_kept = contents.used.admits(&more, &self.limits);
        if is_kept {
            contents.used.add(&more);
            contents.map.insert((id.clone(), value));
        }
        drop(contents); // Closing a file or freeing megabytes is nothing to wait for.
        drop(before);
        is_kept
    }

    fn remove_if(&self, id: &FileId, is_stale: impl Fn(&V) -> bool) -> bool {
        let mut contents = self.contents.write();
        if !contents.map.get(id).is_some_and(|(_, value)| is_stale(value)) {
            return false;
        }
        let removed = contents.remove(id);
        drop(contents);
        removed.is_some()
    }

    fn used(&self) -> Usage {
        self.contents.read().used
    }

    fn evicted(&self) -> u64 {
        0
    }
}
