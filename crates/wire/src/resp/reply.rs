//! Replies, appended to a buffer.

use memchr::memchr2;

/// Length of the longest value that [`bulk`] copies without a call.
const SMALL_MAX: usize = 32;

/// Version of the protocol, which a connection agrees on by `HELLO`; it starts with RESP2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    #[default]
    Resp2,
    Resp3,
}

/// Appends `+text`. The text must have no line end.
#[inline]
pub fn simple(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    line(out, b'+', text.as_ref());
}

/// Appends `-text`, which starts with a code such as `ERR `. As in Redis, line ends in it become blanks, and those at
/// its end are left out, since part of it may come from the peer.
pub fn error(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    let mut text = text.as_ref();
    while let Some(rest) = text.strip_suffix(b"\n").or_else(|| text.strip_suffix(b"\r")) {
        text = rest;
    }
    let start = out.len();
    line(out, b'-', text);
    if memchr2(b'\r', b'\n', text).is_some() {
        let end = out.len() - 2;
        for byte in &mut out[start..end] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }
}

#[inline]
pub fn integer(out: &mut Vec<u8>, value: i64) {
    match usize::try_from(value) {
        Ok(value) => header(out, b':', value),
        Err(_) => number(out, b':', value),
    }
}

#[inline(always)]
pub fn bulk(out: &mut Vec<u8>, value: &[u8]) {
    match value.len() {
        0..=SMALL_MAX => small_bulk(out, value),
        _ => long_bulk(out, value),
    }
}

#[inline(never)]
fn long_bulk(out: &mut Vec<u8>, value: &[u8]) {
    // Length, its line, and the end.
    out.reserve(value.len() + 32);
    bulk_header(out, value.len());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a short string, put together in place: copies of constant length need no call, and a GET is little more than
/// this.
#[inline(always)]
fn small_bulk(out: &mut Vec<u8>, value: &[u8]) {
    let begin = out.len();
    out.extend_from_slice(&[0; SMALL_MAX + 16]);
    let Some(reply) = out[begin..].first_chunk_mut() else { return };
    let (tens, ones) = (b'0' + (value.len() / 10) as u8, b'0' + (value.len() % 10) as u8);
    let start = if tens == b'0' {
        reply[..4].copy_from_slice(&[b'$', ones, b'\r', b'\n']);
        4
    } else {
        reply[..5].copy_from_slice(&[b'$', tens, ones, b'\r', b'\n']);
        5
    };
    let end = start + value.len();
    put(reply, start, value);
    reply[end..end + 2].copy_from_slice(b"\r\n");
    out.truncate(begin + end + 2);
}

/// Copies at most [`SMALL_MAX`] bytes to `reply[start..]` in two pieces that overlap, and never reads beyond the
/// source: the bytes behind it may be in no cache.
#[inline(always)]
fn put(reply: &mut [u8; SMALL_MAX + 16], start: usize, source: &[u8]) {
    macro_rules! in_pieces_of {
        ($n:literal) => {
            if let (Some(first), Some(last)) = (source.first_chunk::<$n>(), source.last_chunk::<$n>()) {
                reply[start..start + $n].copy_from_slice(first);
                let last_start = start + source.len() - $n;
                reply[last_start..last_start + $n].copy_from_slice(last);
                return;
            }
        };
    }
    in_pieces_of!(16);
    in_pieces_of!(8);
    in_pieces_of!(4);
    in_pieces_of!(2);
    in_pieces_of!(1);
}

/// Appends the line in front of a bulk string whose bytes and closing CRLF the caller writes.
#[inline]
pub fn bulk_header(out: &mut Vec<u8>, length: usize) {
    header(out, b'$', length);
}

/// Appends a null in place of a string.
#[inline]
pub fn null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"$-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Appends a null in place of an array: the answer to `EXEC` if a watched key has changed.
pub fn null_array(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"*-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Appends the line in front of `length` replies.
#[inline]
pub fn array(out: &mut Vec<u8>, length: usize) {
    header(out, b'*', length);
}

/// Appends the line in front of `pairs` keys, each followed by its value; in RESP2 it is an array of twice as many.
pub fn map(out: &mut Vec<u8>, pairs: usize, version: Version) {
    match version {
        Version::Resp2 => header(out, b'*', 2 * pairs),
        Version::Resp3 => header(out, b'%', pairs),
    }
}

/// Appends the line in front of a set of `length` replies, no two of which are equal.
pub fn set(out: &mut Vec<u8>, length: usize, version: Version) {
    header(out, if version == Version::Resp2 { b'*' } else { b'~' }, length);
}

/// Appends the line in front of an out-of-band message of `length` parts.
pub fn push(out: &mut Vec<u8>, length: usize, version: Version) {
    header(out, if version == Version::Resp2 { b'*' } else { b'>' }, length);
}

/// Appends a boolean; `1` and `0` in RESP2.
pub fn boolean(out: &mut Vec<u8>, value: bool, version: Version) {
    out.extend_from_slice(match (version, value) {
        (Version::Resp2, true) => b":1\r\n",
        (Version::Resp2, false) => b":0\r\n",
        (Version::Resp3, true) => b"#t\r\n",
        (Version::Resp3, false) => b"#f\r\n",
    });
}

/// Appends a floating-point number with as few digits as tell it from its neighbours; in RESP2 it is a bulk string.
pub fn double(out: &mut Vec<u8>, value: f64, version: Version) {
    let text = if value.is_nan() {
        "nan".to_owned()
    } else if value.is_infinite() || value == 0.0 || (1e-5..1e17).contains(&value.abs()) {
        value.to_string()
    } else {
        format!("{value:e}")
    };
    match version {
        Version::Resp2 => bulk(out, text.as_bytes()),
        Version::Resp3 => line(out, b',', text.as_bytes()),
    }
}

/// Appends a string for people, with its format (`txt`, `mkd`); in RESP2 it is a bulk string without one.
pub fn verbatim(out: &mut Vec<u8>, format: [u8; 3], text: &[u8], version: Version) {
    if version == Version::Resp2 {
        return bulk(out, text);
    }
    header(out, b'=', text.len() + 4);
    out.extend_from_slice(&format);
    out.push(b':');
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends a line with a number, which is nearly always a small one.
#[inline]
fn header(out: &mut Vec<u8>, kind: u8, value: usize) {
    match value {
        0..10 => out.extend_from_slice(&[kind, b'0' + value as u8, b'\r', b'\n']),
        10..100 => {
            let [tens, ones] = [value / 10, value % 10].map(|digit| b'0' + digit as u8);
            out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
        }
        _ => number(out, kind, value),
    }
}

fn number(out: &mut Vec<u8>, kind: u8, value: impl itoa::Integer) {
    line(out, kind, itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_strings_of_every_small_length() {
        for len in 0..100 {
            let value: Vec<u8> = (0..len).map(|n| b'a' + n % 26).collect();
            let mut out = b"before".to_vec();
            bulk(&mut out, &value);
            let expected = [format!("before${len}\r\n").as_bytes(), &value, b"\r\n"].concat();
            assert_eq!(out, expected);
        }
    }
}
