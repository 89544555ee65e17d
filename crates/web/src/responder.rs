//! Writer of the responses to one batch of requests of one connection.

mod own;

use proto::{Flow, Now, Outbox};
use wire::http1::{
    Body, Connection, Method, Part, Request, Status, Target, Version,
    coding::Coding,
    conditional::{self, Precondition},
};

use crate::{
    Choice, Found, Lookup, Route, Site, WebServer,
    cgi::Addresses,
    hosts::Hosted,
    statistics::Tally,
    upload::{DiscardedBody, JudgedBody, Pending},
    waiting::Waiting,
    writer::Writer,
};

/// See the module's description.
pub(crate) struct Responder<'a, S, W> {
    pub(crate) server: &'a WebServer<S>,
    /// Host of the request.
    pub(crate) host: &'a Hosted<S>,
    pub(crate) now: Now,
    pub(crate) out: &'a mut Outbox,
    pub(crate) writer: &'a mut W,
    pub(crate) tally: Tally,
    /// Local redirects that have led to the request.
    pub(crate) redirects: u8,
    pub(crate) peer: Option<&'a Addresses>,
    /// Waiting that the next request has done for a representation.
    pub(crate) waited: Option<Waited>,
    /// The input has the whole request, which can be read again when a representation has been made.
    pub(crate) can_prepare: bool,
}

/// Step that follows a request's head.
pub(crate) enum Next<S: Site> {
    /// The request has been answered, and its body, if it has one, has arrived.
    Flow(Flow),
    /// The body has to arrive.
    Body(Box<Pending<S::Upload>>),
    /// Another thread has to do its part. The last byte of the request stays in the input until then.
    Wait(Box<Waiting>),
    /// The representation that the request wants is being made: the request is to be read again once the promise that has
    /// been queued is fulfilled.
    Prepare(Waited),
}

/// Reason why a request has not been answered yet.
pub(crate) enum Pause {
    Wait(Box<Waiting>),
    Prepare(Waited),
}

impl<S: Site> From<Pause> for Next<S> {
    #[inline]
    fn from(pause: Pause) -> Self {
        match pause {
            Pause::Wait(waiting) => Self::Wait(waiting),
            Pause::Prepare(waited) => Self::Prepare(waited),
        }
    }
}

/// Waiting that a request has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    /// First lookup: the one that counts.
    lookup: Option<Lookup>,
    times: u8,
}

impl Waited {
    /// True if it has been for a representation.
    pub(crate) fn has_lookup(&self) -> bool {
        self.lookup.is_some()
    }

    /// Waiting once more, for something else than a representation.
    pub(crate) fn once_more(before: Option<Self>) -> Self {
        before.map_or(Self { lookup: None, times: 1 }, |waited| Self { times: waited.times + 1, ..waited })
    }
}

/// Number of times that a request waits, then it takes what there is. Once is enough unless the file was loaded anew
/// meanwhile, or what was made has left the cache already.
const WAITS_MAX: u8 = 3;

/// The site has no fallback for a path, or it is not there.
pub(crate) struct NoFallback;

/// Outcome of showing a file to its request.
enum Shown {
    Sent,
    /// This representation has to be made first.
    Make(Coding),
    /// The page for this status has to be sent.
    Nothing(Status),
}

impl<S: Site> Next<S> {
    /// Number of bytes of the request that stay in the input.
    #[inline(always)]
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Flow(_) | Self::Body(_) | Self::Prepare(_) => 0,
            Self::Wait(_) => 1,
        }
    }
}

impl<'a, S: Site, W: Writer> Responder<'a, S, W> {
    #[inline(always)]
    pub(crate) fn new(
        server: &'a WebServer<S>,
        host: &'a Hosted<S>,
        peer: Option<&'a Addresses>,
        now: Now,
        out: &'a mut Outbox,
        writer: &'a mut W,
    ) -> Self {
        Self {
            server,
            host,
            now,
            out,
            writer,
            tally: Tally::default(),
            redirects: 0,
            peer,
            waited: None,
            can_prepare: true,
        }
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
                if let Some(pause) = self.handle_file(request, path, is_encoded, head, part, connection) {
                    return pause.into();
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
        if request.version != Version::Http10 && expects_continue(request) {
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
                    next @ (Next::Flow(_) | Next::Body(_) | Next::Prepare(_)) => next,
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
            next @ (Next::Flow(_) | Next::Body(_) | Next::Wait(_) | Next::Prepare(_)) => next,
        }
    }

    /// Returns how long it has waited if the representation has to be waited for.
    #[inline(always)]
    fn handle_file(
        &mut self,
        request: &Request<'_>,
        path: &[u8],
        encoded: bool,
        head: &[u8],
        part: Part,
        connection: Connection,
    ) -> Option<Pause> {
        let Self { host, now, .. } = *self;
        let show = |found: Found<'_, S::File>| self.show_file(&found, request, part, connection);
        match host.site.with_file(path, encoded, now, show) {
            Ok((Shown::Sent, lookup)) => self.record_lookup(lookup),
            Ok((Shown::Nothing(status), lookup)) => {
                self.record_lookup(lookup);
                self.send_status(status, Some(path), part, connection);
            }
            Ok((Shown::Make(coding), lookup)) => {
                let key = host.settings.content.locate(path);
                if let Some(waited) = self.prepare(coding, lookup, &key.unwrap_or_default()) {
                    return Some(Pause::Prepare(waited));
                }
                // There is no room to wait.
                let show = |found: Found<'_, S::File>| self.show_file(&found, request, part, connection);
                match host.site.with_file(path, true, now, show) {
                    Ok((Shown::Sent, lookup)) => self.record_lookup(lookup),
                    Ok((Shown::Make(_) | Shown::Nothing(_), _)) => {
                        self.send_status(Status::ServiceUnavailable, Some(path), part, connection);
                    }
                    Err(not_found) => {
                        return self.answer_without_file(not_found, path, request, head, part, connection);
                    }
                }
            }
            Err(not_found) => return self.answer_without_file(not_found, path, request, head, part, connection),
        }
        None
    }

    #[inline(always)]
    fn record_lookup(&mut self, lookup: Lookup) {
        let lookup = self.waited.take().and_then(|waited| waited.lookup).unwrap_or(lookup);
        self.tally.lookup(lookup);
        self.host.site.on_lookup(lookup);
    }

    #[inline(always)]
    fn show_file(
        &mut self,
        found: &Found<'_, S::File>,
        request: &Request<'_>,
        part: Part,
        connection: Connection,
    ) -> Shown {
        let file = match found.variants {
            None => found.file,
            Some(variants) => match variants.choose(request, self.may_prepare()) {
                Choice::Stored(None) => found.file,
                Choice::Stored(Some(file)) => file,
                Choice::Make(coding) => return Shown::Make(coding),
                Choice::Nothing => return Shown::Nothing(Status::NotFound),
            },
        };
        self.send_file(file, request, part, connection)
    }

    pub(crate) fn may_prepare(&self) -> bool {
        self.can_prepare && self.waited.is_none_or(|waited| waited.times < WAITS_MAX)
    }

    /// Has a representation made. Returns `None` where there is no room to wait for it.
    #[cold]
    fn prepare(&mut self, coding: Coding, lookup: Lookup, key: &[u8]) -> Option<Waited> {
        let Self { host, now, .. } = *self;
        let before = self.waited.unwrap_or(Waited { lookup: Some(lookup), times: 0 });
        self.waited = Some(Waited { times: WAITS_MAX, ..before });
        let is_deferred = host.site.prepare(key, coding, now, || self.out.defer());
        is_deferred.then_some(Waited { times: before.times + 1, ..before })
    }

    /// Answers with a file. A page for another status is left to the caller, since a cache may be locked meanwhile.
    #[inline(always)]
    fn send_file(&mut self, file: &S::File, request: &Request<'_>, part: Part, connection: Connection) -> Shown {
        let heads = S::heads(file);
        if request.is_conditional {
            match conditional::evaluate(request, heads.validators()) {
                Precondition::Met => {}
                Precondition::NotModified => {
                    self.send_prepared(&heads.not_modified, Part::Head, connection);
                    return Shown::Sent;
                }
                Precondition::Failed => return Shown::Nothing(Status::PreconditionFailed),
            }
        }
        if part == Part::Head {
            self.tally.note_coding(heads.encoding().coding());
            self.send_prepared(&heads.ok, Part::Head, connection);
        } else if request.has_range {
            self.send_ranges(file, request, connection);
        } else {
            self.send_whole(file, connection);
        }
        Shown::Sent
    }

    #[inline(always)]
    pub(crate) fn send_whole(&mut self, file: &S::File, connection: Connection) {
        let bytes = self.writer.file(&self.host.site, file, connection, self.now, self.out);
        self.tally.response(Status::Ok, bytes);
        if self.server.observer.is_some() {
            let heads = S::heads(file);
            self.tally.note_body(heads.size());
            self.tally.note_coding(heads.encoding().coding());
        }
    }

    /// Answers with the fallback where the site has one for such a path. Returns false if nothing has been sent.
    pub(crate) fn send_fallback(
        &mut self,
        path: &[u8],
        request: &Request<'_>,
        part: Part,
        connection: Connection,
    ) -> Result<Option<Waited>, NoFallback> {
        let Self { host, now, .. } = *self;
        let content = &host.settings.content;
        let fallback = content.fallback_for(path, &host.settings.media_types).ok_or(NoFallback)?;
        loop {
            let show = |found: Found<'_, S::File>| self.show_file(&found, request, part, connection);
            let (shown, lookup) = host.site.with_own_file(fallback, now, show).map_err(|_| NoFallback)?;
            match shown {
                Shown::Sent => self.record_lookup(lookup),
                Shown::Nothing(status) => {
                    self.record_lookup(lookup);
                    self.send_status(status, Some(path), part, connection);
                }
                Shown::Make(coding) => match self.prepare(coding, lookup, &content.own_key(fallback)) {
                    Some(waited) => return Ok(Some(waited)),
                    // There is no room to wait, and so what there is is sent.
                    None => continue,
                },
            }
            return Ok(None);
        }
    }
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
pub(crate) fn requested_persistence(request: &Request<'_>) -> Connection {
    match request.version {
        _ if !request.should_keep_alive => Connection::Close,
        Version::Http10 => Connection::KeepAlive,
        Version::Http11 | Version::Http2 => Connection::Implied,
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

pub(crate) fn expects_continue(request: &Request<'_>) -> bool {
    request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue"))
}
