//! HTTP dates (RFC 9110, section 5.6.7), formatted at most once a second per thread.

use std::{
    cell::Cell,
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Bytes of an IMF-fixdate such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_LEN: usize = 29;

/// A date as it appears in a field value.
pub type DateBytes = [u8; DATE_LEN];

/// Last second of the year 9999, the latest date of the format.
const SECONDS_MAX: u64 = 253_402_300_799;

thread_local! {
    static LATEST: Cell<(u64, DateBytes)> = const { Cell::new((u64::MAX, [b' '; DATE_LEN])) };
}

/// Returns the `Date` field of a response made at `unix` since the epoch. Cheap: the text is kept for the rest of the
/// second.
#[inline]
pub fn date_now(unix: Duration) -> DateBytes {
    let seconds = unix.as_secs();
    LATEST.with(|latest| {
        let (second, text) = latest.get();
        if second == seconds {
            return text;
        }
        let text = format_date(seconds);
        latest.set((seconds, text));
        text
    })
}

/// Formats `seconds` since the epoch; a date after the year 9999 becomes its last second.
pub fn format_date(seconds: u64) -> DateBytes {
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(SECONDS_MAX));
    let mut text = [b' '; DATE_LEN];
    // An IMF-fixdate always has this length, so the slice is never too short.
    let _ = write!(&mut text[..], "{}", httpdate::HttpDate::from(time));
    text
}

/// Parses a date in any of the three forms of the RFC, into seconds since the epoch; an earlier date counts as the
/// epoch.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    Some(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: u64 = 784_111_777;

    #[test]
    fn all_three_date_forms_are_read_and_the_first_is_written() {
        for form in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse_date(form.as_bytes()), Some(EXAMPLE), "{form}");
        }
        assert_eq!(&format_date(EXAMPLE), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for nonsense in [&b"yesterday"[..], b"", b"\xff", b"784111777"] {
            assert_eq!(parse_date(nonsense), None);
        }
    }

    #[test]
    fn the_kept_date_follows_the_clock_both_ways() {
        for seconds in [EXAMPLE, EXAMPLE + 1, EXAMPLE + 1, 0, EXAMPLE, u64::MAX] {
            assert_eq!(date_now(Duration::from_secs(seconds)), format_date(seconds));
        }
        assert_eq!(&format_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
