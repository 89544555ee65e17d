//! Answers, appended to a buffer with the separator behind them.

use super::SEPARATOR;

/// A value, or any other text.
#[inline]
pub fn value(out: &mut Vec<u8>, value: &[u8]) {
    out.reserve(value.len() + 1);
    out.extend_from_slice(value);
    out.push(SEPARATOR);
}

#[inline]
pub fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"OK\x1f");
}

/// There is no such key.
#[inline]
pub fn nil(out: &mut Vec<u8>) {
    out.extend_from_slice(b"(nil)\x1f");
}

/// Within a transaction the answer to every command.
pub fn queued(out: &mut Vec<u8>) {
    out.extend_from_slice(b"QUEUED\x1f");
}

/// `DEL` of a key that is not there, as the original answers it.
pub fn key_missing(out: &mut Vec<u8>) {
    out.extend_from_slice(b"ERROR: Key does not exist\x1f");
}

/// `ERROR: refusal`.
pub fn error(out: &mut Vec<u8>, refusal: impl std::fmt::Display) {
    value(out, format!("ERROR: {refusal}").as_bytes());
}
