//! A result for people and for programs.

mod csv;
mod text;

use std::fmt;

use crate::result::RunResult;

/// One object.
pub fn json(result: &RunResult) -> serde_json::Result<String> {
    serde_json::to_string_pretty(result)
}

/// One header line and one row, or a row for each of several rates.
#[must_use]
pub fn csv(result: &RunResult) -> String {
    csv::render(result)
}

/// For a terminal.
#[must_use]
pub fn text(result: &RunResult) -> String {
    text::render(result)
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
