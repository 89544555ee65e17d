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
    /// Renders them with the configured fields of every response.
    pub(crate) fn new(fields: &[u8]) -> Self {
        Self(Status::ALL.iter().map(|&status| page(status, None, fields)).collect())
    }

    #[inline]
    pub(crate) fn get(&self, status: Status) -> &PreparedResponse {
        // In the order of `ALL`, which is the order of the enum.
        &self.0[status as usize]
    }
}

/// Makes a redirect to a reference, which is already encoded.
pub(crate) fn redirect(status: Status, location: &[u8], fields: &[u8]) -> PreparedResponse {
    with_html(status, PreparedResponse::builder(status).field("Location", location), fields)
}

/// Makes a 416 for a file of `size` bytes.
pub(crate) fn unsatisfiable(size: u64, fields: &[u8]) -> PreparedResponse {
    let status = Status::RangeNotSatisfiable;
    with_html(status, PreparedResponse::builder(status).field("Content-Range", format!("bytes */{size}")), fields)
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

/// Makes the page for a status, with configured fields.
pub(crate) fn page(status: Status, own_field: Option<(&str, &str)>, fields: &[u8]) -> PreparedResponse {
    let builder = builder(status, own_field);
    if status.code() < 300 || status == Status::NotModified {
        return builder.lines(fields).body(b"");
    }
    with_html(status, builder, fields)
}

/// Begins a response with the field that its status needs: this one, or else the usual one.
pub(crate) fn builder(status: Status, own_field: Option<(&str, &str)>) -> ResponseBuilder {
    let builder = PreparedResponse::builder(status);
    if let Some((name, value)) = own_field {
        return builder.field(name, value);
    }
    match status {
        Status::NoContent | Status::MethodNotAllowed => builder.field("Allow", ALLOW),
        Status::Unauthorized => builder.field("WWW-Authenticate", "Bearer"),
        Status::ServiceUnavailable | Status::TooManyRequests => builder.field("Retry-After", RETRY_AFTER),
        Status::Ok
        | Status::Created
        | Status::PartialContent
        | Status::NotModified
        | Status::MovedPermanently
        | Status::Found
        | Status::SeeOther
        | Status::TemporaryRedirect
        | Status::PermanentRedirect
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
        | Status::BadGateway
        | Status::GatewayTimeout
        | Status::VersionNotSupported
        | Status::InsufficientStorage => builder,
    }
}

fn with_html(status: Status, builder: ResponseBuilder, fields: &[u8]) -> PreparedResponse {
    let body = html(status);
    builder
        .lines(fields)
        .field("Content-Type", "text/html; charset=utf-8")
        .field("Content-Length", body.len().to_string())
        .body(body.as_bytes())
}

fn html(status: Status) -> String {
    let title = format!("{} {}", status.code(), status.reason());
    format!("<!doctype html>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<h1>{title}</h1>\n")
}
