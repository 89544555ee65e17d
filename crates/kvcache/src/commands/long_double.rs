//! Numbers of INCRBYFLOAT.
//!
//! Redis uses C's `long double`, which on x86 is the 80-bit extended format, reads it with `strtold` and writes it with
//! `%.17Lf`. Clients see the rounding of the text, of the sum and of the reply, so all three are the same here.

use std::{cmp::Ordering, fmt};

use rustc_apfloat::{Float, ieee::X87DoubleExtended};

/// Length from which on a text is refused, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Exponents beyond this make no difference: no text is so long that its digits could make up for them.
const EXPONENT_MAX: i64 = 999_999;
/// Digits shown behind the point.
const DECIMALS: usize = 17;
const DECIMALS_SCALE: u128 = 10_u128.pow(DECIMALS as u32);
/// Exponent of the significand's lowest bit is the biased one minus this.
const EXPONENT_BIAS: i32 = 16383 + 63;

/// A number of the 80-bit extended format, not NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LongDouble(X87DoubleExtended);

impl LongDouble {
    pub(super) const ZERO: Self = Self(X87DoubleExtended::ZERO);

    /// Parses a text as `strtold` does, without blanks: decimal or hexadecimal, with or without an exponent, or `inf`.
    /// `None` means anything else, or a number that is too large or too small.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        let (sign, number) = match text.strip_prefix('-') {
            Some(number) => ("-", number),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        if ["inf", "infinity"].iter().any(|name| number.eq_ignore_ascii_case(name)) {
            return Some(Self(X87DoubleExtended::INFINITY));
        }
        let (prefix, marker, (digits, exponent)) = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"))
        {
            Some(number) => ("0x", 'p', split(number, 'p', u8::is_ascii_hexdigit)?),
            None => ("", 'e', split(number, 'e', u8::is_ascii_digit)?),
        };
        let number: X87DoubleExtended = format!("{sign}{prefix}{digits}{marker}{exponent}").parse().ok()?;
        // A number that is not written as 0 may not become 0 by rounding.
        let is_too_small = number.is_zero() && digits.bytes().any(|byte| !matches!(byte, b'0' | b'.'));
        (!number.is_infinite() && !is_too_small).then_some(Self(number))
    }

    /// Adds, rounding to nearest, ties to even. `None` means that the sum is not finite.
    pub(super) fn add(self, other: Self) -> Option<Self> {
        let sum = (self.0 + other.0).value;
        sum.is_finite().then_some(Self(sum))
    }
}

/// Splits a number into digits, with at most one point among them, and the exponent behind the `marker`.
pub(super) fn split(number: &str, marker: char, is_digit: fn(&u8) -> bool) -> Option<(&str, i64)> {
    let (digits, exponent) = match number.split_once([marker, marker.to_ascii_uppercase()]) {
        Some((digits, exponent)) => (digits, parse_exponent(exponent)?),
        None => (number, 0),
    };
    let points = digits.bytes().filter(|&byte| byte == b'.').count();
    let is_number = points <= 1 && digits.len() > points && digits.bytes().all(|byte| byte == b'.' || is_digit(&byte));
    is_number.then_some((digits, exponent))
}

fn parse_exponent(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(sign * digits.parse().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX))
}

impl fmt::Display for LongDouble {
    /// Shows at most 17 decimals, the value rounded to the nearest, ties to even; no exponent, no zeros at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.abs().to_bits();
        let (significand, exponent) = (bits & u128::from(u64::MAX), (bits >> 64) as i32 - EXPONENT_BIAS);
        let sign = if self.0.is_negative() { "-" } else { "" };
        if exponent > 64 {
            return write!(f, "{sign}{}", large_integer(significand as u64, exponent));
        }
        let (whole, decimals) = match u32::try_from(exponent) {
            Ok(exponent) => (significand << exponent, 0),
            Err(_) => {
                let scaled = divide_by_power(significand * DECIMALS_SCALE, exponent.unsigned_abs());
                (scaled / DECIMALS_SCALE, scaled % DECIMALS_SCALE)
            }
        };
        match decimals {
            0 if whole == 0 => f.write_str("0"),
            0 => write!(f, "{sign}{whole}"),
            decimals => {
                let decimals = format!("{decimals:0DECIMALS$}");
                write!(f, "{sign}{whole}.{}", decimals.trim_end_matches('0'))
            }
        }
    }
}

/// Divides `number`, which is below 2^121, by 2^`power`, rounded to the nearest, ties to even.
fn divide_by_power(number: u128, power: u32) -> u128 {
    if power > 127 {
        return 0;
    }
    let half = 1_u128 << (power - 1);
    let (quotient, remainder) = (number / half / 2, number % (half << 1));
    match remainder.cmp(&half) {
        Ordering::Less => quotient,
        Ordering::Equal => quotient + (quotient & 1),
        Ordering::Greater => quotient + 1,
    }
}

/// Returns the digits of `number` × 2^`power`.
fn large_integer(number: u64, power: i32) -> String {
    const BASE: u64 = 1_000_000_000;
    // Digits of this base, the lowest first; the number is multiplied by a part of the power at a time.
    let mut digits = vec![number % BASE, number / BASE % BASE, number / BASE / BASE];
    let mut rest = power;
    while rest > 0 {
        let shift = rest.min(32);
        let mut carry = 0;
        for digit in &mut digits {
            let product = (*digit << shift) + carry;
            (*digit, carry) = (product % BASE, product / BASE);
        }
        while carry > 0 {
            digits.push(carry % BASE);
            carry /= BASE;
        }
        rest -= shift;
    }
    let text: String = digits.iter().rev().map(|digit| format!("{digit:09}")).collect();
    text.trim_start_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let (a, b) = (LongDouble::parse(a.as_bytes()).unwrap(), LongDouble::parse(b.as_bytes()).unwrap());
        a.add(b).map(|sum| sum.to_string())
    }

    #[test]
    fn sums_are_the_same_as_in_redis() {
        for (a, b, result) in [
            ("0.1", "0.2", "0.3"),
            ("3.0e3", "0", "3000"),
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("1", "-1", "0"),
            ("-0.0", "-0.0", "0"),
            ("1e-18", "0", "0"),
            ("-1e-18", "0", "0"),
            ("1.23", "1e17", "100000000000000001.2265625"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("0x10", "0x1p-1", "16.5"),
            ("1e20", "1", "100000000000000000000"),
            (".5", "5.", "5.5"),
            ("+1", "1E+0", "2"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(result), "{a} + {b}");
        }
    }

    #[test]
    fn texts_that_are_no_number_are_refused() {
        for text in [
            "",
            " 1",
            "1 ",
            "1e",
            "1e+",
            "0x",
            "0x1p",
            "nan",
            "NaN(1)",
            ".",
            "-",
            "1.2.3",
            "abc",
            "1e5000",
            "1e-5000",
            "0x1p16384",
            "1\0",
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(LongDouble::parse(&[b'1'; TEXT_BYTES_MAX]), None);
        assert_eq!(LongDouble::parse(b"0e99999999999999999999"), Some(LongDouble::ZERO));
        assert_eq!(sum("1", "-Infinity"), None);
        assert_eq!(sum("1.1e4932", "1.1e4932"), None);
        assert!(sum("1e4900", "0").unwrap().len() > 4900);
    }

    proptest! {
        /// 64 bits hold every sum of integers of 63 bits.
        #[test]
        fn integers_are_added_exactly(a in -(1_i64 << 61)..1 << 61, b in -(1_i64 << 61)..1 << 61) {
            prop_assert_eq!(sum(&a.to_string(), &b.to_string()), Some((a + b).to_string()));
        }

        #[test]
        fn decimals_with_few_digits_come_back_as_they_were(whole in 0_u32..64, decimals in 1_u32..1_000_000_000) {
            let text = format!("{whole}.{decimals:09}");
            prop_assert_eq!(sum(&text, "0").unwrap(), text.trim_end_matches('0'));
        }

        /// A double is exact in 64 bits, and its shortest text is nearer to it than to any other double.
        #[test]
        fn doubles_keep_their_value(value in -1e15..1e15_f64) {
            let shown: f64 = sum(&format!("{value:e}"), "0").unwrap().parse().unwrap();
            prop_assert!((shown - value).abs() <= value.abs() * f64::EPSILON + 1e-17);
        }

        #[test]
        fn any_text_is_refused_or_added(text in "[-+]?(0x)?[0-9a-f.]{0,20}([ep][-+]?[0-9]{0,6})?") {
            if let Some(number) = LongDouble::parse(text.as_bytes()) {
                let _ = number.add(LongDouble::ZERO).map(|sum| sum.to_string());
            }
        }
    }
}
