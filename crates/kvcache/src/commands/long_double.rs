//! Numbers as INCRBYFLOAT reckons with them.
//!
//! Redis uses C's `long double`, which on x86 is the 80-bit extended format (a significand of 64 bits, an exponent of
//! 15), reads it with `strtold` and shows it with `%.17Lf`. Clients see all three roundings, so they are done here
//! exactly, in integers.

use std::{cmp::Ordering, fmt};

use num_bigint::BigUint;

/// Texts at least so long are refused, as in Redis.
const TEXT_MAX: usize = 5 * 1024;
const SIGNIFICAND_BITS: i64 = 64;
/// The first power of two that is too large.
const OVERFLOW_EXPONENT: i64 = 16384;
/// Half the smallest number above zero is this power of two; what is not above it rounds to zero.
const UNDERFLOW_EXPONENT: i64 = -16446;
/// Decimal exponents beyond which nothing has to be computed to know that a number is too large or too small.
const DECIMAL_EXPONENT_MAX: i64 = 5000;
/// Digits shown behind the point.
const DECIMALS: usize = 17;
const DECIMALS_SCALE: u128 = 10_u128.pow(DECIMALS as u32);

/// A number of the 80-bit extended format, which is no NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongDouble {
    Finite(Finite),
    /// Of either sign: no sum with it is of any use.
    Infinite,
}

/// `significand` × 2^`exponent`; the significand's highest bit is set unless the number is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finite {
    is_negative: bool,
    significand: u64,
    exponent: i64,
}

impl LongDouble {
    pub(super) const ZERO: Self = Self::Finite(Finite::ZERO);

    /// What `strtold` takes, the whole text and no blanks: decimal or hexadecimal, with or without an exponent, or
    /// `inf`. `None`: anything else, and what is too large or too small.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_MAX {
            return None;
        }
        let (is_negative, number) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if [&b"inf"[..], b"infinity"].iter().any(|name| number.eq_ignore_ascii_case(name)) {
            return Some(Self::Infinite);
        }
        let finite = match number {
            [b'0', b'x' | b'X', hexadecimal @ ..] => parse_hexadecimal(hexadecimal)?,
            decimal => parse_decimal(decimal)?,
        };
        Some(Self::Finite(Finite { is_negative, ..finite }))
    }

    /// The sum, rounded to nearest, ties to even. `None`: it is not finite.
    pub(super) fn add(&self, other: &Self) -> Option<Finite> {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => a.add(*b),
            (Self::Infinite, _) | (_, Self::Infinite) => None,
        }
    }
}

impl Finite {
    const ZERO: Self = Self { is_negative: false, significand: 0, exponent: 0 };

    fn add(self, other: Self) -> Option<Self> {
        if self.significand == 0 || other.significand == 0 {
            return Some(if self.significand == 0 { other } else { self });
        }
        let exponent = self.exponent.min(other.exponent);
        let (a, b) = (self.shifted(exponent), other.shifted(exponent));
        let (is_negative, sum) = match (self.is_negative == other.is_negative, a.cmp(&b)) {
            (true, _) => (self.is_negative, a + b),
            (false, Ordering::Greater) => (self.is_negative, a - b),
            (false, Ordering::Less) => (other.is_negative, b - a),
            (false, Ordering::Equal) => return Some(Self::ZERO),
        };
        let rounded = Self::round(&sum, exponent, false);
        (rounded.top() < OVERFLOW_EXPONENT).then_some(Self { is_negative, ..rounded })
    }

    /// The significand that it would have with a smaller exponent.
    fn shifted(self, exponent: i64) -> BigUint {
        BigUint::from(self.significand) << usize::try_from(self.exponent - exponent).unwrap_or(0)
    }

    /// The nearest to `number` × 2^`exponent`, ties to even; `is_more`: and a little more than that, of a `number` that
    /// has at least two bits too many.
    fn round(number: &BigUint, exponent: i64, is_more: bool) -> Self {
        let bits = number.bits() as i64;
        let excess = bits - SIGNIFICAND_BITS;
        if bits == 0 {
            return Self::ZERO;
        }
        let (mut significand, mut exponent) = (low_64(&(number >> excess.max(0) as usize)), exponent + excess);
        if excess <= 0 {
            significand <<= -excess;
        } else {
            let half = excess as u64 - 1;
            let is_above = is_more || number.trailing_zeros().is_some_and(|zeros| zeros < half);
            if number.bit(half) && (is_above || significand & 1 == 1) {
                (significand, exponent) = match significand.checked_add(1) {
                    Some(next) => (next, exponent),
                    None => (1 << 63, exponent + 1),
                };
            }
        }
        Self { is_negative: false, significand, exponent }
    }

    /// The exponent of its highest bit.
    fn top(self) -> i64 {
        self.exponent + SIGNIFICAND_BITS - 1
    }

    /// `None`: out of range.
    fn in_range(self) -> Option<Self> {
        let is_tie = self.top() == UNDERFLOW_EXPONENT && self.significand == 1 << 63;
        let is_right = self.top() < OVERFLOW_EXPONENT && self.top() >= UNDERFLOW_EXPONENT && !is_tie;
        (is_right || self.significand == 0).then_some(self)
    }
}

fn low_64(number: &BigUint) -> u64 {
    number.iter_u64_digits().next().unwrap_or(0)
}

fn parse_decimal(text: &[u8]) -> Option<Finite> {
    let (digits, exponent) = Digits::split(text, b'e', u8::is_ascii_digit)?;
    let number = BigUint::parse_bytes(digits.all.as_bytes(), 10)?;
    if number.bits() == 0 {
        return Some(Finite::ZERO);
    }
    let significant = digits.all.trim_start_matches('0').len() as i64;
    let exponent = exponent.saturating_sub(digits.behind_point);
    if exponent.saturating_add(significant).abs() > DECIMAL_EXPONENT_MAX {
        return None;
    }
    let power = BigUint::from(10_u8).pow(u32::try_from(exponent.unsigned_abs()).ok()?);
    let finite = if exponent >= 0 {
        Finite::round(&(number * power), 0, false)
    } else {
        // Enough bits for the quotient to have two more than are kept.
        let shift = (power.bits() + SIGNIFICAND_BITS as u64 + 2).saturating_sub(number.bits());
        let number = number << shift as usize;
        let quotient = &number / &power;
        let is_more = &quotient * &power != number;
        Finite::round(&quotient, -(shift as i64), is_more)
    };
    finite.in_range()
}

fn parse_hexadecimal(text: &[u8]) -> Option<Finite> {
    let (digits, exponent) = Digits::split(text, b'p', u8::is_ascii_hexdigit)?;
    let number = BigUint::parse_bytes(digits.all.as_bytes(), 16)?;
    Finite::round(&number, exponent.saturating_sub(4 * digits.behind_point).clamp(-(1 << 40), 1 << 40), false)
        .in_range()
}

/// The digits of a number, without its point.
struct Digits {
    all: String,
    behind_point: i64,
}

impl Digits {
    /// Digits with at most one point, and the exponent behind the `marker`.
    fn split(text: &[u8], marker: u8, is_digit: fn(&u8) -> bool) -> Option<(Self, i64)> {
        let end = text.iter().position(|byte| byte.eq_ignore_ascii_case(&marker)).unwrap_or(text.len());
        let (number, exponent) = text.split_at(end);
        let exponent = if exponent.is_empty() { 0 } else { parse_exponent(&exponent[1..])? };
        let point = number.iter().position(|&byte| byte == b'.');
        let (before, behind) = point.map_or((number, &b""[..]), |at| (&number[..at], &number[at + 1..]));
        let all = [before, behind].concat();
        let is_number = !all.is_empty() && all.iter().all(is_digit);
        is_number.then_some((Self { all: String::from_utf8(all).ok()?, behind_point: behind.len() as i64 }, exponent))
    }
}

/// As large as it may be: what is far out of range stays so.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append = |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(1 << 40);
    let exponent = digits.iter().fold(0, append);
    Some(if is_negative { -exponent } else { exponent })
}

impl fmt::Display for Finite {
    /// At most 17 decimals, the value rounded to the nearest, ties to even; no exponent, no zeros at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        let significand = u128::from(self.significand);
        if significand == 0 {
            return f.write_str("0");
        }
        match u32::try_from(self.exponent) {
            Ok(exponent @ ..=64) => return write!(f, "{sign}{}", significand << exponent),
            Ok(exponent) => return write!(f, "{sign}{}", BigUint::from(significand) << exponent),
            Err(_) => {}
        }
        let scaled = divide_by_power(significand * DECIMALS_SCALE, self.exponent.unsigned_abs());
        let (whole, decimals) = (scaled / DECIMALS_SCALE, scaled % DECIMALS_SCALE);
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

/// `number` / 2^`power`, rounded to the nearest, ties to even. `number` is below 2^121.
fn divide_by_power(number: u128, power: u64) -> u128 {
    let Some(half) = u32::try_from(power - 1).ok().filter(|&half| half < 127).map(|half| 1_u128 << half) else {
        return 0;
    };
    let (quotient, remainder) = (number / half / 2, number % (half << 1));
    match remainder.cmp(&half) {
        Ordering::Less => quotient,
        Ordering::Equal => quotient + (quotient & 1),
        Ordering::Greater => quotient + 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let (a, b) = (LongDouble::parse(a.as_bytes()).unwrap(), LongDouble::parse(b.as_bytes()).unwrap());
        a.add(&b).map(|sum| sum.to_string())
    }

    #[test]
    fn sums_are_those_of_redis() {
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
    fn what_is_no_number_is_refused() {
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
        assert_eq!(LongDouble::parse(&[b'1'; TEXT_MAX]), None);
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
        fn doubles_survive(value in -1e15..1e15_f64) {
            let shown: f64 = sum(&format!("{value:e}"), "0").unwrap().parse().unwrap();
            prop_assert!((shown - value).abs() <= value.abs() * f64::EPSILON + 1e-17);
        }

        #[test]
        fn no_text_panics(text in "[-+]?(0x)?[0-9a-f.]{0,20}([ep][-+]?[0-9]{0,6})?") {
            if let Some(number) = LongDouble::parse(text.as_bytes()) {
                let _ = number.add(&LongDouble::ZERO).map(|sum| sum.to_string());
            }
        }
    }
}
