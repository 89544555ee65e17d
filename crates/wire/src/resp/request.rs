//! The parser of all requests, whole or torn.

use memchr::memchr2;
use smallvec::SmallVec;

use super::{
    ProtocolError,
    inline::{self, Quoted},
};

/// The command and its arguments, borrowed from the input.
pub type Args<'a> = SmallVec<[&'a [u8]; 8]>;

/// Most arguments of a request, as in Redis; its length is limited in bytes.
const ARGS_MAX: usize = i32::MAX as usize;
/// Limits before a peer has authenticated, as in Redis: arguments, and bytes of one of them.
const UNAUTHENTICATED_ARGS_MAX: usize = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;

/// Number of arguments up to which their memory is kept from one request to the next.
const ARGS_KEPT: usize = 1024;

/// Limits of the size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Longest argument; not below [`super::FAST_BYTES_MAX`] where [`super::parse_fast`] is used.
    pub bulk_bytes_max: usize,
    /// Most arguments, the command itself included.
    pub args_max: usize,
    /// Longest line: an inline command, the number of arguments, or the length of one.
    pub inline_bytes_max: usize,
    /// True if the peer has authenticated. Before that, at most ten arguments of 16 KiB are allowed.
    pub is_authenticated: bool,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { bulk_bytes_max: 512 << 20, args_max: ARGS_MAX, inline_bytes_max: 64 * 1024, is_authenticated: true }
    }
}

impl RequestLimits {
    /// Returns the same limits for a peer that has yet to authenticate.
    #[must_use]
    pub fn before_authentication(self) -> Self {
        Self { is_authenticated: false, ..self }
    }
}

/// Result of [`RequestParser::parse`]. `consumed` bytes belong to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A request whose arguments are in `args`. If it has none, it gets no reply.
    Complete { consumed: usize },
    /// An inline command with quotes, whose arguments are in [`RequestParser::quoted`].
    Quoted { consumed: usize },
    /// At least `need` bytes are missing; 0 if the number is unknown.
    Incomplete { need: usize },
}

/// Parser of requests, one per connection. It remembers how far a torn request has been read, so that arrival in many
/// pieces costs no more than arrival at once.
#[derive(Clone, Debug, Default)]
pub struct RequestParser {
    /// Start of the first argument that has not arrived whole; 0 if the number of arguments has not been read.
    at: usize,
    /// Number of arguments that have not arrived whole.
    left: usize,
    /// The line at `at` does not end before this offset.
    searched: usize,
    quoted: Option<Box<Quoted>>,
}

impl RequestParser {
    /// True if part of a request has been read and the rest has not.
    #[inline]
    pub fn is_mid_request(&self) -> bool {
        self.at != 0 || self.searched != 0
    }

    /// Returns the arguments of the last request, if it was [`Parsed::Quoted`].
    pub fn quoted(&self) -> Args<'_> {
        self.quoted.as_ref().map_or_else(Args::new, |quoted| quoted.args())
    }

    /// Parses the request at the start of `input` into `args`. If it is torn, `input` must be offered again from the
    /// same byte, with more behind it; `args` is empty then.
    ///
    /// # Errors
    /// The first rule that the bytes break. It does not depend on how they were torn. Afterwards the parser must not be
    /// used again.
    pub fn parse<'a>(
        &mut self,
        input: &'a [u8],
        limits: &RequestLimits,
        args: &mut Args<'a>,
    ) -> Result<Parsed, ProtocolError> {
        args.clear();
        if args.capacity() > ARGS_KEPT || self.quoted.is_some() {
            self.release(args);
        }
        match input.first() {
            Some(b'*') => self.multibulk(input, limits, args),
            Some(_) => self.inline(input, limits, args),
            None => Ok(Parsed::Incomplete { need: 0 }),
        }
    }

    /// Frees the memory of an unusual request.
    #[cold]
    fn release(&mut self, args: &mut Args<'_>) {
        self.quoted = None;
        if args.capacity() > ARGS_KEPT {
            *args = Args::new();
        }
    }

    fn multibulk<'a>(
        &mut self,
        input: &'a [u8],
        limits: &RequestLimits,
        args: &mut Args<'a>,
    ) -> Result<Parsed, ProtocolError> {
        let is_resumed = self.at != 0;
        if !is_resumed {
            let Some((count, next)) = self.args_count(input, limits)? else {
                return Ok(Parsed::Incomplete { need: 0 });
            };
            (self.at, self.left) = (next, count);
        }
        while self.left > 0 {
            let Some((length, start)) = self.bulk_length(input, limits)? else {
                args.clear();
                return Ok(Parsed::Incomplete { need: 0 });
            };
            let (wanted, there) = (length.saturating_add(2), input.len() - start);
            if there < wanted {
                args.clear();
                return Ok(Parsed::Incomplete { need: wanted - there });
            }
            // Like Redis, this does not check the two bytes behind an argument.
            if !is_resumed {
                args.push(&input[start..start + length]);
            }
            (self.at, self.searched) = (start + wanted, 0);
            self.left -= 1;
        }
        let consumed = self.at;
        (self.at, self.searched) = (0, 0);
        if is_resumed {
            collect(&input[..consumed], args);
        }
        Ok(Parsed::Complete { consumed })
    }

    /// Returns the number of arguments, and the start of the first one.
    fn args_count(&mut self, input: &[u8], limits: &RequestLimits) -> Result<Option<(usize, usize)>, ProtocolError> {
        let (count, next) = match canonical(input, 1) {
            Some(found) => found,
            None => {
                let line = self.line(input, 0, limits, ProtocolError::TooBigMultibulkCount)?;
                let Some((line, next)) = line else { return Ok(None) };
                let count = integer(&line[1..]).ok_or(ProtocolError::InvalidMultibulkLength)?;
                // A negative count is an empty request.
                (usize::try_from(count).unwrap_or(0), next)
            }
        };
        if count > limits.args_max {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGS_MAX && !limits.is_authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.searched = 0;
        Ok(Some((count, next)))
    }

    /// Returns the length of the argument at `self.at`, and the start of its bytes.
    #[inline]
    fn bulk_length(&mut self, input: &[u8], limits: &RequestLimits) -> Result<Option<(usize, usize)>, ProtocolError> {
        let usual = if input.get(self.at) == Some(&b'$') { canonical(input, self.at + 1) } else { None };
        let (length, start) = match usual {
            Some(found) => found,
            None => {
                let line = self.line(input, self.at, limits, ProtocolError::TooBigBulkCount)?;
                let Some((_, start)) = line else { return Ok(None) };
                // The line may be empty; then its end is the unexpected byte.
                let Some((b'$', digits)) = line.and_then(|(line, _)| line.split_first()) else {
                    return Err(ProtocolError::ExpectedBulk(input[self.at]));
                };
                let length = integer(digits).and_then(|length| usize::try_from(length).ok());
                (length.ok_or(ProtocolError::InvalidBulkLength)?, start)
            }
        };
        if length > limits.bulk_bytes_max {
            return Err(ProtocolError::InvalidBulkLength);
        }
        if length > UNAUTHENTICATED_BULK_BYTES_MAX && !limits.is_authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        Ok(Some((length, start)))
    }

    /// Returns the line at `at` without its end, and the offset behind it. As in Redis, a line ends with CR and any
    /// byte, and is searched no further than a NUL.
    #[cold]
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        at: usize,
        limits: &RequestLimits,
        too_long: ProtocolError,
    ) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
        let Some(end) = self.search(b'\r', input, at, limits, too_long)? else { return Ok(None) };
        if end + 1 == input.len() {
            return Ok(None);
        }
        Ok(Some((&input[at..end], end + 2)))
    }

    /// Finds the first `end` after `at`, at most `inline_bytes_max` away.
    fn search(
        &mut self,
        end: u8,
        input: &[u8],
        at: usize,
        limits: &RequestLimits,
        too_long: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let from = self.searched.max(at);
        let limit = at.saturating_add(limits.inline_bytes_max).saturating_add(1);
        let until = input.len().min(limit);
        self.searched = memchr2(end, 0, &input[from..until]).map_or(until, |found| from + found);
        if input.get(self.searched) == Some(&end) && self.searched < until {
            return Ok(Some(self.searched));
        }
        if input.len() >= limit { Err(too_long) } else { Ok(None) }
    }

    #[cold]
    fn inline<'a>(
        &mut self,
        input: &'a [u8],
        limits: &RequestLimits,
        args: &mut Args<'a>,
    ) -> Result<Parsed, ProtocolError> {
        let Some(end) = self.search(b'\n', input, 0, limits, ProtocolError::TooBigInlineRequest)? else {
            return Ok(Parsed::Incomplete { need: 0 });
        };
        self.searched = 0;
        let consumed = end + 1;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        if inline::has_quotes(line) {
            self.quoted = Some(Box::new(inline::unquote(line)?));
            return Ok(Parsed::Quoted { consumed });
        }
        inline::split(line, args);
        Ok(Parsed::Complete { consumed })
    }
}

/// Collects the arguments of a request that is known to be whole and well formed.
fn collect<'a>(request: &'a [u8], args: &mut Args<'a>) {
    let Some((_, mut at)) = header(request, 0) else { return };
    while let Some((length, start)) = header(request, at) {
        args.push(&request[start..start + length]);
        at = start + length + 2;
    }
}

/// Returns the number in the line at `at`, and the start of the next line.
fn header(request: &[u8], at: usize) -> Option<(usize, usize)> {
    canonical(request, at + 1).or_else(|| {
        let end = at + memchr::memchr(b'\r', request.get(at..)?)?;
        Some((usize::try_from(integer(&request[at + 1..end])?).ok()?, end + 2))
    })
}

/// Returns the number at `at` and the offset behind its line, if it has at most nine digits and its line has arrived.
#[inline(always)]
fn canonical(input: &[u8], at: usize) -> Option<(usize, usize)> {
    let digits = input.get(at..)?;
    let mut value = 0;
    for (count, &byte) in digits.iter().take(10).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let is_number = byte == b'\r' && (count == 1 || count > 1 && digits[0] != b'0');
            return (is_number && count + 1 < digits.len()).then_some((value, at + count + 2));
        }
        value = value * 10 + usize::from(digit);
    }
    None
}

/// Parses a number as Redis writes it: no sign but a minus, no leading zeros, 64 bits.
fn integer(digits: &[u8]) -> Option<i64> {
    let (is_negative, magnitude) = match digits {
        b"0" => return Some(0),
        [b'-', magnitude @ ..] => (true, magnitude),
        magnitude => (false, magnitude),
    };
    if !matches!(magnitude.first(), Some(b'1'..=b'9')) {
        return None;
    }
    magnitude.iter().try_fold(0_i64, |sum, &byte| {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        let sum = sum.checked_mul(10)?;
        if is_negative { sum.checked_sub(digit) } else { sum.checked_add(digit) }
    })
}
