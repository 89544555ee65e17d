//! The protocol: requests in, responses out.
//!
//! The path of a cached GET is `inline(always)`, for the reason given in [`wire::http1::request`].

use std::time::{Duration, Instant};

use proto::{Flow, Now, Outbox, Peer, Protocol, Step};
use wire::http1::{
    Body as RequestBody, Connection, HeadLimits, HeadParser, Method, Part, Prepared, Refusal, Request, Status, Target,
    Version,
    conditional::{self, Verdict},
    skip_empty_lines,
};

use crate::{
    page::{self, Pages},
    representation::{Body, Representation},
    site::{Absence, Site},
    statistics::{Statistics, Tally, Totals},
};

/// How long a connection may take and how much it may say.
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    /// From the first byte of a request to the end of its head, however its bytes trickle in.
    pub request_timeout: Duration,
    /// Between a response and the next request.
    pub idle_timeout: Duration,
    pub head: HeadLimits,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            head: HeadLimits::default(),
        }
    }
}

/// A web server for the files of one directory tree.
#[derive(Debug)]
pub struct HttpServer {
    site: Site,
    pages: Pages,
    refusal: Vec<u8>,
    options: HttpOptions,
    totals: Totals,
}

/// What is remembered of a connection between two looks at its input.
#[derive(Debug, Default)]
pub struct Conn {
    head: HeadParser,
    /// When the first byte of the request came that is not whole yet.
    started: Option<Instant>,
}

impl HttpServer {
    pub fn new(site: Site, options: HttpOptions) -> Self {
        Self { site, pages: Pages::new(), refusal: page::refusal(), options, totals: Totals::default() }
    }

    pub fn statistics(&self) -> Statistics {
        self.totals.sum().into()
    }
}

impl Protocol for HttpServer {
    type Conn = Conn;

    fn open(&self, _: Peer<'_>, _: Now) -> Conn {
        Conn::default()
    }

    fn on_input(&self, conn: &mut Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        let mut reply = Reply { server: self, now, out, tally: Tally::default() };
        let mut flow = Flow::Open;
        while flow == Flow::Open && !reply.out.is_full() {
            consumed += skip_empty_lines(&input[consumed..]);
            let rest = &input[consumed..];
            match conn.head.parse(rest, &self.options.head) {
                Ok(Some(request)) => {
                    consumed += request.head_len;
                    conn.started = None;
                    flow = reply.answer(&request, input.len() - consumed);
                }
                Ok(None) => {
                    conn.started = if rest.is_empty() { None } else { conn.started.or(Some(now.instant)) };
                    break;
                }
                Err(refusal) => flow = reply.refuse(refusal),
            }
        }
        reply.tally.add_to(&self.totals);
        Step { flow, ..Step::open(consumed) }
    }

    fn deadline(&self, conn: &Conn, quiet_since: Instant) -> Option<Instant> {
        let (since, patience) = match conn.started {
            Some(started) => (started, self.options.request_timeout),
            None => (quiet_since, self.options.idle_timeout),
        };
        // A patience too long to be added has no end.
        since.checked_add(patience)
    }

    fn on_deadline(&self, conn: &mut Conn, now: Now, out: &mut Outbox) -> Flow {
        if conn.started.is_none() {
            return Flow::Close;
        }
        let mut reply = Reply { server: self, now, out, tally: Tally::default() };
        reply.page(Status::RequestTimeout, Part::Whole, Connection::Close);
        reply.tally.add_to(&self.totals);
        Flow::Linger
    }

    fn refusal(&self) -> &[u8] {
        &self.refusal
    }
}

/// The responses to one batch of requests of one connection.
struct Reply<'a> {
    server: &'a HttpServer,
    now: Now,
    out: &'a mut Outbox,
    tally: Tally,
}

impl Reply<'_> {
    /// `unread` is how much input follows the request's head.
    #[inline(always)]
    fn answer(&mut self, request: &Request<'_>, unread: usize) -> Flow {
        // A body is not wanted by any method we know; its end would have to be found before the next request. So it is
        // left unread and the connection closed, which also answers `Expect: 100-continue` in time.
        let has_body = request.body != RequestBody::Empty;
        let connection = match request.version {
            _ if has_body || !request.keep_alive => Connection::Close,
            Version::Http10 => Connection::KeepAlive,
            Version::Http11 => Connection::Implied,
        };
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        match (request.method, request.target) {
            (Method::Get | Method::Head, Target::Path { path, encoded, .. }) => {
                self.file(request, path, encoded, part, connection);
            }
            (Method::Options, _) => self.page(Status::NoContent, part, connection),
            (Method::Unknown, _) => self.page(Status::NotImplemented, part, connection),
            _ => self.page(Status::MethodNotAllowed, part, connection),
        }
        match connection {
            Connection::Implied | Connection::KeepAlive => Flow::Open,
            Connection::Close if has_body || unread > 0 => Flow::Linger,
            Connection::Close => Flow::Close,
        }
    }

    #[inline(always)]
    fn file(&mut self, request: &Request<'_>, path: &[u8], encoded: bool, part: Part, connection: Connection) {
        let Self { server, now, .. } = *self;
        let send = |file: &Representation| self.send(file, request, part, connection);
        match server.site.with_file(path, encoded, now, send) {
            Ok(((), source)) => self.tally.source(source),
            Err(absence) => self.absent(absence, request, part, connection),
        }
    }

    #[inline(always)]
    fn send(&mut self, file: &Representation, request: &Request<'_>, part: Part, connection: Connection) {
        if request.conditional {
            match conditional::evaluate(request, file.validators()) {
                Verdict::Serve => {}
                Verdict::NotModified => return self.prepared(&file.not_modified, Part::Head, connection),
                Verdict::Failed => return self.page(Status::PreconditionFailed, part, connection),
            }
        }
        if part == Part::Head {
            return self.prepared(&file.ok, Part::Head, connection);
        }
        self.prepared(&file.ok, file.part(), connection);
        match &file.body {
            Body::Included => {}
            Body::Shared(bytes) => {
                self.tally.body(bytes.len() as u64);
                self.out.push_shared(bytes);
            }
            Body::File(region) => {
                self.tally.body(region.len);
                self.out.push_file(region.clone());
            }
        }
    }

    #[cold]
    fn absent(&mut self, absence: Absence, request: &Request<'_>, part: Part, connection: Connection) {
        match absence {
            Absence::Refused(status) => self.page(status, part, connection),
            Absence::Moved(path) => {
                let mut location = path.into_bytes();
                if let Target::Path { query: Some(query), .. } = request.target {
                    location.push(b'?');
                    location.extend_from_slice(query);
                }
                self.prepared(&page::moved(&location), part, connection);
            }
        }
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) -> Flow {
        self.page(refusal.status(), Part::Whole, Connection::Close);
        Flow::Linger
    }

    fn page(&mut self, status: Status, part: Part, connection: Connection) {
        self.prepared(self.server.pages.get(status), part, connection);
    }

    fn prepared(&mut self, prepared: &Prepared, part: Part, connection: Connection) {
        let bytes = prepared.push(part, connection, self.now.unix, self.out.inline());
        self.tally.response(prepared.status(), bytes);
    }
}
