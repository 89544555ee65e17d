//! Writer of the responses to one batch of requests of one connection.

use std::borrow::Cow;

use proto::{Flow, Now, Outbox};
use wire::http1::{
    Body, Connection, Method, Part, PreparedResponse, Refusal, Request, Status, Target, Version,
    coding::Coding,
    conditional::{self, Precondition},
};

use crate::{
    Choice, Found, Lookup, NotFound, RedirectTarget, Response, Route, Site, WebServer,
    hosts::Hosted,
    page,
    statistics::Tally,
    upload::{BodyError, Upload, UploadRequest},
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
    /// Waiting that the next request has done for a representation.
    pub(crate) waited: Option<Waited>,
}

/// Step that follows a request's head.
pub(crate) enum Next<S: Site> {
    /// The request has been answered.
    Flow(Flow),
    /// The body has to arrive first.
    Upload(Box<Upload<S::Upload>>),
    /// The representation that the request wants is being made: the request is to be read again once the promise that has
    /// been queued is fulfilled.
    Wait(Waited),
}

/// Waiting that a request has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    /// First lookup: the one that counts.
    lookup: Lookup,
    times: u8,
}

/// Number of times that a request waits, then it takes what there is. Once is enough unless the file was loaded anew
/// meanwhile, or what was made has left the cache already.
const WAITS_MAX: u8 = 3;

/// The site has no fallback for a path, or it is not there.
struct NoFallback;

/// Outcome of showing a file to its request.
enum Shown {
    Sent,
    /// This representation has to be made first.
    Make(Coding),
    /// The page for this status has to be sent.
    Nothing(Status),
}

impl<S: Site> Responder<'_, S> {
    /// Answers a request, unless its body has to arrive first. `unread` is the length of the input behind its head.
    #[inline(always)]
    pub(crate) fn handle_request(&mut self, request: &Request<'_>, unread: usize) -> Next<S> {
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        if let Target::Path { .. } = request.target {
            match self.host.site.route(request, self.now) {
                Route::File => {}
                Route::Respond(response) => {
                    let connection = connection(request);
                    self.respond(response, part, connection);
                    return Next::Flow(flow(request, connection, unread));
                }
                Route::Upload { upload, bytes_max } => return self.begin_upload(request, upload, bytes_max, unread),
            }
        }
        // No other method wants a body, and its end would have to be found before the next request. So it is left unread
        // and the connection closed, which also answers `Expect: 100-continue` in time.
        let connection = connection(request);
        match (request.method, request.target) {
            (Method::Get | Method::Head, Target::Path { path, is_encoded, .. }) => {
                if let Some(waited) = self.handle_file(request, path, is_encoded, part, connection) {
                    return Next::Wait(waited);
                }
            }
            (Method::Options, target) => self.send_status(Status::NoContent, path_of(target), part, connection),
            (Method::Unknown, target) => self.send_status(Status::NotImplemented, path_of(target), part, connection),
            (_, target) => self.send_status(Status::MethodNotAllowed, path_of(target), part, connection),
        }
        Next::Flow(flow(request, connection, unread))
    }

    /// Returns how long it has waited if the representation has to be waited for.
    #[inline(always)]
    fn handle_file(
        &mut self,
        request: &Request<'_>,
        path: &[u8],
        encoded: bool,
        part: Part,
        connection: Connection,
    ) -> Option<Waited> {
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
                    return Some(waited);
                }
                // There is no room to wait.
                let show = |found: Found<'_, S::File>| self.show_file(&found, request, part, connection);
                match host.site.with_file(path, true, now, show) {
                    Ok((Shown::Sent, lookup)) => self.record_lookup(lookup),
                    Ok((Shown::Make(_) | Shown::Nothing(_), _)) => {
                        self.send_status(Status::ServiceUnavailable, Some(path), part, connection);
                    }
                    Err(not_found) => return self.send_not_found(not_found, path, request, part, connection),
                }
            }
            Err(not_found) => return self.send_not_found(not_found, path, request, part, connection),
        }
        None
    }

    #[inline(always)]
    fn record_lookup(&mut self, lookup: Lookup) {
        let lookup = self.waited.take().map_or(lookup, |waited| waited.lookup);
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
            Some(variants) => match variants.choose(request, self.waited.is_none_or(|waited| waited.times < WAITS_MAX))
            {
                Choice::Stored(None) => found.file,
                Choice::Stored(Some(file)) => file,
                Choice::Make(coding) => return Shown::Make(coding),
                Choice::Nothing => return Shown::Nothing(Status::NotFound),
            },
        };
        self.send_file(file, request, part, connection)
    }

    /// Has a representation made. Returns `None` where there is no room to wait for it.
    #[cold]
    fn prepare(&mut self, coding: Coding, lookup: Lookup, key: &[u8]) -> Option<Waited> {
        let Self { host, now, .. } = *self;
        let before = self.waited.unwrap_or(Waited { lookup, times: 0 });
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
        let bytes = self.host.site.push_ok(file, connection, self.now, self.out);
        self.tally.response(Status::Ok, bytes);
        if self.server.observer.is_some() {
            self.tally.note_body(S::heads(file).size());
        }
    }

    #[cold]
    fn send_not_found(
        &mut self,
        not_found: NotFound,
        path: &[u8],
        request: &Request<'_>,
        part: Part,
        connection: Connection,
    ) -> Option<Waited> {
        let target = match not_found {
            NotFound::Status(Status::NotFound) => match self.send_fallback(path, request, part, connection) {
                Ok(waited) => return waited,
                Err(NoFallback) => {
                    self.send_status(Status::NotFound, Some(path), part, connection);
                    return None;
                }
            },
            NotFound::Status(status) => {
                self.send_status(status, Some(path), part, connection);
                return None;
            }
            NotFound::MovedTo(location) => {
                RedirectTarget { status: Status::MovedPermanently, location, keeps_query: true }
            }
            NotFound::Redirect(target) => *target,
        };
        let location = match request.target {
            Target::Path { query: Some(query), .. } if target.keeps_query => with_query(&target.location, query),
            Target::Path { .. } | Target::Server | Target::Authority(_) => target.location.into_bytes(),
        };
        let fields = self.host.settings.content.fields_for(Some(path));
        self.send_prepared(&page::redirect(target.status, &location, &fields), part, connection);
        None
    }

    /// Answers with the fallback where the site has one for such a path. Returns how long it has waited if the representation
    /// has to be waited for.
    fn send_fallback(
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
        if request.version == Version::Http11 && expects_continue(request) {
            self.out.inline().extend_from_slice(CONTINUE);
            self.tally.interim(CONTINUE.len() as u64);
        }
        Next::Upload(Box::new(upload))
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
            // One that is there in compressed form alone is none that everybody can read.
            let is_plain = |file: &S::File| S::heads(file).encoding().content_coding().is_none();
            let send = |found: Found<'_, S::File>| {
                is_plain(found.file).then(|| self.send_error_page(status, found.file, part, connection))
            };
            if let Ok((Some(()), lookup)) = host.site.with_own_file(page, now, send) {
                return self.record_lookup(lookup);
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
        if part == Part::Whole {
            self.tally.note_body(prepared.body().len() as u64);
        }
    }
}

fn path_of(target: Target<'_>) -> Option<&[u8]> {
    match target {
        Target::Path { path, .. } => Some(path),
        Target::Server | Target::Authority(_) => None,
    }
}

/// Puts a query behind the path of a reference, which has none yet.
fn with_query(location: &str, query: &[u8]) -> Vec<u8> {
    let (before, fragment) = location.split_at(location.find('#').unwrap_or(location.len()));
    [before.as_bytes(), b"?", query, fragment.as_bytes()].concat()
}

/// Returns the fate of the connection after a request whose body, if it has one, is not read.
#[inline(always)]
fn connection(request: &Request<'_>) -> Connection {
    if request.body == Body::Empty { requested_persistence(request) } else { Connection::Close }
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

#[inline(always)]
fn flow(request: &Request<'_>, connection: Connection, unread: usize) -> Flow {
    flow_of(connection, unread > 0 || request.body != Body::Empty)
}

/// Lingers for a client that may still be sending.
#[inline(always)]
fn flow_of(connection: Connection, is_sending: bool) -> Flow {
    match connection {
        Connection::Implied | Connection::KeepAlive => Flow::Open,
        Connection::Close if is_sending => Flow::Linger,
        Connection::Close => Flow::Close,
    }
}

fn expects_continue(request: &Request<'_>) -> bool {
    request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue"))
}
