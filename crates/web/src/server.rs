//! Protocol of the server: requests in, responses out.
//!
//! The path of a cached GET is `inline(always)`, for the reason given in [`wire::http1::request`].

use std::{hash::RandomState, os::fd::AsFd, sync::Arc, time::Instant};

use proto::{Flow, Now, Outbox, Peer, Protocol, Step};
use sys::listen::Address;
use wire::http1::{Connection, HeadParser, Part, Status, empty_lines_len};

use crate::{
    HttpOptions, Observer, Site, Statistics,
    observer::ObservedRequests,
    page::{self, Pages},
    responder::{Next, Responder},
    statistics::{Tally, Totals},
    upload::Upload,
};

/// Web server for the files and resources of one site.
#[derive(Debug)]
pub struct WebServer<S> {
    pub(crate) site: S,
    pub(crate) pages: Pages,
    refusal: Vec<u8>,
    options: HttpOptions,
    totals: Totals,
    /// `None`: nobody is interested in single requests.
    pub(crate) observer: Option<Arc<Observer>>,
    /// Key of multipart boundaries, so that nobody can foresee one and put it into a file.
    pub(crate) boundary_key: RandomState,
}

/// State of a connection between two batches of input. `U` is [`Site::Upload`].
#[derive(Debug)]
pub struct Conn<U> {
    head: HeadParser,
    /// Arrival of the first byte of a request whose head is incomplete.
    head_started: Option<Instant>,
    /// Request whose body is arriving; boxed, since most connections never have one.
    upload: Option<Box<Upload<U>>>,
    /// Responses that have not left; `None` where nobody observes them.
    observed: Option<Box<ObservedRequests>>,
    /// The next response is the last.
    is_retiring: bool,
}

impl<U> Default for Conn<U> {
    fn default() -> Self {
        Self { head: HeadParser::default(), head_started: None, upload: None, observed: None, is_retiring: false }
    }
}

impl<S: Site> WebServer<S> {
    pub fn new(site: S, options: HttpOptions) -> Self {
        Self {
            site,
            pages: Pages::new(),
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

    pub fn site(&self) -> &S {
        &self.site
    }

    pub fn statistics(&self) -> Statistics {
        self.totals.sum().into()
    }
}

impl<S: Site> Protocol for WebServer<S> {
    type Conn = Conn<S::Upload>;

    const OBSERVES_OUTPUT: bool = true;

    fn open(&self, peer: Peer<'_>, _: Now) -> Self::Conn {
        let observed = self.observer.as_ref().map(|observer| observed(observer, peer));
        Conn { observed, ..Conn::default() }
    }

    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        let mut responder = Responder { server: self, now, out, tally: Tally::default() };
        let mut flow = Flow::Open;
        while flow == Flow::Open && !responder.out.is_full() {
            if let Some(upload) = &mut conn.upload {
                match upload.feed(&input[consumed..]) {
                    Ok(taken) => consumed += taken,
                    Err(error) => {
                        flow = responder.reject_body(error, upload.part);
                        if let Some(observed) = &mut conn.observed {
                            observed.answered(responder.tally.take_answer());
                        }
                        continue;
                    }
                }
                if !upload.is_complete() {
                    break;
                }
                flow = conn
                    .upload
                    .take()
                    .map_or(Flow::Open, |upload| responder.finish_upload(*upload, input.len() - consumed));
                if let Some(observed) = &mut conn.observed {
                    observed.answered(responder.tally.take_answer());
                }
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
                    match responder.handle_request(&request, input.len() - consumed) {
                        // It has not asked for the end, and may be sending its next request.
                        Next::Flow(Flow::Close) if conn.is_retiring => flow = Flow::Linger,
                        Next::Flow(next) => flow = next,
                        Next::Upload(upload) => {
                            conn.upload = Some(upload);
                            continue;
                        }
                    }
                    if let Some(observed) = &mut conn.observed {
                        observed.answered(responder.tally.take_answer());
                    }
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
        self.site.on_responses(responder.tally.responses(), now);
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
        let mut responder = Responder { server: self, now, out, tally: Tally::default() };
        responder.send_page(Status::RequestTimeout, Part::Whole, Connection::Close);
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

#[cold]
fn observed(observer: &Arc<Observer>, peer: Peer<'_>) -> Box<ObservedRequests> {
    let client = match sys::socket::peer(peer.as_fd()) {
        Ok(Address::Tcp(address)) => address.ip().to_canonical().to_string(),
        Ok(Address::Unix(_)) => "unix:".to_owned(),
        Err(_) => "-".to_owned(),
    };
    Box::new(ObservedRequests::new(observer, client.into()))
}
