//! The life of a connection as far as several parts have to do with it: opening, sending, failing, ending.

use super::{
    super::{load::Reuse, pace::Limit},
    Worker,
    dialer::{Dialed, Dialer, Redial},
    issuer::DueRequest,
    pipeline::Pending,
    recorder::SettledReplies,
};
use crate::{
    clock::{self, Nanos},
    error::ErrorClass,
    protocol::{Batch as _, ClientProtocol, Replies},
    request_log::Received,
};

impl<P: ClientProtocol> Worker<'_, P> {
    /// Opens connections that wait for it, in batches that a listener's queue can take.
    pub(super) fn dial(&mut self, now: Nanos) {
        let batch = self.dialer.begin_batch(now);
        if batch == 0 {
            return;
        }
        let is_issuing = self.issuer.is_issuing(now);
        for _ in 0..batch {
            let Some(slot) = self.dialer.first_in_queue() else { return };
            let pipeline = &self.connections[slot].pipeline;
            if !pipeline.has_resend() && self.has_enough_attempts() {
                return;
            }
            self.dialer.dequeue();
            if (is_issuing && pipeline.wants_socket()) || pipeline.has_resend() {
                self.open(slot, now);
            }
        }
    }

    /// Returns true if the connections that are being opened are all that the rest of the run needs.
    pub(super) fn has_enough_attempts(&self) -> bool {
        self.issuer.connections_needed().is_some_and(|needed| {
            // Counted at the end of a run only.
            (1..=self.connections.len() as u64).contains(&needed)
                && self.connections.iter().filter(|connection| connection.dial.is_opening()).count() as u64 >= needed
        })
    }

    fn open(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        let dialed = self.dialer.open(&mut connection.dial, &mut connection.link, &mut self.kernel, now);
        self.on_dialed(slot, dialed, now);
    }

    /// Reads the outcome of an attempt whose socket has reported something.
    pub(super) fn finish_attempt(&mut self, slot: usize, now: Nanos) {
        let dialed = Dialer::finish(&mut self.connections[slot].link, &mut self.kernel);
        self.on_dialed(slot, dialed, now);
    }

    fn on_dialed(&mut self, slot: usize, dialed: Dialed, now: Nanos) {
        match dialed {
            Dialed::Connected => self.connected(slot, now),
            Dialed::Pending | Dialed::Postponed => {}
            Dialed::Failed(class) => self.connect_failed(slot, class, now),
        }
    }

    /// Shakes hands where there is TLS; otherwise requests can be sent.
    fn connected(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        match self.dialer.begin_handshake(&mut connection.dial, &mut connection.link, now) {
            Ok(true) => self.send_tls_messages(slot, now),
            Ok(false) => self.opened(slot, now),
            Err(_) => self.connect_failed(slot, ErrorClass::Tls, now),
        }
    }

    /// Sends the greeting and the first requests.
    pub(super) fn opened(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        let since = Dialer::opened(&mut connection.dial);
        connection.opened_at = now;
        let burst = self.kernel.new_burst();
        self.protocol.greet(burst);
        connection.is_greeted = burst.is_empty();
        let sent = match self.issuer.reuse() {
            Reuse::Keep => {
                self.thread.live.add_opened(self.thread.index);
                now
            }
            Reuse::Once => since.unwrap_or(now),
        };
        self.fill(slot, sent, now);
        self.issuer.list_if_room(&mut self.connections[slot], slot);
    }

    /// Sends what the connection has room for.
    #[inline]
    pub(super) fn refill(&mut self, slot: usize, now: Nanos) {
        self.kernel.new_burst();
        self.fill(slot, now, now);
    }

    /// Sends what the connection has room for, behind what is in the burst already.
    #[inline]
    fn fill(&mut self, slot: usize, sent: Nanos, now: Nanos) {
        let (connection, burst) = (&mut self.connections[slot], self.kernel.burst());
        self.issuer.fill(connection, &mut self.protocol, burst, sent, now);
        if !burst.is_empty() {
            self.kernel.send_burst(&mut connection.link, &mut self.recorder, now);
        }
    }

    /// Sends what was coalesced while the events of a wake-up were dealt with.
    pub(super) fn send_coalesced(&mut self) {
        while let Some((id, since)) = self.kernel.next_coalesced() {
            let connection = &mut self.connections[id.slot];
            // The socket may have gone meanwhile, and its requests with it.
            if connection.link.is(id) && connection.link.has_unsent() {
                let now = clock::now();
                connection.pipeline.restamp(since, now);
                self.kernel.send_coalesced(&mut connection.link, &mut self.recorder, now);
            }
        }
    }

    /// Sends what has fallen due, as far as connections have room.
    pub(super) fn send_due(&mut self, now: Nanos) {
        let mut now = now;
        while let Some(DueRequest { due, slot }) = self.issuer.due_request(&mut self.connections, now) {
            match slot {
                Some(slot) => {
                    let delay = self.issuer.delay(due, now);
                    self.recorder.add_delay(due, delay, now);
                    let connection = &mut self.connections[slot];
                    let Some(pending) = self.issuer.next_batch(connection, &mut self.protocol, due, now) else {
                        return;
                    };
                    self.send_one(slot, pending);
                }
                None => {
                    if !self.fail_due(due, now) {
                        return;
                    }
                }
            }
            self.issuer.advance();
            now = clock::now();
        }
    }

    fn send_one(&mut self, slot: usize, pending: Pending<P::Request>) {
        let connection = &mut self.connections[slot];
        if self.issuer.reuse() == Reuse::Once {
            connection.pipeline.push_resend(pending);
            return self.enqueue(slot);
        }
        let burst = self.kernel.new_burst();
        self.protocol.encode(pending.request, burst);
        if P::MULTIPLEXED {
            self.protocol.flush(&mut connection.decoder, burst);
        }
        connection.pipeline.push(pending);
        self.kernel.send_burst(&mut connection.link, &mut self.recorder, pending.stamp.sent);
        self.issuer.list_if_room(connection, slot);
    }

    /// Records the outcome of the oldest requests of a batch.
    #[inline]
    pub(super) fn settle(&mut self, slot: usize, pending: Pending<P::Request>, settled: SettledReplies) {
        self.issuer.record_settled(settled.replies.count);
        let detail = if settled.outcome.is_err() { self.take_failure_detail(slot) } else { None };
        self.record(slot, pending, settled, detail);
    }

    /// Records an outcome whose detail is known. Its requests are not outstanding any more.
    #[inline]
    pub(super) fn record(
        &mut self,
        slot: usize,
        pending: Pending<P::Request>,
        settled: SettledReplies,
        detail: Option<u32>,
    ) {
        self.recorder.settle(&self.protocol, slot, pending, settled, detail);
    }

    #[cold]
    fn take_failure_detail(&mut self, slot: usize) -> Option<u32> {
        self.protocol.take_failure_detail(&mut self.connections[slot].decoder)
    }

    /// Fails all that is left of a batch.
    pub(super) fn fail(&mut self, slot: usize, pending: Pending<P::Request>, class: ErrorClass, now: Nanos) {
        let replies = Replies { count: pending.request.left(), ..Replies::default() };
        self.settle(
            slot,
            pending,
            SettledReplies { replies, outcome: Err(class), received: Received::default(), at: now },
        );
    }

    /// Fails a request before there is anything to send it on. Returns false if it was not to be sent anyway.
    fn fail_unsent(&mut self, slot: Option<usize>, due: Nanos, class: ErrorClass, now: Nanos) -> bool {
        let Some(stamp) = self.issuer.issue_unsent(due, now) else { return false };
        self.protocol.skip();
        self.issuer.record_settled(1);
        let detail = slot.and_then(|slot| self.take_failure_detail(slot));
        self.recorder.settle_unsent(slot, stamp, class, detail, now);
        true
    }

    /// Fails a request that has fallen due and found no connection. Returns false if it was not to be sent anyway.
    fn fail_due(&mut self, due: Nanos, now: Nanos) -> bool {
        let is_failed = self.fail_unsent(None, due, ErrorClass::NotSent, now);
        if is_failed {
            self.add_backlog(due, now);
        }
        is_failed
    }

    /// Fails all that has fallen due and was not sent.
    fn fail_all_due(&mut self, now: Nanos) {
        while self.issuer.is_open_loop() && self.issuer.is_issuing(now) {
            let due = self.issuer.due(now);
            if due > now || !self.fail_due(due, now) {
                return;
            }
            self.issuer.advance();
        }
    }

    /// Records how many requests waited when one fell due that has failed after waiting itself.
    fn add_backlog(&mut self, due: Nanos, now: Nanos) {
        let backlog = self.issuer.backlog(due, true, now);
        self.recorder.add_backlog(due, backlog);
    }

    /// Fails an attempt to connect. Some request has to bear it: the one that would have been sent next.
    pub(super) fn connect_failed(&mut self, slot: usize, class: ErrorClass, now: Nanos) {
        self.issuer.note_failure();
        Dialer::fail(&mut self.connections[slot].dial);
        self.close(slot, Redial::AfterBackoff, now);
        if let Some(pending) = self.connections[slot].pipeline.pop_resend() {
            self.fail(slot, pending, class, now);
            return self.begin_pause(slot, now);
        }
        let due = self.issuer.due(now);
        if due <= now && self.fail_unsent(Some(slot), due, class, now) {
            if self.recorder.counts(due, now) {
                self.connections[slot].dial.charge();
            }
            if self.issuer.is_open_loop() {
                self.issuer.advance();
                self.add_backlog(due, now);
            } else {
                self.connections[slot].pipeline.skip_rep();
            }
            self.begin_pause(slot, now);
        }
    }

    /// Fails everything in flight, and connects again. `first` is the class of the oldest request's failure.
    pub(super) fn fail_connection(&mut self, slot: usize, first: ErrorClass, others: ErrorClass, now: Nanos) {
        self.issuer.note_failure();
        let pipeline = &mut self.connections[slot].pipeline;
        if let Some(oldest) = pipeline.pop() {
            let received = pipeline.take_partial();
            self.settle(slot, oldest, SettledReplies { replies: Replies::ONE, outcome: Err(first), received, at: now });
            if oldest.request.left() > 1 {
                self.fail(slot, Pending { request: oldest.request.without(1), ..oldest }, others, now);
            }
        }
        while let Some(pending) = self.connections[slot].pipeline.pop() {
            self.fail(slot, pending, others, now);
        }
        self.begin_pause(slot, now);
        self.close(slot, Redial::Now, now);
    }

    /// Gives up a connection that the server has closed, or will: what it did not answer goes out again on the next one.
    pub(super) fn on_server_close(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        connection.pipeline.resend_all();
        // Where every request has a connection of its own, the next one was to be opened anyway.
        if self.issuer.reuse() == Reuse::Keep {
            self.recorder.add_reconnect(now);
        }
        let redial = Dialer::closed_by_server(&mut connection.dial);
        if let Some(socket) = self.release(slot, redial, now) {
            self.dialer.defer_close(socket, &mut self.kernel);
        }
    }

    /// Closes the slot's socket and has it connect again.
    pub(super) fn close(&mut self, slot: usize, redial: Redial, now: Nanos) {
        let socket = self.release(slot, redial, now);
        self.kernel.close(socket);
    }

    /// Empties the slot and has it connect again. Returns its socket.
    fn release(&mut self, slot: usize, redial: Redial, now: Nanos) -> Option<rustix::fd::OwnedFd> {
        let connection = &mut self.connections[slot];
        self.kernel.unwatch(&mut connection.link);
        self.dialer.release(&mut connection.dial, connection.link.has_socket(), redial, now);
        let socket = connection.clear(self.protocol.open());
        if redial == Redial::Now {
            self.enqueue(slot);
        }
        socket
    }

    /// Has a slot without a socket wait for one: in the dialer's queue, for the end of its pause, or for the schedule if
    /// that opens a connection for each request.
    pub(super) fn enqueue(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if connection.pipeline.wants_socket() {
            if self.issuer.dials_on_schedule() && !connection.pipeline.has_resend() {
                self.issuer.list(connection, slot);
            } else {
                self.dialer.enqueue(slot);
            }
        }
    }

    /// Lets a requestor pause whose request is settled.
    #[inline]
    pub(super) fn begin_pause(&mut self, slot: usize, now: Nanos) {
        self.issuer.begin_pause(&mut self.connections[slot].pipeline, slot, now);
    }

    pub(super) fn end_pauses(&mut self, now: Nanos) {
        while let Some(slot) = self.issuer.next_pause_ended(now) {
            let connection = &mut self.connections[slot];
            connection.pipeline.set_pausing(false);
            if connection.dial.is_open() {
                self.refill(slot, now);
            } else if connection.dial.is_closed() {
                self.enqueue(slot);
            }
        }
    }

    /// Looks for what has taken too long on one connection, and for a backoff that is over.
    pub(super) fn check_deadlines(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        if connection.dial.is_open() && now.saturating_sub(connection.opened_at) >= self.age_max {
            connection.pipeline.end_lifetime();
            if connection.pipeline.is_outlived() {
                return self.close(slot, Redial::Now, now);
            }
        }
        let connection = &mut self.connections[slot];
        if P::MULTIPLEXED && connection.dial.is_open() {
            self.check_streams(slot, now);
        } else if connection.dial.is_open() {
            let oldest = connection.pipeline.oldest().map_or(now, |pending| pending.stamp.sent);
            let waited = now.saturating_sub(oldest);
            if waited >= self.timeout {
                self.fail_connection(slot, ErrorClass::Timeout, ErrorClass::Timeout, now);
            } else if waited >= self.first_byte_timeout && !connection.pipeline.has_partial() {
                self.fail_connection(slot, ErrorClass::TimeoutFirstByte, ErrorClass::TimeoutFirstByte, now);
            }
        } else if self.dialer.is_overdue(&connection.dial, now) {
            self.connect_failed(slot, ErrorClass::ConnectTimeout, now);
        } else if Dialer::end_backoff(&mut connection.dial, now) {
            self.enqueue(slot);
        }
    }

    /// Gives the run up if there have been nothing but failures for long. What was to be sent fails.
    pub(super) fn abandon_if_unresponsive(&mut self, now: Nanos) {
        if self.issuer.is_unresponsive(self.connections.len(), now) {
            self.fail_all_due(now);
            self.issuer.abandon();
            for slot in 0..self.connections.len() {
                self.fail_resend(slot, ErrorClass::ConnectFailed, now);
            }
        }
    }

    /// Ends what is not settled when the window has been closed for as long as a request may take: all in flight, and
    /// all that waits for a connection.
    pub(super) fn end_overdue(&mut self, now: Nanos) {
        let class = match self.issuer.reuse() {
            Reuse::Keep => ErrorClass::Timeout,
            // Its connection is not open yet.
            Reuse::Once => ErrorClass::NotSent,
        };
        for slot in 0..self.connections.len() {
            if !self.connections[slot].pipeline.is_idle() {
                self.fail_connection(slot, ErrorClass::Timeout, ErrorClass::Timeout, now);
            }
            self.fail_resend(slot, class, now);
        }
        self.fail_all_due(now);
    }

    fn fail_resend(&mut self, slot: usize, class: ErrorClass, now: Nanos) {
        while let Some(pending) = self.connections[slot].pipeline.pop_resend() {
            self.fail(slot, pending, class, now);
        }
    }

    /// Counts connections that were to be kept open and never were, unless a failed attempt has been counted, or there
    /// was no time limit by which they should have been. Returns the number of those that were open at some time.
    pub(super) fn count_opened(&mut self, now: Nanos) -> Option<u64> {
        if self.issuer.reuse() == Reuse::Once {
            return None;
        }
        if !self.thread.window.is_stopped() && matches!(self.thread.load.limit, Limit::Duration(_)) {
            for slot in 0..self.connections.len() {
                if self.connections[slot].dial.is_missing() {
                    self.recorder.add_failure(slot, ErrorClass::NotOpened, now);
                }
            }
        }
        Some(self.connections.iter().filter(|connection| connection.dial.was_opened()).count() as u64)
    }
}
