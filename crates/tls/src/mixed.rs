//! Plain and TLS addresses of one server.

use std::{sync::Arc, time::Instant};

use proto::{BatchEntry, Flow, Now, Outbox, Peer, Protocol, ProxyAddresses, Step};

use crate::{Tls, connection::Connection};

/// Fatal alert internal_error (RFC 8446, section 6), before any keys.
const REFUSAL: &[u8] = &[21, 3, 1, 0, 2, 2, 80];

/// A protocol on the addresses of one server, of which the first ones are plain and the others TLS.
pub struct PlainAndTls<P: Protocol> {
    tls: Tls<P>,
    /// Number of plain addresses.
    plain: usize,
}

/// One connection of either kind.
pub enum EitherConnection<P: Protocol> {
    Plain(P::Conn),
    Tls(Box<Connection<P>>),
}

impl<P: Protocol> PlainAndTls<P> {
    /// Returns the protocol inside `tls` for the first `plain` addresses, and `tls` for those behind them.
    pub fn new(plain: usize, tls: Tls<P>) -> Self {
        Self { tls, plain }
    }

    fn inner(&self) -> &Arc<P> {
        &self.tls.inner
    }
}

/// A plain connection is as it would be alone: turns that only TLS has asked for do not reach it.
impl<P: Protocol> Protocol for PlainAndTls<P> {
    type Conn = EitherConnection<P>;

    const BATCH: usize = P::BATCH;
    const STREAMS: bool = true;
    const OBSERVES_OUTPUT: bool = P::OBSERVES_OUTPUT;
    const PUSHES: bool = P::PUSHES;

    fn open(&self, peer: Peer<'_>, now: Now) -> EitherConnection<P> {
        if peer.front_end < self.plain {
            EitherConnection::Plain(self.inner().open(peer, now))
        } else {
            EitherConnection::Tls(Box::new(self.tls.open(peer, now)))
        }
    }

    fn is_streaming(&self, conn: &EitherConnection<P>) -> bool {
        match conn {
            EitherConnection::Plain(conn) => P::STREAMS && self.inner().is_streaming(conn),
            EitherConnection::Tls(conn) => self.tls.is_streaming(conn),
        }
    }

    fn is_multiplexed(&self, conn: &EitherConnection<P>) -> bool {
        match conn {
            EitherConnection::Plain(conn) => P::STREAMS && self.inner().is_multiplexed(conn),
            EitherConnection::Tls(conn) => self.tls.is_multiplexed(conn),
        }
    }

    fn on_drain(&self, conn: &mut EitherConnection<P>) -> bool {
        match conn {
            EitherConnection::Plain(conn) => P::STREAMS && self.inner().on_drain(conn),
            EitherConnection::Tls(conn) => self.tls.on_drain(conn),
        }
    }

    fn on_proxied(&self, conn: &mut EitherConnection<P>, addresses: ProxyAddresses) {
        match conn {
            EitherConnection::Plain(conn) => self.inner().on_proxied(conn, addresses),
            EitherConnection::Tls(conn) => self.tls.on_proxied(conn, addresses),
        }
    }

    fn on_input(&self, conn: &mut EitherConnection<P>, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        match conn {
            EitherConnection::Plain(_) if input.is_empty() && !P::STREAMS => Step::open(0),
            EitherConnection::Plain(conn) => self.inner().on_input(conn, input, now, out),
            EitherConnection::Tls(conn) => self.tls.on_input(conn, input, now, out),
        }
    }

    fn on_ready(&self, entries: &mut [BatchEntry<'_, EitherConnection<P>>], now: Now) {
        let (mut plain, mut steps) = (Vec::new(), Vec::new());
        for BatchEntry { conn, input, out, step } in entries {
            match conn {
                EitherConnection::Plain(conn) => {
                    plain.push(BatchEntry { conn, input, out, step: *step });
                    steps.push(step);
                }
                EitherConnection::Tls(conn) => *step = self.tls.on_input(conn, input, now, out),
            }
        }
        if !plain.is_empty() {
            self.inner().on_ready(&mut plain, now);
        }
        for (step, entry) in steps.into_iter().zip(&plain) {
            *step = entry.step;
        }
    }

    fn on_end(&self, conn: &mut EitherConnection<P>, now: Now, out: &mut Outbox) -> Flow {
        match conn {
            EitherConnection::Plain(conn) if P::STREAMS => self.inner().on_end(conn, now, out),
            EitherConnection::Plain(_) => Flow::Open,
            EitherConnection::Tls(conn) => self.tls.on_end(conn, now, out),
        }
    }

    fn deadline(&self, conn: &EitherConnection<P>, quiet_since: Instant) -> Option<Instant> {
        match conn {
            EitherConnection::Plain(conn) => self.inner().deadline(conn, quiet_since),
            EitherConnection::Tls(conn) => self.tls.deadline(conn, quiet_since),
        }
    }

    fn on_deadline(&self, conn: &mut EitherConnection<P>, now: Now, out: &mut Outbox) -> Flow {
        match conn {
            EitherConnection::Plain(conn) => self.inner().on_deadline(conn, now, out),
            EitherConnection::Tls(conn) => self.tls.on_deadline(conn, now, out),
        }
    }

    fn on_sent(&self, conn: &mut EitherConnection<P>, out: &Outbox, clock: fn() -> Now) {
        match conn {
            EitherConnection::Plain(conn) => self.inner().on_sent(conn, out, clock),
            EitherConnection::Tls(conn) => self.tls.on_sent(conn, out, clock),
        }
    }

    fn retire(&self, conn: &mut EitherConnection<P>) -> bool {
        match conn {
            EitherConnection::Plain(conn) => self.inner().retire(conn),
            EitherConnection::Tls(conn) => self.tls.retire(conn),
        }
    }

    /// Nothing is known of a peer that is refused: where there are plain addresses, it is told in the clear.
    fn refusal(&self) -> &[u8] {
        if self.plain == 0 { REFUSAL } else { self.inner().refusal() }
    }
}
