//! One connection slot. The slot stays; the sockets in it come and go.

use std::collections::VecDeque;

use rustix::fd::OwnedFd;
use sys::ring::Ticket;

use super::super::tls::Session;
use crate::{
    clock::Nanos,
    protocol::{Batch as _, ClientProtocol},
    request_log::Heard,
};

/// Requests that travel together and have no verdict yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending<R> {
    pub(super) request: R,
    pub(super) stamp: Stamp,
}

/// What decides how a verdict is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// When it should have been sent.
    pub(super) due: Nanos,
    /// When it was sent.
    pub(super) sent: Nanos,
    /// It fell due inside the window.
    pub(super) is_counted: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// No socket; waits for its turn.
    Closed,
    /// No socket; failed, and tries again later.
    Resting {
        until: Nanos,
    },
    Connecting {
        since: Nanos,
    },
    /// There is a connection, but no TLS on it yet.
    Handshaking {
        since: Nanos,
    },
    Open,
}

#[derive(Debug)]
pub(super) struct Connection<P: ClientProtocol> {
    pub(super) socket: Option<OwnedFd>,
    pub(super) stage: Stage,
    /// Tells this socket's events from those of its predecessors in the slot.
    pub(super) generation: u32,
    pub(super) decoder: P::Conn,
    pub(super) tls: Option<Box<Session>>,
    /// Of a ring: what waits for the peer, and what is being sent.
    pub(super) receiving: Option<Ticket>,
    pub(super) sending: Option<Ticket>,
    /// Batches, oldest first.
    pub(super) inflight: VecDeque<Pending<P::Request>>,
    /// Sent on an earlier socket that the server had announced to close.
    pub(super) resend: VecDeque<Pending<P::Request>>,
    /// What the socket would not take.
    pub(super) unsent: Unsent,
    /// When the current attempt began, refusals by a full queue included.
    pub(super) dialing_since: Option<Nanos>,
    /// Connections in a row that came to nothing.
    pub(super) failures: u32,
    /// The server has answered on this socket, so it no longer sits in the listener's queue.
    pub(super) is_settled: bool,
    /// What the protocol says first has been answered, or it says nothing.
    pub(super) is_welcome: bool,
    /// What has arrived of the oldest reply, as long as it is not complete.
    pub(super) begun: Heard,
    /// The peer takes no more; what it has sent is still to be read.
    pub(super) is_write_broken: bool,
    /// Already in the list of connections with room (open loop).
    pub(super) is_listed: bool,
    /// Between two turns: nothing is sent, and no connection opened.
    pub(super) is_pausing: bool,
    /// Requests that it may still send; more than there can be, if nobody counts.
    pub(super) turns_left: u64,
}

/// Bytes that wait for room in the socket.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    bytes: Vec<u8>,
    /// How many of them have been sent. A large batch leaves in many pieces, and is not moved for each.
    sent: usize,
}

impl Unsent {
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent == self.bytes.len() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    /// Puts what was not taken back in front.
    pub(super) fn put_back(&mut self, rest: &[u8]) {
        self.bytes.splice(..self.sent, rest.iter().copied());
        self.sent = 0;
    }

    /// All of it, for `empty`.
    pub(super) fn take(&mut self, empty: Vec<u8>) -> Vec<u8> {
        self.bytes.drain(..self.sent);
        self.sent = 0;
        std::mem::replace(&mut self.bytes, empty)
    }
}

impl<P: ClientProtocol> Connection<P> {
    pub(super) fn new(decoder: P::Conn, batches: usize, turns: Option<u64>) -> Self {
        Self {
            socket: None,
            stage: Stage::Closed,
            generation: 0,
            decoder,
            tls: None,
            receiving: None,
            sending: None,
            inflight: VecDeque::with_capacity(batches),
            resend: VecDeque::new(),
            unsent: Unsent::default(),
            dialing_since: None,
            failures: 0,
            is_settled: false,
            is_welcome: false,
            begun: Heard::default(),
            is_write_broken: false,
            is_listed: false,
            is_pausing: false,
            turns_left: turns.unwrap_or(u64::MAX),
        }
    }

    /// Whether another batch may be sent now, `batches` being what may be in flight.
    pub(super) fn has_room(&self, batches: usize) -> bool {
        self.stage == Stage::Open && !self.is_write_broken && !self.is_pausing && self.inflight.len() < batches
    }

    /// Whether there is something to open it for.
    pub(super) fn wants_socket(&self) -> bool {
        !self.resend.is_empty() || (self.turns_left > 0 && !self.is_pausing)
    }

    /// What was stamped as sent at `since` or later has waited, and leaves `now`.
    #[inline]
    pub(super) fn sent_only_now(&mut self, since: Nanos, now: Nanos) {
        let waiting = self.inflight.iter_mut().rev().take_while(|pending| pending.stamp.sent >= since);
        waiting.for_each(|pending| pending.stamp.sent = now);
    }

    /// So much more of the oldest reply has come, and it is not complete.
    pub(super) fn went_on(&mut self, bytes: usize, now: Nanos) {
        if bytes > 0 {
            self.begun.more(bytes as u64, now);
        }
    }

    /// The `count` oldest requests, all of one batch, have got their verdicts.
    #[inline]
    pub(super) fn answered(&mut self, count: u64) {
        if let Some(oldest) = self.inflight.front_mut() {
            if oldest.request.left() > count {
                oldest.request = oldest.request.without(count);
            } else {
                self.inflight.pop_front();
            }
        }
    }

    /// Gives up the socket and all that belongs to it but the requests.
    pub(super) fn clear(&mut self, decoder: P::Conn) -> Option<OwnedFd> {
        self.stage = Stage::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.decoder = decoder;
        self.unsent.clear();
        self.is_settled = false;
        self.is_welcome = false;
        self.begun = Heard::default();
        self.is_write_broken = false;
        self.tls = None;
        (self.receiving, self.sending) = (None, None);
        self.socket.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        http::{Expectation, HttpClient, HttpVerify, RequestSpec},
        protocol::Single,
    };

    #[test]
    fn only_what_has_waited_is_stamped_again_and_stays_due_when_it_was() {
        let question = RequestSpec { request: Vec::new(), expectation: Expectation::Nothing };
        let mut client = HttpClient::new(&[question], HttpVerify::None, 0);
        let mut connection: Connection<HttpClient> = Connection::new(client.open(), 4, None);
        let stamped = |sent| Pending { request: Single(0), stamp: Stamp { due: sent, sent, is_counted: true } };
        connection.inflight.extend([1, 9, 10, 11].map(stamped));
        connection.sent_only_now(10, 20);
        let stamps: Vec<_> = connection.inflight.iter().map(|batch| (batch.stamp.due, batch.stamp.sent)).collect();
        assert_eq!(stamps, [(1, 1), (9, 9), (10, 20), (11, 20)]);
    }
}
