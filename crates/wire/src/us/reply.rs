//! Answers, appended to a buffer with the separator behind them.

use super::SEPARATOR;

/// Appends a value, or any other text.
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

/// Appends the answer for a missing key.
#[inline]
pub fn nil(out: &mut Vec<u8>) {
    out.extend_from_slice(b"(nil)\x1f");
}

/// Appends the answer to every command within a transaction.
pub fn queued(out: &mut Vec<u8>) {
    out.extend_from_slice(b"QUEUED\x1f");
}

/// Appends the answer of the original to `DEL` of a missing key (`docs/originals.md`).
pub fn key_missing(out: &mut Vec<u8>) {
    out.extend_from_slice(b"ERROR: Key does not exist\x1f");
}

/// Appends `ERROR: refusal`.
pub fn error(out: &mut Vec<u8>, refusal: impl std::fmt::Display) {
    value(out, format!("ERROR: {refusal}").as_bytes());
}
