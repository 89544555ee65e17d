//! Bad usage, told apart from what fails.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

/// The command line asked for something that cannot be: one line on standard error, exit status 2.
#[derive(Debug)]
pub struct UsageError(String);

impl Display for UsageError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Error of the command line, in one line.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(message.into()))
}

/// Parses a whole number of the range; `example` is one.
pub(crate) fn whole<T: Copy + Display + FromStr + PartialOrd>(
    text: &str,
    range: RangeInclusive<T>,
    example: &str,
) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number
        .ok_or_else(|| format!("expected a whole number from {} to {}, such as {example}", range.start(), range.end()))
}
