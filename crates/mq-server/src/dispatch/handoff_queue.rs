//! The queue between the thread that receives and those that serve.
//!
//! A worker looks before it waits, and waits under the lock under which others push: so nothing that is pushed while all
//! workers are busy is overlooked. The first design's workers waited for a signal that nobody repeated, and read the
//! queue only after one. The models in `handoff/tests.rs` find that in every interleaving in which it matters.

mod monitor;

use std::{collections::VecDeque, marker::PhantomData};

use self::monitor::{Monitor, StdMonitor};

/// First in, first out, bounded, between any number of threads.
pub(crate) struct HandoffQueue<T: Send, M: Monitor<Line<T>> = StdMonitor<Line<T>>>(M, PhantomData<fn(T)>);

pub(crate) struct Line<T> {
    items: VecDeque<T>,
    items_max: usize,
    is_closed: bool,
}

impl<T: Send> HandoffQueue<T> {
    pub(crate) fn new(items_max: usize) -> Self {
        Self::on_monitor(items_max)
    }
}

impl<T: Send, M: Monitor<Line<T>>> HandoffQueue<T, M> {
    fn on_monitor(items_max: usize) -> Self {
        let line = Line { items: VecDeque::new(), items_max, is_closed: false };
        Self(M::new(line), PhantomData)
    }

    /// Waits for room.
    ///
    /// # Errors
    /// The queue is closed; the item comes back.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut item = Some(item);
        let refused = self.0.wait_until(|line| {
            if line.is_closed {
                return Some(item.take());
            }
            if line.items.len() >= line.items_max {
                return None;
            }
            line.items.extend(item.take());
            Some(None)
        });
        refused.map_or(Ok(()), Err)
    }

    /// Waits for an item; `None` when the queue is closed.
    pub(crate) fn pop(&self) -> Option<T> {
        self.0.wait_until(|line| if line.is_closed { Some(None) } else { line.items.pop_front().map(Some) })
    }

    /// From here on nobody gets anything in or out by waiting.
    pub(crate) fn close(&self) {
        self.0.wait_until(|line| {
            line.is_closed = true;
            Some(())
        });
    }

    /// What is left.
    pub(crate) fn take_all(&self) -> VecDeque<T> {
        self.0.wait_until(|line| Some(std::mem::take(&mut line.items)))
    }
}

#[cfg(test)]
mod tests;
