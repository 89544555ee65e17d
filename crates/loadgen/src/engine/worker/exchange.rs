//! What happens on an open connection.

use rustix::{
    event::epoll::EventFlags,
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

use super::{
    super::Reuse,
    Worker,
    connection::{Pending, Stage},
    dialer::Redial,
    kernel::{Kernel, parts},
};
use crate::{
    clock::{self, Nanos},
    error::ErrorClass,
    protocol::{ClientProtocol, EofOutcome, Progress, Then},
};

/// Reads from one connection before the others get their turn.
const READS_PER_TURN: usize = 8;

/// The peer will send no more, or something is wrong: read until the kernel says which.
const ENDING: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// How far to read.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Until {
    /// A short read has emptied the socket; asking again would only return EAGAIN.
    ShortRead,
    /// There is an end behind the data. No further event will tell of it.
    End,
}

/// Whether a connection is still the one we were talking to.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Fate {
    Stays,
    Gone,
}

impl<P: ClientProtocol> Worker<'_, P> {
    #[inline]
    pub(super) fn on_event(&mut self, token: u64, flags: EventFlags) {
        let (slot, generation) = parts(token);
        // The slot may have changed hands since the kernel wrote this event.
        if self.connections[slot].generation != generation {
            return;
        }
        if matches!(self.connections[slot].stage, Stage::Connecting { .. }) {
            self.decide_attempt(slot, clock::now());
        } else if flags.contains(EventFlags::OUT) {
            self.send_unsent(slot);
        }
        if self.can_be_read(slot, generation) && flags.intersects(EventFlags::IN | ENDING) {
            self.read(slot, if flags.intersects(ENDING) { Until::End } else { Until::ShortRead });
        }
    }

    /// Returns to connections that were left with something to read.
    pub(super) fn read_again(&mut self) {
        for (slot, generation) in std::mem::take(&mut self.again) {
            if self.can_be_read(slot, generation) {
                self.read(slot, Until::End);
            }
        }
    }

    /// Whether the slot still holds that socket, and something may come on it.
    #[inline]
    fn can_be_read(&self, slot: usize, generation: u32) -> bool {
        let connection = &self.connections[slot];
        connection.generation == generation && matches!(connection.stage, Stage::Open | Stage::Handshaking { .. })
    }

    #[inline]
    fn read(&mut self, slot: usize, until: Until) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.read_into(&mut buffer, slot, until);
        self.buffer = buffer;
    }

    #[inline]
    fn read_into(&mut self, buffer: &mut [u8], slot: usize, until: Until) {
        for _ in 0..READS_PER_TURN {
            let Some(socket) = &self.connections[slot].socket else { return };
            let received = recv(socket, &mut buffer[..], RecvFlags::empty());
            let now = clock::now();
            match received {
                Ok((0, _)) => return self.on_eof(slot, now),
                Ok((length, _)) => {
                    if self.arrived(slot, &buffer[..length], now) == Fate::Gone {
                        return;
                    }
                    if length < buffer.len() && until == Until::ShortRead {
                        return self.serve_schedule(slot, now);
                    }
                }
                Err(Errno::AGAIN) => return self.serve_schedule(slot, now),
                Err(Errno::INTR) => {}
                Err(error) => return self.on_read_error(slot, error, now),
            }
        }
        self.again.push((slot, self.connections[slot].generation));
        self.list_if_room(slot);
    }

    /// In an open loop the next request may have fallen due while this reply was read.
    #[inline]
    pub(super) fn serve_schedule(&mut self, slot: usize, now: Nanos) {
        if self.schedule.is_some() {
            self.list_if_room(slot);
            self.dispatch(now);
        }
    }

    /// Deals with what has come from the socket, and sends what that makes room for.
    #[inline]
    pub(super) fn arrived(&mut self, slot: usize, input: &[u8], now: Nanos) -> Fate {
        if self.window.contains(now) {
            self.tally.bytes_in += input.len() as u64;
        }
        if self.connections[slot].tls.is_some() {
            return self.unseal(slot, input, now);
        }
        if self.consume(slot, input, now) == Fate::Gone {
            return Fate::Gone;
        }
        self.refill(slot, now);
        Fate::Stays
    }

    /// Gives each reply in the input its verdict.
    #[inline]
    pub(super) fn consume(&mut self, slot: usize, input: &[u8], now: Nanos) -> Fate {
        let (mut start, length) = (0, input.len());
        if !self.connections[slot].is_welcome {
            match self.be_welcomed(slot, input, now) {
                Some(consumed) => start = consumed,
                None => return Fate::Gone,
            }
        }
        while let Some(&pending) = self.connections[slot].inflight.front() {
            let connection = &mut self.connections[slot];
            let rest = &input[start..];
            let decoded = self.protocol.decode(&mut connection.decoder, pending.request, rest);
            start += decoded.consumed;
            match decoded.progress {
                Progress::NeedMore => {
                    connection.went_on(rest.len(), now);
                    return Fate::Stays;
                }
                Progress::Done { replies, verdict, then } => {
                    connection.answered(replies.count);
                    let mut heard = std::mem::take(&mut connection.begun);
                    heard.more(decoded.consumed as u64, now);
                    let is_last = connection.inflight.is_empty();
                    // Nobody asked for what follows, and it is this reply that it was stuck to.
                    let has_excess = start < length && (is_last || then == Then::Close);
                    self.heard(slot, now);
                    let verdict = if has_excess { Err(ErrorClass::Protocol) } else { verdict };
                    self.conclude(slot, pending, replies, verdict, heard, now);
                    self.end_turn(slot, now);
                    if then == Then::Close {
                        self.part(slot, now);
                        return Fate::Gone;
                    }
                    if has_excess || (is_last && self.reuse == Reuse::Once) {
                        self.hang_up(slot, Redial::Now, now);
                        return Fate::Gone;
                    }
                }
                Progress::Broken(class) => {
                    self.fail_connection(slot, class, class, now);
                    return Fate::Gone;
                }
            }
        }
        if start < length {
            self.fail_unasked(slot, ErrorClass::Protocol, now);
            self.hang_up(slot, Redial::Now, now);
            return Fate::Gone;
        }
        Fate::Stays
    }

    /// Reads the reply to the greeting. Returns the bytes used of it, or nothing if the connection is of no use.
    #[cold]
    fn be_welcomed(&mut self, slot: usize, input: &[u8], now: Nanos) -> Option<usize> {
        let connection = &mut self.connections[slot];
        let decoded = self.protocol.welcome(&mut connection.decoder, input);
        let class = match decoded.progress {
            Progress::NeedMore => return Some(input.len()),
            Progress::Done { verdict: Ok(()), .. } => {
                connection.is_welcome = true;
                self.heard(slot, now);
                return Some(decoded.consumed);
            }
            Progress::Done { verdict: Err(class), .. } | Progress::Broken(class) => class,
        };
        if connection.inflight.is_empty() {
            self.connect_failed(slot, class, now);
        } else {
            self.fail_connection(slot, class, class, now);
        }
        None
    }

    /// The server has said something that makes sense.
    #[inline]
    fn heard(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        if !connection.is_settled {
            connection.is_settled = true;
            connection.failures = 0;
            self.unsettled -= 1;
        }
        self.last_reply = now;
        self.failures_in_row = 0;
    }

    #[cold]
    pub(super) fn on_eof(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        if matches!(connection.stage, Stage::Handshaking { .. }) {
            return self.connect_failed(slot, ErrorClass::Tls, now);
        }
        let Some(&pending) = connection.inflight.front() else { return self.part(slot, now) };
        let is_cut_off = connection.tls.as_mut().is_some_and(|tls| !tls.has_ended_properly());
        match self.protocol.on_eof(&mut connection.decoder, pending.request) {
            // Anybody on the way could have made this end.
            EofOutcome::Done { .. } if is_cut_off => {
                self.fail_connection(slot, ErrorClass::ShortBody, ErrorClass::EofEarly, now);
            }
            EofOutcome::Done { replies, verdict } => {
                connection.answered(replies.count);
                let heard = std::mem::take(&mut connection.begun);
                self.heard(slot, now);
                self.conclude(slot, pending, replies, verdict, heard, now);
                self.end_turn(slot, now);
                match self.reuse {
                    Reuse::Keep => self.part(slot, now),
                    Reuse::Once => self.hang_up(slot, Redial::Now, now),
                }
            }
            EofOutcome::Failed(_) if connection.is_write_broken => {
                self.fail_connection(slot, ErrorClass::WriteError, ErrorClass::WriteError, now);
            }
            EofOutcome::Failed(class) => self.fail_connection(slot, class, ErrorClass::EofEarly, now),
        }
    }

    #[cold]
    pub(super) fn on_read_error(&mut self, slot: usize, error: Errno, now: Nanos) {
        let connection = &self.connections[slot];
        if matches!(connection.stage, Stage::Handshaking { .. }) {
            return self.connect_failed(slot, ErrorClass::Tls, now);
        }
        if connection.inflight.is_empty() {
            // Nothing was asked for, so nothing failed.
            return self.part(slot, now);
        }
        let class = match error {
            // With a fast open this is the answer to what was sent first.
            Errno::CONNREFUSED => ErrorClass::ConnectRefused,
            _ if connection.is_write_broken => ErrorClass::WriteError,
            Errno::TIMEDOUT => ErrorClass::Timeout,
            _ => ErrorClass::Reset,
        };
        self.fail_connection(slot, class, class, now);
    }

    #[inline]
    pub(super) fn refill(&mut self, slot: usize, now: Nanos) {
        self.burst.clear();
        self.fill(slot, now, now);
    }

    /// Sends again what has to be sent again, and in a closed loop fills the pipeline; behind what is in the burst
    /// already.
    #[inline]
    pub(super) fn fill(&mut self, slot: usize, sent: Nanos, now: Nanos) {
        while self.connections[slot].has_room(self.batches) {
            let again = self.connections[slot].resend.pop_front();
            let Some(mut pending) = again.or_else(|| self.next_of_closed_loop(slot, sent, now)) else { break };
            pending.stamp.sent = sent;
            self.protocol.encode(pending.request, &mut self.burst);
            self.connections[slot].inflight.push_back(pending);
        }
        if !self.burst.is_empty() {
            self.send_burst(slot, now);
        }
    }

    /// In a closed loop requests are always due now.
    #[inline]
    fn next_of_closed_loop(&mut self, slot: usize, sent: Nanos, now: Nanos) -> Option<Pending<P::Request>> {
        if self.schedule.is_some() { None } else { self.next_pending(slot, now, sent) }
    }

    pub(super) fn send_one(&mut self, slot: usize, pending: Pending<P::Request>) {
        if self.reuse == Reuse::Once {
            self.connections[slot].resend.push_back(pending);
            return self.line_up(slot);
        }
        self.burst.clear();
        self.protocol.encode(pending.request, &mut self.burst);
        self.connections[slot].inflight.push_back(pending);
        self.send_burst(slot, pending.stamp.sent);
        self.list_if_room(slot);
    }

    #[inline]
    pub(super) fn send_burst(&mut self, slot: usize, now: Nanos) {
        self.seal_burst(slot);
        if self.burst.is_empty() {
            return;
        }
        if matches!(self.kernel, Kernel::Uring { .. }) {
            return self.submit_burst(slot);
        }
        let connection = &mut self.connections[slot];
        if !connection.unsent.rest().is_empty() {
            connection.unsent.push(&self.burst);
            return;
        }
        if self.is_gathered(slot) {
            return;
        }
        let connection = &self.connections[slot];
        let Some(socket) = &connection.socket else { return };
        match send(socket, &self.burst, SendFlags::NOSIGNAL) {
            Ok(length) => {
                if self.window.contains(now) {
                    self.tally.bytes_out += length as u64;
                }
                if length < self.burst.len() {
                    self.keep_unsent(slot, length);
                }
            }
            // Nothing fitted into the SYN of a fast open.
            Err(Errno::AGAIN | Errno::INTR | Errno::INPROGRESS) => self.keep_unsent(slot, 0),
            Err(_) => self.write_broke(slot),
        }
    }

    #[cold]
    fn keep_unsent(&mut self, slot: usize, sent: usize) {
        self.connections[slot].unsent.push(&self.burst[sent..]);
        if self.wait_for_room(slot).is_err() {
            self.write_broke(slot);
        }
    }

    #[cold]
    fn send_unsent(&mut self, slot: usize) {
        let now = clock::now();
        while !self.connections[slot].unsent.rest().is_empty() {
            let connection = &mut self.connections[slot];
            let Some(socket) = &connection.socket else { return };
            match send(socket, connection.unsent.rest(), SendFlags::NOSIGNAL) {
                Ok(length) => {
                    connection.unsent.advance(length);
                    if self.window.contains(now) {
                        self.tally.bytes_out += length as u64;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.write_broke(slot),
            }
        }
        if self.stop_waiting_for_room(slot).is_err() {
            self.write_broke(slot);
        }
    }

    /// Replies may have arrived before the end: they are read first, and decide what the rest failed of.
    #[cold]
    pub(super) fn write_broke(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        connection.is_write_broken = true;
        connection.unsent.clear();
        // A ring's receive is armed anyway.
        if matches!(self.kernel, Kernel::Epoll { .. }) {
            self.again.push((slot, connection.generation));
        }
    }

    /// Offers the connection to the schedule.
    #[inline]
    pub(super) fn list_if_room(&mut self, slot: usize) {
        if self.schedule.is_none() {
            return;
        }
        if self.connections[slot].has_room(self.batches) {
            self.list(slot);
        }
    }

    /// A connection has come free for the schedule.
    pub(super) fn list(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if !connection.is_listed {
            connection.is_listed = true;
            self.with_room.push_back(slot);
        }
    }

    pub(super) fn take_connection_with_room(&mut self) -> Option<usize> {
        while let Some(slot) = self.with_room.pop_front() {
            let connection = &mut self.connections[slot];
            connection.is_listed = false;
            let is_free = match self.reuse {
                Reuse::Keep => connection.has_room(self.batches),
                Reuse::Once => connection.stage == Stage::Closed,
            };
            if is_free {
                return Some(slot);
            }
        }
        None
    }
}
