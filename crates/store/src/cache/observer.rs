//! Changes of keys that somebody beside the watchers wants to know of.

use std::fmt;

/// Reason that an entry has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A caller has added, changed or removed it.
    Written,
    Expired,
    Evicted,
}

/// Somebody who is told of every change, while the cache is locked. It must not ask the cache for anything.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Notes that the entry of a key changes, or goes.
    fn changed(&self, key: &[u8], cause: Cause);

    /// Notes that a key that had no entry is about to get one.
    fn added(&self, key: &[u8]);

    /// Notes that somebody has asked for a key that has no entry.
    fn missed(&self, key: &[u8]);

    /// Notes that fields of a hash have expired without being asked for, and with the last of them perhaps the key.
    fn fields_expired(&self, key: &[u8], is_gone: bool);

    /// Notes that all entries are gone.
    fn cleared(&self);
}
