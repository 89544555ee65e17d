//! Resources of the server's own, and pages for other statuses than 200.

use std::borrow::Cow;

use proto::Flow;
use wire::http1::{
    Connection, Method, Part, PreparedResponse, Refusal, Request, Status, Version, response::ResponseBuilder,
};

use super::{Next, Responder, expects_continue, flow_of, requested_persistence};
use crate::{
    Found, Response, Site, page,
    upload::{BodyError, Pending, Upload, UploadRequest},
    writer::Writer,
};

impl<S: Site, W: Writer> Responder<'_, S, W> {
    #[cold]
    pub(super) fn begin_upload(
        &mut self,
        request: &Request<'_>,
        state: S::Upload,
        bytes_max: usize,
        unread: usize,
    ) -> Next<S> {
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
    pub(super) fn begin_program_upload(&mut self, request: &Request<'_>, head: &[u8]) -> Next<S> {
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
        if request.version != Version::Http10 && expects_continue(request) {
            let bytes = self.writer.proceed(self.out);
            self.tally.interim(bytes);
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

    pub(super) fn respond(&mut self, response: Response<'_>, part: Part, connection: Connection) {
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
        self.send_page(status, None, path, part, connection);
    }

    /// Does the same, with this field in place of the one that its status has.
    #[cold]
    pub(crate) fn send_page(
        &mut self,
        status: Status,
        own_field: Option<(&str, &str)>,
        path: Option<&[u8]>,
        part: Part,
        connection: Connection,
    ) {
        let Self { host, now, .. } = *self;
        let content = &host.settings.content;
        if let Some(page) = content.error_page(status) {
            // One that is there in compressed form alone is none that everybody can read.
            let is_plain = |file: &S::File| S::heads(file).encoding().content_coding().is_none();
            let send = |found: Found<'_, S::File>| {
                let builder = page::builder(status, own_field);
                is_plain(found.file).then(|| self.send_error_page(builder, found.file, part, connection))
            };
            if let Ok((Some(()), lookup)) = host.site.with_own_file(page, now, send) {
                return self.record_lookup(lookup);
            }
        }
        if own_field.is_some() || path.is_some() && content.fields_depend_on_path() {
            let page = page::page(status, own_field, &content.fields_for(path));
            return self.send_prepared(&page, part, connection);
        }
        self.send_prepared(host.pages.get(status), part, connection);
    }

    /// Sends a file with the status of an error: without validators, and without the Cache-Control that it has as a file.
    fn send_error_page(&mut self, builder: ResponseBuilder, file: &S::File, part: Part, connection: Connection) {
        let heads = S::heads(file);
        let head = builder
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
        let bytes = self.writer.prepared(prepared, part, connection, self.now, self.out);
        self.tally.response(prepared.status(), bytes);
        if part == Part::Whole {
            self.tally.note_body(prepared.body().len() as u64);
        }
    }
}
