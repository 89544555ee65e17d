//! The trait that a server implements.

use std::time::{Duration, Instant};

use crate::{Outbox, Peer, ProxyAddresses};

/// One reading of the clocks, taken by a driver once per batch of events.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub instant: Instant,
    /// Time since the Unix epoch.
    pub unix: Duration,
}

/// Facts that a layer below a protocol has agreed with the peer (TLS).
#[derive(Clone, Copy, Debug, Default)]
pub struct Secured<'a> {
    /// Name of the protocol to be spoken, by ALPN (RFC 7301).
    pub protocol: Option<&'a [u8]>,
    /// Name that the client asked for (SNI).
    pub server_name: Option<&'a str>,
    /// Certificate of the client, verified, in DER.
    pub client_certificate: Option<&'a [u8]>,
}

/// Decision about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Open,
    /// Close once the queued output has been sent.
    Close,
    /// Like `Close`, for a peer that may still be sending: its input is discarded for a while after the output, or the
    /// kernel would answer it with a reset that can overtake our last reply.
    Linger,
    /// Like `Linger`, unless the peer turns out to have all of the output already and to have said nothing more: then
    /// like `Close`, as no reset can take anything from it. For a peer that is not expected to say more, and may.
    CloseAfterAck,
    /// Close now; queued output is dropped.
    Abort,
}

/// The result of offering input to a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// Bytes of the requests that are done with. The session keeps the rest and offers it again.
    pub consumed: usize,
    pub flow: Flow,
    /// A hint: bytes that the torn request at the end still misses; 0 when unknown.
    pub need: usize,
}

impl Step {
    /// Step after which all whole requests are answered and the connection goes on.
    pub fn open(consumed: usize) -> Self {
        Self { consumed, flow: Flow::Open, need: 0 }
    }
}

/// One connection's share of a batch; see [`Protocol::on_ready`].
#[derive(Debug)]
pub struct BatchEntry<'a, C> {
    pub conn: &'a mut C,
    pub input: &'a [u8],
    pub out: &'a mut Outbox,
    /// Written by the protocol.
    pub step: Step,
}

/// A request/response protocol, shared by every thread of a server.
pub trait Protocol: Send + Sync + 'static {
    /// Parser state of one connection. `Send`, since a driver may move it between threads.
    type Conn: Send + 'static;

    /// Number of connections that one [`Protocol::on_ready`] call profits from. At 1 every connection is answered as
    /// soon as it has been read, which is best unless the protocol has memory latency to hide.
    const BATCH: usize = 1;

    /// True for a protocol that is told when its output has left: see [`Protocol::on_sent`]. For others that costs
    /// nothing.
    const OBSERVES_OUTPUT: bool = false;

    /// True for a protocol that has more to say than the requests at hand: one whose replies are made piece by piece, as
    /// the peer takes them. It is offered a turn, [`Protocol::on_input`] with whatever input is held, perhaps none,
    /// whenever output has been sent and there is room for more. It is also told the end of input
    /// ([`Protocol::on_end`]). A turn is a hint: there may be nothing to do.
    const STREAMS: bool = false;

    /// True for a protocol with output that no request asked for, which any thread pushes: see [`crate::Pusher`]. For
    /// others that costs nothing; of this one's connections those alone pay that take pushes
    /// ([`Outbox::take_pushes_of`]). Input is offered only when everything pushed before it is in the outbox.
    /// Not for a protocol that leaves a reply unfinished between two turns: a push would come into the middle of it.
    const PUSHES: bool = false;

    fn open(&self, peer: Peer<'_>, now: Now) -> Self::Conn;

    /// Returns true if replies of this connection may overtake a promise at the end of its queue
    /// ([`Outbox::withdraw_promise`]): whoever waits for that reads on meanwhile. Asked only where [`Protocol::STREAMS`] says
    /// that any may.
    #[inline]
    fn is_multiplexed(&self, conn: &Self::Conn) -> bool {
        let _ = conn;
        false
    }

    /// Notes that the server drains. Returns true if input is still to be taken, until the protocol ends the connection
    /// itself: a turn follows. By default the input ends. Called only where [`Protocol::STREAMS`] is raised.
    fn on_drain(&self, conn: &mut Self::Conn) -> bool {
        let _ = conn;
        false
    }

    /// Returns true if this connection is to have turns of its own; asked only where [`Protocol::STREAMS`] says that any may.
    /// One that says no is offered input alone, and told its end.
    #[inline]
    fn is_streaming(&self, conn: &Self::Conn) -> bool {
        let _ = conn;
        true
    }

    /// Notes that the connection is secured by a layer below; called before any input.
    fn on_secured(&self, conn: &mut Self::Conn, secured: Secured<'_>) {
        let _ = (conn, secured);
    }

    /// Notes for whom the peer speaks, which is a proxy that is trusted; called before any input.
    fn on_proxied(&self, conn: &mut Self::Conn, addresses: ProxyAddresses) {
        let _ = (conn, addresses);
    }

    /// Answers as many whole (pipelined) requests in `input` as `out` has room for.
    ///
    /// Must return early once [`Outbox::is_full`]; it is called again after the flush.
    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step;

    /// Answers the connections that became ready in one turn of an event loop, at most [`Protocol::BATCH`] at a time.
    /// Drivers that see one connection at a time call [`Protocol::on_input`] instead.
    fn on_ready(&self, entries: &mut [BatchEntry<'_, Self::Conn>], now: Now) {
        for entry in entries {
            entry.step = self.on_input(entry.conn, entry.input, now, entry.out);
        }
    }

    /// Notes that no more input will come, since the peer has closed its side or the server drains; only for a protocol
    /// that raises [`Protocol::STREAMS`]. Called once, when there is room; input that is held is still offered. Turns go
    /// on until one leaves nothing to be sent; then the connection is closed.
    fn on_end(&self, conn: &mut Self::Conn, now: Now, out: &mut Outbox) -> Flow {
        let _ = (conn, now, out);
        Flow::Open
    }

    /// Returns the time to call [`Protocol::on_deadline`]; called only while no output is pending, since a peer that
    /// still takes bytes is not idle, and one that takes none is cut off by the session.
    ///
    /// `quiet_since` is the last time a byte moved in either direction. Whether a connection that takes pushes may be idle
    /// for ever is the protocol's to say.
    fn deadline(&self, conn: &Self::Conn, quiet_since: Instant) -> Option<Instant> {
        let _ = (conn, quiet_since);
        None
    }

    fn on_deadline(&self, conn: &mut Self::Conn, now: Now, out: &mut Outbox) -> Flow {
        let _ = (conn, now, out);
        Flow::Abort
    }

    /// Notes that the kernel has taken output; what it has not is [`Outbox::unsent_bytes`]. Called only where
    /// [`Protocol::OBSERVES_OUTPUT`] says so, and only while nothing is in flight. `clock` reads the present time, which
    /// is later than that of the batch.
    fn on_sent(&self, conn: &mut Self::Conn, out: &Outbox, clock: fn() -> Now) {
        let _ = (conn, out, clock);
    }

    /// Notes that the connection has reached its greatest age ([`crate::Limits::age_max`]): the next reply is the last,
    /// and may say so. Returns true if no request has begun to arrive. May be called more than once.
    fn retire(&self, conn: &mut Self::Conn) -> bool {
        let _ = conn;
        true
    }

    /// Returns what a refused peer is sent, as far as one write goes, because the server is full.
    fn refusal(&self) -> &[u8] {
        b""
    }
}
