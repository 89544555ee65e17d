//! The client's direction: requests out, replies in.

use memchr::memchr;

use super::{
    number::{unsigned, unsigned32},
    words::Words,
};

/// Length of the longest line of a reply, with its end.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Length of the longest value of a reply.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// Appends `get key…`.
pub fn get(out: &mut Vec<u8>, keys: &[&[u8]]) {
    out.extend_from_slice(b"get");
    for key in keys {
        word(out, key);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `set`, whose answer is `STORED`.
pub fn set(out: &mut Vec<u8>, key: &[u8], flags: u32, exptime: i64, value: &[u8]) {
    out.extend_from_slice(b"set");
    word(out, key);
    decimal(out, flags);
    decimal(out, exptime);
    chunk(out, value, b"");
}

/// Appends `delete key`.
pub fn delete(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"delete");
    word(out, key);
    out.extend_from_slice(b"\r\n");
}

/// Appends `mg key flags`, with the flags as they stand in the line; `v` asks for the value.
pub fn meta_get(out: &mut Vec<u8>, key: &[u8], flags: &[u8]) {
    meta(out, b"mg", key, flags);
}

/// Appends `md key flags`.
pub fn meta_delete(out: &mut Vec<u8>, key: &[u8], flags: &[u8]) {
    meta(out, b"md", key, flags);
}

/// Appends `ms key length flags` and the value, with the flags as they stand in the line.
pub fn meta_set(out: &mut Vec<u8>, key: &[u8], flags: &[u8], value: &[u8]) {
    out.extend_from_slice(b"ms");
    word(out, key);
    chunk(out, value, flags);
}

fn meta(out: &mut Vec<u8>, verb: &[u8], key: &[u8], flags: &[u8]) {
    out.extend_from_slice(verb);
    word(out, key);
    if !flags.is_empty() {
        word(out, flags);
    }
    out.extend_from_slice(b"\r\n");
}

fn chunk(out: &mut Vec<u8>, value: &[u8], flags: &[u8]) {
    decimal(out, value.len());
    if !flags.is_empty() {
        word(out, flags);
    }
    for piece in [b"\r\n", value, b"\r\n"] {
        out.extend_from_slice(piece);
    }
}

fn word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

fn decimal(out: &mut Vec<u8>, value: impl itoa::Integer) {
    word(out, itoa::Buffer::new().format(value).as_bytes());
}

/// A line of a reply and the value behind it, borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `VALUE key flags length [cas]`; more or [`Reply::End`] follow.
    Value {
        key: &'a [u8],
        flags: u32,
        cas: Option<u64>,
        value: &'a [u8],
    },
    End,
    /// `VA length flags`.
    MetaValue {
        flags: &'a [u8],
        value: &'a [u8],
    },
    /// `HD`, `EN`, `NF`, `NS`, `EX`, `MN` with the flags behind it.
    Meta {
        code: [u8; 2],
        flags: &'a [u8],
    },
    /// `ERROR`, `CLIENT_ERROR …`, `SERVER_ERROR …`.
    Error(&'a [u8]),
    /// Any other line: `STORED`, `DELETED`, a number, `STAT …`, `VERSION …`.
    Line(&'a [u8]),
}

/// Reason why the bytes of a server are no reply. The connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("a line of a reply is malformed")]
    Line,
    #[error("a line of a reply is longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong,
    #[error("a value does not end with its line, or is longer than {VALUE_BYTES_MAX} bytes")]
    Value,
}

/// Finds replies in a stream, and remembers how far a torn one has been searched. `input` always starts at the first
/// byte that has not been consumed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyDecoder {
    searched: usize,
}

impl ReplyDecoder {
    /// Returns the reply at the start of `input` and its length in bytes, or `None` if it is torn.
    ///
    /// # Errors
    /// The first rule that the bytes break, however they arrive.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Result<Option<(Reply<'a>, usize)>, DecodeError> {
        let until = input.len().min(LINE_BYTES_MAX);
        let Some(found) = memchr(b'\n', &input[self.searched..until]) else {
            self.searched = until;
            return if until == LINE_BYTES_MAX { Err(DecodeError::LineTooLong) } else { Ok(None) };
        };
        let line_end = self.searched + found + 1;
        let line = input[..line_end].strip_suffix(b"\r\n").ok_or(DecodeError::Line)?;
        let (reply, length) = match split(line) {
            (b"VALUE", rest) => {
                let mut words = Words::new(rest);
                let [key, flags, length] = std::array::from_fn(|_| words.next().unwrap_or_default());
                let flags = unsigned32(flags).ok_or(DecodeError::Line)?;
                let cas = words.next().map(|cas| unsigned(cas).ok_or(DecodeError::Line)).transpose()?;
                let Some((value, length)) = value(input, line_end, length)? else { return Ok(None) };
                (Reply::Value { key, flags, cas, value }, length)
            }
            (b"VA", rest) => {
                let (length, flags) = split(rest);
                let Some((value, length)) = value(input, line_end, length)? else { return Ok(None) };
                (Reply::MetaValue { flags, value }, length)
            }
            (b"END", b"") => (Reply::End, line_end),
            (b"OK", _) => (Reply::Line(line), line_end),
            (&[a @ b'A'..=b'Z', b @ b'A'..=b'Z'], flags) => (Reply::Meta { code: [a, b], flags }, line_end),
            (b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR", _) => (Reply::Error(line), line_end),
            _ => (Reply::Line(line), line_end),
        };
        self.searched = 0;
        Ok(Some((reply, length)))
    }
}

/// Splits off the first word and the blank behind it.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    memchr(b' ', line).map_or((line, &[]), |end| (&line[..end], &line[end + 1..]))
}

/// Returns the value behind a line, and the offset behind it.
fn value<'a>(input: &'a [u8], at: usize, length: &[u8]) -> Result<Option<(&'a [u8], usize)>, DecodeError> {
    let length = unsigned(length).and_then(|length| usize::try_from(length).ok()).ok_or(DecodeError::Line)?;
    if length > VALUE_BYTES_MAX {
        return Err(DecodeError::Value);
    }
    let Some(chunk) = input[at..].get(..length + 2) else { return Ok(None) };
    let value = chunk.strip_suffix(b"\r\n").ok_or(DecodeError::Value)?;
    Ok(Some((value, at + length + 2)))
}
