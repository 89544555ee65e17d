//! Figures with units, as people read them.

use std::fmt;

/// Formats microseconds in the unit that leaves three or four digits.
#[must_use]
pub fn duration(us: f64) -> String {
    match us {
        _ if us >= 1e6 => format!("{:.2} s", us / 1e6),
        _ if us >= 1e4 => format!("{:.1} ms", us / 1e3),
        _ if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        _ => format!("{us:.1} µs"),
    }
}

/// Formats a positive number, such as events per second: two decimals below 100, whole with grouped digits above.
#[must_use]
pub fn rate(per_second: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive and far from 2^64")]
    let whole = per_second.round() as u64;
    if per_second < 100.0 { format!("{per_second:.2}") } else { Grouped(whole).to_string() }
}

/// Formats a throughput in MiB/s; `-` of no time at all.
#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
pub(crate) fn mebibytes_per_second(bytes: u64, seconds: f64) -> String {
    if seconds > 0.0 { format!("{:.2}", bytes as f64 / seconds / f64::from(1 << 20)) } else { "-".to_owned() }
}

/// A number with its digits in groups of three: `1234567` as `1,234,567`.
pub(crate) struct Grouped(pub(crate) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut grouped = String::with_capacity(digits.len() * 4 / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        f.pad(&grouped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits() {
        let cases =
            [(0.5, "0.5 µs"), (999.0, "999.0 µs"), (1_500.0, "1.50 ms"), (15_000.0, "15.0 ms"), (2e6, "2.00 s")];
        for (us, text) in cases {
            assert_eq!(duration(us), text);
        }
    }

    #[test]
    fn digits_are_grouped_by_three() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(Grouped(number).to_string(), text);
        }
        assert_eq!(format!("{:>6}", Grouped(1_000)), " 1,000");
    }
}
