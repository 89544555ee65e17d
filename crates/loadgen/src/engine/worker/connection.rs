//! One connection slot. The slot stays; the sockets in it come and go.

use rustix::fd::OwnedFd;

use super::{dialer::DialState, kernel::Link, pipeline::Pipeline};
use crate::{clock::Nanos, protocol::ClientProtocol};

/// State of a slot, in parts that belong to one part of the worker each.
#[derive(Debug)]
pub(super) struct Connection<P: ClientProtocol> {
    /// The kernel's part.
    pub(super) link: Link,
    /// The dialer's part.
    pub(super) dial: DialState,
    /// The issuer's part.
    pub(super) pipeline: Pipeline<P::Request>,
    pub(super) decoder: P::Conn,
    /// The protocol's greeting has been answered, or there is none.
    pub(super) is_greeted: bool,
    /// Time since when the server has allowed no request, as far as deadlines have been looked at.
    pub(super) refused_since: Option<Nanos>,
    /// Time at which requests could first be sent on the socket.
    pub(super) opened_at: Nanos,
    /// The slot is among those that the issuer chooses from (open loop).
    pub(super) is_listed: bool,
}

impl<P: ClientProtocol> Connection<P> {
    pub(super) fn new(slot: usize, decoder: P::Conn, batches: usize, reps: Option<u64>, lifetime: Option<u64>) -> Self {
        Self {
            link: Link::new(slot),
            dial: DialState::default(),
            pipeline: Pipeline::new(batches, reps).with_lifetime(lifetime),
            decoder,
            is_greeted: false,
            refused_since: None,
            opened_at: 0,
            is_listed: false,
        }
    }

    /// Returns true if another batch may be sent now, `batches` being the limit of those in flight.
    #[inline]
    pub(super) fn has_room(&self, batches: usize) -> bool {
        self.dial.is_open()
            && !self.link.is_write_broken()
            && self.pipeline.has_room(batches.min(P::room(&self.decoder)))
    }

    /// Gives up the socket and all that belongs to it but the requests.
    pub(super) fn clear(&mut self, decoder: P::Conn) -> Option<OwnedFd> {
        self.decoder = decoder;
        self.is_greeted = false;
        self.refused_since = None;
        self.pipeline.take_partial();
        self.pipeline.renew_lifetime();
        self.link.close()
    }
}
