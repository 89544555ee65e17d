use memchr::memchr;
use thiserror::Error;

use super::SEPARATOR;

/// Length above which a request that begins with no command is refused before its end has arrived.
const UNKNOWN_BYTES_MAX: usize = 64 * 1024;

/// Limits of the size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Longest request without its separator.
    pub request_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { request_bytes_max: 512 << 20 }
    }
}

/// Error of a request longer than [`RequestLimits::request_bytes_max`]. The connection is closed, since its end is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("request too long")]
pub struct TooLong;

/// A request, borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Get {
        key: &'a [u8],
    },
    /// The value is the whole rest behind the blank that follows the key.
    Set {
        key: &'a [u8],
        value: &'a [u8],
    },
    Del {
        key: &'a [u8],
    },
    Multi,
    Exec,
    Discard,
    /// A request that is answered by [`super::reply::error`].
    Refused(Refusal),
}

/// Reason why a request is answered with an error. `Display` is the original's text behind `ERROR: `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A single word that is no command without arguments.
    #[error("Unable to parse request")]
    Unparsable,
    /// A known verb with too few or too many arguments.
    #[error("Invalid command format")]
    Malformed,
    #[error("Unknown command")]
    Unknown,
}

/// Result of [`RequestParser::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A request of `consumed` bytes, the separator included.
    Complete { request: Request<'a>, consumed: usize },
    /// The separator has not arrived. The number of missing bytes is not known, so `need` is 0.
    Incomplete { need: usize },
}

/// Parser of requests, one per connection. It remembers how far a torn request has been searched.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestParser {
    searched: usize,
}

impl RequestParser {
    /// True if part of a request has been read and the rest has not.
    #[inline]
    pub fn is_mid_request(&self) -> bool {
        self.searched != 0
    }

    /// Parses the request at the start of `input`. If it is torn, `input` must be offered again from the same byte,
    /// with more behind it.
    ///
    /// # Errors
    /// More bytes than the limit have arrived without a separator, or more than 64 KiB that begin with no command.
    #[inline]
    pub fn parse<'a>(&mut self, input: &'a [u8], limits: &RequestLimits) -> Result<Parsed<'a>, TooLong> {
        let limit = limits.request_bytes_max.saturating_add(1);
        let until = input.len().min(limit);
        let Some(found) = memchr(SEPARATOR, &input[self.searched..until]) else {
            self.searched = until;
            let is_too_long = input.len() >= limit || is_refused(input, until);
            return if is_too_long { Err(TooLong) } else { Ok(Parsed::Incomplete { need: 0 }) };
        };
        let end = self.searched + found;
        self.searched = 0;
        if end > UNKNOWN_BYTES_MAX && is_refused(input, end) {
            return Err(TooLong);
        }
        Ok(Parsed::Complete { request: Request::read(&input[..end]), consumed: end + 1 })
    }
}

/// True for a request of this length, as far as it goes, that is long and begins with no command that may be.
#[cold]
fn is_refused(input: &[u8], length: usize) -> bool {
    length > UNKNOWN_BYTES_MAX && ![b"GET ", b"SET ", b"DEL "].iter().any(|verb| input.starts_with(*verb))
}

impl<'a> Request<'a> {
    /// Parses a request without its separator.
    #[inline]
    fn read(line: &'a [u8]) -> Self {
        match line {
            [b'G', b'E', b'T', b' ', key @ ..] => Self::with_key(key, |key| Self::Get { key }),
            [b'D', b'E', b'L', b' ', key @ ..] => Self::with_key(key, |key| Self::Del { key }),
            [b'S', b'E', b'T', b' ', rest @ ..] => match memchr(b' ', rest) {
                Some(end) if end > 0 => Self::Set { key: &rest[..end], value: &rest[end + 1..] },
                _ => Self::Refused(Refusal::Malformed),
            },
            b"MULTI" => Self::Multi,
            b"EXEC" => Self::Exec,
            b"DISCARD" => Self::Discard,
            other if memchr(b' ', other).is_some() => Self::Refused(Refusal::Unknown),
            _ => Self::Refused(Refusal::Unparsable),
        }
    }

    #[inline]
    fn with_key(key: &'a [u8], request: impl FnOnce(&'a [u8]) -> Self) -> Self {
        if key.is_empty() || memchr(b' ', key).is_some() { Self::Refused(Refusal::Malformed) } else { request(key) }
    }
}
