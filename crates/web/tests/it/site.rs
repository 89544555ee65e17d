//! Site of a few files in memory and of resources below `/own/`.

use std::{
    borrow::Cow,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use proto::{Now, Outbox};
use sys::beneath::Metadata;
use testkit::in_memory::{Chunking, Transcript, exchange};
use web::{
    Encoding, Found, Heads, HttpOptions, Lookup, NotFound, Response, Route, Site, WebServer,
    path::{self, Dotfiles},
};
use wire::http1::{Connection, Method, Part, PreparedResponse, Request, Status, Target};

/// Length of the longest body that is wanted.
pub(crate) const BODY_MAX: usize = 5_000;

#[derive(Debug)]
pub(crate) struct TestSite {
    files: Vec<(&'static [u8], File)>,
    own: PreparedResponse,
    /// Responses that [`Site::on_responses`] was told of.
    pub(crate) responses: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct File {
    heads: Heads,
    body: Bytes,
}

impl TestSite {
    pub(crate) fn new() -> Self {
        let files = [(&b"/small.txt"[..], 300), (b"/large.txt", 9_000)].map(|(path, len)| (path, File::new(len)));
        Self { files: files.into(), own: response(Status::Ok, b"own"), responses: AtomicU64::new(0) }
    }
}

impl File {
    fn new(size: usize) -> Self {
        let metadata = Metadata { device: 1, inode: 1, size: size as u64, modified_ns: 1_000_000_007, changed_ns: 0 };
        let body: Bytes = (0..size).map(|at| b'a' + (at % 23) as u8).collect();
        let heads = Heads::new(&metadata, &"text/plain".into(), Encoding::Sole, b"", now().unix);
        Self { heads, body }
    }
}

fn response(status: Status, body: &[u8]) -> PreparedResponse {
    PreparedResponse::builder(status).field("Content-Length", body.len().to_string()).body(body)
}

impl Site for TestSite {
    type File = File;
    /// Path of the resource.
    type Upload = Vec<u8>;

    fn with_file<R>(
        &self,
        path: &[u8],
        _: bool,
        _: Now,
        mut send: impl FnMut(Found<'_, File>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        let normal = path::normalise(path, Dotfiles::None)?;
        let (_, file) = self.files.iter().find(|(name, _)| *name == normal).ok_or(NotFound::MISSING)?;
        Ok((send(Found::sole(file)), Lookup::Hit))
    }

    fn with_own_file<R>(
        &self,
        normal: &[u8],
        now: Now,
        send: impl FnMut(Found<'_, File>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        self.with_file(normal, false, now, send)
    }

    fn heads(file: &File) -> &Heads {
        &file.heads
    }

    fn push_ok(&self, file: &File, connection: Connection, now: Now, out: &mut Outbox) -> u64 {
        let head = file.heads.ok.push(Part::Head, connection, now.unix, out.inline());
        out.push_shared(&file.body);
        (head + file.body.len()) as u64
    }

    fn push_range(&self, file: &File, range: Range<u64>, out: &mut Outbox) {
        out.push_shared(&file.body.slice(range.start as usize..range.end as usize));
    }

    fn route(&self, request: &Request<'_>, _: Now) -> Route<'_, Vec<u8>> {
        let Target::Path { path, .. } = request.target else { return Route::File };
        let Some(name) = path.strip_prefix(b"/own/") else { return Route::File };
        match request.method {
            Method::Get | Method::Head => Route::Respond(Response::Prepared(Cow::Borrowed(&self.own))),
            Method::Put | Method::Post if request.values("x-token").next().is_none() => {
                Route::Respond(Response::Page(Status::Unauthorized))
            }
            Method::Put | Method::Post => Route::Upload { upload: name.to_vec(), bytes_max: BODY_MAX },
            Method::Delete | Method::Connect | Method::Options | Method::Trace | Method::Patch | Method::Unknown => {
                Route::File
            }
        }
    }

    /// Responds with what was uploaded.
    fn on_upload(&self, name: Vec<u8>, body: Vec<u8>, _: Now) -> Response<'_> {
        if name == b"conflict" {
            return Response::Page(Status::Conflict);
        }
        Response::Prepared(Cow::Owned(response(Status::Created, &[&name[..], b"=", &body].concat())))
    }

    fn on_responses(&self, responses: u64, _: Now) {
        self.responses.fetch_add(responses, Ordering::Relaxed);
    }
}

pub(crate) fn now() -> Now {
    Now { instant: Instant::now(), unix: Duration::from_secs(2_000_000_000) }
}

pub(crate) fn server() -> WebServer<TestSite> {
    WebServer::new(TestSite::new(), HttpOptions::default())
}

/// Returns the replies to requests that arrive at once.
pub(crate) fn ask(server: &WebServer<TestSite>, input: &str) -> (String, Transcript) {
    let transcript = exchange(server, input.as_bytes(), Chunking::UNLIMITED, now());
    (String::from_utf8(transcript.bytes.clone()).unwrap(), transcript)
}

/// Returns the status codes in a stream whose bodies contain no status line.
pub(crate) fn statuses(stream: &str) -> Vec<&str> {
    stream.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect()
}
