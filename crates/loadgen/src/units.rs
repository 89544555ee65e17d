//! Figures with units, as people read them, and lines that fit a terminal.

use std::fmt;

/// Columns of what is printed: those of the narrowest usual terminal.
pub const COLUMNS: usize = 80;

/// Unit of times. A table has one, so that its figures can be compared at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    Microseconds,
    Milliseconds,
    Seconds,
}

impl TimeUnit {
    /// Returns the unit in which a time has one to three digits before the point.
    #[must_use]
    pub fn of(us: f64) -> Self {
        match us {
            _ if us < 1e3 => Self::Microseconds,
            _ if us < 1e6 => Self::Milliseconds,
            _ => Self::Seconds,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    /// Formats microseconds in this unit, which is not named.
    #[must_use]
    pub fn format(self, us: f64) -> String {
        match self {
            Self::Microseconds => grouped(us, 1),
            Self::Milliseconds => grouped(us / 1e3, 3),
            Self::Seconds => grouped(us / 1e6, 3),
        }
    }

    /// Formats microseconds in this unit, which is named.
    #[must_use]
    pub fn spell(self, us: f64) -> String {
        format!("{} {}", self.format(us), self.name())
    }
}

/// Formats microseconds in the unit that suits them, with three digits.
#[must_use]
pub fn duration(us: f64) -> String {
    let unit = TimeUnit::of(us);
    let value = match unit {
        TimeUnit::Microseconds => us,
        TimeUnit::Milliseconds => us / 1e3,
        TimeUnit::Seconds => us / 1e6,
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {}", unit.name())
}

/// Formats a number with so many decimals, and the digits before them in groups of three.
fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    whole.parse().map_or_else(|_| text.clone(), |whole| format!("{}{rest}", Grouped(whole)))
}

/// Returns the noun for a count: as it is for 1, and with an `s` otherwise.
#[must_use]
pub fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", Grouped(count), if count == 1 { "" } else { "s" })
}

/// Breaks a text between words into lines of at most [`COLUMNS`]; all but the first are indented. A longer word stays whole.
#[must_use]
pub fn wrap(text: &str, indent: usize) -> String {
    let (mut wrapped, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > COLUMNS {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            width = indent;
        } else if !wrapped.is_empty() {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += length;
    }
    wrapped
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
pub struct Grouped(pub u64);

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
        let cases = [(0.5, "0.50 µs"), (999.0, "999 µs"), (1_500.0, "1.50 ms"), (15_000.0, "15.0 ms"), (2e6, "2.00 s")];
        for (us, text) in cases {
            assert_eq!(duration(us), text);
        }
    }

    #[test]
    fn a_table_keeps_the_unit_it_has_chosen() {
        let unit = TimeUnit::of(85.3);
        assert_eq!((unit.format(85.3), unit.format(5_012_345.67)), ("85.3".to_owned(), "5,012,345.7".to_owned()));
        let unit = TimeUnit::of(1_000.0);
        assert_eq!((unit.format(12.0), unit.spell(4_990.0)), ("0.012".to_owned(), "4.990 ms".to_owned()));
        assert_eq!(TimeUnit::of(1e6).spell(2.5e6), "2.500 s");
    }

    #[test]
    fn lines_break_between_words_at_eighty_columns() {
        let text = vec!["µµµµ"; 40].join(" ");
        let wrapped = wrap(&text, 4);
        assert!(wrapped.lines().all(|line| line.chars().count() <= COLUMNS), "{wrapped}");
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with("    µ")), "{wrapped}");
        assert_eq!(wrapped.split_whitespace().count(), 40);
        assert_eq!((wrap("", 4), wrap(&"x".repeat(200), 4)), (String::new(), "x".repeat(200)));
    }

    #[test]
    fn one_of_a_kind_is_singular() {
        assert_eq!([0, 1, 2_000].map(|count| plural(count, "request")), ["0 requests", "1 request", "2,000 requests"]);
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
