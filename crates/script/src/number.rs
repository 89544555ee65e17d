//! Numbers as C's printf writes them.

/// Returns a number as `%.{precision}g` writes it.
pub(crate) fn general(number: f64, precision: usize) -> String {
    if number.is_nan() {
        // Of either sign on x86, where 0/0 is negative.
        return if number.is_sign_negative() { "-nan".to_owned() } else { "nan".to_owned() };
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf".to_owned() } else { "inf".to_owned() };
    }
    let precision = precision.max(1);
    let scientific = format!("{number:.*e}", precision - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= i32::try_from(precision).unwrap_or(i32::MAX) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(i32::try_from(precision).unwrap_or(i32::MAX) - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{number:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Converts as C does on x86: what does not fit is the least integer.
pub(crate) fn to_integer(number: f64) -> i64 {
    // Both bounds are exact.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) { number as i64 } else { i64::MIN }
}

/// Returns the number as an integer, if it is a whole one that needs no exponent.
pub(crate) fn whole(number: f64) -> Option<i64> {
    const EXACT_MAX: f64 = 1e14;
    let integer = number as i64;
    (number.abs() < EXACT_MAX && integer as f64 == number && (integer != 0 || number.is_sign_positive()))
        .then_some(integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_printf_does() {
        for (number, precision, text) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (1.5, 17, "1.5"),
            (0.1, 17, "0.10000000000000001"),
            (1e15, 17, "1000000000000000"),
            (1e20, 17, "1e+20"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (123_456_789.0, 3, "1.23e+08"),
            (99.99, 3, "100"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (f64::INFINITY, 14, "inf"),
        ] {
            assert_eq!(general(number, precision), text);
        }
    }

    #[test]
    fn a_number_without_an_integer_becomes_the_least_one() {
        assert_eq!([1e300, f64::NAN, -1.9, 1.9].map(to_integer), [i64::MIN, i64::MIN, -1, 1]);
        assert_eq!([2.0, -0.0, 0.5, 1e15].map(whole), [Some(2), None, None, None]);
    }
}
