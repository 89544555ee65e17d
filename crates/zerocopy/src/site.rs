//! Files of a cache, and beside them the server's own resources at `/cache/`: statistics, resets, additions, a page.

use std::{borrow::Cow, ops::Range, sync::Arc, time::Instant};

use file_cache::CheckedRoot;
use proto::{Now, Outbox, Promise};
use serde::Serialize;
use web::{Found, Heads, Lookup, NotFound, Response, Route, Site};
use wire::http1::{Connection, Method, PreparedResponse, Request, Status, Target, coding::Coding};

use crate::{
    Access, Cache,
    access::Denial,
    cache::{Added, OverlayError},
    file::CachedFile,
    report::Report,
    webui::WebUi,
};

/// Prefix of the server's own resources.
const PREFIX: &[u8] = b"/cache";
/// Length of the longest body that a request may have which needs none, in bytes.
const NEEDLESS_BODY_MAX: usize = 64 << 10;

/// Site of a cache and its administration.
#[derive(Debug)]
pub struct CachedSite {
    cache: Arc<Cache>,
    access: Access,
    webui: WebUi,
    started: Instant,
}

/// Change that is made once the body of its request has arrived.
#[derive(Debug)]
pub enum Upload {
    /// The body becomes a resource.
    Add { path: Vec<u8> },
    /// Everything below the path leaves the cache. The body means nothing.
    Reset { path: Vec<u8> },
}

impl CachedSite {
    pub fn new(cache: Arc<Cache>, access: Access) -> Self {
        Self { cache, access, webui: WebUi::new(), started: Instant::now() }
    }

    /// Makes the site of another cache, with the same rules of access.
    #[must_use]
    pub fn beside(&self, cache: Arc<Cache>) -> Self {
        Self { cache, access: self.access.clone(), webui: WebUi::new(), started: self.started }
    }

    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
}

impl Site for CachedSite {
    type File = CachedFile;
    type Upload = Upload;

    #[inline(always)]
    fn with_file<R>(
        &self,
        path: &[u8],
        encoded: bool,
        now: Now,
        send: impl FnMut(Found<'_, CachedFile>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        self.cache.with_file(path, encoded, now, send)
    }

    fn root(&self, now: Now) -> Option<CheckedRoot> {
        Some(self.cache.root(now))
    }

    fn with_own_file<R>(
        &self,
        normal: &[u8],
        now: Now,
        send: impl FnMut(Found<'_, CachedFile>) -> R,
    ) -> Result<(R, Lookup), NotFound> {
        self.cache.with_own_file(normal, now, send)
    }

    fn prepare(&self, key: &[u8], coding: Coding, now: Now, defer: impl FnOnce() -> Promise) -> bool {
        self.cache.prepare(key, coding, now, defer)
    }

    #[inline]
    fn on_lookup(&self, lookup: Lookup) {
        self.cache.resources.statistics.record_lookup(lookup);
    }

    #[inline]
    fn heads(file: &CachedFile) -> &Heads {
        file.heads()
    }

    #[inline]
    fn push_ok(&self, file: &CachedFile, connection: Connection, now: Now, out: &mut Outbox) -> u64 {
        file.push_ok(connection, now, out)
    }

    fn push_range(&self, file: &CachedFile, range: Range<u64>, out: &mut Outbox) {
        file.push_range(range, out);
    }

    #[inline]
    fn route(&self, request: &Request<'_>, now: Now) -> Route<'_, Upload> {
        match request.target {
            Target::Path { path, .. } if path.starts_with(PREFIX) => {
                self.administer(request, &path[PREFIX.len()..], now)
            }
            Target::Path { .. } | Target::Server | Target::Authority(_) => Route::File,
        }
    }

    fn on_upload(&self, upload: Upload, body: Vec<u8>, now: Now) -> Response<'_> {
        let path = match upload {
            Upload::Add { path } => path,
            Upload::Reset { path } => {
                return json(Status::Ok, &serde_json::json!({ "evicted": self.cache.reset(&path) }));
            }
        };
        let added = match self.cache.add(&path, &body, now) {
            Ok(added) => added,
            Err(error) => return failure(status(error), &error.to_string()),
        };
        let (status, replaced) = match added {
            Added::Created => (Status::Created, false),
            Added::Replaced => (Status::Ok, true),
        };
        let uri = String::from_utf8_lossy(&path);
        json(status, &serde_json::json!({ "added": uri, "size": body.len(), "replaced": replaced }))
    }

    fn retire(&self) {
        self.cache.clear();
    }

    #[inline]
    fn on_responses(&self, responses: u64, now: Now) {
        if responses > 0 {
            self.cache.resources.statistics.record_latency(responses, now);
        }
    }
}

// --- the server's own resources ---------------------------------------------------------------

type Administered<'a> = Result<Route<'a, Upload>, Failure>;

/// Error in a request to one of the server's own resources.
struct Failure {
    status: Status,
    why: Cow<'static, str>,
    allow: Option<&'static str>,
}

impl Failure {
    fn new(status: Status, why: &'static str) -> Self {
        Self { status, why: why.into(), allow: None }
    }

    fn method(allow: &'static str) -> Self {
        Self { allow: Some(allow), ..Self::new(Status::MethodNotAllowed, "method not allowed; see Allow") }
    }
}

impl From<Denial> for Failure {
    fn from(Denial { status, why }: Denial) -> Self {
        Self::new(status, why)
    }
}

impl CachedSite {
    #[cold]
    fn administer(&self, request: &Request<'_>, below: &[u8], now: Now) -> Route<'_, Upload> {
        let administered = match below {
            b"/webui" => Ok(Route::Respond(Response::Prepared(Cow::Owned(redirect("/cache/webui/"))))),
            b"/stats" => self.stats(request, now),
            _ => match below.strip_prefix(b"/").and_then(|below| split(below)) {
                Some((b"webui", name)) => self.page(request, &name[1..]),
                Some((b"reset", target)) => self.reset(request, target),
                Some((b"add", target)) => self.add(request, target),
                // `/cached.html`, say, is a file like any other.
                None if !below.is_empty() && !below.starts_with(b"/") => return Route::File,
                _ => Err(Failure::new(
                    Status::NotFound,
                    "not found; there are /cache/stats, /cache/reset/, /cache/add/ and /cache/webui/",
                )),
            },
        };
        administered.unwrap_or_else(|failure| Route::Respond(failed(&failure)))
    }

    fn stats(&self, request: &Request<'_>, now: Now) -> Administered<'_> {
        self.access.check(request)?;
        if !matches!(request.method, Method::Get | Method::Head) {
            return Err(Failure::method("GET, HEAD"));
        }
        let report = Report::new(&self.cache, now, now.instant.saturating_duration_since(self.started));
        Ok(Route::Respond(json(Status::Ok, &report)))
    }

    fn page(&self, request: &Request<'_>, name: &[u8]) -> Administered<'_> {
        match (request.method, self.webui.get(name)) {
            (Method::Get | Method::Head, Some(page)) => Ok(Route::Respond(Response::Prepared(Cow::Borrowed(page)))),
            (_, Some(_)) => Err(Failure::method("GET, HEAD")),
            (_, None) => Err(Failure::new(Status::NotFound, "the page has no such file")),
        }
    }

    fn reset(&self, request: &Request<'_>, target: &[u8]) -> Administered<'_> {
        self.access.check_change(request)?;
        if !matches!(request.method, Method::Get | Method::Post | Method::Delete) {
            return Err(Failure::method("GET, POST, DELETE"));
        }
        Ok(Route::Upload { upload: Upload::Reset { path: self.normal(target)? }, bytes_max: NEEDLESS_BODY_MAX })
    }

    fn add(&self, request: &Request<'_>, target: &[u8]) -> Administered<'_> {
        self.access.check_change(request)?;
        if !matches!(request.method, Method::Post | Method::Put) {
            return Err(Failure::method("POST, PUT"));
        }
        let path = self.normal(target)?;
        if path == PREFIX || path.starts_with(b"/cache/") {
            return Err(Failure::new(Status::Conflict, "paths below /cache/ are reserved"));
        }
        let bytes_max = usize::try_from(self.cache.options.overlay_bytes).unwrap_or(usize::MAX);
        Ok(Route::Upload { upload: Upload::Add { path }, bytes_max })
    }

    fn normal(&self, target: &[u8]) -> Result<Vec<u8>, Failure> {
        self.cache.normalise(target).map_err(|_| Failure::new(Status::BadRequest, "invalid path"))
    }
}

/// Splits `name/rest` into `name` and `/rest`.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    path.iter().position(|&byte| byte == b'/').map(|at| path.split_at(at))
}

fn status(error: OverlayError) -> Status {
    match error {
        OverlayError::Full => Status::ContentTooLarge,
        OverlayError::Exhausted => Status::ServiceUnavailable,
    }
}

fn redirect(to: &str) -> PreparedResponse {
    PreparedResponse::builder(Status::MovedPermanently).field("Location", to).field("Content-Length", "0").body(b"")
}

fn failure<'a>(status: Status, why: &str) -> Response<'a> {
    failed(&Failure { status, why: why.to_owned().into(), allow: None })
}

fn failed<'a>(failure: &Failure) -> Response<'a> {
    rendered(failure.status, &serde_json::json!({ "error": failure.why }), failure.allow)
}

fn json<'a>(status: Status, value: &impl Serialize) -> Response<'a> {
    rendered(status, value, None)
}

fn rendered<'a>(status: Status, value: &impl Serialize, allow: Option<&str>) -> Response<'a> {
    // Plain structures and strings: nothing in them can fail to be written.
    let Ok(mut body) = serde_json::to_vec(value) else { return Response::Page(Status::InternalError) };
    body.push(b'\n');
    let mut builder = PreparedResponse::builder(status)
        .field("Content-Type", "application/json")
        .field("Content-Length", body.len().to_string())
        .field("Cache-Control", "no-store")
        .field("X-Content-Type-Options", "nosniff");
    if status == Status::Unauthorized {
        builder = builder.field("WWW-Authenticate", "Bearer");
    }
    if let Some(allow) = allow {
        builder = builder.field("Allow", allow);
    }
    Response::Prepared(Cow::Owned(builder.body(&body)))
}
