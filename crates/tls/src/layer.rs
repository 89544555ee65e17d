//! The layer as a protocol of its own.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use proto::{Flow, Limits, Now, Outbox, Peer, Protocol, ProxyAddresses, Step};
use sys::ktls::Support;

use crate::{Config, Statistics, connection::Connection, files::Readers};

/// Connections of another protocol, over TLS.
pub struct Tls<P> {
    pub(crate) inner: Arc<P>,
    config: Arc<Config>,
    limits: Limits,
    handshake_max: Duration,
    pub(crate) answer_to_plain: &'static [u8],
    /// Ciphers of the kernel; none if it is not to encrypt.
    pub(crate) kernel_support: Option<Support>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) readers: Readers,
}

impl<P: Protocol> Tls<P> {
    /// Returns the layer around `inner`, whose sessions have these limits. A handshake must be complete after
    /// `handshake_max`.
    pub fn new(inner: Arc<P>, config: Arc<Config>, limits: Limits, handshake_max: Duration) -> Self {
        // A PROXY header comes before TLS: the session outside has read it.
        let limits = Limits { admission: None, ..limits };
        let (statistics, readers) = (Arc::default(), Readers::default());
        Self { inner, config, limits, handshake_max, answer_to_plain: b"", kernel_support: None, statistics, readers }
    }

    /// Sends these bytes, in the clear, to a client whose first byte is one of text and not of TLS; others are sent an
    /// alert.
    #[must_use]
    pub fn with_answer_to_plain(self, answer_to_plain: &'static [u8]) -> Self {
        Self { answer_to_plain, ..self }
    }

    /// Lets the kernel, which has these ciphers, encrypt what follows the beginning of a large file. The configuration must have
    /// been loaded with [`crate::Settings::allows_kernel`].
    #[must_use]
    pub fn with_kernel(self, support: Option<Support>) -> Self {
        Self { kernel_support: support, ..self }
    }

    /// Returns the protocol inside.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Returns the counts of handshakes, for metrics.
    pub fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(&self.statistics)
    }
}

impl<P: Protocol> Protocol for Tls<P> {
    type Conn = Connection<P>;

    const STREAMS: bool = true;
    const OBSERVES_OUTPUT: bool = P::OBSERVES_OUTPUT;
    const PUSHES: bool = P::PUSHES;

    fn open(&self, peer: Peer<'_>, now: Now) -> Connection<P> {
        let handshake_until = now.instant + self.handshake_max;
        Connection::new(self, self.config.current(), peer, self.limits, handshake_until, now)
    }

    fn is_multiplexed(&self, conn: &Connection<P>) -> bool {
        conn.inner.is_multiplexed(&self.inner)
    }

    fn on_drain(&self, conn: &mut Connection<P>) -> bool {
        conn.drain(self)
    }

    fn on_proxied(&self, conn: &mut Connection<P>, addresses: ProxyAddresses) {
        conn.inner.proxied(&self.inner, addresses);
    }

    fn on_input(&self, conn: &mut Connection<P>, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        conn.turn(self, input, now, out)
    }

    fn on_end(&self, conn: &mut Connection<P>, now: Now, out: &mut Outbox) -> Flow {
        conn.end(self, now, out)
    }

    /// Encrypted output is the inner protocol's no longer: it hears of it when all of that has been sent.
    fn on_sent(&self, conn: &mut Connection<P>, out: &Outbox, clock: fn() -> Now) {
        if out.is_idle() {
            conn.inner.report_sent(&self.inner, clock);
        }
    }

    fn deadline(&self, conn: &Connection<P>, _: Instant) -> Option<Instant> {
        conn.deadline(&self.inner)
    }

    fn on_deadline(&self, conn: &mut Connection<P>, now: Now, out: &mut Outbox) -> Flow {
        conn.expire(self, now, out)
    }

    /// The session inside says when it is over: only then is there a close_notify. It hears of this in the next turn.
    fn retire(&self, conn: &mut Connection<P>) -> bool {
        conn.is_retiring = true;
        false
    }
}
