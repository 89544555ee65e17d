//! Fields of a request that decide about its framing, its connection and the kind of its answer.

use super::{Body, Refusal, Version, authority};

/// The fields about framing, persistence, conditions and ranges.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) host: Host,
    content_length: Option<u64>,
    coding: Coding,
    pub(super) has_close: bool,
    pub(super) has_keep_alive: bool,
    pub(super) is_conditional: bool,
    pub(super) has_range: bool,
}

#[derive(Default, PartialEq, Eq)]
pub(super) enum Host {
    #[default]
    Missing,
    Given,
}

/// Transfer codings of a body, all fields together.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    Absent,
    Chunked,
    /// Others, with or without `chunked` at the end.
    Unknown,
    /// Something behind `chunked`, which has to be the last one and can be used once.
    Misplaced,
}

impl Coding {
    /// Returns these codings and `next` after them.
    fn then(self, next: &[u8]) -> Self {
        match (self, next.trim_ascii().eq_ignore_ascii_case(b"chunked")) {
            (Self::Absent, true) => Self::Chunked,
            (Self::Absent, false) | (Self::Unknown, _) => Self::Unknown,
            (Self::Chunked | Self::Misplaced, _) => Self::Misplaced,
        }
    }
}

impl Seen {
    /// Notes a field. Length and first letter rule nearly every field out before a comparison.
    #[inline(always)]
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
        match (name.len(), name.first().map_or(0, |first| first | 0x20)) {
            (4, b'h') if name.eq_ignore_ascii_case(b"host") => {
                // Exactly one, and a valid one (RFC 9112, section 3.2).
                if self.host == Host::Given || !authority::is_host(value) {
                    return Err(Refusal::Malformed);
                }
                self.host = Host::Given;
            }
            (5, b'r') if name.eq_ignore_ascii_case(b"range") => self.has_range = true,
            (10, b'c') if name.eq_ignore_ascii_case(b"connection") => self.connection(value),
            (14, b'c') if name.eq_ignore_ascii_case(b"content-length") => {
                let length = parse_length(value).ok_or(Refusal::Malformed)?;
                if self.content_length.replace(length).is_some() {
                    return Err(Refusal::Malformed);
                }
            }
            (17, b't') if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.coding = value.split(|&byte| byte == b',').fold(self.coding, Coding::then);
            }
            (8 | 13 | 17 | 19, b'i') if CONDITIONS.iter().any(|known| name.eq_ignore_ascii_case(known)) => {
                self.is_conditional = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.has_close |= option.eq_ignore_ascii_case(b"close");
            self.has_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Returns the framing by RFC 9112, section 6.3, and refuses everything that two readers could understand
    /// differently.
    #[inline(always)]
    pub(super) fn body(&self, version: Version) -> Result<Body, Refusal> {
        match (&self.coding, self.content_length) {
            (Coding::Absent, None | Some(0)) => Ok(Body::Empty),
            (Coding::Absent, Some(length)) => Ok(Body::Length(length)),
            (_, Some(_)) => Err(Refusal::Malformed),
            (_, None) if version == Version::Http10 => Err(Refusal::Malformed),
            (Coding::Chunked, None) => Ok(Body::Chunked),
            (Coding::Unknown, None) => Err(Refusal::UnknownCoding),
            // RFC 9112, section 6.3: where `chunked` is not the last coding, the length is unknown.
            (Coding::Misplaced, None) => Err(Refusal::Malformed),
        }
    }
}

const CONDITIONS: [&[u8]; 4] = [b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since"];

/// Parses `1*DIGIT`, without the sign that `str::parse` takes.
fn parse_length(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if !digits {
        return None;
    }
    value.iter().try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}
