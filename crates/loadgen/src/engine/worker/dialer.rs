//! How connections are opened, given up and opened again, and when they pause.

use std::net::IpAddr;

use rustix::{event::epoll::EventFlags, fd::OwnedFd, io::Errno, net::sockopt};

use super::{
    super::{
        Reuse,
        endpoint::{Attempt, Dial},
    },
    Worker,
    connection::{Connection, Pending, Stage},
};
use crate::{
    clock::{MILLISECOND, Nanos},
    error::ErrorClass,
    protocol::{Batch as _, ClientProtocol, Replies},
};

/// At most this many connections wait for their first reply: a listener's queue is often 128 long, and what does not
/// fit into it is retried by the kernel after a second.
const UNSETTLED_MAX: usize = 100;
/// A server that is slow to answer (or is not asked) has accepted this many after this time.
const UNSETTLED_PAUSE: Nanos = 10 * MILLISECOND;
/// After a failed attempt, doubled with each further one up to the second.
const REST_MIN: Nanos = 10 * MILLISECOND;
const REST_MAX: Nanos = 500 * MILLISECOND;
/// Sockets kept until the server has closed its end.
const PARTING_MAX: usize = 4096;

pub(super) const READ_INTEREST: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
pub(super) const WRITE_INTEREST: EventFlags = READ_INTEREST.union(EventFlags::OUT);

/// When to connect again.
#[derive(Clone, Copy)]
pub(super) enum Redial {
    Now,
    AfterRest,
}

impl<P: ClientProtocol> Worker<'_, P> {
    /// Opens connections that are due, in batches that a listener's queue can take.
    pub(super) fn dial(&mut self, now: Nanos) {
        if self.to_open.is_empty() || now < self.next_dial_at(now) {
            return;
        }
        let free = UNSETTLED_MAX.saturating_sub(self.unsettled);
        let allowance = if free == 0 { UNSETTLED_MAX } else { free };
        let is_issuing = self.is_issuing(now);
        self.next_dial = now + UNSETTLED_PAUSE;
        for _ in 0..allowance.min(self.to_open.len()) {
            let again = self.to_open.front().is_some_and(|&slot| !self.connections[slot].resend.is_empty());
            if !again && self.enough_is_being_opened() {
                return;
            }
            let Some(slot) = self.to_open.pop_front() else { return };
            let connection = &self.connections[slot];
            if (is_issuing && connection.wants_socket()) || !connection.resend.is_empty() {
                self.open(slot, now);
            }
        }
    }

    /// Where every request has a connection of its own: those that are being opened are all that is still needed.
    pub(super) fn enough_is_being_opened(&self) -> bool {
        let Some(quota) = self.quota.filter(|_| self.reuse == Reuse::Once && self.schedule.is_none()) else {
            return false;
        };
        // Counted at the end of a run only.
        quota > 0 && quota < self.connections.len() as u64 * self.batch && {
            let is_opening = |connection: &&Connection<P>| {
                matches!(connection.stage, Stage::Connecting { .. } | Stage::Handshaking { .. })
            };
            self.connections.iter().filter(is_opening).count() as u64 * self.batch >= quota
        }
    }

    /// When the next connection may be opened.
    pub(super) fn next_dial_at(&self, now: Nanos) -> Nanos {
        if self.unsettled < UNSETTLED_MAX { now } else { self.next_dial }
    }

    fn open(&mut self, slot: usize, now: Nanos) {
        let since = *self.connections[slot].dialing_since.get_or_insert(now);
        let dial =
            Dial { source: self.next_source(), is_fast_open: self.is_fast_open, is_linger_zero: self.is_linger_zero };
        let mut attempt = self.endpoint.connect(dial);
        if matches!(attempt, Err(Errno::MFILE)) && !self.parting.is_empty() {
            // Those were only kept out of courtesy.
            self.closing.extend(self.parting.drain(..));
            self.close_now();
            attempt = self.endpoint.connect(dial);
        }
        match attempt {
            Ok(Attempt::Connected(socket)) => {
                if self.install(slot, socket, false, now) {
                    self.connected(slot, now);
                }
            }
            Ok(Attempt::Pending(socket)) => {
                self.install(slot, socket, true, now);
            }
            Ok(Attempt::QueueFull) if now - since < self.connect_timeout => {
                self.connections[slot].stage = Stage::Resting { until: now + MILLISECOND };
            }
            Ok(Attempt::QueueFull) => self.connect_failed(slot, ErrorClass::ConnectTimeout, now),
            Err(error) => self.connect_failed(slot, ErrorClass::of_connect(error), now),
        }
    }

    /// Where the next connection comes from, in turn.
    fn next_source(&mut self) -> Option<IpAddr> {
        let source = *self.sources.get(self.source)?;
        self.source = (self.source + 1) % self.sources.len();
        Some(source)
    }

    fn install(&mut self, slot: usize, socket: OwnedFd, is_pending: bool, now: Nanos) -> bool {
        let connection = &mut self.connections[slot];
        connection.stage = Stage::Connecting { since: now };
        connection.socket = Some(socket);
        self.unsettled += 1;
        let watched = self.watch(slot, is_pending);
        if let Err(error) = watched {
            self.connect_failed(slot, ErrorClass::of_connect(error), now);
        }
        watched.is_ok()
    }

    /// The socket of a pending attempt reports something.
    pub(super) fn decide_attempt(&mut self, slot: usize, now: Nanos) {
        let Some(socket) = &self.connections[slot].socket else { return };
        match sockopt::socket_error(socket).and_then(|outcome| outcome) {
            Ok(()) => match self.watch_connected(slot) {
                Ok(()) => self.connected(slot, now),
                Err(error) => self.connect_failed(slot, ErrorClass::of_connect(error), now),
            },
            Err(error) => self.connect_failed(slot, ErrorClass::of_connect(error), now),
        }
    }

    pub(super) fn opened(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        connection.stage = Stage::Open;
        let since = connection.dialing_since.take();
        self.burst.clear();
        self.protocol.greet(&mut self.burst);
        self.connections[slot].is_welcome = self.burst.is_empty();
        let sent = match self.reuse {
            Reuse::Keep => now,
            Reuse::Once => since.unwrap_or(now),
        };
        self.fill(slot, sent, now);
        self.list_if_room(slot);
    }

    /// Somebody has to bear a failed attempt: the request that would have been sent next.
    pub(super) fn connect_failed(&mut self, slot: usize, class: ErrorClass, now: Nanos) {
        self.failures_in_row += 1;
        self.connections[slot].failures += 1;
        self.connections[slot].dialing_since = None;
        self.hang_up(slot, Redial::AfterRest, now);
        if let Some(pending) = self.connections[slot].resend.pop_front() {
            self.fail(slot, pending, class, now);
            return self.end_turn(slot, now);
        }
        let due = self.schedule.as_ref().map_or(now, |schedule| schedule.due());
        if due <= now && self.fail_unsent(Some(slot), due, class, now) {
            match &mut self.schedule {
                Some(schedule) => {
                    schedule.advance();
                    self.note_backlog(due, true, now);
                }
                None => self.connections[slot].turns_left = self.connections[slot].turns_left.saturating_sub(1),
            }
            self.end_turn(slot, now);
        }
    }

    /// Fails everything in flight, and connects again. `first` is what became of the oldest request.
    pub(super) fn fail_connection(&mut self, slot: usize, first: ErrorClass, others: ErrorClass, now: Nanos) {
        self.failures_in_row += 1;
        if let Some(oldest) = self.connections[slot].inflight.pop_front() {
            let heard = std::mem::take(&mut self.connections[slot].begun);
            self.conclude(slot, oldest, Replies::ONE, Err(first), heard, now);
            if oldest.request.left() > 1 {
                self.fail(slot, Pending { request: oldest.request.without(1), ..oldest }, others, now);
            }
        }
        while let Some(pending) = self.connections[slot].inflight.pop_front() {
            self.fail(slot, pending, others, now);
        }
        self.end_turn(slot, now);
        self.hang_up(slot, Redial::Now, now);
    }

    /// The server has announced the end of this connection: what it did not answer goes out again on the next one.
    pub(super) fn part(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        connection.resend.append(&mut connection.inflight);
        // Where every request has a connection of its own, the next one was to be opened anyway.
        self.tally.reconnects += u64::from(self.reuse == Reuse::Keep && self.window.contains(now));
        // A server that closes without ever answering would otherwise be dialled as fast as the kernel can.
        let redial = if connection.is_settled { Redial::Now } else { Redial::AfterRest };
        connection.failures += u32::from(!connection.is_settled);
        // Whoever closes first keeps the port for a minute, and it is the server's turn to do so.
        let socket = self.vacate(slot, redial, now);
        if self.parting.len() < PARTING_MAX {
            self.parting.extend(socket);
        } else {
            self.closing.extend(socket);
        }
    }

    /// Closes the slot's socket and puts it in line to connect again.
    pub(super) fn hang_up(&mut self, slot: usize, redial: Redial, now: Nanos) {
        let socket = self.vacate(slot, redial, now);
        self.closing.extend(socket);
    }

    /// Empties the slot and puts it in line to connect again.
    fn vacate(&mut self, slot: usize, redial: Redial, now: Nanos) -> Option<OwnedFd> {
        self.unwatch(slot);
        let connection = &mut self.connections[slot];
        if connection.socket.is_some() && !connection.is_settled {
            self.unsettled -= 1;
        }
        let socket = connection.clear(self.protocol.open());
        match redial {
            Redial::Now => self.line_up(slot),
            Redial::AfterRest => {
                let rest = REST_MIN << connection.failures.saturating_sub(1).min(10);
                connection.stage = Stage::Resting { until: now + rest.min(REST_MAX) };
            }
        }
        socket
    }

    /// A connection without a socket waits for its turn to get one: in line, for the end of its pause, or for the schedule
    /// if that opens one for each request.
    pub(super) fn line_up(&mut self, slot: usize) {
        if self.connections[slot].wants_socket() {
            if self.dials_on_schedule() && self.connections[slot].resend.is_empty() {
                self.list(slot);
            } else {
                self.to_open.push_back(slot);
            }
        }
    }

    /// Whether a request that falls due opens a connection of its own.
    pub(super) fn dials_on_schedule(&self) -> bool {
        self.reuse == Reuse::Once && self.schedule.is_some()
    }

    /// A connection's request has got its verdict; a pause may follow.
    #[inline]
    pub(super) fn end_turn(&mut self, slot: usize, now: Nanos) {
        if let Some(pauses) = &mut self.pauses
            && self.connections[slot].turns_left > 0
        {
            self.connections[slot].is_pausing = pauses.begin(slot, now);
        }
    }

    pub(super) fn end_pauses(&mut self, now: Nanos) {
        while let Some(slot) = self.pauses.as_mut().and_then(|pauses| pauses.ended(now)) {
            self.connections[slot].is_pausing = false;
            match self.connections[slot].stage {
                Stage::Open => self.refill(slot, now),
                Stage::Closed => self.line_up(slot),
                // It gets in line by itself.
                Stage::Resting { .. } | Stage::Connecting { .. } | Stage::Handshaking { .. } => {}
            }
        }
    }

    pub(super) fn check_deadlines(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        match connection.stage {
            Stage::Closed => {}
            Stage::Resting { until } => {
                if until <= now {
                    connection.stage = Stage::Closed;
                    self.line_up(slot);
                }
            }
            Stage::Connecting { since } | Stage::Handshaking { since } => {
                if now.saturating_sub(since) >= self.connect_timeout {
                    self.connect_failed(slot, ErrorClass::ConnectTimeout, now);
                }
            }
            Stage::Open => {
                let oldest = connection.inflight.front().map_or(now, |pending| pending.stamp.sent);
                let waited = now.saturating_sub(oldest);
                if waited >= self.timeout {
                    self.fail_connection(slot, ErrorClass::Timeout, ErrorClass::Timeout, now);
                } else if waited >= self.first_byte_timeout && connection.begun.first_byte.is_none() {
                    self.fail_connection(slot, ErrorClass::TimeoutFirstByte, ErrorClass::TimeoutFirstByte, now);
                }
            }
        }
    }

    pub(super) fn wait_for_room(&mut self, slot: usize) -> Result<(), Errno> {
        self.set_interest(slot, WRITE_INTEREST)
    }

    pub(super) fn stop_waiting_for_room(&mut self, slot: usize) -> Result<(), Errno> {
        self.set_interest(slot, READ_INTEREST)
    }
}
