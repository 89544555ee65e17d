//! A short cut for the two most frequent requests of a cache, recognised by comparing words.

/// Length of the longest key or value that [`parse_fast`] takes, in bytes. It does not see limits below this one; Redis
/// allows none below 1 MiB either.
pub const FAST_BYTES_MAX: usize = 999_999;

/// A request that [`parse_fast`] recognises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastRequest<'a> {
    Get { key: &'a [u8] },
    Set { key: &'a [u8], value: &'a [u8] },
}

const GET: u64 = u64::from_le_bytes(*b"*2\r\n$3\r\n");
const SET: u64 = u64::from_le_bytes(*b"*3\r\n$3\r\n");
/// The verb in capitals and the line behind it, without the two bytes that already belong to a length.
const GET_VERB: u64 = u64::from_le_bytes(*b"GET\r\n$\0\0");
const SET_VERB: u64 = u64::from_le_bytes(*b"SET\r\n$\0\0");
/// Clears the case bit of the verb's letters.
const VERB_MASK: u64 = u64::from_le_bytes([0xdf, 0xdf, 0xdf, 0xff, 0xff, 0xff, 0, 0]);
const CRLF: u16 = u16::from_le_bytes(*b"\r\n");

/// Recognises a whole `GET key` or `SET key value` in its canonical form, the verb in any case, at the start of
/// `input`. Returns it with its length in bytes. `None` means that a [`super::RequestParser`] has to parse, which
/// agrees with every result given here.
///
/// There are no limits: keys and values are at most [`FAST_BYTES_MAX`] long, and input of a peer that has yet to
/// authenticate must go to the parser.
#[inline(always)]
pub fn parse_fast(input: &[u8]) -> Option<(FastRequest<'_>, usize)> {
    let (head, rest) = input.split_first_chunk::<14>()?;
    let start = u64::from_le_bytes(*head.first_chunk()?);
    let verb = u64::from_le_bytes([head[8], head[9], head[10], head[11], head[12], head[13], 0, 0]) & VERB_MASK;
    if start == GET && verb == GET_VERB {
        let (key, rest) = bulk(rest)?;
        Some((FastRequest::Get { key }, input.len() - rest.len()))
    } else if start == SET && verb == SET_VERB {
        let (key, rest) = bulk(rest)?;
        let (value, rest) = bulk(rest.strip_prefix(b"$")?)?;
        Some((FastRequest::Set { key, value }, input.len() - rest.len()))
    } else {
        None
    }
}

/// Returns the bulk string whose `$` has been read, and the rest behind it.
#[inline(always)]
fn bulk(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = length(input)?;
    let (bytes, rest) = rest.split_at_checked(length)?;
    let (end, rest) = rest.split_first_chunk::<2>()?;
    (u16::from_le_bytes(*end) == CRLF).then_some((bytes, rest))
}

/// Returns a length, and the rest behind its line. One load recognises a length of one or two digits.
#[inline(always)]
fn length(input: &[u8]) -> Option<(usize, &[u8])> {
    let (head, rest) = input.split_first_chunk::<3>()?;
    let first = usize::from(head[0].wrapping_sub(b'0'));
    if first > 9 {
        return None;
    }
    if u16::from_le_bytes([head[1], head[2]]) == CRLF {
        return Some((first, rest));
    }
    let second = usize::from(head[1].wrapping_sub(b'0'));
    // No number of several digits begins with a zero.
    if second > 9 || first == 0 {
        return None;
    }
    let length = first * 10 + second;
    match rest.split_first()? {
        (b'\n', rest) if head[2] == b'\r' => Some((length, rest)),
        _ => long_length(length, &input[2..]),
    }
}

fn long_length(mut length: usize, mut rest: &[u8]) -> Option<(usize, &[u8])> {
    loop {
        let (&byte, behind) = rest.split_first()?;
        if byte == b'\r' {
            return Some((length, behind.strip_prefix(b"\n")?));
        }
        let digit = usize::from(byte.wrapping_sub(b'0'));
        if digit > 9 || length > FAST_BYTES_MAX / 10 {
            return None;
        }
        length = length * 10 + digit;
        rest = behind;
    }
}
