//! A result for people and for programs.

mod comparison;
mod csv;
mod text;

use std::fmt;

pub(crate) use self::csv::quote;
use crate::{compare::Comparison, result::RunResult};

/// One object.
pub fn json(result: &RunResult) -> serde_json::Result<String> {
    serde_json::to_string_pretty(result)
}

/// One header line and one row, or a row for each of several rates.
#[must_use]
pub fn csv(result: &RunResult) -> String {
    csv::render(&[result])
}

/// One header line, and one row for each result.
#[must_use]
pub fn csv_of_all(results: &[&RunResult]) -> String {
    csv::render(results)
}

/// For a terminal.
#[must_use]
pub fn text(result: &RunResult) -> String {
    text::render(result)
}

/// For a terminal.
#[must_use]
pub fn comparison_text(comparison: &Comparison) -> String {
    comparison::text(comparison)
}

/// A header line, and a row for each figure.
#[must_use]
pub fn comparison_csv(comparison: &Comparison) -> String {
    comparison::csv(comparison)
}

/// Microseconds in the unit that leaves three or four digits.
#[must_use]
pub fn duration(us: f64) -> String {
    text::duration(us)
}

/// Events per second, with digits in groups of three.
#[must_use]
pub fn rate(per_second: f64) -> String {
    text::rounded(per_second)
}

/// `1234567` as `1,234,567`.
struct Grouped(u64);

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
    fn digits_are_grouped_by_three() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(Grouped(number).to_string(), text);
        }
        assert_eq!(format!("{:>6}", Grouped(1_000)), " 1,000");
    }
}
