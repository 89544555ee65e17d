//! Promises: places in the order that are kept for answers of other threads.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Poll, Waker},
};

use super::{FLATTEN_MAX, Gate, Outbox};
use crate::{
    DeferredReply,
    deferred::{self, Promise},
    segment::Segment,
};

impl Outbox {
    /// Keeps this place in the order for an answer to come.
    pub fn defer(&mut self) -> Promise {
        let (promise, reply) = deferred::pair(Arc::clone(self.ledger.get_or_insert_default()));
        self.deferred += 1;
        self.push(Segment::Deferred(reply));
        promise
    }

    /// Takes the promise at the end of the queue back, so that something can be written before it: for a protocol that is
    /// called again when it is settled, and for whose output there is nothing to wait for. [`Outbox::restore_promise`]
    /// follows.
    pub fn withdraw_promise(&mut self) -> Option<DeferredReply> {
        if !self.tail.is_empty() || !matches!(self.queue.back(), Some(Segment::Deferred(_))) {
            return None;
        }
        let Some(Segment::Deferred(reply)) = self.queue.pop_back() else { return None };
        self.deferred -= 1;
        Some(reply)
    }

    /// Puts a promise that has been withdrawn behind all that is queued now.
    pub fn restore_promise(&mut self, reply: DeferredReply) {
        self.deferred += 1;
        self.push(Segment::Deferred(reply));
    }

    /// Takes no more input before a promise has been settled: for a protocol that passes its input on, to where there is
    /// no room for more. Does nothing without a promise.
    pub fn hold_input(&mut self) {
        if self.deferred > 0 {
            self.gate = self.gate.max(Gate::Held);
        }
    }

    /// Puts given answers in the place of their promises, up to the first that is still open.
    pub(super) fn settle(&mut self) {
        if self.deferred == 0 {
            return;
        }
        let Some(first) = self.queue.iter().position(|segment| matches!(segment, Segment::Deferred(_))) else { return };
        let mut rest = self.queue.split_off(first);
        while let Some(segment) = rest.pop_front() {
            let Segment::Deferred(reply) = segment else {
                self.queue.push_back(segment);
                continue;
            };
            match reply.take() {
                Poll::Pending => {
                    rest.push_front(Segment::Deferred(reply));
                    break;
                }
                Poll::Ready(Ok(answer)) => self.absorb(answer),
                Poll::Ready(Err(deferred::Broken)) => return self.cut_off(rest),
            }
        }
        self.queue.append(&mut rest);
    }

    fn absorb(&mut self, mut answer: Self) {
        answer.seal();
        self.deferred = self.deferred - 1 + answer.deferred;
        self.gate = answer.gate.max(if self.gate == Gate::Held { Gate::Open } else { self.gate });
        for segment in answer.queue {
            self.queued += segment.held_bytes();
            match (self.queue.back_mut(), &segment) {
                // Many small answers leave in one piece.
                (Some(Segment::Owned(last)), Segment::Owned(bytes)) if bytes.len() <= FLATTEN_MAX => {
                    last.extend_from_slice(bytes)
                }
                _ => self.queue.push_back(segment),
            }
        }
    }

    /// Drops what follows a broken promise; what came before it still goes out.
    fn cut_off(&mut self, rest: VecDeque<Segment>) {
        self.queued -= rest.iter().map(Segment::held_bytes).sum::<usize>();
        self.tail.clear();
        (self.deferred, self.gate) = (0, Gate::Truncated);
        if self.queue.is_empty() {
            self.written = 0;
        }
    }

    /// True if an answer is still to come, or has come and not been taken. A protocol whose next request must not
    /// overtake it stops here; it is called again once the answer has been taken.
    pub fn has_pending_replies(&self) -> bool {
        self.deferred > 0
    }

    /// True if nothing can be written before a promise is settled.
    pub fn is_waiting(&self) -> bool {
        matches!(self.queue.front(), Some(Segment::Deferred(_)))
    }

    /// True if nothing is being sent, and nothing can be before a promise is settled.
    pub fn is_blocked_on_reply(&self) -> bool {
        self.is_waiting() && self.in_flight == 0
    }

    /// `Pending`: the front is an open promise, and `waker` will be woken when it is settled. `Ready`: nothing waits, or
    /// what is in front can be sent.
    pub fn poll_reply(&mut self, waker: &Waker) -> Poll<()> {
        loop {
            self.settle();
            match self.queue.front() {
                Some(Segment::Deferred(reply)) if reply.poll(waker).is_pending() => return Poll::Pending,
                // It has been given between the two.
                Some(Segment::Deferred(_)) => {}
                _ => return Poll::Ready(()),
            }
        }
    }
}
