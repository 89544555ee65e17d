//! Scores of sorted sets as texts: what C's `strtod` reads and `%.17g` writes.

use rustc_apfloat::{Float, ieee::Double};
use wire::resp::{Version, reply};

use super::long_double::split;
use crate::reply::{Reply, quote::until_zero};

/// Digits behind the first one.
const DIGITS: i32 = 16;

/// Parses a score or a weight. `None` means no number, or one that is too large or too small to be exact in magnitude.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    let value = parse_unchecked(text)?;
    let is_spelled = |byte: u8| text.contains(&byte) || text.contains(&byte.to_ascii_uppercase());
    let has_overflown = value.is_infinite() && !is_spelled(b'i');
    let has_underflown = value == 0.0 && has_digits(text);
    (!has_overflown && !has_underflown).then_some(value)
}

/// Parses a bound of scores: `(` in front excludes it. As in Redis, blanks in front and an empty text are accepted.
pub(super) fn parse_bound(text: &[u8]) -> Option<(f64, bool)> {
    let text = until_zero(text, usize::MAX);
    let (text, is_exclusive) = match text.strip_prefix(b"(") {
        Some(text) => (text, true),
        None => (text, false),
    };
    if text.is_empty() {
        return Some((0.0, is_exclusive));
    }
    // C's blanks include the vertical tab.
    let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b).count();
    parse_unchecked(&text[blanks..]).map(|value| (value, is_exclusive))
}

/// Parses what `strtod` reads to the end. NaN is refused.
fn parse_unchecked(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, number) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let value = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
        Some(number) => {
            let (digits, exponent) = split(number, 'p', u8::is_ascii_hexdigit)?;
            let parsed: Double = format!("{sign}0x{digits}p{exponent}").parse().ok()?;
            f64::from_bits(u64::try_from(parsed.to_bits()).ok()?)
        }
        // A second sign is none of strtod's.
        None if number.starts_with(['-', '+']) => return None,
        None => text.parse().ok()?,
    };
    (!value.is_nan()).then_some(value)
}

/// True if the significand has another digit than 0.
fn has_digits(text: &[u8]) -> bool {
    let hexadecimal = text.iter().position(|byte| matches!(byte, b'x' | b'X'));
    let digits = &text[hexadecimal.map_or(0, |at| at + 1)..];
    let is_end = |byte: &u8| match hexadecimal {
        Some(_) => matches!(byte, b'p' | b'P'),
        None => matches!(byte, b'e' | b'E'),
    };
    digits.iter().take_while(|byte| !is_end(byte)).any(|byte| byte.is_ascii_hexdigit() && *byte != b'0')
}

/// Writes a score with at most 17 digits.
pub(super) fn format(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..=DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - exponent).unwrap_or_default();
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.unsigned_abs())
}

/// Appends a score: in RESP2 it is a string.
pub(super) fn write(out: &mut Vec<u8>, version: Version, value: f64) {
    let text = format(value);
    match version {
        Version::Resp2 => reply::bulk(out, text.as_bytes()),
        Version::Resp3 => out.extend_from_slice(&[b",", text.as_bytes(), b"\r\n"].concat()),
    }
}

impl Reply<'_> {
    pub(super) fn score(&mut self, value: f64) {
        write(self.out.inline(), self.version, value);
    }

    pub(super) fn optional_score(&mut self, value: Option<f64>) {
        match value {
            Some(value) => self.score(value),
            None => self.null(),
        }
    }

    /// Begins an array of members, with their scores or without; [`Reply::scored_member`] writes each.
    pub(super) fn scored(&mut self, len: usize, with_scores: bool) {
        self.array(if with_scores && self.version == Version::Resp2 { 2 * len } else { len });
    }

    /// Writes a member and its score, if it has been asked for: a pair in RESP3.
    pub(super) fn scored_member(&mut self, member: &[u8], score: Option<f64>) {
        if score.is_some() && self.version == Version::Resp3 {
            self.array(2);
        }
        self.bulk(member);
        if let Some(score) = score {
            self.score(score);
        }
    }
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scores_are_written_as_by_printf() {
        for (value, text) in [
            (0.1, "0.10000000000000001"),
            (1.0, "1"),
            (-3.5, "-3.5"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e300, "1.0000000000000001e+300"),
            (5e-324, "4.9406564584124654e-324"),
            (4_503_599_627_370_497.0 / 4.0, "1125899906842624.2"),
            (99_999_999_999_999_990.0, "99999999999999984"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (-0.0, "-0"),
        ] {
            assert_eq!(format(value), text);
        }
    }

    #[test]
    fn scores_are_read_as_by_strtod() {
        for (text, value) in [
            ("1", Some(1.0)),
            ("+1e3", Some(1000.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("0x10", Some(16.0)),
            ("-0x1.8p1", Some(-3.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0e99999", Some(0.0)),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("nan", None),
            ("1e", None),
            ("-+1", None),
            ("--1", None),
            ("1e400", None),
            ("1e-400", None),
            ("0x", None),
            ("x", None),
        ] {
            assert_eq!(parse(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn bounds_may_be_exclusive_empty_or_behind_blanks() {
        for (text, bound) in [
            ("1", Some((1.0, false))),
            ("(1", Some((1.0, true))),
            ("", Some((0.0, false))),
            ("(", Some((0.0, true))),
            (" \t5", Some((5.0, false))),
            ("1e400", Some((f64::INFINITY, false))),
            ("(-inf", Some((f64::NEG_INFINITY, true))),
            ("5\0x", Some((5.0, false))),
            ("nan", None),
            ("((1", None),
            ("1 ", None),
            ("abc", None),
        ] {
            assert_eq!(parse_bound(text.as_bytes()), bound, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_written_score_is_read_again(bits: u64) {
            let value = f64::from_bits(bits);
            if !value.is_nan() {
                prop_assert_eq!(parse(format(value).as_bytes()), Some(value));
            }
        }
    }
}
