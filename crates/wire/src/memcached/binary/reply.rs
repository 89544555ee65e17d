//! Replies, appended to a buffer.

use super::{Head, Header, REPLY_MAGIC, Status};

/// Lengths of the parts of a reply behind its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lengths {
    extras: u8,
    key: u16,
    value: usize,
}

fn header(out: &mut Vec<u8>, head: Head, status: Status, cas: u64, lengths: Lengths) {
    let body = usize::from(lengths.extras) + usize::from(lengths.key) + lengths.value;
    let header = Header {
        magic: REPLY_MAGIC,
        opcode: head.opcode,
        key_bytes: lengths.key,
        extras_bytes: lengths.extras,
        status: status as u16,
        // No value is longer than a request could be.
        body_bytes: u32::try_from(body).unwrap_or(u32::MAX),
        opaque: head.opaque,
        cas,
    };
    header.write(out);
}

/// Appends a reply without a body: it has been done, and the item has this unique number.
pub fn done(out: &mut Vec<u8>, head: Head, cas: u64) {
    header(out, head, Status::Success, cas, Lengths::default());
}

/// Appends an error with memcached's text.
pub fn error(out: &mut Vec<u8>, head: Head, status: Status) {
    error_with_text(out, head, status, status.text());
}

/// Appends an error with another text.
pub fn error_with_text(out: &mut Vec<u8>, head: Head, status: Status, text: &str) {
    header(out, head, status, 0, Lengths { value: text.len(), ..Lengths::default() });
    out.extend_from_slice(text.as_bytes());
}

/// Appends the answer to `getk` or `gatk` of a key that is not there: the key.
pub fn missing_key(out: &mut Vec<u8>, head: Head, key: &[u8]) {
    header(out, head, Status::NotFound, 0, Lengths { key: key_bytes(key), ..Lengths::default() });
    out.extend_from_slice(key);
}

/// Appends what stands in front of a value of `value_bytes`, which the caller writes: the header, the flags and, if it is
/// returned, the key.
pub fn value_header(out: &mut Vec<u8>, head: Head, cas: u64, flags: u32, key: &[u8], value_bytes: usize) {
    header(out, head, Status::Success, cas, Lengths { extras: 4, key: key_bytes(key), value: value_bytes });
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(key);
}

/// Appends the new value after an increment or decrement.
pub fn number(out: &mut Vec<u8>, head: Head, cas: u64, value: u64) {
    header(out, head, Status::Success, cas, Lengths { value: 8, ..Lengths::default() });
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a text: a version, or what SASL has to say.
pub fn text(out: &mut Vec<u8>, head: Head, text: &str) {
    header(out, head, Status::Success, 0, Lengths { value: text.len(), ..Lengths::default() });
    out.extend_from_slice(text.as_bytes());
}

/// Appends one statistic. [`done`] follows the last one.
pub fn stat(out: &mut Vec<u8>, head: Head, name: &[u8], value: &[u8]) {
    header(out, head, Status::Success, 0, Lengths { key: key_bytes(name), value: value.len(), extras: 0 });
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// Returns the length of a key; those of requests and the names of statistics are short.
fn key_bytes(key: &[u8]) -> u16 {
    u16::try_from(key.len()).unwrap_or(u16::MAX)
}
