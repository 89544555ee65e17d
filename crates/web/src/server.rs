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
use wire::http1::{Connection, HeadParser, Part, Status, empty_lines_len};

use crate::{
    HttpOptions, Observer, Settings, Site, Statistics,
    hosts::{Hosted, Hosts},
    observer::ObservedRequests,
    page,
    responder::{Next, Responder, Waited},
    statistics::{Tally, Totals},
    upload::Upload,
};

/// Web server for the files and resources of its virtual hosts.
#[derive(Debug)]
pub struct WebServer<S> {
    hosts: RwLock<Arc<Hosts<S>>>,
    /// Generation of `hosts`: connections look at it before each batch of input, and at `hosts` when it has changed.
    generation: AtomicU64,
    refusal: Vec<u8>,
    options: HttpOptions,
    totals: Totals,
    /// `None`: nobody is interested in single requests.
    pub(crate) observer: Option<Arc<Observer>>,
    /// Key of multipart boundaries, so that nobody can foresee one and put it into a file.
    pub(crate) boundary_key: RandomState,
}

/// State of a connection between two batches of input.
pub struct Conn<S: Site> {
    /// Hosts as they were at the last batch of input.
    hosts: Arc<Hosts<S>>,
    head: HeadParser,
    /// Arrival of the first byte of a request whose head is incomplete.
    head_started: Option<Instant>,
    /// Request whose body is arriving; boxed, since most connections never have one.
    upload: Option<Box<Upload<S::Upload>>>,
    /// Number of the host that the upload is for.
    upload_host: usize,
    /// Responses that have not left; `None` where nobody observes them.
    observed: Option<Box<ObservedRequests>>,
    /// The next response is the last.
    is_retiring: bool,
    preparation: Preparation,
}

/// State of the representation that the next request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preparation {
    /// Nothing is known about the next request.
    Unknown,
    /// It is being made, and the request waits.
    Awaited(Waited),
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
            observer: None,
            boundary_key: RandomState::new(),
        }
    }

    /// Records requests from here on.
    #[must_use]
    pub fn with_observer(mut self, observer: Observer) -> Self {
        self.observer = observer.is_needed().then(|| Arc::new(observer));
        self
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
        let old = std::mem::replace(&mut *current, Arc::new(hosts));
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
            upload: None,
            upload_host: 0,
            observed: None,
            is_retiring: false,
            preparation: Preparation::Unknown,
        }
    }

    /// Takes over the hosts that a reload has made. An upload ends on the host that it began on.
    #[cold]
    fn refresh(&self, conn: &mut Conn<S>) {
        if conn.upload.is_none() {
            conn.hosts = self.hosts();
        }
    }

    pub fn statistics(&self) -> Statistics {
        self.totals.sum().into()
    }
}

impl<S: Site> Protocol for WebServer<S> {
    type Conn = Conn<S>;

    const OBSERVES_OUTPUT: bool = true;

    fn open(&self, peer: Peer<'_>, _: Now) -> Self::Conn {
        let observed = self.observer.as_ref().map(|observer| ObservedRequests::new(observer, peer));
        Conn { observed, ..self.new_connection() }
    }

    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        if conn.hosts.generation != self.generation.load(Ordering::Acquire) {
            self.refresh(conn);
        }
        let mut responder = Responder {
            server: self,
            host: conn.hosts.default_host(),
            now,
            out,
            tally: Tally::default(),
            waited: None,
        };
        if let Preparation::Awaited(waited) = conn.preparation {
            if responder.out.has_pending_replies() {
                return Step::open(0);
            }
            conn.preparation = Preparation::Unknown;
            responder.waited = Some(waited);
        }
        let (mut flow, mut host) = (Flow::Open, 0);
        while flow == Flow::Open && !responder.out.is_full() {
            if let Some(upload) = &mut conn.upload {
                match upload.feed(&input[consumed..]) {
                    Ok(taken) => consumed += taken,
                    Err(error) => {
                        flow = responder.reject_body(error, upload.part);
                        note_answer(conn.observed.as_mut(), &mut responder.tally);
                        continue;
                    }
                }
                if !upload.is_complete() {
                    break;
                }
                responder.host = conn.hosts.get(conn.upload_host);
                flow = conn
                    .upload
                    .take()
                    .map_or(Flow::Open, |upload| responder.finish_upload(*upload, input.len() - consumed));
                note_answer(conn.observed.as_mut(), &mut responder.tally);
                continue;
            }
            consumed += empty_lines_len(&input[consumed..]);
            let rest = &input[consumed..];
            match conn.head.parse(rest, &self.options.head) {
                Ok(Some(mut request)) => {
                    request.should_keep_alive &= !conn.is_retiring;
                    if let Some(observed) = &mut conn.observed {
                        observed.begin(&request, rest, now);
                    }
                    consumed += request.head_len;
                    conn.head_started = None;
                    if conn.hosts.has_names() {
                        host = conn.hosts.select(rest, &request);
                        responder.host = conn.hosts.get(host);
                    }
                    match responder.handle_request(&request, input.len() - consumed) {
                        // It has not asked for the end, and may be sending its next request.
                        Next::Flow(Flow::Close) if conn.is_retiring => flow = Flow::Linger,
                        Next::Flow(next) => flow = next,
                        Next::Upload(upload) => {
                            (conn.upload, conn.upload_host) = (Some(upload), host);
                            continue;
                        }
                        Next::Wait(waited) => {
                            consumed -= request.head_len;
                            conn.preparation = Preparation::Awaited(waited);
                            if let Some(observed) = &mut conn.observed {
                                observed.postpone();
                            }
                            break;
                        }
                    }
                    note_answer(conn.observed.as_mut(), &mut responder.tally);
                }
                Ok(None) => {
                    conn.head_started = if rest.is_empty() { None } else { conn.head_started.or(Some(now.instant)) };
                    break;
                }
                Err(refusal) => {
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

    /// The next response says `Connection: close`.
    fn retire(&self, conn: &mut Self::Conn) -> bool {
        conn.is_retiring = true;
        conn.upload.is_none() && conn.head_started.is_none()
    }

    fn deadline(&self, conn: &Self::Conn, quiet_since: Instant) -> Option<Instant> {
        let (since, timeout) = match (&conn.upload, conn.head_started) {
            (Some(upload), _) => (upload.started, self.options.upload_timeout),
            (None, Some(started)) => (started, self.options.request_timeout),
            (None, None) => (quiet_since, self.options.idle_timeout),
        };
        // A timeout too long to be added never ends.
        since.checked_add(timeout)
    }

    fn on_deadline(&self, conn: &mut Self::Conn, now: Now, out: &mut Outbox) -> Flow {
        if conn.head_started.is_none() && conn.upload.is_none() {
            return Flow::Close;
        }
        conn.upload = None;
        let mut responder = Responder {
            server: self,
            host: conn.hosts.default_host(),
            now,
            out,
            tally: Tally::default(),
            waited: None,
        };
        responder.send_status(Status::RequestTimeout, None, Part::Whole, Connection::Close);
        if let Some(observed) = &mut conn.observed {
            observed.timed_out(responder.tally.take_answer(), now);
        }
        responder.tally.add_to(&self.totals);
        Flow::Linger
    }

    fn on_sent(&self, conn: &mut Self::Conn, out: &Outbox, clock: fn() -> Now) {
        if let Some(observed) = &mut conn.observed {
            observed.sent(out, clock);
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
