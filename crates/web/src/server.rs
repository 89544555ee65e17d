//! Protocol of the server: requests in, responses out.
//!
//! The path of a cached GET is `inline(always)`, for the reason given in [`wire::http1::request`].

use std::{
    fmt,
    hash::RandomState,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::RwLock;
use proto::{Flow, Now, Outbox, Peer, Protocol, Step};
use wire::http1::{Body, Connection, HeadParser, Part, Refusal, Status, empty_lines_len};

use crate::{
    HttpOptions, Settings, Site, Statistics,
    cgi::Addresses,
    hosts::{Hosted, Hosts},
    page,
    responder::{Next, Responder},
    statistics::Totals,
    upload::{Pending, Verdict},
};

/// Web server for the files and resources of its virtual hosts.
#[derive(Debug)]
pub struct WebServer<S> {
    hosts: RwLock<Arc<Hosts<S>>>,
    /// Generation of `hosts`: connections look at it before each batch of input, and at `hosts` when it has changed.
    generation: AtomicU64,
    refusal: Vec<u8>,
    pub(crate) options: HttpOptions,
    totals: Totals,
    /// Key of multipart boundaries, so that nobody can foresee one and put it into a file.
    pub(crate) boundary_key: RandomState,
}

/// State of a connection between two batches of input.
pub struct Conn<S: Site> {
    /// Hosts as they were at the last batch of input.
    hosts: Arc<Hosts<S>>,
    /// Addresses, where programs may want them; boxed, since most servers have none.
    peer: Option<Box<Addresses>>,
    head: HeadParser,
    /// Arrival of the first byte of a request whose head is incomplete.
    head_started: Option<Instant>,
    /// Request whose body is arriving, or that waits for another thread; boxed, since most connections never have one.
    pending: Option<Box<Pending<S::Upload>>>,
    /// The next response is the last.
    is_retiring: bool,
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
            totals: Totals::default(),
            boundary_key: RandomState::new(),
        }
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
        *current = Arc::new(hosts);
    }

    /// Returns the state of a connection that has sent nothing yet.
    pub fn new_connection(&self) -> Conn<S> {
        Conn {
            hosts: self.hosts(),
            peer: None,
            head: HeadParser::default(),
            head_started: None,
            pending: None,
            is_retiring: false,
        }
    }

    /// Takes over the hosts that a reload has made. An upload ends on the host that it began on.
    #[cold]
    fn refresh(&self, conn: &mut Conn<S>) {
        if conn.pending.is_none() {
            conn.hosts = self.hosts();
        }
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
    }
}

impl<S: Site> WebServer<S> {
    /// Goes on with the request that is pending. Returns the number of bytes that are done with, and what follows; `None`
    /// before its body has arrived or its wait is over.
    #[cold]
    fn go_on(
        &self,
        slot: &mut Option<Box<Pending<S::Upload>>>,
        is_retiring: bool,
        input: &[u8],
        responder: &mut Responder<'_, S>,
    ) -> (usize, Option<Flow>) {
        let Some(pending) = slot else { return (0, Some(Flow::Open)) };
        let (taken, verdict) = match pending.feed(input) {
            Ok((taken, Verdict::Incomplete)) => return (taken, None),
            Ok(outcome) => outcome,
            Err(error) => return (0, Some(responder.reject_body(error, pending.part()))),
        };
        let unread = input.len() - taken;
        let next = match slot.take().map(|pending| *pending) {
            None | Some(Pending::Discarded(_)) => Next::Flow(Flow::Open),
            Some(Pending::Upload(upload)) => Next::Flow(responder.finish_upload(upload, unread)),
            Some(Pending::Program(upload)) => responder.begin_program(upload, unread),
            Some(Pending::Judged(body)) => self.answer_judged(&body.head, verdict, unread, is_retiring, responder),
            Some(Pending::Waiting(waiting)) => responder.finish_waiting(waiting, is_retiring),
        };
        (taken - next.held(), Some(follow(next, slot, is_retiring)))
    }

    /// Answers the request with this head, whose body has been judged.
    fn answer_judged(
        &self,
        head: &[u8],
        verdict: Verdict,
        unread: usize,
        is_retiring: bool,
        responder: &mut Responder<'_, S>,
    ) -> Next<S> {
        match HeadParser::default().parse(head, &self.options.head) {
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

impl<S: Site> Protocol for WebServer<S> {
    type Conn = Conn<S>;

    fn open(&self, peer: Peer<'_>, _: Now) -> Self::Conn {
        let mut conn = self.new_connection();
        conn.peer = conn.hosts.have_programs().then(|| Box::new(Addresses::of(&peer)));
        conn
    }

    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        if conn.hosts.generation != self.generation.load(Ordering::Acquire) {
            self.refresh(conn);
        }
        let mut responder = Responder::new(self, conn.hosts.default_host(), conn.peer.as_deref(), now, out);
        let mut flow = Flow::Open;
        while flow == Flow::Open && !responder.out.is_full() {
            if conn.pending.is_some() {
                let (taken, next) = self.go_on(&mut conn.pending, conn.is_retiring, &input[consumed..], &mut responder);
                consumed += taken;
                match next {
                    None => break,
                    Some(next) => flow = next,
                }
                continue;
            }
            consumed += empty_lines_len(&input[consumed..]);
            let rest = &input[consumed..];
            match conn.head.parse(rest, &self.options.head) {
                Ok(Some(mut request)) => {
                    request.should_keep_alive &= !conn.is_retiring;
                    consumed += request.head_len;
                    conn.head_started = None;
                    let unread = input.len() - consumed;
                    let next = match request.body {
                        Body::Empty => responder.handle_request(&request, &rest[..request.head_len], unread),
                        Body::Length(_) | Body::Chunked => {
                            responder.handle_request_with_body(&request, &rest[..request.head_len], unread)
                        }
                    };
                    consumed -= next.held();
                    flow = follow(next, &mut conn.pending, conn.is_retiring);
                }
                Ok(None) => {
                    conn.head_started = if rest.is_empty() { None } else { conn.head_started.or(Some(now.instant)) };
                    break;
                }
                Err(refusal) => flow = responder.refuse(refusal),
            }
        }
        responder.tally.add_to(&self.totals);
        responder.host.site.on_responses(responder.tally.responses(), now);
        Step { flow, ..Step::open(consumed) }
    }

    /// The next response says `Connection: close`.
    fn retire(&self, conn: &mut Self::Conn) -> bool {
        conn.is_retiring = true;
        conn.pending.as_ref().is_none_or(|pending| pending.is_answered()) && conn.head_started.is_none()
    }

    fn deadline(&self, conn: &Self::Conn, quiet_since: Instant) -> Option<Instant> {
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
        match (conn.pending.take(), conn.head_started) {
            (None, None) => return Flow::Close,
            (Some(pending), _) if pending.is_answered() => return Flow::Linger,
            (Some(_), _) | (None, Some(_)) => {}
        }
        let mut responder = Responder::new(self, conn.hosts.default_host(), conn.peer.as_deref(), now, out);
        responder.send_status(Status::RequestTimeout, None, Part::Whole, Connection::Close);
        responder.tally.add_to(&self.totals);
        Flow::Linger
    }

    fn refusal(&self) -> &[u8] {
        &self.refusal
    }
}
