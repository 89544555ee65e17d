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

    /// Notes that all entries are gone.
    fn cleared(&self);
}
