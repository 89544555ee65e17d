//! Order of use without a cache.

use std::collections::VecDeque;

use parking_lot::Mutex;
use wire::file::FileId;

use super::{Cache, CacheLimits, Shortage, Usage, Value};

/// Order in which documents were loaded, without the documents: each insertion appends its id under one lock, and the
/// oldest ids go when there are too many. The original server did this with eviction and no cache map, and its list had no
/// end (see docs/originals.md). It shows the cost of the order by itself.
pub struct UseOrder {
    list: Mutex<List>,
    limits: CacheLimits,
}

#[derive(Default)]
struct List {
    /// Ids, the oldest in front.
    ids: VecDeque<FileId>,
    used: Usage,
    evicted: u64,
}

impl<V: Value> Cache<V> for UseOrder {
    const CAN_HIT: bool = false;

    fn new(limits: CacheLimits) -> Self {
        Self { list: Mutex::default(), limits }
    }

    #[inline]
    fn get(&self, _: &FileId) -> Option<V> {
        None
    }

    fn insert(&self, id: &FileId, _: V) -> bool {
        let more = Usage::of_id(id);
        if !Usage::default().admits(&more, &self.limits) {
            return false;
        }
        let mut list = self.list.lock();
        while Shortage::of(&list.used, &more, &self.limits).is_some() {
            // There is an oldest one: `more` would fit into an empty list.
            let Some(oldest) = list.ids.pop_front() else { break };
            list.used.subtract(&Usage::of_id(&oldest));
            list.evicted += 1;
        }
        list.used.add(&more);
        list.ids.push_back(id.clone());
        false
    }

    fn remove_if(&self, _: &FileId, _: impl Fn(&V) -> bool) -> bool {
        false
    }

    /// Ids in the list, and their cost.
    fn used(&self) -> Usage {
        self.list.lock().used
    }

    /// Number of ids that had to go.
    fn evicted(&self) -> u64 {
        self.list.lock().evicted
    }
}
