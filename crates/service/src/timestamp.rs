//! Times as logs write them, in UTC.

use std::{fmt, time::Duration};

const SECONDS_A_DAY: u64 = 24 * 60 * 60;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time since the Unix epoch, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    year: u64,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    micros: u32,
}

impl From<Duration> for Timestamp {
    /// By Howard Hinnant's `civil_from_days`: years begin in March, so that the day that some have more is the last.
    #[expect(clippy::cast_possible_truncation, reason = "months, days and parts of a day are small")]
    fn from(unix: Duration) -> Self {
        let (days, second) = (unix.as_secs() / SECONDS_A_DAY + 719_468, unix.as_secs() % SECONDS_A_DAY);
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month: month as u8,
            day: (day_of_year - (153 * march_month + 2) / 5 + 1) as u8,
            hour: (second / 3_600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
            micros: unix.subsec_micros(),
        }
    }
}

impl Timestamp {
    /// Formats as the common log format does: `22/Nov/2026:23:47:07 +0000`.
    pub fn common(self) -> impl fmt::Display {
        fmt::from_fn(move |f| {
            let Self { year, month, day, hour, minute, second, .. } = self;
            let month = MONTHS[usize::from(month) - 1];
            write!(f, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
        })
    }
}

/// Formats as RFC 3339 does, to the microsecond: `2026-11-22T23:47:07.123456Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second, micros } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

#[cfg(test)]
mod tests {
    use wire::http1::date::format_date;

    use super::*;

    #[test]
    fn a_time_is_written_in_both_forms() {
        let time = Timestamp::from(Duration::new(784_111_777, 5_000));
        assert_eq!(time.to_string(), "1994-11-06T08:49:37.000005Z");
        assert_eq!(time.common().to_string(), "06/Nov/1994:08:49:37 +0000");
    }

    /// Every day from 1970 to 2400 is the one that HTTP's dates have.
    #[test]
    fn days_are_those_of_the_calendar() {
        for day in 0..157_000 {
            let seconds = day * SECONDS_A_DAY + 3_723;
            let date = String::from_utf8(format_date(seconds).to_vec()).unwrap();
            let words: Vec<_> = date.split([' ', ',']).filter(|word| !word.is_empty()).collect();
            let expected = format!("{}/{}/{}:01:02:03 +0000", words[1], words[2], words[3]);
            assert_eq!(Timestamp::from(Duration::from_secs(seconds)).common().to_string(), expected);
        }
    }
}
