//! Requests of one connection: those in flight, and those to be sent again.

use std::collections::VecDeque;

use crate::{clock::Nanos, protocol::Batch, request_log::Received};

/// Requests that travel together and are not settled yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<R> {
    pub(super) request: R,
    pub(super) stamp: Stamp,
}

/// Times that decide how an outcome is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// Time at which it should have been sent.
    pub(super) due: Nanos,
    /// Time at which it was sent.
    pub(super) sent: Nanos,
    /// It fell due inside the window.
    pub(super) is_counted: bool,
}

/// Delay of a request of an open loop.
#[derive(Clone, Copy)]
pub(super) struct Delay {
    /// Time by which it is late although it has a connection. That it had to wait for one is the server's doing.
    pub(super) lag: Nanos,
    /// Number of requests that waited for a connection when it fell due.
    pub(super) backlog: u64,
}

/// Requests of a slot. They outlive its sockets.
#[derive(Debug)]
pub(super) struct Pipeline<R> {
    /// Batches, oldest first.
    inflight: VecDeque<Pending<R>>,
    /// Batches that were sent on an earlier socket, which the server closed without an answer to them.
    resend: VecDeque<Pending<R>>,
    /// Part of the oldest reply that has arrived, as long as it is not complete.
    partial: Received,
    /// Requests that may still be sent; more than there can be if there is no limit.
    reps_left: u64,
    /// Requests that may still be sent on the socket of now; more than there can be if there is no limit.
    lifetime_left: u64,
    /// Limit of the requests on one socket.
    lifetime: u64,
    /// Between two requests of a requestor: nothing is sent, and no connection opened.
    is_pausing: bool,
}

impl<R: Batch> Pipeline<R> {
    /// Makes an empty pipeline for `batches` in flight at once, and `reps` requests in all.
    pub(super) fn new(batches: usize, reps: Option<u64>) -> Self {
        Self {
            inflight: VecDeque::with_capacity(batches),
            resend: VecDeque::new(),
            partial: Received::default(),
            reps_left: reps.unwrap_or(u64::MAX),
            lifetime_left: u64::MAX,
            lifetime: u64::MAX,
            is_pausing: false,
        }
    }

    /// Limits the requests on each socket.
    pub(super) fn with_lifetime(self, requests: Option<u64>) -> Self {
        let lifetime = requests.unwrap_or(u64::MAX);
        Self { lifetime, lifetime_left: lifetime, ..self }
    }

    /// Returns true if another batch may be sent, `batches` being the limit of those in flight.
    #[inline]
    pub(super) fn has_room(&self, batches: usize) -> bool {
        !self.is_pausing && self.inflight.len() < batches && self.lifetime_left > 0
    }

    /// Returns true if the socket has served for as long as it was to, and nothing is in flight on it.
    #[inline]
    pub(super) fn is_outlived(&self) -> bool {
        self.lifetime_left == 0 && self.inflight.is_empty()
    }

    /// Takes note that `count` requests are sent on the socket.
    #[inline]
    pub(super) fn use_lifetime(&mut self, count: u64) {
        self.lifetime_left = self.lifetime_left.saturating_sub(count);
    }

    /// Has no more requests sent on the socket.
    pub(super) fn end_lifetime(&mut self) {
        self.lifetime_left = 0;
    }

    /// Begins the lifetime of another socket.
    pub(super) fn renew_lifetime(&mut self) {
        self.lifetime_left = self.lifetime;
    }

    /// Returns true if there is something to open a connection for.
    pub(super) fn wants_socket(&self) -> bool {
        self.has_resend() || (self.reps_left > 0 && !self.is_pausing)
    }

    pub(super) fn has_resend(&self) -> bool {
        !self.resend.is_empty()
    }

    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.inflight.is_empty()
    }

    #[inline]
    pub(super) fn oldest(&self) -> Option<Pending<R>> {
        self.inflight.front().copied()
    }

    #[inline]
    pub(super) fn push(&mut self, pending: Pending<R>) {
        self.inflight.push_back(pending);
    }

    pub(super) fn pop(&mut self) -> Option<Pending<R>> {
        self.inflight.pop_front()
    }

    pub(super) fn push_resend(&mut self, pending: Pending<R>) {
        self.resend.push_back(pending);
    }

    #[inline]
    pub(super) fn pop_resend(&mut self) -> Option<Pending<R>> {
        self.resend.pop_front()
    }

    /// Has all that is in flight sent again.
    pub(super) fn resend_all(&mut self) {
        self.resend.append(&mut self.inflight);
    }

    #[inline]
    pub(super) fn reps_left(&self) -> u64 {
        self.reps_left
    }

    /// Returns the number of requests that may be sent now.
    #[inline]
    pub(super) fn sends_left(&self) -> u64 {
        self.reps_left.min(self.lifetime_left)
    }

    #[inline]
    pub(super) fn use_reps(&mut self, count: u64) {
        self.reps_left -= count;
    }

    /// Gives up one request that cannot be sent.
    pub(super) fn skip_rep(&mut self) {
        self.reps_left = self.reps_left.saturating_sub(1);
    }

    pub(super) fn set_pausing(&mut self, is_pausing: bool) {
        self.is_pausing = is_pausing;
    }

    /// Corrects the stamps of what was taken for sent at `since` or later: it has waited, and leaves `now`.
    #[inline]
    pub(super) fn restamp(&mut self, since: Nanos, now: Nanos) {
        let waiting = self.inflight.iter_mut().rev().take_while(|pending| pending.stamp.sent >= since);
        waiting.for_each(|pending| pending.stamp.sent = now);
    }

    /// Takes note of `bytes` more of the oldest reply, which is still not complete.
    pub(super) fn add_partial(&mut self, bytes: usize, now: Nanos) {
        if bytes > 0 {
            self.partial.add(bytes as u64, now);
        }
    }

    #[inline]
    pub(super) fn take_partial(&mut self) -> Received {
        std::mem::take(&mut self.partial)
    }

    pub(super) fn has_partial(&self) -> bool {
        self.partial.first_byte.is_some()
    }

    /// Removes the request with this key (multiplexed protocols).
    #[inline]
    pub(super) fn take(&mut self, key: u64) -> Option<Pending<R>> {
        let at = self.inflight.iter().position(|pending| pending.request.key() == key)?;
        self.inflight.remove(at)
    }

    /// Returns the requests in flight, oldest first.
    pub(super) fn inflight(&self) -> impl Iterator<Item = Pending<R>> + '_ {
        self.inflight.iter().copied()
    }

    /// Removes the `count` oldest requests, all of one batch: they are settled.
    #[inline]
    pub(super) fn complete(&mut self, count: u64) {
        if let Some(oldest) = self.inflight.front_mut() {
            if oldest.request.left() > count {
                oldest.request = oldest.request.without(count);
            } else {
                self.inflight.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Single;

    #[test]
    fn a_socket_that_has_served_its_time_is_left_when_all_is_answered() {
        let stamp = Stamp { due: 0, sent: 0, is_counted: true };
        let mut pipeline = Pipeline::new(4, None).with_lifetime(Some(2));
        for sends_left in [2, 1] {
            assert!(pipeline.has_room(4) && !pipeline.is_outlived() && pipeline.sends_left() == sends_left);
            pipeline.use_lifetime(1);
            pipeline.push(Pending { request: Single(0), stamp });
        }
        assert!(!pipeline.has_room(4) && !pipeline.is_outlived());
        pipeline.complete(1);
        assert!(!pipeline.is_outlived(), "one is in flight");
        pipeline.complete(1);
        assert!(pipeline.is_outlived());
        pipeline.renew_lifetime();
        assert!(pipeline.has_room(4) && !pipeline.is_outlived());
        pipeline.end_lifetime();
        assert!(!pipeline.has_room(4) && pipeline.is_outlived());
    }

    #[test]
    fn only_requests_that_waited_get_a_new_stamp() {
        let mut pipeline = Pipeline::new(4, None);
        for sent in [1, 9, 10, 11] {
            pipeline.push(Pending { request: Single(0), stamp: Stamp { due: sent, sent, is_counted: true } });
        }
        pipeline.restamp(10, 20);
        let stamps: Vec<_> = pipeline.inflight.iter().map(|batch| (batch.stamp.due, batch.stamp.sent)).collect();
        assert_eq!(stamps, [(1, 1), (9, 9), (10, 20), (11, 20)]);
    }
}
