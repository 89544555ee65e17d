//! The queue between the thread that receives and those that serve.
//!
//! A worker checks the queue before it waits, under the lock under which others push: so nothing that is pushed while all
//! workers are busy is missed. The workers of the original's pool 1 (`docs/originals.md`) waited for a signal first and
//! read the queue only after one, so that they missed signals sent while they were busy. The models in
//! `handoff_queue/tests.rs` find that lost wake-up.

use std::{collections::VecDeque, marker::PhantomData};

use parking_lot::{Condvar, Mutex};

/// A bounded FIFO queue between any number of threads.
pub(crate) struct HandoffQueue<T: Send, M: Monitor<State<T>> = LockMonitor<State<T>>>(M, PhantomData<fn(T)>);

pub(crate) struct State<T> {
    items: VecDeque<T>,
    items_max: usize,
    is_closed: bool,
}

impl<T: Send> HandoffQueue<T> {
    pub(crate) fn new(items_max: usize) -> Self {
        Self::on_monitor(items_max)
    }
}

impl<T: Send, M: Monitor<State<T>>> HandoffQueue<T, M> {
    fn on_monitor(items_max: usize) -> Self {
        let state = State { items: VecDeque::new(), items_max, is_closed: false };
        Self(M::new(state), PhantomData)
    }

    /// Waits for room and appends an item.
    ///
    /// # Errors
    /// The queue is closed; the item is returned.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut item = Some(item);
        let refused = self.0.wait_until(|state| {
            if state.is_closed {
                return Some(item.take());
            }
            if state.items.len() >= state.items_max {
                return None;
            }
            state.items.extend(item.take());
            Some(None)
        });
        refused.map_or(Ok(()), Err)
    }

    /// Waits for an item and returns it; `None` when the queue is closed.
    pub(crate) fn pop(&self) -> Option<T> {
        self.0.wait_until(|state| if state.is_closed { Some(None) } else { state.items.pop_front().map(Some) })
    }

    /// Closes the queue: `push` and `pop` do not wait any more.
    pub(crate) fn close(&self) {
        self.0.wait_until(|state| {
            state.is_closed = true;
            Some(())
        });
    }

    /// Takes the items that are left.
    pub(crate) fn take_all(&self) -> VecDeque<T> {
        self.0.wait_until(|state| Some(std::mem::take(&mut state.items)))
    }
}

/// A lock, and waiting for what it guards.
///
/// A trait instead of `cfg(loom)`: the models are tests like any other, of the very code that serves, on loom's primitives.
pub(crate) trait Monitor<T>: Send + Sync {
    fn new(guarded: T) -> Self;

    /// Calls `attempt` under the lock, now and after every successful attempt of another thread, until it returns a value.
    fn wait_until<R>(&self, attempt: impl FnMut(&mut T) -> Option<R>) -> R;
}

/// The monitor of the server.
pub(crate) struct LockMonitor<T> {
    guarded: Mutex<T>,
    changed: Condvar,
}

impl<T: Send> Monitor<T> for LockMonitor<T> {
    fn new(guarded: T) -> Self {
        Self { guarded: Mutex::new(guarded), changed: Condvar::new() }
    }

    fn wait_until<R>(&self, mut attempt: impl FnMut(&mut T) -> Option<R>) -> R {
        let mut guarded = self.guarded.lock();
        loop {
            if let Some(result) = attempt(&mut guarded) {
                drop(guarded);
                self.changed.notify_all();
                return result;
            }
            self.changed.wait(&mut guarded);
        }
    }
}

#[cfg(test)]
mod tests;
