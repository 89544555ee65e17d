//! The end of an engine: from the signal to a queue that is put away.

use std::{
    sync::{Arc, atomic::Ordering},
    task::Wake,
    thread,
    time::{Duration, Instant},
};

use super::{CLOSED, DRAINING, Engine, SERVING};
use crate::{copy::FileCopy, outcome::Outcome, statistics::Count};

/// Longest time until the drain timer sees that the engine has closed.
const TIMER_PERIOD: Duration = Duration::from_millis(50);

impl<C: FileCopy> Engine<C> {
    /// Takes the messages that are in the queue now and no others, and finishes what has been taken. Closes when all is
    /// done, or when the drain timeout is over.
    pub fn begin_drain(self: &Arc<Self>) {
        if self.has_drain_begun.swap(true, Ordering::AcqRel) {
            return;
        }
        self.drain_quota.store(self.queued(), Ordering::Release);
        // A close may have come before.
        let _ = self.state.compare_exchange(SERVING, DRAINING, Ordering::AcqRel, Ordering::Acquire);
        self.close_if_drained();
        let (engine, timeout) = (Arc::clone(self), self.options().drain_timeout);
        let timer = thread::Builder::new().name("drain".to_owned()).spawn(move || {
            let deadline = Instant::now() + timeout;
            while let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|_| !engine.is_closed()) {
                thread::sleep(left.min(TIMER_PERIOD));
            }
            engine.close();
        });
        if timer.is_err() {
            self.close(); // Without a timer, too early is better than never.
        }
    }

    /// Makes this process the owner of a queue that it has inherited.
    pub(crate) fn own_queue(&self) {
        self.queue.own();
    }

    /// Takes no more messages, which another process does. What has been taken is finished, until the drain that follows.
    pub(crate) fn give_queue_away(&self) {
        self.queue.give_away();
        self.stop_intake();
    }

    pub(super) fn end_intake(&self) {
        self.stop_intake();
        self.close_if_drained();
    }

    fn stop_intake(&self) {
        self.is_intake_over.store(true, Ordering::Release);
        // Otherwise late messages would wake all threads for nothing, again and again.
        self.wait_set.unwatch_messages(self.queue());
    }

    pub(super) fn is_intake_over(&self) -> bool {
        self.is_intake_over.load(Ordering::Acquire)
    }

    pub(super) fn close_if_drained(&self) {
        if self.state.load(Ordering::Acquire) != DRAINING {
            return;
        }
        // Other threads may have taken messages that the quota counts, before the drain began.
        if !self.is_intake_over() && self.queued() == 0 {
            self.stop_intake();
        }
        if self.is_intake_over() && self.jobs.load(Ordering::Acquire) == 0 {
            self.close();
        }
    }

    /// Stops all threads at the end of what they are doing.
    pub(crate) fn close(&self) {
        self.state.store(CLOSED, Ordering::Release);
        self.wait_set.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Closes, puts requests that have not been answered back into the queue, and removes the queue if it is empty then.
    /// Has to be called on every way out; later calls do nothing.
    pub fn shut_down(&self) {
        self.shut_down.call_once(|| {
            self.close();
            let mut messages: Vec<_> = self.backlog.lock().drain(..).collect();
            let mut jobs = self.wait_set.take_all();
            jobs.append(&mut self.unfinished.lock());
            for mut job in jobs {
                if job.is_unanswered() {
                    messages.push(job.into_message());
                } else {
                    job.abort(&self.context, Outcome::Stopping);
                }
            }
            let (returned, lost) = self.queue.release(messages);
            self.statistics().count(Count::HandedBack, returned as u64);
            self.statistics().count(Count::Lost, lost as u64);
        });
    }
}

impl<C: FileCopy> Wake for Engine<C> {
    /// Begins the drain: this is the waker that the signal wakes.
    fn wake(self: Arc<Self>) {
        self.begin_drain();
    }
}
