//! From the signal to the end.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    task::Wake,
    thread,
    time::{Duration, Instant},
};

use super::{CLOSED, DRAINING, Engine, SERVING};
use crate::{copy::FileCopy, outcome::Outcome, statistics::Count};

impl<C: FileCopy> Engine<C> {
    /// Takes the messages that are in the queue now and no others, finishes what has been taken, and closes: when all is
    /// done, or the drain timeout is over.
    pub fn begin_drain(self: &Arc<Self>) {
        if self.has_drain_begun.swap(true, Ordering::AcqRel) {
            return;
        }
        self.quota.store(self.queue().len().unwrap_or(0) + self.carried().len(), Ordering::Release);
        // A close may have come before.
        let _ = self.state.compare_exchange(SERVING, DRAINING, Ordering::AcqRel, Ordering::Acquire);
        self.close_if_drained();
        let (engine, timeout) = (Arc::clone(self), self.options.drain_timeout);
        let guard = thread::Builder::new().name("drain".to_owned()).spawn(move || {
            let deadline = Instant::now() + timeout;
            while let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|_| !engine.is_closed()) {
                thread::sleep(left.min(Duration::from_millis(50)));
            }
            engine.close();
        });
        if guard.is_err() {
            self.close(); // Better early than never.
        }
    }

    pub(super) fn end_intake(&self) {
        self.stop_intake();
        self.close_if_drained();
    }

    fn stop_intake(&self) {
        self.is_intake_over.store(true, Ordering::Release);
        // Or late messages would wake everybody for nothing, again and again.
        self.room.forget_messages(self.queue());
    }

    pub(super) fn is_intake_over(&self) -> bool {
        self.is_intake_over.load(Ordering::Acquire)
    }

    pub(super) fn close_if_drained(&self) {
        if self.state.load(Ordering::Acquire) != DRAINING {
            return;
        }
        // Others may have taken messages that were counted for the quota before the drain began.
        if !self.is_intake_over() && self.holdings().queued == 0 {
            self.stop_intake();
        }
        if self.is_intake_over() && self.jobs.load(Ordering::Acquire) == 0 {
            self.close();
        }
    }

    /// Everybody stops where they are.
    pub(crate) fn close(&self) {
        self.state.store(CLOSED, Ordering::Release);
        self.room.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Puts requests that have not been answered back into the queue, and takes the queue away if it is empty then. To be
    /// called on every way out; once is enough.
    pub fn put_away(&self) {
        self.put_away.call_once(|| {
            self.close();
            let mut messages: Vec<_> = self.carried().drain(..).collect();
            let mut jobs = self.room.take_all();
            jobs.append(&mut self.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
            for mut job in jobs {
                if job.is_untouched() {
                    messages.push(job.into_message());
                } else {
                    job.cut(self, Outcome::Stopping);
                }
            }
            let (back, lost) = self.queue.put_away(messages);
            self.statistics.count(Count::HandedBack, back as u64);
            self.statistics.count(Count::Lost, lost as u64);
        });
    }
}

impl<C: FileCopy> Wake for Engine<C> {
    /// The signal has come.
    fn wake(self: Arc<Self>) {
        self.begin_drain();
    }
}
