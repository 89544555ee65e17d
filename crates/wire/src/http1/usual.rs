//! The usual request: a GET that is whole, short and well formed, read in one pass.
//!
//! Whatever it does not understand at once it leaves to the parser that can say why (see [`super::HeadParser`]), so it
//! has no errors of its own, and what it returns is what that parser would have.

use super::{
    HeadLimits, Method, Request, Target, Version,
    byte_set::IN_TOKEN,
    fields::Seen,
    request::{FIELDS_MAX, RequestLine},
};

/// Longest head that is tried: within it a head is within the usual limits, and what was read in vain is little.
const HEAD_BYTES_MAX: usize = 4096;

/// Parses the head of a GET request of HTTP/1.1 at the start of `input`.
#[inline(always)]
pub(super) fn parse<'a>(input: &'a [u8], limits: &HeadLimits) -> Option<Request<'a>> {
    let limit = HEAD_BYTES_MAX.min(limits.line_bytes_max).min(limits.head_bytes_max);
    let input = &input[..input.len().min(limit)];
    let (target, behind) = Target::split_off(input.strip_prefix(b"GET ")?)?;
    let fields = behind.strip_prefix(b" HTTP/1.1\r\n")?;
    let (seen, fields_len) = read_fields(fields)?;
    let head_len = input.len() - fields.len() + fields_len;
    RequestLine { method: Method::Get, target, version: Version::Http11 }
        .with_seen(&seen, &fields[..fields_len], head_len)
        .ok()
}

/// Reads field lines and the empty line behind them. Returns their length.
#[inline(always)]
fn read_fields(fields: &[u8]) -> Option<(Seen, usize)> {
    let (mut seen, mut rest) = (Seen::default(), fields);
    for _ in 0..=FIELDS_MAX {
        if let Some(behind) = rest.strip_prefix(b"\r\n") {
            return Some((seen, fields.len() - behind.len()));
        }
        let colon = rest.iter().position(|&byte| !IN_TOKEN[byte as usize])?;
        let (name, value) = rest.split_at(colon);
        let value = trim_start(value.strip_prefix(b":")?);
        if name.is_empty() {
            return None;
        }
        let end = value_len(value)?;
        rest = value[end..].strip_prefix(b"\r\n")?;
        seen.field(name, trim_end(&value[..end])).ok()?;
    }
    None
}

#[inline(always)]
fn trim_start(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', behind @ ..] = value {
        value = behind;
    }
    value
}

#[inline(always)]
fn trim_end(mut value: &[u8]) -> &[u8] {
    while let [before @ .., b' ' | b'\t'] = value {
        value = before;
    }
    value
}

/// Returns the offset of the first byte that may not be in the value of a field: a control, but a tab (RFC 9110,
/// section 5.5).
#[inline(always)]
fn value_len(value: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = value.get(at..)?;
        let Some(word) = rest.first_chunk() else {
            return rest.iter().position(|&byte| is_refused(byte)).map(|found| at + found);
        };
        let controls = controls(u64::from_le_bytes(*word));
        if controls == 0 {
            at += 8;
            continue;
        }
        at += controls.trailing_zeros() as usize / 8;
        if is_refused(value[at]) {
            return Some(at);
        }
        at += 1;
    }
}

#[inline(always)]
fn is_refused(byte: u8) -> bool {
    byte < b' ' && byte != b'\t' || byte == 0x7f
}

/// Sets the highest bit of the first byte of a word that is a control, counted from the lowest; those above it may be
/// wrong. Bit tricks after Anderson, "Bit Twiddling Hacks": a byte that is less than n, a byte that is zero.
#[inline(always)]
fn controls(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let less_than = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & (ONES * 0x80);
    less_than(word, 0x20) | less_than(word ^ (ONES * 0x7f), 1)
}
