//! The head of a response: strict parsing, and the template that makes parsing the second one unnecessary.

use std::ops::Range;

use super::DecodeError;
use crate::http1::coding::Coding;

/// Coding of a body, as `Content-Encoding` names it; `None` is several codings, or one that is not known here.
pub type ContentCoding = Option<Coding>;

/// Most headers that are accepted.
pub(super) const HEADERS_MAX: usize = 100;

const VERSION: &[u8] = b"HTTP/1.";

/// The part of a response's head that decides how to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub body: BodyLength,
    pub persistence: Persistence,
}

impl Head {
    pub(super) fn is_interim(self) -> bool {
        self.status < 200
    }
}

/// Length of the body (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    Exact(u64),
    Chunked,
    UntilEof,
}

/// Persistence of the connection (RFC 9112 §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    KeepAlive,
    Close,
}

/// The last accepted head of the answers to one request.
#[derive(Debug, Default)]
pub struct HeadTemplate {
    bytes: Vec<u8>,
    /// Range of the value of `Date` in `bytes`.
    date: Option<Range<usize>>,
    head: Option<Head>,
}

impl HeadTemplate {
    /// Makes an empty template.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the head at the beginning of `input` and its length, if it equals the last one except for the value of
    /// `Date`.
    #[inline]
    pub(super) fn accept(&mut self, input: &[u8]) -> Option<(Head, usize)> {
        let head = self.head?;
        let candidate = input.get(..self.bytes.len())?;
        (candidate == self.bytes || self.accept_new_date(candidate)).then_some((head, candidate.len()))
    }

    /// Checks a new date and keeps it, so that later heads compare equal again. That happens once a second.
    #[cold]
    fn accept_new_date(&mut self, candidate: &[u8]) -> bool {
        let Some(date) = self.date.clone() else { return false };
        let is_same_outside =
            candidate[..date.start] == self.bytes[..date.start] && candidate[date.end..] == self.bytes[date.end..];
        let is_date =
            || std::str::from_utf8(&candidate[date.clone()]).is_ok_and(|text| httpdate::parse_http_date(text).is_ok());
        if !is_same_outside || !is_date() {
            return false;
        }
        self.bytes.copy_from_slice(candidate);
        true
    }

    /// Parses one complete head and keeps it as the new template.
    pub(super) fn learn(&mut self, bytes: &[u8]) -> Result<(Head, ContentCoding), DecodeError> {
        let (head, facts) = parse(bytes)?;
        if !head.is_interim() {
            self.bytes.clear();
            self.bytes.extend_from_slice(bytes);
            self.date = facts.date;
            self.head = Some(head);
        }
        Ok((head, facts.coding))
    }
}

/// Fails as soon as the first bytes cannot be a status line.
pub(super) fn check_beginning(bytes: &[u8]) -> Result<(), DecodeError> {
    let length = bytes.len().min(VERSION.len());
    if bytes[..length] == VERSION[..length] { Ok(()) } else { Err(DecodeError::Head) }
}

/// Fails if the lines received so far are malformed, or if they end the head with bare line feeds.
pub(super) fn check_unfinished(bytes: &[u8]) -> Result<(), DecodeError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    match httparse::Response::new(&mut headers).parse(bytes).map_err(from_httparse)? {
        httparse::Status::Partial => Ok(()),
        httparse::Status::Complete(_) => Err(DecodeError::Head),
    }
}

fn parse(bytes: &[u8]) -> Result<(Head, Facts), DecodeError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    if response.parse(bytes).map_err(from_httparse)? != httparse::Status::Complete(bytes.len()) {
        return Err(DecodeError::Head);
    }
    let (Some(status), Some(version)) = (response.code, response.version) else { return Err(DecodeError::Head) };
    // 101 ends HTTP on this connection, and no request has asked for that.
    if !(100..=599).contains(&status) || status == 101 {
        return Err(DecodeError::Head);
    }
    let facts = Facts::gather(response.headers, bytes)?;
    let persistence = if facts.says_close || (version == 0 && !facts.says_keep_alive) {
        Persistence::Close
    } else {
        Persistence::KeepAlive
    };
    let body = match (facts.length, facts.is_chunked) {
        (Some(_), true) => return Err(DecodeError::Framing),
        (None, true) if version == 0 => return Err(DecodeError::Framing),
        _ if status < 200 || status == 204 || status == 304 => BodyLength::Exact(0),
        (Some(length), false) => BodyLength::Exact(length),
        (None, true) => BodyLength::Chunked,
        (None, false) => BodyLength::UntilEof,
    };
    let persistence = if body == BodyLength::UntilEof { Persistence::Close } else { persistence };
    Ok((Head { status, body, persistence }, facts))
}

fn from_httparse(error: httparse::Error) -> DecodeError {
    if error == httparse::Error::TooManyHeaders { DecodeError::HeadTooLarge } else { DecodeError::Head }
}

struct Facts {
    length: Option<u64>,
    coding: ContentCoding,
    is_chunked: bool,
    says_close: bool,
    says_keep_alive: bool,
    date: Option<Range<usize>>,
}

impl Facts {
    fn gather(headers: &[httparse::Header<'_>], bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut facts = Self {
            length: None,
            coding: Some(Coding::Identity),
            is_chunked: false,
            says_close: false,
            says_keep_alive: false,
            date: None,
        };
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let length = parse_length(header.value).ok_or(DecodeError::Framing)?;
                if facts.length.replace(length).is_some() {
                    return Err(DecodeError::Framing);
                }
            } else if is("transfer-encoding") {
                if facts.is_chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(DecodeError::Framing);
                }
                facts.is_chunked = true;
            } else if is("connection") {
                for token in header.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    facts.says_close |= token.eq_ignore_ascii_case(b"close");
                    facts.says_keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if is("content-encoding") {
                // A second field is a second coding (RFC 9110 §8.4).
                facts.coding = Coding::named(header.value).filter(|_| facts.coding == Some(Coding::Identity));
            } else if is("date") {
                let start = header.value.as_ptr().addr() - bytes.as_ptr().addr();
                facts.date = Some(start..start + header.value.len());
            }
        }
        Ok(facts)
    }
}

/// Parses digits: no sign, no list, no blanks, no overflow.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}
