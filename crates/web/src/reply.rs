//! The responses to one batch of requests of one connection.

use std::borrow::Cow;

use proto::{Flow, Now, Outbox};
use wire::http1::{
    Body, Connection, Method, Part, PreparedResponse, Refusal, Request, Status, Target, Version,
    conditional::{self, Precondition},
};

use crate::{
    Absence, Answer, Front, Own, Site, page,
    statistics::Tally,
    upload::{Asked, BodyError, Upload},
};

/// What makes a client send the body that it holds back (RFC 9110, section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// See the module's description.
pub(crate) struct Reply<'a, S> {
    pub(crate) front: &'a Front<S>,
    pub(crate) now: Now,
    pub(crate) out: &'a mut Outbox,
    pub(crate) tally: Tally,
}

/// What follows a request's head.
pub(crate) enum After<U> {
    /// It has been answered.
    Flow(Flow),
    /// Its body comes first.
    Upload(Box<Upload<U>>),
}

impl<S: Site> Reply<'_, S> {
    /// `unread` is how much input follows the request's head.
    #[inline(always)]
    pub(crate) fn answer(&mut self, request: &Request<'_>, unread: usize) -> After<S::Upload> {
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        if let Target::Path { .. } = request.target {
            match self.front.site.own(request, self.now) {
                Own::File => {}
                Own::Answer(answer) => {
                    let connection = connection(request);
                    self.own(answer, part, connection);
                    return After::Flow(flow(request, connection, unread));
                }
                Own::Upload { upload, bytes_max } => return self.upload(request, upload, bytes_max, unread),
            }
        }
        // A body is not wanted by any other method; its end would have to be found before the next request. So it is
        // left unread and the connection closed, which also answers `Expect: 100-continue` in time.
        let connection = connection(request);
        match (request.method, request.target) {
            (Method::Get | Method::Head, Target::Path { path, is_encoded, .. }) => {
                self.file(request, path, is_encoded, part, connection);
            }
            (Method::Options, _) => self.page(Status::NoContent, part, connection),
            (Method::Unknown, _) => self.page(Status::NotImplemented, part, connection),
            _ => self.page(Status::MethodNotAllowed, part, connection),
        }
        After::Flow(flow(request, connection, unread))
    }

    #[inline(always)]
    fn file(&mut self, request: &Request<'_>, path: &[u8], encoded: bool, part: Part, connection: Connection) {
        let Self { front, now, .. } = *self;
        let send = |file: &S::File| self.send(file, request, part, connection);
        match front.site.with_file(path, encoded, now, send) {
            Ok(((), source)) => self.tally.source(source),
            Err(absence) => self.absent(absence, request, part, connection),
        }
    }

    #[inline(always)]
    fn send(&mut self, file: &S::File, request: &Request<'_>, part: Part, connection: Connection) {
        let heads = S::heads(file);
        if request.is_conditional {
            match conditional::evaluate(request, heads.validators()) {
                Precondition::Met => {}
                Precondition::NotModified => return self.prepared(&heads.not_modified, Part::Head, connection),
                Precondition::Failed => return self.page(Status::PreconditionFailed, part, connection),
            }
        }
        if part == Part::Head {
            return self.prepared(&heads.ok, Part::Head, connection);
        }
        if request.has_range {
            return self.ranges(file, request, connection);
        }
        self.whole(file, connection);
    }

    #[inline(always)]
    pub(crate) fn whole(&mut self, file: &S::File, connection: Connection) {
        let bytes = self.front.site.push_ok(file, connection, self.now, self.out);
        self.tally.response(Status::Ok, bytes);
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

    // --- resources of the server's own ----------------------------------------------------

    #[cold]
    fn upload(
        &mut self,
        request: &Request<'_>,
        remembered: S::Upload,
        bytes_max: usize,
        unread: usize,
    ) -> After<S::Upload> {
        let part = if request.method == Method::Head { Part::Head } else { Part::Whole };
        let asked = Asked { remembered, started: self.now.instant, connection: persistence(request), part };
        let upload = match Upload::new(asked, request.body, bytes_max) {
            Ok(upload) => upload,
            Err(error) => return After::Flow(self.unwanted(error, part)),
        };
        if upload.is_whole() {
            return After::Flow(self.uploaded(upload, unread));
        }
        if request.version == Version::Http11 && expects_continue(request) {
            self.out.inline().extend_from_slice(CONTINUE);
            self.tally.interim(CONTINUE.len() as u64);
        }
        After::Upload(Box::new(upload))
    }

    /// The answer to a body that is not read, or not to its end.
    #[cold]
    pub(crate) fn unwanted(&mut self, error: BodyError, part: Part) -> Flow {
        self.page(error.status(), part, Connection::Close);
        Flow::Linger
    }

    /// `unread` is how much input follows the body.
    #[cold]
    pub(crate) fn uploaded(&mut self, upload: Upload<S::Upload>, unread: usize) -> Flow {
        let answer = self.front.site.uploaded(upload.remembered, upload.body, self.now);
        self.own(answer, upload.part, upload.connection);
        flow_of(upload.connection, unread > 0)
    }

    fn own(&mut self, answer: Answer<'_>, part: Part, connection: Connection) {
        match answer {
            Answer::Prepared(Cow::Borrowed(prepared)) => self.prepared(prepared, part, connection),
            Answer::Prepared(Cow::Owned(prepared)) => self.prepared(&prepared, part, connection),
            Answer::Page(status) => self.page(status, part, connection),
        }
    }

    // --- pages ----------------------------------------------------------------------------

    #[cold]
    pub(crate) fn refuse(&mut self, refusal: Refusal) -> Flow {
        self.page(refusal.status(), Part::Whole, Connection::Close);
        Flow::Linger
    }

    pub(crate) fn page(&mut self, status: Status, part: Part, connection: Connection) {
        self.prepared(self.front.pages.get(status), part, connection);
    }

    pub(crate) fn prepared(&mut self, prepared: &PreparedResponse, part: Part, connection: Connection) {
        let bytes = prepared.push(part, connection, self.now.unix, self.out.inline());
        self.tally.response(prepared.status(), bytes as u64);
    }
}

/// What becomes of the connection after a request whose body, if it has one, is not read.
#[inline(always)]
fn connection(request: &Request<'_>) -> Connection {
    if request.body == Body::Empty { persistence(request) } else { Connection::Close }
}

/// What the client has asked for.
#[inline(always)]
fn persistence(request: &Request<'_>) -> Connection {
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

/// A client that may still be sending is waited for.
#[inline(always)]
fn flow_of(connection: Connection, sends: bool) -> Flow {
    match connection {
        Connection::Implied | Connection::KeepAlive => Flow::Open,
        Connection::Close if sends => Flow::Linger,
        Connection::Close => Flow::Close,
    }
}

fn expects_continue(request: &Request<'_>) -> bool {
    request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue"))
}
