//! Answers that another thread has a part in: listings, and what programs say.

use std::{fmt::Write as _, sync::Arc};

use file_cache::CheckedRoot;
use proto::Flow;
use sys::{
    beneath::{Entries, OpenError},
    program::ProgramError,
};
use wire::{
    cgi::{self, CgiResponse, Document},
    http1::{
        Connection, HeadParser, Method, Part, Request, Status, Target,
        conditional::{self, Precondition},
    },
};

use crate::{
    NotFound, RedirectTarget, Settings, Site,
    cgi::{Addresses, ProgramRequest, program_path},
    listing::{Answer, Key, Page, Reader, View},
    page,
    responder::{Next, NoFallback, Pause, Responder, flow_of, path_of, with_query},
    upload::{Pending, Upload},
    waiting::{Outcome, Waiting},
    writer::Writer,
};

/// Number of local redirects that one request may lead to.
const REDIRECTS_MAX: u8 = 10;

/// Directory of one host that is to be read.
struct HostReader {
    root: CheckedRoot,
    settings: Arc<Settings>,
    /// Normal path of the directory.
    path: Vec<u8>,
}

impl Reader for HostReader {
    fn read(&self, relative: &[u8], entries_max: usize) -> Result<Entries, OpenError> {
        self.root.root().entries(relative, entries_max, |name| self.settings.serves(&self.path, name))
    }

    fn fields(&self) -> Vec<u8> {
        self.settings.content.fields_for(Some(&self.path))
    }
}

impl<S: Site, W: Writer> Responder<'_, S, W> {
    /// Answers a request for which there is no file, or has another thread find the answer.
    #[cold]
    pub(crate) fn answer_without_file(
        &mut self,
        not_found: NotFound,
        path: &[u8],
        request: &Request<'_>,
        head: &[u8],
        part: Part,
        connection: Connection,
    ) -> Option<Pause> {
        let target = match not_found {
            NotFound::Status(Status::NotFound) => match self.send_fallback(path, request, part, connection) {
                Ok(waited) => return waited.map(Pause::Prepare),
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
            NotFound::Directory(path) => return self.list(path, request, head, part, connection).map(Pause::Wait),
            NotFound::Program(path) => {
                let waiting = self.run_program(&path, request, head, Vec::new(), part, connection);
                return waiting.map(Pause::Wait);
            }
        };
        let location = match request.target {
            Target::Path { query: Some(query), .. } if target.keeps_query => with_query(&target.location, query),
            Target::Path { .. } | Target::Server | Target::Authority(_) => target.location.into_bytes(),
        };
        let fields = self.host.settings.content.fields_for(Some(path));
        self.send_prepared(&page::redirect(target.status, &location, &fields), part, connection);
        None
    }

    // --- listings -------------------------------------------------------------------------

    fn list(
        &mut self,
        path: Vec<u8>,
        request: &Request<'_>,
        head: &[u8],
        part: Part,
        connection: Connection,
    ) -> Option<Box<Waiting>> {
        let Some(root) = self.host.site.root(self.now) else {
            self.send_status(Status::NotFound, path_of(request.target), part, connection);
            return None;
        };
        let query = match request.target {
            Target::Path { query, .. } => query.unwrap_or_default(),
            Target::Server | Target::Authority(_) => b"",
        };
        let key = Key { path: path.clone(), view: View::new(query, request.values("accept")) };
        let reader = HostReader { root: root.clone(), settings: Arc::clone(&self.host.settings), path };
        match self.host.listings.get(key, root.root(), reader, (self.now.instant, self.now.unix), self.out) {
            Answer::Ready(page) => self.send_listing(&page, request, part, connection),
            Answer::Overloaded => {
                self.send_status(Status::ServiceUnavailable, path_of(request.target), part, connection)
            }
            Answer::Deferred(slot) => {
                let redirects = self.redirects;
                return Some(Box::new(Waiting { head: head.into(), slot, connection, redirects, body: None }));
            }
        }
        None
    }

    fn send_listing(&mut self, page: &Page, request: &Request<'_>, part: Part, connection: Connection) {
        if request.is_conditional {
            match conditional::evaluate(request, page.validators()) {
                Precondition::Met => {}
                Precondition::NotModified => return self.send_prepared(&page.not_modified, Part::Head, connection),
                Precondition::Failed => {
                    return self.send_status(Status::PreconditionFailed, path_of(request.target), part, connection);
                }
            }
        }
        self.send_prepared(&page.ok, Part::Head, connection);
        if part == Part::Whole {
            self.out.push_shared(&page.body);
            self.tally.body(page.body.len() as u64);
        }
    }

    // --- programs -------------------------------------------------------------------------

    /// Returns the normal path of a request that means a program.
    #[cold]
    pub(crate) fn program_path(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        let Target::Path { path, .. } = request.target else { return None };
        self.host.settings.programs.as_ref()?;
        program_path(self.host.settings.content.normalise(path))
    }

    /// Runs a program, whose output is awaited.
    pub(crate) fn run_program(
        &mut self,
        path: &[u8],
        request: &Request<'_>,
        head: &[u8],
        body: Vec<u8>,
        part: Part,
        connection: Connection,
    ) -> Option<Box<Waiting>> {
        let Some(programs) = &self.host.settings.programs else {
            self.send_status(Status::NotFound, path_of(request.target), part, connection);
            return None;
        };
        if matches!(request.method, Method::Connect | Method::Trace | Method::Unknown) {
            self.send_status(Status::MethodNotAllowed, path_of(request.target), part, connection);
            return None;
        }
        let unknown = Addresses::default();
        let (peer, user) = (self.peer.unwrap_or(&unknown), self.user(request));
        let program = ProgramRequest { path, request, head, body, peer, user };
        match programs.run(program, self.out) {
            Ok(slot) => {
                let redirects = self.redirects;
                Some(Box::new(Waiting { head: head.into(), slot, connection, redirects, body: None }))
            }
            Err(not_found) => {
                let status = if let NotFound::Status(status) = not_found { status } else { Status::NotFound };
                self.send_status(status, path_of(request.target), part, connection);
                None
            }
        }
    }

    /// Runs the program whose request has arrived wholly.
    pub(crate) fn begin_program(&mut self, upload: Upload<Box<[u8]>>, unread: usize) -> Next<S> {
        let Upload { state: head, body, part, connection, .. } = upload;
        let Ok(Some(request)) = HeadParser::default().parse(&head, self.server.head_limits::<W>()) else {
            return Next::Flow(Flow::Abort);
        };
        let path = self.program_path(&request).unwrap_or_default();
        match self.run_program(&path, &request, &head, body, part, connection) {
            Some(waiting) => Next::Wait(waiting),
            None => Next::Flow(flow_of(connection, unread > 0)),
        }
    }

    // --- the end of waiting ---------------------------------------------------------------

    /// Answers a request that has waited.
    pub(crate) fn finish_waiting(&mut self, waiting: Waiting, is_retiring: bool) -> Next<S> {
        let Waiting { head, slot, connection, redirects, body } = waiting;
        // It has been parsed before.
        let Ok(Some(request)) = HeadParser::default().parse(&head, self.server.head_limits::<W>()) else {
            return Next::Flow(Flow::Abort);
        };
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        let connection = if is_retiring { Connection::Close } else { connection };
        match slot.take() {
            Some(Outcome::Listing(Ok(page))) => self.send_listing(&page, &request, part, connection),
            Some(Outcome::Listing(Err(NotFound::Status(status)))) => {
                self.send_status(status, path_of(request.target), part, connection)
            }
            Some(Outcome::Listing(Err(_))) | None => {
                self.send_status(Status::NotFound, path_of(request.target), part, connection)
            }
            Some(Outcome::Program(Err(error))) => {
                self.send_status(status_of(&error), path_of(request.target), part, connection)
            }
            Some(Outcome::Program(Ok(output))) => match cgi::parse(&output) {
                Ok(CgiResponse::Document(document)) => {
                    self.send_document(document, path_of(request.target), part, connection);
                }
                Ok(CgiResponse::LocalRedirect(to)) if redirects < REDIRECTS_MAX => {
                    self.redirects = redirects + 1;
                    let next = self.redirect(to, &request, connection);
                    self.redirects = 0;
                    match next {
                        Next::Wait(mut waiting) => {
                            waiting.body = body;
                            return Next::Wait(waiting);
                        }
                        // Nothing is prepared for a request that cannot be read again.
                        Next::Body(_) | Next::Flow(_) | Next::Prepare(_) => {}
                    }
                }
                Ok(CgiResponse::LocalRedirect(_)) => {
                    tracing::warn!("CGI program {}: redirects without end", shown(&request));
                    self.send_status(Status::BadGateway, path_of(request.target), part, connection);
                }
                Err(error) => {
                    tracing::warn!("CGI program {}: {error}", shown(&request));
                    self.send_status(Status::BadGateway, path_of(request.target), part, connection);
                }
            },
        }
        match (flow_of(connection, true), body) {
            (Flow::Open, Some(body)) => Next::Body(Box::new(Pending::Discarded(body))),
            (flow, _) => Next::Flow(flow),
        }
    }

    /// Sends what a program says, with the configured fields that it does not say itself.
    fn send_document(&mut self, document: Document<'_>, path: Option<&[u8]>, part: Part, connection: Connection) {
        let (configured, mut document) = (self.host.settings.content.fields_for(path), document);
        for line in configured.split(|&byte| byte == b'\n') {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if !document.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                document.fields.push((name, value));
            }
        }
        let mut bytes = self.writer.document(&document, connection, self.now, self.out);
        if part == Part::Whole {
            self.out.push_body(&document.body, |body| body.to_vec().into());
            bytes += document.body.len() as u64;
            self.tally.note_body(document.body.len() as u64);
        }
        self.tally.response_of(document.code, bytes);
    }

    /// Answers a request as if it had been for another path of this server.
    fn redirect(&mut self, to: &[u8], request: &Request<'_>, connection: Connection) -> Next<S> {
        let method = if request.method == Method::Head { "HEAD" } else { "GET" };
        let mut head = format!("{method} ").into_bytes();
        head.extend_from_slice(to);
        head.extend_from_slice(format!(" {}\r\nHost: ", W::VERSION).as_bytes());
        head.extend_from_slice(request.values("host").next().unwrap_or(b"localhost"));
        for value in request.values("authorization") {
            head.extend_from_slice(b"\r\nAuthorization: ");
            head.extend_from_slice(value);
        }
        head.extend_from_slice(b"\r\n\r\n");
        match HeadParser::default().parse(&head, self.server.head_limits::<W>()) {
            Ok(Some(mut there)) => {
                there.version = request.version;
                there.should_keep_alive = connection != Connection::Close;
                if path_of(there.target).is_some_and(|path| !self.may_see(path, &there)) {
                    return self.challenge(&there, 0);
                }
                self.handle_rare_request(&there, &head, 0)
            }
            Ok(None) | Err(_) => {
                let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
                self.send_status(Status::BadGateway, path_of(request.target), part, connection);
                Next::Flow(Flow::Open)
            }
        }
    }
}

/// Returns the status for a program that has given no output.
fn status_of(error: &ProgramError) -> Status {
    // EAGAIN, ENOMEM, ENFILE, EMFILE: too many processes, no memory, too many descriptors.
    let is_shortage = |error: &std::io::Error| matches!(error.raw_os_error(), Some(11 | 12 | 23 | 24));
    match error {
        ProgramError::TimedOut => Status::GatewayTimeout,
        ProgramError::Start(error) if is_shortage(error) => Status::ServiceUnavailable,
        ProgramError::Cancelled => Status::ServiceUnavailable,
        ProgramError::Start(_) | ProgramError::TooLong | ProgramError::Failed(_) => Status::BadGateway,
    }
}

/// Returns the path of a request for the log.
fn shown(request: &Request<'_>) -> String {
    let mut shown = String::new();
    if let Target::Path { path, .. } = request.target {
        let _ = write!(shown, "{}", path.escape_ascii());
    }
    shown
}
