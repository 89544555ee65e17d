//! Protocol of the server: requests in, responses out.
//!
//! The path of a cached GET is `inline(always)`, for the reason given in [`wire::http1::request`].

mod bodies;
mod checks;
mod turns;

use std::{
    fmt,
    hash::RandomState,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::RwLock;
use proto::{ClientKey, Flow, Now, Outbox, Peer, PeerAddress, Protocol, ProxyAddresses, Secured, Step};
use wire::http1::{Body, HeadLimits, HeadParser, empty_lines_len};

pub(crate) use self::checks::Checks;
use crate::{
    HttpOptions, Observer, RateLimiter, Settings, Site, Statistics,
    cgi::Addresses,
    hosts::{Hosted, Hosts},
    http2::Multiplexer,
    https::HttpsRedirect,
    observer::{LoggedNames, ObservedRequests},
    page,
    responder::{Next, Responder, Waited},
    statistics::{Tally, Totals},
    upload::Pending,
    writer::{Http1, Writer},
};

/// First bytes of a TLS handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: &[u8] = &[22, 3];

/// Web server for the files and resources of its virtual hosts.
#[derive(Debug)]
pub struct WebServer<S> {
    hosts: RwLock<Arc<Hosts<S>>>,
    /// Generation of `hosts`: connections look at it before each batch of input, and at `hosts` when it has changed.
    generation: AtomicU64,
    refusal: Vec<u8>,
    pub(crate) options: HttpOptions,
    /// Limits of the heads that are made of HTTP/2's fields.
    http2_head: HeadLimits,
    totals: Totals,
    /// `None`: nobody is interested in single requests.
    pub(crate) observer: Option<Arc<Observer>>,
    /// `None`: plain addresses are served like all others.
    pub(crate) https_redirect: Option<HttpsRedirect>,
    /// `None`: clients may ask as often as they like.
    pub(crate) rate: Option<RateLimiter>,
    /// Key of multipart boundaries, so that nobody can foresee one and put it into a file.
    pub(crate) boundary_key: RandomState,
}

/// State of a connection between two batches of input.
pub struct Conn<S: Site> {
    /// Hosts as they were at the last batch of input.
    hosts: Arc<Hosts<S>>,
    /// Addresses, where programs may want them; boxed, since most servers have none.
    peer: Option<Arc<Addresses>>,
    head: HeadParser,
    /// Arrival of the first byte of a request whose head is incomplete.
    head_started: Option<Instant>,
    /// Request whose body is arriving, or that waits for another thread; boxed, since most connections never have one.
    pub(crate) pending: Option<Box<Pending<S::Upload>>>,
    /// Number of the host that it is for.
    pending_host: usize,
    /// Responses that have not left; `None` where nobody observes them.
    pub(crate) observed: Option<Box<ObservedRequests>>,
    /// The next response is the last.
    pub(crate) is_retiring: bool,
    checks: Checks,
    /// Requests have to be looked at before they are answered.
    has_checks: bool,
    pub(crate) mode: Mode<S>,
}

/// State that decides what the next input means.
#[derive(Debug)]
pub(crate) enum Mode<S: Site> {
    /// Requests of HTTP/1.
    Ready,
    /// Nothing has been read: the client may begin with HTTP/2.
    Fresh,
    /// The representation that the next request wants is being made, and the request waits.
    Awaited(Waited),
    Http2(Box<Multiplexer<S>>),
}

impl<S: Site> fmt::Debug for Conn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generation = self.hosts.generation;
        f.debug_struct("Conn").field("generation", &generation).field("head", &self.head).finish_non_exhaustive()
    }
}

impl<S: Site> WebServer<S> {
    /// Serves one site with default settings, whatever host is asked for.
    pub fn new(site: S, options: HttpOptions) -> Self {
        Self::with_hosts(Hosts::new(Arc::new(Hosted::new(site, Arc::new(Settings::default())))), options)
    }

    /// Serves several hosts.
    pub fn with_hosts(hosts: Hosts<S>, options: HttpOptions) -> Self {
        Self {
            generation: AtomicU64::new(hosts.generation),
            hosts: RwLock::new(Arc::new(hosts)),
            refusal: page::refusal(),
            options,
            http2_head: HeadLimits { is_http2: true, ..options.head },
            totals: Totals::default(),
            observer: None,
            rate: None,
            https_redirect: None,
            boundary_key: RandomState::new(),
        }
    }

    /// Records requests from here on.
    #[must_use]
    pub fn with_observer(mut self, observer: Observer) -> Self {
        self.observer = observer.is_needed().then(|| Arc::new(observer));
        self
    }

    /// Sends the clients of plain addresses to https from here on.
    #[must_use]
    pub fn with_https_redirect(mut self, redirect: Option<HttpsRedirect>) -> Self {
        self.https_redirect = redirect;
        self
    }

    /// Limits the rate of requests of each client from here on.
    #[must_use]
    pub fn with_rate(self, rate: Option<RateLimiter>) -> Self {
        Self { rate, ..self }
    }

    /// Returns the hosts that are served now.
    pub fn hosts(&self) -> Arc<Hosts<S>> {
        Arc::clone(&self.hosts.read())
    }

    /// Serves other hosts from the next request of each connection on.
    pub fn replace_hosts(&self, mut hosts: Hosts<S>) {
        let mut current = self.hosts.write();
        hosts.generation = current.generation + 1;
        self.generation.store(hosts.generation, Ordering::Release);
        let old = mem::replace(&mut *current, Arc::new(hosts));
        drop(current);
        // An idle connection keeps the old hosts until its next request, but not what they hold.
        old.all().iter().for_each(|host| host.site.retire());
    }

    /// Returns the state of a connection that has sent nothing yet.
    pub fn new_connection(&self) -> Conn<S> {
        Conn {
            hosts: self.hosts(),
            head: HeadParser::default(),
            head_started: None,
            peer: None,
            pending: None,
            pending_host: 0,
            observed: None,
            is_retiring: false,
            checks: Checks::default(),
            has_checks: self.hosts.read().have_rules(),
            mode: Mode::Ready,
        }
    }

    /// Takes over the hosts that a reload has made. An upload ends on the host that it began on.
    #[cold]
    fn refresh(&self, conn: &mut Conn<S>) {
        if conn.pending.is_none() {
            conn.hosts = self.hosts();
            conn.note_checks();
        }
    }

    /// Returns the client as the limit of its rate counts it, where there is one.
    fn client(&self, address: PeerAddress) -> Option<ClientKey> {
        self.rate.as_ref().and_then(|_| Some(address.ip()?.into()))
    }

    pub fn statistics(&self) -> Statistics {
        self.totals.sum().into()
    }
}

/// Puts what follows a request into effect.
#[inline(always)]
fn follow<S: Site>(next: Next<S>, pending: &mut Option<Box<Pending<S::Upload>>>, is_retiring: bool) -> Flow {
    match next {
        // It has not asked for the end, and may be sending its next request.
        Next::Flow(Flow::Close) if is_retiring => Flow::Linger,
        Next::Flow(flow) => flow,
        Next::Body(body) => {
            *pending = Some(body);
            Flow::Open
        }
        Next::Wait(waiting) => {
            *pending = Some(Box::new(Pending::Waiting(*waiting)));
            Flow::Open
        }
        // Its request is read again.
        Next::Prepare(_) => Flow::Open,
    }
}

impl<S: Site> WebServer<S> {
    /// Answers the requests of a connection of HTTP/1, or that of a stream of HTTP/2.
    #[inline(always)]
    pub(crate) fn answer_requests<W: Writer>(
        &self,
        conn: &mut Conn<S>,
        waited: Option<Waited>,
        input: &[u8],
        now: Now,
        out: &mut Outbox,
        writer: &mut W,
    ) -> Step {
        let mut consumed = 0;
        let mut responder = Responder::new(self, conn.hosts.default_host(), conn.peer.as_deref(), now, out, writer);
        responder.waited = waited;
        let limits = self.head_limits::<W>();
        let (mut flow, mut host) = (Flow::Open, 0);
        while flow == Flow::Open && !responder.out.is_full() {
            if conn.pending.is_some() {
                responder.host = conn.hosts.get(conn.pending_host);
                let (taken, next) = self.go_on(&mut conn.pending, conn.is_retiring, &input[consumed..], &mut responder);
                consumed += taken;
                note_answer(conn.observed.as_mut(), &mut responder.tally);
                match next {
                    None => break,
                    Some(next) => flow = next,
                }
                continue;
            }
            consumed += empty_lines_len(&input[consumed..]);
            let rest = &input[consumed..];
            match conn.head.parse(rest, limits) {
                Ok(Some(mut request)) => {
                    request.should_keep_alive &= !conn.is_retiring;
                    consumed += request.head_len;
                    conn.head_started = None;
                    let (head, unread) = (&rest[..request.head_len], input.len() - consumed);
                    let next = if conn.has_checks {
                        host = conn.hosts.select(rest, &request);
                        responder.host = conn.hosts.get(host);
                        responder.handle_by_rules(&request, head, unread, conn.checks, conn.observed.as_mut())
                    } else {
                        if let Some(observed) = &mut conn.observed {
                            observed.begin(&request, head, LoggedNames::default(), now);
                        }
                        match request.body {
                            Body::Empty => responder.handle_request(&request, head, unread),
                            Body::Length(_) | Body::Chunked => {
                                responder.handle_request_with_body(&request, head, unread)
                            }
                        }
                    };
                    if let Next::Prepare(waited) = next {
                        consumed -= request.head_len;
                        conn.mode = Mode::Awaited(waited);
                        if let Some(observed) = &mut conn.observed {
                            observed.postpone();
                        }
                        break;
                    }
                    consumed -= next.held();
                    flow = follow(next, &mut conn.pending, conn.is_retiring);
                    conn.pending_host = host;
                    note_answer(conn.observed.as_mut(), &mut responder.tally);
                }
                Ok(None) => {
                    conn.head_started = if rest.is_empty() { None } else { conn.head_started.or(Some(now.instant)) };
                    break;
                }
                Err(refusal) => {
                    if rest.starts_with(TLS_HANDSHAKE) {
                        tracing::debug!("a client speaks TLS to a plain address");
                    }
                    flow = responder.refuse(refusal);
                    if let Some(observed) = &mut conn.observed {
                        observed.begin_refused(rest, now);
                        observed.answered(responder.tally.take_answer());
                    }
                }
            }
        }
        if let Some(observed) = &mut conn.observed {
            observed.after_input(consumed == input.len(), now);
        }
        responder.tally.add_to(&self.totals);
        responder.host.site.on_responses(responder.tally.responses(), now);
        Step { flow, ..Step::open(consumed) }
    }

    /// Returns the limits of the heads that this writer's requests have.
    #[inline(always)]
    pub(crate) fn head_limits<W: Writer>(&self) -> &HeadLimits {
        if W::IS_HTTP2 { &self.http2_head } else { &self.options.head }
    }
}

impl<S: Site> Protocol for WebServer<S> {
    type Conn = Conn<S>;

    const OBSERVES_OUTPUT: bool = true;
    /// Only a connection of HTTP/2 does.
    const STREAMS: bool = true;

    fn open(&self, peer: Peer<'_>, _: Now) -> Self::Conn {
        let is_redirected = self.https_redirect.as_ref().is_some_and(|redirect| peer.front_end < redirect.plain);
        let observed = self.observer.as_ref().map(|observer| ObservedRequests::new(observer, peer));
        let conn = self.new_connection();
        let client = self.rate.as_ref().and_then(|_| self.client(peer.address()));
        let peer = conn.hosts.have_programs().then(|| Arc::new(Addresses::of(peer)));
        let mode = if self.options.http2 { Mode::Fresh } else { Mode::Ready };
        let mut conn = Conn { observed, peer, checks: Checks { is_redirected, client }, mode, ..conn };
        conn.note_checks();
        conn
    }

    fn on_proxied(&self, conn: &mut Self::Conn, addresses: ProxyAddresses) {
        if let Some(observed) = &mut conn.observed {
            observed.set_client(addresses.client);
        }
        // Nobody else has them yet.
        if let Some(peer) = conn.peer.as_mut().and_then(Arc::get_mut) {
            peer.set_proxied(addresses);
        }
        conn.checks.client = self.client(addresses.client.into());
        conn.note_checks();
    }

    fn is_streaming(&self, conn: &Self::Conn) -> bool {
        matches!(conn.mode, Mode::Http2(_))
    }

    fn is_multiplexed(&self, conn: &Self::Conn) -> bool {
        self.is_streaming(conn)
    }

    fn on_drain(&self, conn: &mut Self::Conn) -> bool {
        match &mut conn.mode {
            Mode::Http2(multiplexer) => !multiplexer.retire(),
            Mode::Ready | Mode::Fresh | Mode::Awaited(_) => false,
        }
    }

    fn on_secured(&self, conn: &mut Self::Conn, secured: Secured<'_>) {
        // Nobody else has them yet.
        if let Some(peer) = conn.peer.as_mut().and_then(Arc::get_mut) {
            peer.is_secure = true;
        }
        match secured.protocol {
            Some(b"h2") => conn.mode = Mode::Http2(Box::new(Multiplexer::secured())),
            Some(_) => conn.mode = Mode::Ready,
            None => {}
        }
    }

    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        if conn.hosts.generation != self.generation.load(Ordering::Acquire) {
            self.refresh(conn);
        }
        match conn.mode {
            Mode::Ready => self.answer_requests(conn, None, input, now, out, &mut Http1),
            Mode::Awaited(_) | Mode::Fresh | Mode::Http2(_) => self.take_turn(conn, input, now, out),
        }
    }

    fn on_end(&self, conn: &mut Self::Conn, _: Now, out: &mut Outbox) -> Flow {
        match &mut conn.mode {
            Mode::Http2(multiplexer) => multiplexer.end(out),
            Mode::Ready | Mode::Fresh | Mode::Awaited(_) => Flow::Open,
        }
    }

    /// The next response says `Connection: close`.
    fn retire(&self, conn: &mut Self::Conn) -> bool {
        conn.is_retiring = true;
        if let Mode::Http2(multiplexer) = &mut conn.mode {
            return multiplexer.retire();
        }
        conn.pending.as_ref().is_none_or(|pending| pending.is_answered()) && conn.head_started.is_none()
    }

    fn deadline(&self, conn: &Self::Conn, quiet_since: Instant) -> Option<Instant> {
        if let Mode::Http2(multiplexer) = &conn.mode {
            return multiplexer.deadline(&self.options, quiet_since);
        }
        let body_started = conn.pending.as_ref().and_then(|pending| pending.started());
        let (since, timeout) = match (body_started, conn.head_started) {
            (Some(started), _) => (started, self.options.upload_timeout),
            (None, Some(started)) => (started, self.options.request_timeout),
            (None, None) => (quiet_since, self.options.idle_timeout),
        };
        // A timeout too long to be added never ends.
        since.checked_add(timeout)
    }

    fn on_deadline(&self, conn: &mut Self::Conn, now: Now, out: &mut Outbox) -> Flow {
        if let Mode::Http2(mut multiplexer) = mem::replace(&mut conn.mode, Mode::Ready) {
            let flow = multiplexer.expire(self, now, out);
            conn.mode = Mode::Http2(multiplexer);
            return flow;
        }
        match (conn.pending.take(), conn.head_started) {
            (None, None) => return Flow::Close,
            (Some(pending), _) if pending.is_answered() => return Flow::Linger,
            (Some(_), _) | (None, Some(_)) => {}
        }
        self.time_out(conn, now, out, &mut Http1);
        Flow::Linger
    }

    fn on_sent(&self, conn: &mut Self::Conn, out: &Outbox, clock: fn() -> Now) {
        match (&mut conn.observed, &mut conn.mode) {
            (None, _) => {}
            (Some(_), Mode::Http2(multiplexer)) => multiplexer.sent(out, clock),
            (Some(observed), _) => observed.sent(out.unsent_bytes(), clock),
        }
    }

    fn refusal(&self) -> &[u8] {
        &self.refusal
    }
}

/// Notes the response that has just been written, where anybody observes it.
#[inline(always)]
fn note_answer(observed: Option<&mut Box<ObservedRequests>>, tally: &mut Tally) {
    if let Some(observed) = observed {
        observed.answered(tally.take_answer());
    }
}
