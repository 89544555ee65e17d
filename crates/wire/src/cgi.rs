//! Header block of a CGI program's output (RFC 3875, section 6).
//!
//! Lines end with LF or CRLF. Anything that would let a program's output be understood in two ways, or let it take part in the
//! framing of the connection, is an error.

use std::time::Duration;

use thiserror::Error;

use crate::http1::{Connection, Status, date::date_now, is_token_byte};

/// Length of the longest header block, in bytes.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Most fields of a header block: with those that the server adds they are fewer than the 100 that our own client takes.
pub const FIELDS_MAX: usize = 90;

/// Fields that concern a single connection (RFC 9110, section 7.6.1), which is the server's and not the program's.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
];
/// Fields that the server writes itself.
const OF_THE_SERVER: [&str; 2] = ["content-length", "date"];

/// Reason why the output of a program is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CgiError {
    #[error("the output is empty")]
    Empty,
    #[error("there is no empty line behind the header fields")]
    Unterminated,
    #[error("the header block is longer than 32 KiB, or has more than 100 fields")]
    TooLarge,
    #[error("a line of the header block is no field")]
    MalformedField,
    #[error("Status, Location, Content-Type or Content-Length is given twice")]
    Repeated,
    #[error("Status is not a code between 200 and 599")]
    InvalidStatus,
    #[error("Location is neither a path that begins with / nor an absolute URI")]
    InvalidLocation,
    #[error("Content-Length is not the length of the body")]
    WrongLength,
    #[error("a field of the connection (Connection, Transfer-Encoding, Upgrade, ...) is the server's")]
    HopByHop,
    #[error("a body needs a Content-Type")]
    NoContentType,
    #[error("a response with status 204, 205 or 304 has no body")]
    BodyNotAllowed,
    #[error("there is neither a Content-Type, a Location nor a Status")]
    NoCgiField,
}

/// Response of a program, borrowed from its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgiResponse<'a> {
    /// Path and query on this server that are to be answered instead.
    LocalRedirect(&'a [u8]),
    Document(Document<'a>),
}

/// Response that is sent as it is: a document, or a redirect of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    pub code: u16,
    /// Reason phrase; empty where the program gives none.
    pub reason: &'a [u8],
    /// Fields to send, Content-Type and Location included, without those of the server's own.
    pub fields: Vec<(&'a [u8], &'a [u8])>,
    pub body: &'a [u8],
}

#[derive(Default)]
struct Known<'a> {
    status: Option<&'a [u8]>,
    location: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
}

/// Parses the whole output of a program.
///
/// # Errors
/// See [`CgiError`]; the answer to the client is then 502.
pub fn parse(output: &[u8]) -> Result<CgiResponse<'_>, CgiError> {
    if output.is_empty() {
        return Err(CgiError::Empty);
    }
    let (mut known, mut fields, mut rest, mut count) = (Known::default(), Vec::new(), output, 0);
    while let Some((name, value)) = next_field(output, &mut rest)? {
        count += 1;
        if count > FIELDS_MAX {
            return Err(CgiError::TooLarge);
        }
        let slot = match name {
            _ if is_one_of(name, &HOP_BY_HOP) => return Err(CgiError::HopByHop),
            _ if name.eq_ignore_ascii_case(b"status") => &mut known.status,
            _ if name.eq_ignore_ascii_case(b"location") => &mut known.location,
            _ if name.eq_ignore_ascii_case(b"content-type") => &mut known.content_type,
            _ if name.eq_ignore_ascii_case(b"content-length") => &mut known.content_length,
            _ => {
                if !is_one_of(name, &OF_THE_SERVER) {
                    fields.push((name, value));
                }
                continue;
            }
        };
        if slot.replace(value).is_some() {
            return Err(CgiError::Repeated);
        }
    }
    known.response(fields, rest)
}

impl<'a> Known<'a> {
    fn response(self, mut fields: Vec<(&'a [u8], &'a [u8])>, body: &'a [u8]) -> Result<CgiResponse<'a>, CgiError> {
        if self.content_length.is_some_and(|length| parse_decimal(length) != Some(body.len() as u64)) {
            return Err(CgiError::WrongLength);
        }
        if !body.is_empty() && self.content_type.is_none_or(<[u8]>::is_empty) {
            return Err(CgiError::NoContentType);
        }
        let status = self.status.map(parse_status).transpose()?;
        if let Some(location) = self.location {
            if is_local(location) && status.is_none() && body.is_empty() {
                return Ok(CgiResponse::LocalRedirect(location));
            }
            if !is_local(location) && !is_absolute(location) {
                return Err(CgiError::InvalidLocation);
            }
            fields.push((b"Location", location));
        }
        if let Some(content_type) = self.content_type.filter(|value| !value.is_empty()) {
            fields.push((b"Content-Type", content_type));
        }
        let (code, reason) = match (status, self.location, self.content_type) {
            (Some(status), ..) => status,
            (None, Some(_), _) => (302, &b"Found"[..]),
            (None, None, Some(_)) => (200, &b"OK"[..]),
            (None, None, None) => return Err(CgiError::NoCgiField),
        };
        if is_bodiless(code) && !body.is_empty() {
            return Err(CgiError::BodyNotAllowed);
        }
        Ok(CgiResponse::Document(Document { code, reason, fields, body }))
    }
}

impl Document<'_> {
    /// Appends the head of the response as HTTP/1.1, as sent at `unix` since the epoch.
    pub fn push_head(&self, connection: Connection, unix: Duration, out: &mut Vec<u8>) {
        let known =
            || Status::ALL.iter().find(|status| status.code() == self.code).map_or("", |status| status.reason());
        let reason = if self.reason.is_empty() { known().as_bytes() } else { self.reason };
        out.extend_from_slice(format!("HTTP/1.1 {} ", self.code).as_bytes());
        for piece in [reason, b"\r\nDate: ", &date_now(unix), connection.field(), b"\r\n"] {
            out.extend_from_slice(piece);
        }
        for (name, value) in &self.fields {
            for piece in [name, &b": "[..], value, b"\r\n"] {
                out.extend_from_slice(piece);
            }
        }
        // Without a length, a 205 would end with the connection (RFC 9110, 15.3.6); the other two end with the head.
        if !matches!(self.code, 204 | 304) {
            out.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn is_bodiless(code: u16) -> bool {
    matches!(code, 204 | 205 | 304)
}

/// Name and value.
type Field<'a> = (&'a [u8], &'a [u8]);

/// Takes a line from `rest`; `None` for the empty one.
fn next_field<'a>(output: &'a [u8], rest: &mut &'a [u8]) -> Result<Option<Field<'a>>, CgiError> {
    let room = HEAD_BYTES_MAX - (output.len() - rest.len());
    let Some(end) = memchr::memchr(b'\n', &rest[..rest.len().min(room)]) else {
        return Err(if rest.len() >= room { CgiError::TooLarge } else { CgiError::Unterminated });
    };
    let line = &rest[..end];
    *rest = &rest[end + 1..];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Ok(None);
    }
    let colon = memchr::memchr(b':', line).ok_or(CgiError::MalformedField)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_text = |&byte: &u8| byte == b'\t' || !byte.is_ascii_control();
    if name.is_empty() || !name.iter().all(|&byte| is_token_byte(byte)) || !value.iter().all(is_text) {
        return Err(CgiError::MalformedField);
    }
    Ok(Some((name, value)))
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Splits `404 Not Found`. A code below 200 is no final response, and 304 and the like are the program's own affair.
fn parse_status(value: &[u8]) -> Result<(u16, &[u8]), CgiError> {
    let (code, reason) = value.split_at_checked(3).ok_or(CgiError::InvalidStatus)?;
    let code = parse_decimal(code).and_then(|code| u16::try_from(code).ok()).ok_or(CgiError::InvalidStatus)?;
    if !(200..=599).contains(&code) || reason.first().is_some_and(|&byte| byte != b' ') {
        return Err(CgiError::InvalidStatus);
    }
    Ok((code, reason.trim_ascii()))
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// True for a path on this server: what begins with two slashes names another one.
fn is_local(location: &[u8]) -> bool {
    is_uri(location) && location.starts_with(b"/") && !location.starts_with(b"//")
}

fn is_absolute(location: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', location) else { return false };
    let (scheme, rest) = (&location[..colon], &location[colon + 1..]);
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    is_scheme && !rest.is_empty() && is_uri(location)
}

/// True for bytes that can stand in a request's target or a `Location`.
fn is_uri(location: &[u8]) -> bool {
    location.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests;
