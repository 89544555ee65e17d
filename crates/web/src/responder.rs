//! Writer of the responses to one batch of requests of one connection.

use std::borrow::Cow;

use proto::{Flow, Now, Outbox};
use wire::http1::{
    Body, Connection, Method, Part, PreparedResponse, Refusal, Request, Status, Target, Version,
    conditional::{self, Precondition},
};

use crate::{
    Response, Route, Site, WebServer,
    cgi::Addresses,
    hosts::Hosted,
    page,
    statistics::Tally,
    upload::{BodyError, DiscardedBody, JudgedBody, Pending, Upload, UploadRequest},
    waiting::Waiting,
};

/// Interim response that makes a client send the body that it holds back (RFC 9110, section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// See the module's description.
pub(crate) struct Responder<'a, S> {
    pub(crate) server: &'a WebServer<S>,
    /// Host of the request.
    pub(crate) host: &'a Hosted<S>,
    pub(crate) now: Now,
    pub(crate) out: &'a mut Outbox,
    pub(crate) tally: Tally,
    /// Local redirects that have led to the request.
    pub(crate) redirects: u8,
    pub(crate) peer: Option<&'a Addresses>,
}

/// Step that follows a request's head.
pub(crate) enum Next<S: Site> {
    /// The request has been answered, and its body, if it has one, has arrived.
    Flow(Flow),
    /// The body has to arrive.
    Body(Box<Pending<S::Upload>>),
    /// Another thread has to do its part. The last byte of the request stays in the input until then.
    Wait(Box<Waiting>),
}

impl<S: Site> Next<S> {
    /// Number of bytes of the request that stay in the input.
    #[inline(always)]
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Flow(_) | Self::Body(_) => 0,
            Self::Wait(_) => 1,
        }
    }
}

impl<'a, S: Site> Responder<'a, S> {
    #[inline(always)]
    pub(crate) fn new(
        server: &'a WebServer<S>,
        host: &'a Hosted<S>,
        peer: Option<&'a Addresses>,
        now: Now,
        out: &'a mut Outbox,
    ) -> Self {
        Self { server, host, now, out, tally: Tally::default(), redirects: 0, peer }
    }

    /// Answers a request whose body is empty, has arrived or is left unread, unless it is wanted and has to arrive first.
    /// `unread` is the length of the input behind what has been read of it.
    #[inline(always)]
    pub(crate) fn handle_request(&mut self, request: &Request<'_>, head: &[u8], unread: usize) -> Next<S> {
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        if let Target::Path { .. } = request.target {
            match self.host.site.route(request, self.now) {
                Route::File => {}
                Route::Respond(response) => {
                    let connection = requested_persistence(request);
                    self.respond(response, part, connection);
                    return Next::Flow(flow_of(connection, unread > 0));
                }
                Route::Upload { upload, bytes_max } => return self.begin_upload(request, upload, bytes_max, unread),
            }
        }
        let connection = requested_persistence(request);
        match (request.method, request.target) {
            (Method::Get | Method::Head, Target::Path { path, is_encoded, .. }) => {
                if let Some(waiting) = self.handle_file(request, path, is_encoded, head, part, connection) {
                    return Next::Wait(waiting);
                }
            }
            _ => {
                if let Some(waiting) = self.handle_other(request, head, part, connection) {
                    return Next::Wait(waiting);
                }
            }
        }
        Next::Flow(flow_of(connection, unread > 0))
    }

    /// [`Self::handle_request`] once more, for requests with a body.
    #[cold]
    #[inline(never)]
    pub(crate) fn handle_rare_request(&mut self, request: &Request<'_>, head: &[u8], unread: usize) -> Next<S> {
        self.handle_request(request, head, unread)
    }

    /// Answers a request with a method that files do not have.
    #[cold]
    fn handle_other(
        &mut self,
        request: &Request<'_>,
        head: &[u8],
        part: Part,
        connection: Connection,
    ) -> Option<Box<Waiting>> {
        if let Some(path) = self.program_path(request) {
            return self.run_program(&path, request, head, Vec::new(), part, connection);
        }
        let status = match request.method {
            Method::Options => Status::NoContent,
            Method::Unknown => Status::NotImplemented,
            Method::Get
            | Method::Head
            | Method::Post
            | Method::Put
            | Method::Delete
            | Method::Connect
            | Method::Trace
            | Method::Patch => Status::MethodNotAllowed,
        };
        self.send_status(status, path_of(request.target), part, connection);
        None
    }

    /// Answers a request with a body, or begins to read that: for whoever wants it, or to find its end.
    #[cold]
    pub(crate) fn handle_request_with_body(&mut self, request: &Request<'_>, head: &[u8], unread: usize) -> Next<S> {
        if let Target::Path { .. } = request.target
            && let Route::Upload { upload, bytes_max } = self.host.site.route(request, self.now)
        {
            return self.begin_upload(request, upload, bytes_max, unread);
        }
        if self.program_path(request).is_some() {
            return self.begin_program_upload(request, head);
        }
        // A client that waits for a 100 is told at once that its body is of no use.
        if request.version == Version::Http11 && expects_continue(request) {
            return self.answer_last(request, head);
        }
        match request.body {
            Body::Empty => self.handle_rare_request(request, head, unread),
            Body::Chunked => {
                let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
                Next::Body(Box::new(Pending::Judged(JudgedBody::new(head, part, self.now.instant))))
            }
            Body::Length(len) => match DiscardedBody::new(len, self.now.instant) {
                Some(body) if request.should_keep_alive => match self.handle_rare_request(request, head, unread) {
                    Next::Flow(Flow::Open) => Next::Body(Box::new(Pending::Discarded(body))),
                    Next::Wait(mut waiting) => {
                        waiting.body = Some(body);
                        Next::Wait(waiting)
                    }
                    next => next,
                },
                Some(_) | None => self.answer_last(request, head),
            },
        }
    }

    /// Answers the last request of a connection; its body is left unread.
    #[cold]
    pub(crate) fn answer_last(&mut self, request: &Request<'_>, head: &[u8]) -> Next<S> {
        let mut last = *request;
        last.should_keep_alive = false;
        match self.handle_rare_request(&last, head, 0) {
            Next::Flow(Flow::Close) => Next::Flow(Flow::Linger),
            next => next,
        }
    }

    #[inline(always)]
    fn handle_file(
        &mut self,
        request: &Request<'_>,
        path: &[u8],
        encoded: bool,
        head: &[u8],
        part: Part,
        connection: Connection,
    ) -> Option<Box<Waiting>> {
        let Self { host, now, .. } = *self;
        let send = |file: &S::File| self.send_file(file, request, part, connection);
        match host.site.with_file(path, encoded, now, send) {
            Ok((Sent::Response, lookup)) => {
                self.tally.lookup(lookup);
                None
            }
            Ok((Sent::Nothing(status), lookup)) => {
                self.tally.lookup(lookup);
                self.send_status(status, Some(path), part, connection);
                None
            }
            Err(not_found) => self.answer_without_file(not_found, path, request, head, part, connection),
        }
    }

    /// Answers with a file. A page for another status is left to the caller, since a cache may be locked meanwhile.
    #[inline(always)]
    fn send_file(&mut self, file: &S::File, request: &Request<'_>, part: Part, connection: Connection) -> Sent {
        let heads = S::heads(file);
        if request.is_conditional {
            match conditional::evaluate(request, heads.validators()) {
                Precondition::Met => {}
                Precondition::NotModified => {
                    self.send_prepared(&heads.not_modified, Part::Head, connection);
                    return Sent::Response;
                }
                Precondition::Failed => return Sent::Nothing(Status::PreconditionFailed),
            }
        }
        if part == Part::Head {
            self.send_prepared(&heads.ok, Part::Head, connection);
        } else if request.has_range {
            self.send_ranges(file, request, connection);
        } else {
            self.send_whole(file, connection);
        }
        Sent::Response
    }

    #[inline(always)]
    pub(crate) fn send_whole(&mut self, file: &S::File, connection: Connection) {
        let bytes = self.host.site.push_ok(file, connection, self.now, self.out);
        self.tally.response(Status::Ok, bytes);
    }

    /// Answers with the fallback where the site has one for such a path. Returns false if nothing has been sent.
    pub(crate) fn send_fallback(
        &mut self,
        path: &[u8],
        request: &Request<'_>,
        part: Part,
        connection: Connection,
    ) -> bool {
        let Self { host, now, .. } = *self;
        let Some(fallback) = host.settings.content.fallback_for(path, &host.settings.media_types) else { return false };
        let send = |file: &S::File| self.send_file(file, request, part, connection);
        match host.site.with_own_file(fallback, now, send) {
            Ok((sent, lookup)) => {
                self.tally.lookup(lookup);
                if let Sent::Nothing(status) = sent {
                    self.send_status(status, Some(path), part, connection);
                }
                true
            }
            Err(_) => false,
        }
    }

    // --- resources of the server's own ----------------------------------------------------

    #[cold]
    fn begin_upload(&mut self, request: &Request<'_>, state: S::Upload, bytes_max: usize, unread: usize) -> Next<S> {
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        let upload_request =
            UploadRequest { state, started: self.now.instant, connection: requested_persistence(request), part };
        let upload = match Upload::new(upload_request, request.body, bytes_max) {
            Ok(upload) => upload,
            Err(error) => return Next::Flow(self.reject_body(error, part)),
        };
        if upload.is_complete() {
            return Next::Flow(self.finish_upload(upload, unread));
        }
        self.send_continue(request);
        Next::Body(Box::new(Pending::Upload(upload)))
    }

    /// Begins to read the body of a request for a program.
    fn begin_program_upload(&mut self, request: &Request<'_>, head: &[u8]) -> Next<S> {
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        let (state, connection) = (head.into(), requested_persistence(request));
        let upload_request = UploadRequest { state, started: self.now.instant, connection, part };
        match Upload::new(upload_request, request.body, self.server.options.program_body_bytes_max) {
            Ok(upload) => {
                self.send_continue(request);
                Next::Body(Box::new(Pending::Program(upload)))
            }
            Err(error) => Next::Flow(self.reject_body(error, part)),
        }
    }

    /// Makes a client that waits for it send its body.
    fn send_continue(&mut self, request: &Request<'_>) {
        if request.version == Version::Http11 && expects_continue(request) {
            self.out.inline().extend_from_slice(CONTINUE);
            self.tally.interim(CONTINUE.len() as u64);
        }
    }

    /// Answers a request whose body is not read to its end.
    #[cold]
    pub(crate) fn reject_body(&mut self, error: BodyError, part: Part) -> Flow {
        self.send_status(error.status(), None, part, Connection::Close);
        Flow::Linger
    }

    /// Answers a request whose body has arrived. `unread` is the length of the input behind it.
    #[cold]
    pub(crate) fn finish_upload(&mut self, upload: Upload<S::Upload>, unread: usize) -> Flow {
        let response = self.host.site.on_upload(upload.state, upload.body, self.now);
        self.respond(response, upload.part, upload.connection);
        flow_of(upload.connection, unread > 0)
    }

    fn respond(&mut self, response: Response<'_>, part: Part, connection: Connection) {
        match response {
            Response::Prepared(Cow::Borrowed(prepared)) => self.send_prepared(prepared, part, connection),
            Response::Prepared(Cow::Owned(prepared)) => self.send_prepared(&prepared, part, connection),
            Response::Page(status) => self.send_status(status, None, part, connection),
        }
    }

    // --- pages ----------------------------------------------------------------------------

    #[cold]
    pub(crate) fn refuse(&mut self, refusal: Refusal) -> Flow {
        self.send_status(refusal.status(), None, Part::Whole, Connection::Close);
        Flow::Linger
    }

    /// Answers with the site's page for a status, or else with the built-in one. `path` is the request's, where it has one.
    #[cold]
    pub(crate) fn send_status(&mut self, status: Status, path: Option<&[u8]>, part: Part, connection: Connection) {
        let Self { host, now, .. } = *self;
        let content = &host.settings.content;
        if let Some(page) = content.error_page(status) {
            let send = |file: &S::File| self.send_error_page(status, file, part, connection);
            if let Ok(((), lookup)) = host.site.with_own_file(page, now, send) {
                return self.tally.lookup(lookup);
            }
        }
        if path.is_some() && content.fields_depend_on_path() {
            return self.send_prepared(&page::page(status, &content.fields_for(path)), part, connection);
        }
        self.send_prepared(host.pages.get(status), part, connection);
    }

    /// Sends a file with the status of an error: without validators, and without the Cache-Control that it has as a file.
    fn send_error_page(&mut self, status: Status, file: &S::File, part: Part, connection: Connection) {
        let heads = S::heads(file);
        let head = page::builder(status)
            .field("Content-Type", heads.media_type())
            .field("Content-Length", heads.size().to_string())
            .lines(heads.fields())
            .body(b"");
        self.send_prepared(&head, Part::Head, connection);
        if part == Part::Whole && heads.size() > 0 {
            self.host.site.push_range(file, 0..heads.size(), self.out);
            self.tally.body(heads.size());
        }
    }

    pub(crate) fn send_prepared(&mut self, prepared: &PreparedResponse, part: Part, connection: Connection) {
        let bytes = prepared.push(part, connection, self.now.unix, self.out.inline());
        self.tally.response(prepared.status(), bytes as u64);
    }
}

/// Outcome of an answer with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Response,
    /// The page for this status has to be sent.
    Nothing(Status),
}

pub(crate) fn path_of(target: Target<'_>) -> Option<&[u8]> {
    match target {
        Target::Path { path, .. } => Some(path),
        Target::Server | Target::Authority(_) => None,
    }
}

/// Puts a query behind the path of a reference, which has none yet.
pub(crate) fn with_query(location: &str, query: &[u8]) -> Vec<u8> {
    let (before, fragment) = location.split_at(location.find('#').unwrap_or(location.len()));
    [before.as_bytes(), b"?", query, fragment.as_bytes()].concat()
}

/// Returns what the client has asked for, by its version and its `Connection` field.
#[inline(always)]
fn requested_persistence(request: &Request<'_>) -> Connection {
    match request.version {
        _ if !request.should_keep_alive => Connection::Close,
        Version::Http10 => Connection::KeepAlive,
        Version::Http11 => Connection::Implied,
    }
}

/// Lingers for a client that may still be sending.
#[inline(always)]
pub(crate) fn flow_of(connection: Connection, is_sending: bool) -> Flow {
    match connection {
        Connection::Implied | Connection::KeepAlive => Flow::Open,
        Connection::Close if is_sending => Flow::Linger,
        Connection::Close => Flow::Close,
    }
}

fn expects_continue(request: &Request<'_>) -> bool {
    request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue"))
}
