//! The order of use by itself.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use wire::file::FileId;

use super::{Cache, CacheLimits, Shortage, Used, Value};

/// Keeps no values, and in which order they were used: each insertion writes its id down under one lock, and the
/// oldest ones are struck out when there are too many. What the first design did with eviction and no cache map (its
/// list had no end); it tells what the order costs where it is good for nothing.
pub struct UseOrder {
    list: Mutex<List>,
    limits: CacheLimits,
}

#[derive(Default)]
struct List {
    /// The oldest in front.
    ids: VecDeque<FileId>,
    used: Used,
    evicted: u64,
}

impl UseOrder {
    fn list(&self) -> MutexGuard<'_, List> {
        // Nothing under this lock can leave the list half changed.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: Value> Cache<V> for UseOrder {
    const KEEPS: bool = false;

    fn new(limits: CacheLimits) -> Self {
        Self { list: Mutex::default(), limits }
    }

    #[inline]
    fn get(&self, _: &FileId) -> Option<V> {
        None
    }

    fn insert(&self, id: &FileId, _: V) -> bool {
        let more = Used::by_id(id);
        if !Used::default().admits(&more, &self.limits) {
            return false;
        }
        let mut list = self.list();
        while Shortage::of(&list.used, &more, &self.limits).is_some() {
            // There is one: `more` would fit into an empty list.
            let Some(oldest) = list.ids.pop_front() else { break };
            list.used.subtract(&Used::by_id(&oldest));
            list.evicted += 1;
        }
        list.used.add(&more);
        list.ids.push_back(id.clone());
        false
    }

    fn remove_if(&self, _: &FileId, _: impl Fn(&V) -> bool) -> bool {
        false
    }

    /// Ids in the list, and what they cost.
    fn used(&self) -> Used {
        self.list().used
    }

    /// Ids that were struck out.
    fn evicted(&self) -> u64 {
        self.list().evicted
    }
}
