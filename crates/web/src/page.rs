//! Responses that are the same for everyone: error pages, and the response to OPTIONS.

use wire::http1::{PreparedResponse, Status, response::ResponseBuilder};

/// Methods of every file.
const ALLOW: &str = "GET, HEAD, OPTIONS";
/// Delay before a peer that was turned away may try again, in seconds.
const RETRY_AFTER: &str = "1";

/// Responses for each status, made once.
///
/// They repeat nothing of a request, so there is nothing in them to escape.
#[derive(Debug)]
pub(crate) struct Pages(Vec<PreparedResponse>);

impl Pages {
    pub(crate) fn new() -> Self {
        Self(Status::ALL.iter().map(|&status| page(status, PreparedResponse::builder(status))).collect())
    }

    #[inline]
    pub(crate) fn get(&self, status: Status) -> &PreparedResponse {
        // In the order of `ALL`, which is the order of the enum.
        &self.0[status as usize]
    }
}

/// Makes a 301 to a path of this server, which is already encoded.
pub(crate) fn redirect(location: &[u8]) -> PreparedResponse {
    let status = Status::MovedPermanently;
    page(status, PreparedResponse::builder(status).field("Location", location))
}

/// Makes a 416 for a file of `size` bytes.
pub(crate) fn unsatisfiable(size: u64) -> PreparedResponse {
    let status = Status::RangeNotSatisfiable;
    page(status, PreparedResponse::builder(status).field("Content-Range", format!("bytes */{size}")))
}

/// Makes a whole 503 without a date: there is no clock where it is sent.
pub(crate) fn refusal() -> Vec<u8> {
    let status = Status::ServiceUnavailable;
    let body = html(status);
    let fields = format!(
        "Connection: close\r\nRetry-After: {RETRY_AFTER}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [status.line(), &fields, &body].concat().into_bytes()
}

fn page(status: Status, builder: ResponseBuilder) -> PreparedResponse {
    let builder = match status {
        Status::NoContent => return builder.field("Allow", ALLOW).body(b""),
        Status::Ok | Status::Created | Status::PartialContent | Status::NotModified => return builder.body(b""),
        Status::MethodNotAllowed => builder.field("Allow", ALLOW),
        Status::Unauthorized => builder.field("WWW-Authenticate", "Bearer"),
        Status::ServiceUnavailable => builder.field("Retry-After", RETRY_AFTER),
        Status::MovedPermanently
        | Status::BadRequest
        | Status::Forbidden
        | Status::NotFound
        | Status::RequestTimeout
        | Status::Conflict
        | Status::PreconditionFailed
        | Status::ContentTooLarge
        | Status::UriTooLong
        | Status::RangeNotSatisfiable
        | Status::FieldsTooLarge
        | Status::InternalError
        | Status::NotImplemented
        | Status::VersionNotSupported
        | Status::InsufficientStorage => builder,
    };
    let body = html(status);
    builder
        .field("Content-Type", "text/html; charset=utf-8")
        .field("Content-Length", body.len().to_string())
        .body(body.as_bytes())
}

fn html(status: Status) -> String {
    let title = format!("{} {}", status.code(), status.reason());
    format!("<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n")
}
