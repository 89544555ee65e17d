//! Replies, appended to a buffer.

use super::{MetaFlags, MetaKey, Refusal};

/// Appends a line: `STORED`, `NOT_FOUND`, `VERSION 1.6.18`, a number.
#[inline]
pub fn line(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    out.extend_from_slice(text.as_ref());
    out.extend_from_slice(b"\r\n");
}

/// Appends the answer to a refused request.
pub fn refusal(out: &mut Vec<u8>, refusal: Refusal) {
    line(out, refusal.text());
}

/// Appends the new value after `incr` and `decr`.
pub fn number(out: &mut Vec<u8>, value: u64) {
    decimal(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a hit: `VALUE key flags length [cas]` and the value. [`end`] follows the last one.
#[inline]
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
    value_header(out, key, flags, value.len(), cas);
    line(out, value);
}

/// Appends the line in front of a value whose bytes and closing CRLF the caller writes.
#[inline]
pub fn value_header(out: &mut Vec<u8>, key: &[u8], flags: u32, length: usize, cas: Option<u64>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    decimal(out, flags);
    out.push(b' ');
    decimal(out, length);
    if let Some(cas) = cas {
        out.push(b' ');
        decimal(out, cas);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of the hits of `get`, or of `stats`.
#[inline]
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"END\r\n");
}

/// Appends `STAT name value`.
pub fn stat(out: &mut Vec<u8>, name: &str, value: impl AsRef<[u8]>) {
    out.extend_from_slice(b"STAT ");
    out.extend_from_slice(name.as_bytes());
    out.push(b' ');
    line(out, value);
}

/// The two letters in front of a meta reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done; the only reply but [`Code::Miss`] that the `q` flag silences.
    Done,
    /// `mg` found nothing.
    Miss,
    NotFound,
    NotStored,
    Exists,
}

impl Code {
    fn letters(self) -> &'static [u8] {
        match self {
            Self::Done => b"HD",
            Self::Miss => b"EN",
            Self::NotFound => b"NF",
            Self::NotStored => b"NS",
            Self::Exists => b"EX",
        }
    }
}

/// An item, as the flags of `mg` can return it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub length: usize,
    pub flags: u32,
    pub cas: u64,
    /// `None` if it never expires.
    pub ttl_seconds: Option<u64>,
    pub idle_seconds: u64,
    pub was_hit: bool,
    /// True if the client has won the right to renew the item (`W`).
    pub is_won: bool,
    /// True if the item is stale (`X`).
    pub is_stale: bool,
    /// True if another client has won that right (`Z`).
    pub is_claimed: bool,
}

/// Values for the flags of a meta reply, beside key and opaque, which are always returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaFields<'a> {
    /// No values: a miss, a mismatch, or `md`.
    Nothing,
    /// The item that `mg` found.
    Item(&'a Item),
    /// Result of `ms`; the unique number is 0 if nothing was stored.
    Stored { cas: u64 },
    /// The number that `ma` has made.
    Number { cas: u64, ttl_seconds: Option<u64> },
}

/// Appends the line of a meta reply without a value: the code, and the flags that the request wants returned, in its
/// order.
pub fn meta(out: &mut Vec<u8>, code: Code, key: &MetaKey<'_>, flags: &MetaFlags<'_>, about: MetaFields<'_>) {
    out.extend_from_slice(code.letters());
    meta_flags(out, key, flags, about);
}

/// Appends the line `VA length flags` in front of a value whose bytes and closing CRLF the caller writes.
pub fn meta_value_header(
    out: &mut Vec<u8>,
    length: usize,
    key: &MetaKey<'_>,
    flags: &MetaFlags<'_>,
    about: MetaFields<'_>,
) {
    out.extend_from_slice(b"VA ");
    decimal(out, length);
    meta_flags(out, key, flags, about);
}

fn meta_flags(out: &mut Vec<u8>, key: &MetaKey<'_>, flags: &MetaFlags<'_>, about: MetaFields<'_>) {
    for (letter, token) in flags.iter() {
        match (letter, about) {
            (b'O', _) => returned(out, b'O', |out| out.extend_from_slice(token)),
            (b'k', _) => {
                returned(out, b'k', |out| key.write(out));
                if key.is_base64 {
                    out.extend_from_slice(b" b");
                }
            }
            (
                b'c',
                MetaFields::Stored { cas } | MetaFields::Number { cas, .. } | MetaFields::Item(&Item { cas, .. }),
            ) => {
                returned(out, b'c', |out| decimal(out, cas));
            }
            (b't', MetaFields::Number { ttl_seconds, .. } | MetaFields::Item(&Item { ttl_seconds, .. })) => {
                returned(out, b't', |out| match ttl_seconds {
                    Some(seconds) => decimal(out, seconds),
                    None => out.extend_from_slice(b"-1"),
                });
            }
            (b'f', MetaFields::Item(item)) => returned(out, b'f', |out| decimal(out, item.flags)),
            (b's', MetaFields::Item(item)) => returned(out, b's', |out| decimal(out, item.length)),
            (b'l', MetaFields::Item(item)) => returned(out, b'l', |out| decimal(out, item.idle_seconds)),
            (b'h', MetaFields::Item(item)) => returned(out, b'h', |out| decimal(out, u8::from(item.was_hit))),
            _ => {}
        }
    }
    if let MetaFields::Item(item) = about {
        for (letter, is_set) in [(b'Z', item.is_claimed), (b'X', item.is_stale), (b'W', item.is_won)] {
            if is_set {
                out.extend_from_slice(&[b' ', letter]);
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn returned(out: &mut Vec<u8>, letter: u8, token: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[b' ', letter]);
    token(out);
}

fn decimal(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}
