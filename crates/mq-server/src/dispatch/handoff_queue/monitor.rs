//! A lock and the waiting for what it guards. A trait instead of `cfg(loom)`: the models are tests like any other, of the
//! very code that serves, on loom's primitives.

use std::sync::{Condvar, Mutex, PoisonError};

pub(crate) trait Monitor<T>: Send + Sync {
    fn new(guarded: T) -> Self;

    /// Tries `attempt` under the lock, now and after every successful attempt of others, until it returns something.
    fn wait_until<R>(&self, attempt: impl FnMut(&mut T) -> Option<R>) -> R;
}

pub(crate) struct StdMonitor<T> {
    guarded: Mutex<T>,
    changed: Condvar,
}

impl<T: Send> Monitor<T> for StdMonitor<T> {
    fn new(guarded: T) -> Self {
        Self { guarded: Mutex::new(guarded), changed: Condvar::new() }
    }

    fn wait_until<R>(&self, mut attempt: impl FnMut(&mut T) -> Option<R>) -> R {
        // Nothing that is done under this lock can leave things half changed.
        let mut guarded = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = attempt(&mut guarded) {
                drop(guarded);
                self.changed.notify_all();
                return result;
            }
            guarded = self.changed.wait(guarded).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
