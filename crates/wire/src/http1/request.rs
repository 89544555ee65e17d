//! Request heads: strict, incremental, without allocation.
//!
//! The path of a usual request (`usual.rs`) is `inline(always)`: a parsed request is a dozen words, and handing it
//! from one function to the next through memory was a third of the time that reading a short head takes.

use thiserror::Error;

use super::{
    Status, Target,
    byte_set::IN_TOKEN,
    coding::AcceptedCodings,
    fields::{Host, Seen},
    scan::LineScan,
    usual,
};

/// Most fields of a request.
pub(super) const FIELDS_MAX: usize = 100;
/// Fields of nearly every request; memory for more is only cleared when needed.
const FIELDS_USUAL: usize = 16;

/// Limits of the size of a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Longest line, without its CRLF.
    pub line_bytes_max: usize,
    /// Longest head, with its empty line; at most `u32::MAX`.
    pub head_bytes_max: usize,
    /// True for heads that have been made of HTTP/2's fields ([`crate::http2::RequestHead`]), and say so.
    pub is_http2: bool,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { line_bytes_max: 8 * 1024, head_bytes_max: 32 * 1024, is_http2: false }
    }
}

/// Reason why a request is refused. The connection is closed after the error, since the start of the next request is
/// uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("malformed request head")]
    Malformed,
    #[error("request line too long")]
    TargetTooLong,
    #[error("header fields too large or too many")]
    FieldsTooLarge,
    #[error("unknown transfer coding")]
    UnknownCoding,
    #[error("unsupported HTTP version")]
    UnsupportedVersion,
}

impl Refusal {
    pub fn status(self) -> Status {
        match self {
            Self::Malformed => Status::BadRequest,
            Self::TargetTooLong => Status::UriTooLong,
            Self::FieldsTooLarge => Status::FieldsTooLarge,
            Self::UnknownCoding => Status::NotImplemented,
            Self::UnsupportedVersion => Status::VersionNotSupported,
        }
    }
}

/// The methods of RFC 9110 and PATCH; anything else that is a token is `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    Unknown,
}

impl Method {
    fn from_name(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Unknown,
        }
    }

    /// True for the name of a method that is not `Unknown`.
    pub fn is_known(name: &[u8]) -> bool {
        Self::from_name(name) != Self::Unknown
    }
}

/// Version in which a request is answered; later minor versions count as 1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
    Http2,
}

/// Framing of the body behind the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    Empty,
    Length(u64),
    Chunked,
}

/// A whole request head, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: Method,
    pub target: Target<'a>,
    pub version: Version,
    pub body: Body,
    /// True if the peer expects the connection to stay open (RFC 9112, section 9.3).
    pub should_keep_alive: bool,
    /// True if there is at least one `If-…` field; see [`super::conditional`].
    pub is_conditional: bool,
    /// True if there is a `Range` field; see [`super::range`].
    pub has_range: bool,
    /// Bytes from the request line to the empty line, both included.
    pub head_len: usize,
    /// Field lines, known to be well formed.
    fields: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns names and values of all fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.fields.split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Returns the values of every field of this name, in order.
    #[inline]
    pub fn values<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let mut rest = self.fields;
        std::iter::from_fn(move || {
            loop {
                // Every line has its end, the empty one behind them as well.
                let end = memchr::memchr(b'\n', rest)?;
                let (line, next) = (&rest[..end], &rest[end + 1..]);
                rest = next;
                if line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name.as_bytes()) {
                    return Some(line[name.len() + 1..].trim_ascii());
                }
            }
        })
    }

    /// Returns the codings that the client accepts in a response.
    #[inline]
    pub fn accepted_codings(&self) -> AcceptedCodings {
        AcceptedCodings::parse(self.values("accept-encoding"))
    }
}

/// Returns the length of the empty lines in front of a request, which are tolerated (RFC 9112, section 2.2).
#[inline]
pub fn empty_lines_len(input: &[u8]) -> usize {
    let mut skipped = 0;
    while input[skipped..].starts_with(b"\r\n") {
        skipped += 2;
    }
    skipped
}

/// Parser of request heads, one per connection. It remembers how far a torn head has been searched, so that arrival
/// byte by byte costs no more than arrival at once.
#[derive(Clone, Debug, Default)]
pub struct HeadParser {
    scan: LineScan,
    first_line: u32,
}

impl HeadParser {
    /// True if part of a head has been read and the rest has not.
    #[inline]
    pub fn is_mid_request(&self) -> bool {
        !self.scan.is_at_start()
    }

    /// Parses the head at the start of `input`; `None` if it is torn. Then `input` must be offered again from the same
    /// byte, with more behind it.
    ///
    /// # Errors
    /// The first rule that the bytes break. It does not depend on how they were torn.
    #[inline(always)]
    pub fn parse<'a>(&mut self, input: &'a [u8], limits: &HeadLimits) -> Result<Option<Request<'a>>, Refusal> {
        if self.scan.is_at_start()
            && let Some(request) = usual::parse(input, limits)
        {
            return Ok(Some(request));
        }
        self.parse_any(input, limits)
    }

    #[inline(never)]
    fn parse_any<'a>(&mut self, input: &'a [u8], limits: &HeadLimits) -> Result<Option<Request<'a>>, Refusal> {
        // A TLS greeting on a plain port is recognised even if it has no line end.
        if self.scan.is_at_start() && input.first().is_some_and(|&byte| byte != b'\r' && !IN_TOKEN[byte as usize]) {
            return Err(Refusal::Malformed);
        }
        let mut request_line = None;
        if self.scan.is_in_first_line() {
            let Some((line, next)) = self.scan.next_line(input, limits)? else { return Ok(None) };
            request_line = Some(RequestLine::parse(line, limits)?);
            self.first_line = u32::try_from(next).unwrap_or(u32::MAX);
        }
        let head_len = loop {
            match self.scan.next_line(input, limits)? {
                Some(([], head_len)) => break head_len,
                Some(_) => {}
                None => return Ok(None),
            }
        };
        let first_line = self.first_line as usize;
        let request_line = match request_line {
            Some(request_line) => request_line,
            None => RequestLine::parse(&input[..first_line - 2], limits)?,
        };
        *self = Self::default();
        request_line.with_fields(&input[first_line..head_len], head_len).map(Some)
    }
}

#[derive(Clone, Copy)]
pub(super) struct RequestLine<'a> {
    pub(super) method: Method,
    pub(super) target: Target<'a>,
    pub(super) version: Version,
}

impl<'a> RequestLine<'a> {
    fn parse(line: &'a [u8], limits: &HeadLimits) -> Result<Self, Refusal> {
        let (rest, version) = match line.strip_suffix(b" HTTP/1.1") {
            Some(rest) => (rest, Version::Http11),
            None => split_version(line, limits)?,
        };
        let (method, target) = match rest.strip_prefix(b"GET ") {
            Some(target) => (Method::Get, target),
            None => split_method(rest)?,
        };
        Ok(Self { method, target: Target::parse(target, method)?, version })
    }

    fn with_fields(self, fields: &'a [u8], head_len: usize) -> Result<Request<'a>, Refusal> {
        let mut usual = [httparse::EMPTY_HEADER; FIELDS_USUAL];
        match httparse::parse_headers(fields, &mut usual) {
            Ok(httparse::Status::Complete((_, parsed))) => self.judge(parsed, fields, head_len),
            Err(httparse::Error::TooManyHeaders) => self.with_many_fields(fields, head_len),
            Ok(httparse::Status::Partial) | Err(_) => Err(Refusal::Malformed),
        }
    }

    #[cold]
    #[inline(never)]
    fn with_many_fields(self, fields: &'a [u8], head_len: usize) -> Result<Request<'a>, Refusal> {
        let mut many = [httparse::EMPTY_HEADER; FIELDS_MAX];
        match httparse::parse_headers(fields, &mut many) {
            Ok(httparse::Status::Complete((_, parsed))) => self.judge(parsed, fields, head_len),
            Err(httparse::Error::TooManyHeaders) => Err(Refusal::FieldsTooLarge),
            Ok(httparse::Status::Partial) | Err(_) => Err(Refusal::Malformed),
        }
    }

    fn judge(self, parsed: &[httparse::Header<'_>], fields: &'a [u8], head_len: usize) -> Result<Request<'a>, Refusal> {
        let mut seen = Seen::default();
        for field in parsed {
            seen.field(field.name.as_bytes(), field.value)?;
        }
        self.with_seen(&seen, fields, head_len)
    }

    /// Makes a request of its parts. `fields` ends with the empty line.
    #[inline(always)]
    pub(super) fn with_seen(self, seen: &Seen, fields: &'a [u8], head_len: usize) -> Result<Request<'a>, Refusal> {
        if seen.host == Host::Missing && self.version != Version::Http10 {
            return Err(Refusal::Malformed);
        }
        Ok(Request {
            method: self.method,
            target: self.target,
            version: self.version,
            body: seen.body(self.version)?,
            should_keep_alive: !seen.has_close && (self.version != Version::Http10 || seen.has_keep_alive),
            is_conditional: seen.is_conditional,
            has_range: seen.has_range,
            head_len,
            fields,
        })
    }
}

/// Splits any version but the usual ` HTTP/1.1` off a request line. A line without a version is HTTP/0.9, which is
/// refused.
#[cold]
fn split_version<'a>(line: &'a [u8], limits: &HeadLimits) -> Result<(&'a [u8], Version), Refusal> {
    let blank = memchr::memrchr(b' ', line).ok_or(Refusal::Malformed)?;
    let version = match &line[blank + 1..] {
        b"HTTP/2.0" if limits.is_http2 => Version::Http2,
        b"HTTP/1.0" => Version::Http10,
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9'] => Version::Http11,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => return Err(Refusal::UnsupportedVersion),
        _ => return Err(Refusal::Malformed),
    };
    Ok((&line[..blank], version))
}

#[cold]
fn split_method(rest: &[u8]) -> Result<(Method, &[u8]), Refusal> {
    let blank = memchr::memchr(b' ', rest).ok_or(Refusal::Malformed)?;
    let method = match &rest[..blank] {
        [] => return Err(Refusal::Malformed),
        name if name.iter().all(|&byte| IN_TOKEN[byte as usize]) => Method::from_name(name),
        _ => return Err(Refusal::Malformed),
    };
    Ok((method, &rest[blank + 1..]))
}

#[cfg(test)]
mod tests;
