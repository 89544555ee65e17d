//! The policy and the limit of a cache, which can be changed while it has entries.

use super::Cache;
use crate::{PolicyKind, Store};

impl<S: Store> Cache<S> {
    pub fn policy(&self) -> PolicyKind {
        self.policy.kind()
    }

    pub fn set_policy(&mut self, kind: PolicyKind) {
        if kind != self.policy.kind() {
            self.policy.set_kind(kind);
            self.restart_policy();
        }
    }

    /// Keeps the time of each entry's last use, whatever the policy needs. The cache must be empty.
    pub fn track_use(&mut self) {
        self.is_use_tracked = true;
        self.store.keep_access(true);
        self.note_access();
    }

    fn restart_policy(&mut self) {
        self.store.keep_access(self.is_use_tracked || self.policy.needs_access());
        self.note_access();
        self.policy.restart(self.store.len());
    }

    /// Has to be called when the store has been told if access words are needed.
    fn note_access(&mut self) {
        self.is_use_noted = self.store.keeps_access() || self.policy.has_queues();
        // It may have moved all entries.
        self.restart_sweep();
    }

    /// Returns the limit in bytes; `None`: no limit.
    pub fn limit(&self) -> Option<usize> {
        (self.limit != usize::MAX).then_some(self.limit)
    }

    /// Changes the limit; `None`: no limit. A lower one is reached step by step, by [`Cache::shrink_some`] and as entries are
    /// set.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        if limit.is_some() != (self.limit != usize::MAX) {
            self.policy.set_limited(limit.is_some());
            self.restart_policy();
        }
        self.limit = limit.unwrap_or(usize::MAX);
        self.store.set_limited(limit.is_some());
        self.note_objects();
    }
}
