//! The client's direction: commands out, replies in.

use smallvec::SmallVec;

use super::reply;

/// Deepest nesting of replies that is accepted.
pub const NESTING_MAX: usize = 32;
/// Length of the longest line of a reply: a simple string, an error or a number.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Appends a command as an array of bulk strings.
pub fn command(out: &mut Vec<u8>, args: &[&[u8]]) {
    reply::array(out, args.len());
    for arg in args {
        reply::bulk(out, arg);
    }
}

/// A reply, borrowed from the input.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(&'a [u8]),
    /// Null, in place of a string or of an array.
    Null,
    Array(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Set(Vec<Self>),
    Push(Vec<Self>),
    Double(f64),
    Boolean(bool),
    BigNumber(&'a [u8]),
    Verbatim {
        format: [u8; 3],
        text: &'a [u8],
    },
    /// Attributes of the reply behind them.
    Attribute {
        about: Vec<(Self, Self)>,
        reply: Box<Self>,
    },
}

/// Reason why the bytes of a server are no reply. The connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("a reply begins with byte {0:#04x}")]
    Kind(u8),
    #[error("a line of a reply is malformed")]
    Line,
    #[error("a line of a reply is longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong,
    #[error("a string of a reply does not end with its line")]
    StringEnd,
    #[error("a reply is nested deeper than {NESTING_MAX} levels")]
    Nesting,
}

/// Finds replies in a stream. It remembers how far a torn reply has been read. `input` always starts at the first byte
/// that has not been consumed.
#[derive(Clone, Debug, Default)]
pub struct ReplyDecoder {
    at: usize,
    searched: usize,
    /// Number of replies missing at each level of nesting.
    missing: SmallVec<[u64; 4]>,
}

impl ReplyDecoder {
    /// Returns the reply at the start of `input` and its length in bytes, or `None` if it is torn.
    ///
    /// # Errors
    /// The first rule that the bytes break, however they arrive.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Option<(Reply<'a>, usize)>, DecodeError> {
        let Some(length) = self.length(input)? else { return Ok(None) };
        let mut rest = &input[..length];
        Ok(Some((tree(&mut rest)?, length)))
    }

    /// Returns the length in bytes of the reply at the start of `input`, or `None` if it is torn. Builds nothing.
    ///
    /// # Errors
    /// The first rule that the bytes break, however they arrive.
    pub fn length(&mut self, input: &[u8]) -> Result<Option<usize>, DecodeError> {
        loop {
            let Some((token, next)) = token(input, self.at, &mut self.searched)? else { return Ok(None) };
            (self.at, self.searched) = (next, 0);
            match token.children() {
                0 => {}
                children if self.missing.len() < NESTING_MAX => {
                    self.missing.push(children);
                    continue;
                }
                _ => return Err(DecodeError::Nesting),
            }
            while let Some(missing) = self.missing.last_mut() {
                *missing -= 1;
                if *missing > 0 {
                    break;
                }
                self.missing.pop();
            }
            if self.missing.is_empty() {
                self.at = 0;
                return Ok(Some(next));
            }
        }
    }
}

/// A line, with the string that it may announce.
enum Token<'a> {
    Leaf(Reply<'a>),
    Array(u64),
    Set(u64),
    Push(u64),
    Map(u64),
    Attribute(u64),
}

impl Token<'_> {
    /// Returns the number of replies inside this one.
    fn children(&self) -> u64 {
        match *self {
            Self::Leaf(_) => 0,
            Self::Array(count) | Self::Set(count) | Self::Push(count) => count,
            Self::Map(pairs) => 2 * pairs,
            Self::Attribute(pairs) => 2 * pairs + 1,
        }
    }
}

fn token<'a>(input: &'a [u8], at: usize, searched: &mut usize) -> Result<Option<(Token<'a>, usize)>, DecodeError> {
    let Some(&kind) = input.get(at) else { return Ok(None) };
    if !b"+-:$*_,#(=%~>|".contains(&kind) {
        return Err(DecodeError::Kind(kind));
    }
    let Some((line, next)) = find_line(input, at + 1, searched)? else { return Ok(None) };
    let leaf = match kind {
        b'+' => Reply::Simple(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(parse(line)?),
        b'(' => Reply::BigNumber(line),
        b'_' if line.is_empty() => Reply::Null,
        b'#' if line == b"t" => Reply::Boolean(true),
        b'#' if line == b"f" => Reply::Boolean(false),
        b',' => Reply::Double(parse(line)?),
        b'$' | b'*' if line == b"-1" => Reply::Null,
        b'$' | b'=' => return string(kind, count(line)?, input, next),
        b'*' => return Ok(Some((Token::Array(count(line)?), next))),
        b'~' => return Ok(Some((Token::Set(count(line)?), next))),
        b'>' => return Ok(Some((Token::Push(count(line)?), next))),
        b'%' => return Ok(Some((Token::Map(count(line)?), next))),
        b'|' => return Ok(Some((Token::Attribute(count(line)?), next))),
        _ => return Err(DecodeError::Line),
    };
    Ok(Some((Token::Leaf(leaf), next)))
}

fn string(kind: u8, length: u64, input: &[u8], at: usize) -> Result<Option<(Token<'_>, usize)>, DecodeError> {
    let length = usize::try_from(length).map_err(|_| DecodeError::Line)?;
    let Some((bytes, rest)) = input[at..].split_at_checked(length) else { return Ok(None) };
    let Some((end, _)) = rest.split_first_chunk::<2>() else { return Ok(None) };
    if end != b"\r\n" {
        return Err(DecodeError::StringEnd);
    }
    let leaf = match (kind, bytes) {
        (b'=', &[a, b, c, b':', ref text @ ..]) => Reply::Verbatim { format: [a, b, c], text },
        (b'=', _) => return Err(DecodeError::Line),
        _ => Reply::Bulk(bytes),
    };
    Ok(Some((Token::Leaf(leaf), at + length + 2)))
}

fn find_line<'a>(input: &'a [u8], at: usize, searched: &mut usize) -> Result<Option<(&'a [u8], usize)>, DecodeError> {
    let from = at.max(*searched);
    let limit = input.len().min(at + LINE_BYTES_MAX + 2);
    let Some(found) = memchr::memchr(b'\n', &input[from.min(limit)..limit]) else {
        *searched = limit;
        return if limit == at + LINE_BYTES_MAX + 2 { Err(DecodeError::LineTooLong) } else { Ok(None) };
    };
    let end = from + found;
    match input[at..end].strip_suffix(b"\r") {
        Some(line) => Ok(Some((line, end + 1))),
        None => Err(DecodeError::Line),
    }
}

fn parse<T: std::str::FromStr>(line: &[u8]) -> Result<T, DecodeError> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(DecodeError::Line)
}

/// Parses a length or a number of replies, with 32 bits, so that twice the number fits.
fn count(line: &[u8]) -> Result<u64, DecodeError> {
    parse::<u32>(line).map(u64::from)
}

/// Builds the reply at the start of `input`, which is known to be whole, and removes it from `input`.
fn tree<'a>(input: &mut &'a [u8]) -> Result<Reply<'a>, DecodeError> {
    let Some((token, next)) = token(input, 0, &mut 0)? else { return Err(DecodeError::Line) };
    *input = &input[next..];
    Ok(match token {
        Token::Leaf(leaf) => leaf,
        Token::Array(count) => Reply::Array(trees(input, count)?),
        Token::Set(count) => Reply::Set(trees(input, count)?),
        Token::Push(count) => Reply::Push(trees(input, count)?),
        Token::Map(count) => Reply::Map(pairs(input, count)?),
        Token::Attribute(count) => Reply::Attribute { about: pairs(input, count)?, reply: Box::new(tree(input)?) },
    })
}

fn trees<'a>(input: &mut &'a [u8], count: u64) -> Result<Vec<Reply<'a>>, DecodeError> {
    (0..count).map(|_| tree(input)).collect()
}

fn pairs<'a>(input: &mut &'a [u8], count: u64) -> Result<Vec<(Reply<'a>, Reply<'a>)>, DecodeError> {
    (0..count).map(|_| Ok((tree(input)?, tree(input)?))).collect()
}
