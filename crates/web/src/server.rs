//! Protocol of the server: requests in, responses out.
//!
//! The path of a cached GET is `inline(always)`, for the reason given in [`wire::http1::request`].

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
use wire::{
    http1::{Body, Connection, HeadLimits, HeadParser, Method, Part, Refusal, Status, empty_lines_len},
    http2::{ErrorCode, PREFACE, push_goaway},
};

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
    upload::{Pending, Verdict},
    writer::{Http1, Writer},
};

/// Longest first line of a client that speaks another protocol, in bytes.
const FOREIGN_LINE_MAX: usize = 80;
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

impl<S: Site> Conn<S> {
    /// Takes over what may have changed since the stream before.
    pub(crate) fn renew(&mut self, of: &Self) {
        if self.hosts.generation != of.hosts.generation {
            self.hosts = Arc::clone(&of.hosts);
        }
        self.observed = of.observed.as_ref().map(|observed| observed.of_stream());
        self.checks = of.checks;
        self.note_checks();
    }

    /// True if nothing is left of the request before.
    pub(crate) fn is_reusable(&self) -> bool {
        self.pending.is_none() && matches!(self.mode, Mode::Ready) && !self.head.is_mid_request()
    }

    /// Ends the wait for a representation. Returns how long that has been, where there was one.
    pub(crate) fn take_waited(&mut self) -> Option<Waited> {
        let Mode::Awaited(waited) = self.mode else { return None };
        self.mode = Mode::Ready;
        Some(waited)
    }
}

/// What is checked before a request of a connection is answered, beside the rules of its host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checks {
    /// It is sent to an address with TLS, whatever it is for.
    pub(crate) is_redirected: bool,
    /// Client whose rate of requests is limited.
    pub(crate) client: Option<ClientKey>,
}

impl<S: Site> Conn<S> {
    /// Decides whether requests have to be looked at before they are answered; so one without rules costs one comparison.
    fn note_checks(&mut self) {
        let Checks { is_redirected, client } = self.checks;
        self.has_checks = is_redirected || client.is_some() || self.hosts.have_rules();
    }
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
    /// Goes on with the request that is pending. Returns the number of bytes that are done with, and what follows; `None`
    /// before its body has arrived or its wait is over.
    #[cold]
    fn go_on<W: Writer>(
        &self,
        slot: &mut Option<Box<Pending<S::Upload>>>,
        is_retiring: bool,
        input: &[u8],
        responder: &mut Responder<'_, S, W>,
    ) -> (usize, Option<Flow>) {
        let Some(pending) = slot else { return (0, Some(Flow::Open)) };
        let (taken, verdict) = match pending.feed(input) {
            Ok((taken, Verdict::Incomplete)) => return (taken, None),
            Ok(outcome) => outcome,
            Err(error) => return (0, Some(responder.reject_body(error, pending.part()))),
        };
        let unread = input.len() - taken;
        responder.can_prepare = false; // The head is not in the input any more.
        let next = match slot.take().map(|pending| *pending) {
            None | Some(Pending::Discarded(_)) => Next::Flow(Flow::Open),
            Some(Pending::Upload(upload)) => Next::Flow(responder.finish_upload(upload, unread)),
            Some(Pending::Program(upload)) => responder.begin_program(upload, unread),
            Some(Pending::Judged(body)) => self.answer_judged(&body.head, verdict, unread, is_retiring, responder),
            Some(Pending::Waiting(waiting)) => responder.finish_waiting(waiting, is_retiring),
        };
        responder.can_prepare = true;
        (taken - next.held(), Some(follow(next, slot, is_retiring)))
    }

    /// Answers the request with this head, whose body has been judged.
    fn answer_judged<W: Writer>(
        &self,
        head: &[u8],
        verdict: Verdict,
        unread: usize,
        is_retiring: bool,
        responder: &mut Responder<'_, S, W>,
    ) -> Next<S> {
        match HeadParser::default().parse(head, self.head_limits::<W>()) {
            Ok(Some(mut request)) => {
                request.should_keep_alive &= !is_retiring;
                request.body = Body::Empty;
                match verdict {
                    Verdict::TooLong => responder.answer_last(&request, head),
                    Verdict::Complete | Verdict::Incomplete => responder.handle_rare_request(&request, head, unread),
                }
            }
            // It was whole and well-formed before.
            Ok(None) => Next::Flow(responder.refuse(Refusal::Malformed)),
            Err(refusal) => Next::Flow(responder.refuse(refusal)),
        }
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

    /// Does what has to be done before requests of HTTP/1 are read. Returns how long the first of them has waited.
    ///
    /// # Errors
    /// There are none to be read: this step is all.
    #[cold]
    #[inline(never)]
    fn begin_turn(&self, conn: &mut Conn<S>, input: &[u8], now: Now, out: &mut Outbox) -> Result<Option<Waited>, Step> {
        match conn.mode {
            Mode::Ready => return Ok(None),
            Mode::Awaited(_) if out.has_pending_replies() => return Err(Step::open(0)),
            Mode::Awaited(_) => return Ok(conn.take_waited()),
            Mode::Fresh if input.len() < PREFACE.len() && PREFACE.starts_with(input) => {
                conn.head_started = if input.is_empty() { None } else { conn.head_started.or(Some(now.instant)) };
                return Err(Step::open(0));
            }
            Mode::Fresh if input.starts_with(PREFACE) => {
                conn.head_started = None;
                conn.mode = Mode::Http2(Box::default());
            }
            // Its first line decides.
            Mode::Fresh => match memchr::memchr(b'\n', input) {
                Some(end) if is_foreign(&input[..end]) => {
                    push_goaway(0, ErrorCode::ProtocolError, out.inline());
                    return Err(Step { flow: Flow::Linger, ..Step::open(input.len()) });
                }
                Some(_) => {
                    conn.mode = Mode::Ready;
                    return Ok(None);
                }
                None => return Ok(None),
            },
            Mode::Http2(_) => {}
        }
        // It is away from the connection meanwhile, since streams are given what they need of that.
        let Mode::Http2(mut multiplexer) = mem::replace(&mut conn.mode, Mode::Ready) else { return Ok(None) };
        let step = multiplexer.turn(self, conn, input, now, out);
        conn.mode = Mode::Http2(multiplexer);
        Err(step)
    }

    /// Returns the state of a new stream of a connection.
    pub(crate) fn new_stream(&self, conn: &Conn<S>) -> Conn<S> {
        Conn {
            hosts: Arc::clone(&conn.hosts),
            head: HeadParser::default(),
            head_started: None,
            peer: conn.peer.clone(),
            pending: None,
            pending_host: 0,
            observed: conn.observed.as_ref().map(|observed| observed.of_stream()),
            is_retiring: false,
            checks: conn.checks,
            has_checks: conn.has_checks,
            mode: Mode::Ready,
        }
    }

    /// Answers a request whose body has not arrived in time.
    pub(crate) fn time_out<W: Writer>(&self, conn: &mut Conn<S>, now: Now, out: &mut Outbox, writer: &mut W) {
        let mut responder = Responder::new(self, conn.hosts.default_host(), conn.peer.as_deref(), now, out, writer);
        responder.send_status(Status::RequestTimeout, None, Part::Whole, Connection::Close);
        if let Some(observed) = &mut conn.observed {
            observed.timed_out(responder.tally.take_answer(), now);
        }
        responder.tally.add_to(&self.totals);
    }

    /// Refuses a request of HTTP/2 whose head is too large to be read.
    pub(crate) fn refuse_stream<W: Writer>(&self, conn: &mut Conn<S>, now: Now, out: &mut Outbox, writer: &mut W) {
        let mut responder = Responder::new(self, conn.hosts.default_host(), conn.peer.as_deref(), now, out, writer);
        responder.refuse(Refusal::FieldsTooLarge);
        if let Some(observed) = &mut conn.observed {
            observed.begin_refused(b"", now);
            observed.answered(responder.tally.take_answer());
        }
        responder.tally.add_to(&self.totals);
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

    fn on_secured(&self, conn: &mut Self::Conn, secured: Secured<'_>) {
        // Nobody else has them yet.
        if let Some(peer) = conn.peer.as_mut().and_then(Arc::get_mut) {
            peer.is_secure = true;
        }
        match secured.protocol {
            Some(b"h2") => conn.mode = Mode::Http2(Box::default()),
            Some(_) => conn.mode = Mode::Ready,
            None => {}
        }
    }

    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        if conn.hosts.generation != self.generation.load(Ordering::Acquire) {
            self.refresh(conn);
        }
        let waited = match conn.mode {
            Mode::Ready => None,
            Mode::Awaited(_) | Mode::Fresh | Mode::Http2(_) => match self.begin_turn(conn, input, now, out) {
                Err(step) => return step,
                Ok(waited) => waited,
            },
        };
        self.answer_requests(conn, waited, input, now, out, &mut Http1)
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

/// True for the first line of a client that speaks no version of HTTP/1: it takes an answer of HTTP/2 for what it is, and one
/// of HTTP/1 for noise.
fn is_foreign(line: &[u8]) -> bool {
    let Some(line) = line.strip_suffix(b"\r").filter(|line| line.len() <= FOREIGN_LINE_MAX) else { return false };
    let mut words = line.split(|&byte| byte == b' ');
    let (method, version) = (words.next().unwrap_or_default(), words.nth(1));
    let is_version = version.is_none_or(|version| version.starts_with(b"HTTP/"));
    // What is refused before its end is refused by the rules of HTTP/1, however it arrives.
    !is_version && !Method::is_known(method) && line.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b' ')
}
