//! The parser of requests: lines, and the values behind them.

use memchr::memchr;

use super::{
    FatalError, Refusal, Request, binary,
    request::{Command, Store},
    text::{self, Line},
};

/// Bytes that memcached counts for an item beside its key and its value: its header with the unique number, and the end of
/// the value's line.
pub const ITEM_OVERHEAD_BYTES: usize = 59;

/// Limits of the size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest item: key, value and [`ITEM_OVERHEAD_BYTES`].
    pub item_bytes_max: usize,
    /// Longest command line without its LF.
    pub line_bytes_max: usize,
    /// Longest line of `get` and similar commands, which may ask for many keys.
    pub keys_line_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { item_bytes_max: 1 << 20, line_bytes_max: 2048, keys_line_bytes_max: 1 << 20 }
    }
}

impl Limits {
    /// True if an item with a key and a value of these lengths may be stored.
    #[inline]
    pub fn has_room_for(&self, key_bytes: usize, value_bytes: usize) -> bool {
        value_bytes <= self.item_bytes_max.saturating_sub(key_bytes + ITEM_OVERHEAD_BYTES)
    }
}

/// Result of [`RequestParser::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A request of `consumed` bytes.
    Complete { request: Request<'a>, consumed: usize },
    /// Bytes that are answered with an error and are no request.
    Refused { refusal: Refusal, consumed: usize },
    /// Bytes that are not answered: the value of a refused request, or a refused request with `noreply`.
    Skipped { consumed: usize },
    /// At least `need` bytes are missing; 0 if the number is unknown.
    Incomplete { need: usize },
}

/// Parser of requests, one per connection, whose first byte tells whether they are of the binary protocol. It remembers how
/// far a torn line has been searched, and how many bytes of a refused value are still to come.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestParser {
    searched: usize,
    refused_bytes: u64,
    has_begun: bool,
    is_binary: bool,
}

impl RequestParser {
    /// True if part of a request has been read and the rest has not.
    #[inline]
    pub fn is_mid_request(&self) -> bool {
        self.searched != 0 || self.refused_bytes != 0
    }

    /// True while the value of a refused request goes on: the next bytes are no request.
    #[inline]
    pub fn is_skipping(&self) -> bool {
        self.refused_bytes != 0
    }

    /// True if the connection speaks the binary protocol, as far as its first byte has been read.
    #[inline]
    pub fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Parses the request at the start of `input`. If it is torn, `input` must be offered again from the same byte,
    /// with more behind it.
    ///
    /// # Errors
    /// The peer is no memcached client. Neither this nor any result depends on how the bytes were torn.
    #[inline]
    pub fn parse<'a>(&mut self, input: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, FatalError> {
        if self.refused_bytes > 0 {
            return Ok(self.skip(input));
        }
        if !self.has_begun {
            self.is_binary = input.first() == Some(&binary::REQUEST_MAGIC);
            self.has_begun = !input.is_empty();
        }
        if self.is_binary {
            return self.parse_binary(input, limits);
        }
        let Some(line_end) = self.find_line(input, limits)? else { return Ok(Parsed::Incomplete { need: 0 }) };
        let parsed = match text::command(Line::new(&input[..line_end]))? {
            Command::Request(request) => Parsed::Complete { request, consumed: line_end },
            Command::Store { length, store } => self.with_value(input, line_end, length, store, limits),
            Command::Refused(refusal) => Parsed::Refused { refusal, consumed: line_end },
            Command::RefusedStore { refusal, length } => {
                self.refused_bytes = length + 2;
                Parsed::Refused { refusal, consumed: line_end }
            }
            Command::Silent => Parsed::Skipped { consumed: line_end },
        };
        // For a torn value, the end of the line is remembered.
        self.searched = if matches!(parsed, Parsed::Incomplete { .. }) { line_end - 1 } else { 0 };
        Ok(parsed)
    }

    fn parse_binary<'a>(&mut self, input: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, FatalError> {
        Ok(match binary::parse(input, limits)? {
            binary::Parsed::Complete { request, consumed, skipped } => {
                (self.searched, self.refused_bytes) = (0, skipped);
                Parsed::Complete { request: Request::Binary(request), consumed }
            }
            binary::Parsed::Incomplete { need } => {
                self.searched = input.len();
                Parsed::Incomplete { need }
            }
        })
    }

    fn skip<'a>(&mut self, input: &[u8]) -> Parsed<'a> {
        let consumed = usize::try_from(self.refused_bytes).unwrap_or(usize::MAX).min(input.len());
        self.refused_bytes -= consumed as u64;
        if consumed == 0 { Parsed::Incomplete { need: 0 } } else { Parsed::Skipped { consumed } }
    }

    /// Returns the offset behind the line's LF.
    #[inline]
    fn find_line(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, FatalError> {
        match self.search(input, limits.line_bytes_max) {
            None if input.len() > limits.line_bytes_max => self.find_long_line(input, limits),
            found => Ok(found),
        }
    }

    #[cold]
    fn find_long_line(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, FatalError> {
        if !text::takes_many_keys(input) {
            return Err(FatalError::LineTooLong);
        }
        match self.search(input, limits.keys_line_bytes_max) {
            None if input.len() > limits.keys_line_bytes_max => Err(FatalError::LineTooLong),
            found => Ok(found),
        }
    }

    /// Returns the offset behind the first LF, which has at most `line_bytes_max` in front of it.
    #[inline]
    fn search(&mut self, input: &[u8], line_bytes_max: usize) -> Option<usize> {
        let until = input.len().min(line_bytes_max.saturating_add(1));
        let found = memchr(b'\n', input.get(self.searched..until)?);
        if found.is_none() {
            self.searched = until;
        }
        found.map(|found| self.searched + found + 1)
    }

    fn with_value<'a>(
        &mut self,
        input: &'a [u8],
        line_end: usize,
        length: u64,
        store: Store<'a>,
        limits: &Limits,
    ) -> Parsed<'a> {
        let fitting = usize::try_from(length).ok().filter(|&length| limits.has_room_for(store.key_bytes(), length));
        let Some(length) = fitting else {
            self.refused_bytes = length + 2;
            return Parsed::Complete { request: store.too_large(), consumed: line_end };
        };
        let (wanted, rest) = (length + 2, &input[line_end..]);
        let Some(chunk) = rest.get(..wanted) else { return Parsed::Incomplete { need: wanted - rest.len() } };
        let consumed = line_end + wanted;
        match chunk.strip_suffix(b"\r\n") {
            Some(value) => Parsed::Complete { request: store.with_value(value), consumed },
            None if store.is_silent() => Parsed::Skipped { consumed },
            None => Parsed::Refused { refusal: Refusal::BadDataChunk, consumed },
        }
    }
}
