//! Response heads, and whole responses rendered ahead of time.

use std::{sync::OnceLock, time::Duration};

use super::date::{self, DATE_LEN};
use crate::{hpack, http2};

macro_rules! statuses {
    ($($name:ident = $code:literal $reason:literal,)*) => {
        /// Statuses that our servers send.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Status { $($name,)* }

        impl Status {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn code(self) -> u16 {
                match self { $(Self::$name => $code,)* }
            }

            /// Returns the reason phrase of RFC 9110.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)* }
            }

            /// Returns the status line, such as `HTTP/1.1 200 OK`, with its CRLF.
            pub fn line(self) -> &'static str {
                match self { $(Self::$name => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n"),)* }
            }
        }
    };
}

statuses! {
    Ok = 200 "OK",
    Created = 201 "Created",
    NoContent = 204 "No Content",
    PartialContent = 206 "Partial Content",
    MovedPermanently = 301 "Moved Permanently",
    Found = 302 "Found",
    SeeOther = 303 "See Other",
    NotModified = 304 "Not Modified",
    TemporaryRedirect = 307 "Temporary Redirect",
    PermanentRedirect = 308 "Permanent Redirect",
    BadRequest = 400 "Bad Request",
    Unauthorized = 401 "Unauthorized",
    Forbidden = 403 "Forbidden",
    NotFound = 404 "Not Found",
    MethodNotAllowed = 405 "Method Not Allowed",
    RequestTimeout = 408 "Request Timeout",
    Conflict = 409 "Conflict",
    PreconditionFailed = 412 "Precondition Failed",
    ContentTooLarge = 413 "Content Too Large",
    UriTooLong = 414 "URI Too Long",
    RangeNotSatisfiable = 416 "Range Not Satisfiable",
    TooManyRequests = 429 "Too Many Requests",
    FieldsTooLarge = 431 "Request Header Fields Too Large",
    InternalError = 500 "Internal Server Error",
    NotImplemented = 501 "Not Implemented",
    BadGateway = 502 "Bad Gateway",
    ServiceUnavailable = 503 "Service Unavailable",
    GatewayTimeout = 504 "Gateway Timeout",
    VersionNotSupported = 505 "HTTP Version Not Supported",
    InsufficientStorage = 507 "Insufficient Storage",
}

/// The `Connection` field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// No field: an HTTP/1.1 connection stays open by default.
    Implied,
    /// `keep-alive`: HTTP/1.0 clients have to be told.
    KeepAlive,
    Close,
}

impl Connection {
    /// Returns bytes that go between two fields: they begin with a CRLF and do not end with one.
    pub(crate) fn field(self) -> &'static [u8] {
        match self {
            Self::Implied => b"",
            Self::KeepAlive => b"\r\nConnection: keep-alive",
            Self::Close => b"\r\nConnection: close",
        }
    }
}

/// The part of a response that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The head: in answer to HEAD, or for a body that comes from elsewhere.
    Head,
    Whole,
}

const DATE_FIELD: &str = "Date: ";
const LINE_END: &str = "\r\n";

/// A response rendered ahead of time, body included. Only the date and the `Connection` field are filled in when it is
/// sent, so that sending is one copy.
#[derive(Clone, Debug)]
pub struct PreparedResponse {
    /// Status line, a date of blanks, fields, empty line, body.
    bytes: Box<[u8]>,
    status: Status,
    head_len: usize,
    /// The head for HTTP/2, without its date; made when a client asks for it first.
    block: OnceLock<Box<[u8]>>,
}

/// Builder of a [`PreparedResponse`].
#[derive(Debug)]
pub struct ResponseBuilder {
    bytes: Vec<u8>,
    status: Status,
}

impl ResponseBuilder {
    /// Adds a field. `value` must be free of CR and LF; a caller that makes it from a request encodes it first.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        debug_assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n')), "a line break in a field value");
        for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.bytes.extend_from_slice(piece);
        }
        self
    }

    /// Adds fields that are lines of a head already, each with its CRLF.
    #[must_use]
    pub fn lines(mut self, lines: &[u8]) -> Self {
        debug_assert!(lines.is_empty() || lines.ends_with(b"\r\n"), "a field without its end");
        self.bytes.extend_from_slice(lines);
        self
    }

    /// Adds the fields of another response, except its date.
    #[must_use]
    pub fn fields_of(mut self, other: &PreparedResponse) -> Self {
        let from = other.date_at() + DATE_LEN + LINE_END.len();
        self.bytes.extend_from_slice(&other.bytes[from..other.head_len - LINE_END.len()]);
        self
    }

    /// Ends the head and adds the body. A length, if any, is a field like the others.
    pub fn body(mut self, body: &[u8]) -> PreparedResponse {
        self.bytes.extend_from_slice(b"\r\n");
        let head_len = self.bytes.len();
        self.bytes.extend_from_slice(body);
        PreparedResponse { bytes: self.bytes.into_boxed_slice(), status: self.status, head_len, block: OnceLock::new() }
    }
}

impl PreparedResponse {
    pub fn builder(status: Status) -> ResponseBuilder {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend_from_slice(status.line().as_bytes());
        bytes.extend_from_slice(DATE_FIELD.as_bytes());
        bytes.extend_from_slice(&[b' '; DATE_LEN]);
        bytes.extend_from_slice(b"\r\n");
        ResponseBuilder { bytes, status }
    }

    pub fn status(&self) -> Status {
        self.status
    }

    #[inline(always)]
    fn date_at(&self) -> usize {
        self.status.line().len() + DATE_FIELD.len()
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.head_len..]
    }

    /// Returns the bytes of memory held, those of the block that a client of HTTP/2 may ask for among them: it is never
    /// longer than the head, and made when they have been counted.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.len() + self.head_len
    }

    /// Length of the head without a `Connection` field, in bytes.
    pub fn head_len(&self) -> usize {
        self.head_len
    }

    /// Appends the response, or its head, as sent at `unix` since the epoch. Returns the number of bytes appended.
    #[inline]
    pub fn push(&self, part: Part, connection: Connection, unix: Duration, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        let end = match part {
            Part::Head => self.head_len,
            Part::Whole => self.bytes.len(),
        };
        let date = date::date_now(unix);
        let date_at = self.date_at();
        let date_end = date_at + DATE_LEN;
        if connection == Connection::Implied {
            out.extend_from_slice(&self.bytes[..end]);
            out[start + date_at..start + date_end].copy_from_slice(&date);
        } else {
            for piece in [&self.bytes[..date_at], &date, connection.field(), &self.bytes[date_end..end]] {
                out.extend_from_slice(piece);
            }
        }
        out.len() - start
    }

    /// Appends the head as a header block of HTTP/2, as sent at `unix` since the epoch.
    pub fn push_block(&self, unix: Duration, out: &mut Vec<u8>) {
        let block = self.block.get_or_init(|| {
            let fields = &self.bytes[self.date_at() + DATE_LEN + LINE_END.len()..self.head_len];
            let mut block = Vec::with_capacity(self.head_len);
            http2::push_response_block(self.status.code(), fields, &mut block);
            block.into()
        });
        out.extend_from_slice(block);
        hpack::push_date(&date::date_now(unix), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(prepared: &PreparedResponse, part: Part, connection: Connection) -> String {
        let mut out = b"before".to_vec();
        let appended = prepared.push(part, connection, Duration::from_secs(784_111_777), &mut out);
        assert_eq!(appended, out.len() - "before".len());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_date_and_connection_are_filled_in_when_sending() {
        let prepared = PreparedResponse::builder(Status::Ok).field("Content-Length", "4").body(b"body");
        let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        for (connection, field) in [
            (Connection::Implied, ""),
            (Connection::KeepAlive, "Connection: keep-alive\r\n"),
            (Connection::Close, "Connection: close\r\n"),
        ] {
            let head = format!("beforeHTTP/1.1 200 OK\r\n{date}{field}Content-Length: 4\r\n\r\n");
            assert_eq!(text(&prepared, Part::Head, connection), head);
            assert_eq!(text(&prepared, Part::Whole, connection), head + "body");
        }
    }

    #[test]
    fn fields_are_copied_without_the_date() {
        let other = PreparedResponse::builder(Status::NotModified).field("ETag", "\"a\"").field("X", "y").body(b"body");
        let prepared = PreparedResponse::builder(Status::Ok).fields_of(&other).lines(b"Z: z\r\n").body(b"");
        let head =
            "beforeHTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"a\"\r\nX: y\r\nZ: z\r\n\r\n";
        assert_eq!(text(&prepared, Part::Whole, Connection::Implied), head);
        let none = PreparedResponse::builder(Status::Ok)
            .fields_of(&PreparedResponse::builder(Status::NotFound).body(b""))
            .body(b"");
        assert!(text(&none, Part::Whole, Connection::Implied).ends_with("GMT\r\n\r\n"));
    }

    #[test]
    fn every_status_line_agrees_with_its_code_and_reason() {
        for status in Status::ALL {
            assert_eq!(status.line(), format!("HTTP/1.1 {} {}\r\n", status.code(), status.reason()));
        }
    }
}
