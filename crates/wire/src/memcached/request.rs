use memchr::memchr;

use super::{
    Expiry, FatalError, MetaFlags, MetaKey, Refusal,
    text::{self, Line, Words},
};

/// How large a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest value.
    pub value_bytes_max: usize,
    /// The longest command line without its LF.
    pub line_bytes_max: usize,
    /// The longest line of `get` and its kin, which may ask for many keys.
    pub keys_line_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes_max: 1 << 20, line_bytes_max: 2048, keys_line_bytes_max: 1 << 20 }
    }
}

/// What a storage command does with a key that is there, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Only if the item's unique number is this.
    Cas(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Increment,
    Decrement,
}

/// The word behind `shutdown`. A server that does not let itself be shut down says so whatever the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    Now,
    Graceful,
    /// Answered with [`Refusal::BadShutdownMode`].
    Unknown,
}

/// A request, borrowed from the input. With `noreply`, nothing is answered, not even an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, and `gets`, which also asks for the unique numbers.
    Get {
        keys: Keys<'a>,
        with_cas: bool,
    },
    /// `gat` and `gats`. There may be no key at all.
    GetAndTouch {
        expiry: Expiry,
        keys: Keys<'a>,
        with_cas: bool,
    },
    Store {
        mode: StoreMode,
        key: &'a [u8],
        flags: u32,
        expiry: Expiry,
        value: &'a [u8],
        noreply: bool,
    },
    /// A storage command whose value is above the limit. It is answered with [`Refusal::TooLarge`]; an old value of
    /// `outdated` must be removed, since the client believes to have replaced it.
    TooLarge {
        outdated: Option<MetaKey<'a>>,
        noreply: bool,
    },
    Touch {
        key: &'a [u8],
        expiry: Expiry,
        noreply: bool,
    },
    Delete {
        key: &'a [u8],
        noreply: bool,
    },
    Arithmetic {
        direction: Direction,
        key: &'a [u8],
        delta: u64,
        noreply: bool,
    },
    /// Now, or after a delay.
    FlushAll {
        delay: Expiry,
        noreply: bool,
    },
    Version,
    Verbosity {
        level: u32,
        noreply: bool,
    },
    /// The words behind `stats`.
    Stats {
        args: Keys<'a>,
    },
    Quit,
    Shutdown(ShutdownMode),
    MetaGet {
        key: MetaKey<'a>,
        flags: MetaFlags<'a>,
    },
    MetaSet {
        key: MetaKey<'a>,
        mode: StoreMode,
        /// With `mode` not [`StoreMode::Cas`], appending and prepending still honour `flags.cas()`.
        flags: MetaFlags<'a>,
        value: &'a [u8],
    },
    MetaDelete {
        key: MetaKey<'a>,
        flags: MetaFlags<'a>,
    },
    MetaArithmetic {
        key: MetaKey<'a>,
        direction: Direction,
        flags: MetaFlags<'a>,
    },
    MetaDebug {
        key: MetaKey<'a>,
    },
    MetaNoop,
}

/// The words of a line behind the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    pub(super) words: Words<'a>,
}

impl<'a> IntoIterator for Keys<'a> {
    type Item = &'a [u8];
    type IntoIter = Words<'a>;

    fn into_iter(self) -> Words<'a> {
        self.words
    }
}

/// What [`RequestParser::parse`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// `consumed` bytes belong to the request.
    Complete { request: Request<'a>, consumed: usize },
    /// These bytes are answered with an error and are no request.
    Refused { refusal: Refusal, consumed: usize },
    /// These bytes are not answered: the value of a refused request, or a refused request with `noreply`.
    Skipped { consumed: usize },
    /// At least `need` bytes are missing; 0 when nothing is known.
    Incomplete { need: usize },
}

/// Reads requests. One per connection; it remembers how far a torn line has been searched, and how much of a refused
/// value is still to come.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestParser {
    searched: usize,
    refused_bytes: u64,
    has_begun: bool,
}

/// What a line came to.
pub(super) enum Command<'a> {
    Request(Request<'a>),
    /// A storage command and the length of the value behind it.
    Store {
        length: u64,
        store: Store<'a>,
    },
    Refused(Refusal),
    /// Refused, and a value of this length must be skipped.
    RefusedStore {
        refusal: Refusal,
        length: u64,
    },
    /// Refused with `noreply`.
    Silent,
}

/// A storage command without its value.
#[derive(Clone, Copy)]
pub(super) enum Store<'a> {
    Text { mode: StoreMode, key: &'a [u8], flags: u32, expiry: Expiry, noreply: bool },
    Meta { key: MetaKey<'a>, mode: StoreMode, flags: MetaFlags<'a> },
}

impl RequestParser {
    /// Part of a request has been seen and the rest not.
    #[inline]
    pub fn is_mid_request(&self) -> bool {
        self.searched != 0 || self.refused_bytes != 0
    }

    /// The value of a refused request goes on: what comes next is no request.
    #[inline]
    pub fn is_skipping(&self) -> bool {
        self.refused_bytes != 0
    }

    /// Reads the request at the start of `input`. When it is torn, `input` must be offered again from the same byte,
    /// with more behind it.
    ///
    /// # Errors
    /// The peer is no memcached client. Neither this nor anything else depends on how the bytes were torn.
    #[inline]
    pub fn parse<'a>(&mut self, input: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, FatalError> {
        if self.refused_bytes > 0 {
            return Ok(self.skip(input));
        }
        if !self.has_begun && input.first() == Some(&0x80) {
            return Err(FatalError::Binary);
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
        // Of a torn value it is remembered where the line ends.
        self.searched = if matches!(parsed, Parsed::Incomplete { .. }) { line_end - 1 } else { 0 };
        self.has_begun = true;
        Ok(parsed)
    }

    fn skip<'a>(&mut self, input: &[u8]) -> Parsed<'a> {
        let consumed = usize::try_from(self.refused_bytes).unwrap_or(usize::MAX).min(input.len());
        self.refused_bytes -= consumed as u64;
        if consumed == 0 { Parsed::Incomplete { need: 0 } } else { Parsed::Skipped { consumed } }
    }

    /// The offset behind the line's LF.
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

    /// The offset behind the first LF, which has at most `line_bytes_max` in front of it.
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
        let fitting = usize::try_from(length).ok().filter(|&length| length <= limits.value_bytes_max);
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

impl<'a> Store<'a> {
    fn with_value(self, value: &'a [u8]) -> Request<'a> {
        match self {
            Self::Text { mode, key, flags, expiry, noreply } => {
                Request::Store { mode, key, flags, expiry, value, noreply }
            }
            Self::Meta { key, mode, flags } => Request::MetaSet { key, mode, flags, value },
        }
    }

    fn too_large(self) -> Request<'a> {
        match self {
            Self::Text { mode, key, noreply, .. } => {
                let key = MetaKey { raw: key, is_base64: false };
                Request::TooLarge { outdated: (mode == StoreMode::Set).then_some(key), noreply }
            }
            Self::Meta { key, .. } => Request::TooLarge { outdated: Some(key), noreply: false },
        }
    }

    /// Its errors are not answered. `ms` answers them even with its `q` flag.
    fn is_silent(&self) -> bool {
        matches!(self, Self::Text { noreply: true, .. })
    }
}
