//! Inline commands: a line of words, as typed into telnet, with the quoting rules of Redis's command line.

use memchr::memchr2;

use super::{Args, ProtocolError};

/// Arguments of an inline command with quotes, in one buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Quoted {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Quoted {
    pub(super) fn args(&self) -> Args<'_> {
        let mut start = 0;
        self.ends.iter().map(|&end| &self.bytes[std::mem::replace(&mut start, end)..end]).collect()
    }
}

/// True if the line may have a quote.
pub(super) fn has_quotes(line: &[u8]) -> bool {
    memchr2(b'"', b'\'', line).is_some()
}

/// Splits a line without quotes. As in Redis, a vertical tab or a form feed separates words only in front of one.
pub(super) fn split<'a>(mut line: &'a [u8], args: &mut Args<'a>) {
    loop {
        line = skip_blanks(line);
        if line.is_empty() {
            return;
        }
        let end = line.iter().position(|&byte| ends_word(byte)).unwrap_or(line.len());
        args.push(&line[..end]);
        line = &line[end..];
    }
}

/// Splits a line with quotes. In `"…"` the escapes are `\n \r \t \b \a \xHH`, and any other escaped byte is itself; in
/// `'…'` the only one is `\'`. A closing quote must end its word.
pub(super) fn unquote(mut line: &[u8]) -> Result<Quoted, ProtocolError> {
    let mut quoted = Quoted::default();
    loop {
        line = skip_blanks(line);
        if line.is_empty() {
            return Ok(quoted);
        }
        line = word(line, &mut quoted.bytes)?;
        quoted.ends.push(quoted.bytes.len());
    }
}

/// Appends one word, and returns the rest behind it.
fn word<'a>(mut line: &'a [u8], bytes: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    while let Some((&byte, rest)) = line.split_first() {
        match byte {
            b'"' => return closed(double_quoted(rest, bytes)),
            b'\'' => return closed(single_quoted(rest, bytes)),
            _ if ends_word(byte) => return Ok(line),
            _ => bytes.push(byte),
        }
        line = rest;
    }
    Ok(line)
}

/// Checks that a closing quote is followed by nothing or by a blank.
fn closed(rest: Option<&[u8]>) -> Result<&[u8], ProtocolError> {
    rest.filter(|rest| rest.first().is_none_or(|&byte| is_blank(byte))).ok_or(ProtocolError::UnbalancedQuotes)
}

fn double_quoted<'a>(mut line: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, rest) = match *line {
            [] => return None,
            [b'"', ref rest @ ..] => return Some(rest),
            [b'\\', b'x', high, low, ref rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(high) << 4 | hex(low), rest)
            }
            [b'\\', escaped, ref rest @ ..] => (unescape(escaped), rest),
            [byte, ref rest @ ..] => (byte, rest),
        };
        bytes.push(byte);
        line = rest;
    }
}

fn single_quoted<'a>(mut line: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, rest) = match *line {
            [] => return None,
            [b'\'', ref rest @ ..] => return Some(rest),
            [b'\\', b'\'', ref rest @ ..] => (b'\'', rest),
            [byte, ref rest @ ..] => (byte, rest),
        };
        bytes.push(byte);
        line = rest;
    }
}

fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

fn skip_blanks(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|&&byte| is_blank(byte)).count();
    &line[blanks..]
}

/// True for the bytes of C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}
