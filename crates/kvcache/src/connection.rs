//! One connection: the protocol spoken on it, and its client.

use std::time::Instant;

use proto::{Flow, Now, Outbox, ProxyAddresses, Step};
use store::Store;
use wire::{Detected, Detector, memcached::RequestParser as MemcachedParser, resp::RequestParser};

use crate::{
    events::{BegunRequest, ConnectionEvents},
    protocol::{memcached, resp, us::Us},
    state::{Client, ForwardedDialect, ForwardedRequest, Keyspace, Registration, ServerState},
};

/// First bytes of a TLS handshake (RFC 8446, section 5.1). No protocol of ours begins like that.
const TLS_HANDSHAKE: &[u8] = &[22, 3];
/// Bytes of input above which the byte that tells a client's protocol is not waited for.
const UNDECIDED_BYTES_MAX: usize = 64 * 1024;

/// Protocol spoken on a connection.
#[derive(Debug)]
pub(crate) enum Dialect {
    /// The first bytes decide.
    Undecided(Detector),
    Resp(RequestParser),
    Us(Us),
    Memcached(MemcachedParser),
}

/// Protocol spoken at a listening address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrontEnd {
    /// RESP or the 0x1F text protocol, as the first bytes say.
    #[default]
    Detect,
    /// The 0x1F text protocol, whatever the first bytes look like.
    Us,
    Memcached,
}

impl From<FrontEnd> for Dialect {
    fn from(front_end: FrontEnd) -> Self {
        match front_end {
            FrontEnd::Detect => Self::Undecided(Detector::default()),
            FrontEnd::Us => Self::Us(Us::default()),
            FrontEnd::Memcached => Self::Memcached(MemcachedParser::default()),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Conn<S: Store> {
    pub(crate) dialect: Dialect,
    /// True in the common case: nothing stands between a request on one key and the store. See [`Conn::refresh`].
    pub(crate) is_plain: bool,
    /// True if it would be plain, were there not the keys of a cluster's other nodes.
    pub(crate) is_plain_if_own: bool,
    /// Time of the first byte of a request that is not whole yet.
    started: Option<Instant>,
    /// Bytes of input that are held for later.
    input_bytes: usize,
    /// Events of a connection that is sampled.
    events: Option<Box<ConnectionEvents>>,
    pub(crate) client: Client<S>,
}

impl<S: Store + 'static> Conn<S> {
    /// Takes over what a proxy says of the client.
    pub(crate) fn set_proxied(&self, addresses: ProxyAddresses) {
        // There is one header on a connection.
        let _ = self.client.registration.profile().proxied.set(addresses);
    }

    pub(crate) fn new(dialect: Dialect, is_authenticated: bool, registration: Registration) -> Self {
        Self {
            dialect,
            is_plain: false,
            is_plain_if_own: false,
            started: None,
            input_bytes: 0,
            events: None,
            client: Client::new(is_authenticated, registration),
        }
    }

    /// Has events of this connection written, if there are any.
    pub(crate) fn with_events(self, events: Option<Box<ConnectionEvents>>) -> Self {
        Self { events, ..self }
    }

    /// Returns a connection that no peer has, for commands that run on another thread than their own connection's.
    pub(crate) fn detached(state: &ServerState<S>) -> Self {
        let registration = state.clients.unlisted();
        let client = Client::detached(registration);
        Self {
            dialect: Dialect::Resp(RequestParser::default()),
            is_plain: false,
            is_plain_if_own: false,
            started: None,
            input_bytes: 0,
            events: None,
            client,
        }
    }

    /// Returns a connection that no peer has, for a request that another process forwards.
    pub(crate) fn forwarded(state: &ServerState<S>, request: &ForwardedRequest) -> Self {
        let dialect = match request.dialect {
            ForwardedDialect::Resp => Dialect::Resp(RequestParser::default()),
            ForwardedDialect::Us => Dialect::Us(Us::default()),
            ForwardedDialect::Memcached => Dialect::Memcached(MemcachedParser::default()),
        };
        let mut conn = Self { dialect, ..Self::detached(state) };
        (conn.client.database, conn.client.version) = (request.database, request.version);
        conn
    }

    /// Updates [`Conn::is_plain`] and [`Conn::is_plain_if_own`]. Must be called after everything that may change it.
    pub(crate) fn refresh(&mut self, state: &ServerState<S>) {
        let is_free = match &self.dialect {
            Dialect::Resp(_) => !self.client.is_in_transaction(),
            Dialect::Us(us) => !us.is_in_transaction(),
            Dialect::Memcached(_) => true,
            Dialect::Undecided(_) => false,
        };
        let is_plain =
            is_free && self.events.is_none() && self.client.database == 0 && self.client.is_plain(&state.clients);
        // The other protocols know of no cluster.
        let is_mapped = state.info.slot_map.is_some() && matches!(self.dialect, Dialect::Resp(_));
        (self.is_plain, self.is_plain_if_own) = (is_plain && !is_mapped, is_plain && is_mapped);
    }

    /// True if another thread may run the connection's commands.
    pub(crate) fn can_be_routed(&self, state: &ServerState<S>) -> bool {
        matches!(self.dialect, Dialect::Resp(_))
            && self.client.is_plain(&state.clients)
            && !self.client.is_in_transaction()
            && self.events.is_none()
    }

    /// True if the parser has read a part of the next request, so that nothing but the parser may read the rest.
    pub(crate) fn is_mid_request(&self) -> bool {
        matches!(&self.dialect, Dialect::Resp(parser) if parser.is_mid_request())
    }

    /// Returns the time of the first byte of a request that is not whole yet.
    pub(crate) fn started(&self) -> Option<Instant> {
        self.started
    }

    /// Answers the request that `input` begins with, whatever it is.
    pub(crate) fn handle_request(
        &mut self,
        state: &ServerState<S>,
        input: &[u8],
        keys: &mut Keyspace<'_, S>,
        now: Now,
        out: &mut Outbox,
    ) -> Step {
        if self.events.is_none() {
            return self.answer(state, input, keys, now, out);
        }
        let begun = BegunRequest::new(self.started.unwrap_or(now.instant), out);
        let step = self.answer(state, input, keys, now, out);
        if let Some(events) = &mut self.events {
            events.answered(&begun, (&self.dialect, &self.client), (input, step), now, out);
        }
        step
    }

    fn answer(
        &mut self,
        state: &ServerState<S>,
        input: &[u8],
        keys: &mut Keyspace<'_, S>,
        now: Now,
        out: &mut Outbox,
    ) -> Step {
        if self.is_held(state, out) {
            return Step::open(0);
        }
        let client = &mut self.client;
        let step = match &mut self.dialect {
            Dialect::Undecided(_) if input.starts_with(TLS_HANDSHAKE) => {
                tracing::debug!("a client speaks TLS to a plain address");
                return Step { flow: Flow::Close, ..Step::open(input.len()) };
            }
            Dialect::Undecided(detector) => {
                // No further, so that fragmentation cannot change the result.
                let start = &input[..input.len().min(UNDECIDED_BYTES_MAX + 1)];
                self.dialect = match detector.detect(start) {
                    Detected::Us => Dialect::Us(Us::default()),
                    Detected::Resp => Dialect::Resp(RequestParser::default()),
                    // Only the 0x1F text protocol has longer requests that begin with neither, and only this one. What is
                    // too long for RESP is refused by its parser, as is whatever is long before authentication.
                    Detected::Unknown if input.len() > UNDECIDED_BYTES_MAX => {
                        match client.is_authenticated && input.starts_with(b"SET ") {
                            true => Dialect::Us(Us::default()),
                            false => Dialect::Resp(RequestParser::default()),
                        }
                    }
                    Detected::Unknown => return Step::open(0),
                };
                self.refresh(state);
                return self.answer(state, input, keys, now, out);
            }
            Dialect::Resp(parser) => {
                let step = resp::handle_request(state, parser, client, input, keys, now, out);
                client.take_pushes(out);
                step
            }
            Dialect::Us(us) => us.handle_request(state, client, input, keys, out),
            Dialect::Memcached(parser) => memcached::handle_request(state, parser, client, input, keys, out),
        };
        if step.consumed > 0 {
            self.refresh(state);
        }
        step
    }

    /// True if the connection has to wait: for a reply that is to come, or for the end of CLIENT PAUSE if the dialect has
    /// no commands that could be let through.
    #[inline]
    fn is_held(&mut self, state: &ServerState<S>, out: &mut Outbox) -> bool {
        let client = &mut self.client;
        client.is_held &= out.has_pending_replies();
        if client.change.is_some() && !client.is_held {
            client.apply_change();
        }
        let pauses_by_command = matches!(self.dialect, Dialect::Resp(_) | Dialect::Undecided(_));
        let must_wait = || state.clients.are_paused() && !client.is_detached && !state.clients.pause.is_handed_over();
        client.is_held || !pauses_by_command && must_wait() && client.hold(&state.clients, out)
    }

    /// Notes that output has been sent.
    #[inline]
    pub(crate) fn after_send(&mut self, out: &Outbox) {
        if let Some(events) = &mut self.events {
            events.sent(out);
        }
        self.count_buffers(out);
    }

    /// Counts the bytes of the connection's buffers. Must be called after each batch, with the output in the outbox.
    #[inline]
    pub(crate) fn count_buffers(&mut self, out: &Outbox) {
        // What a driver has taken to send it stays counted until it has been sent.
        if !out.has_in_flight() {
            self.client.registration.set_buffer_bytes(self.input_bytes + self.client.queued_bytes() + out.held_bytes());
        }
    }

    /// Updates what depends on time, after `input` has been read with the result `step`.
    pub(crate) fn after_input(&mut self, input: &[u8], step: &mut Step, out: &Outbox, now: Now) {
        let is_torn = step.consumed < input.len() && !out.is_full() && !out.has_pending_replies();
        self.started = if is_torn { self.started.or(Some(now.instant)) } else { None };
        self.client.registration.set_last_batch(now);
        self.input_bytes = input.len() - step.consumed;
        // Replies may be empty, and those are never sent.
        if let Some(events) = &mut self.events {
            events.sent(out);
        }
        if self.client.registration.is_killed() {
            step.flow = Flow::Abort;
        }
    }
}
