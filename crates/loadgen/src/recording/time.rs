//! Times as logs have them, in seconds since 1970.

use std::time::UNIX_EPOCH;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses RFC 3339: `2026-11-27T03:16:54.123456Z`, or with an offset.
pub(super) fn parse_rfc3339(text: &str) -> Option<f64> {
    let text = text.trim();
    // The date has hyphens, too.
    let clock = text.find(['T', 't', ' '])?;
    let at = text[clock..].find(['Z', 'z', '+', '-']).map(|at| clock + at)?;
    let (local, zone) = text.split_at(at);
    let time = humantime::parse_rfc3339(&format!("{}Z", local.replace([' ', 't'], "T"))).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64() - offset(zone)?)
}

/// Parses the time of a common log: `10/Oct/2000:13:55:36 -0700`.
pub(super) fn parse_common(text: &str) -> Option<f64> {
    let (time, zone) = text.split_once(' ')?;
    let mut parts = time.splitn(4, ['/', ':']);
    let (day, month, year, clock) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = 1 + MONTHS.iter().position(|name| *name == month)?;
    parse_rfc3339(&format!("{year}-{month:02}-{day}T{clock}{zone}"))
}

/// Returns the seconds that local time is ahead of UTC.
fn offset(zone: &str) -> Option<f64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0.0);
    }
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1.0, digits.replace(':', "")),
        ("-", digits) => (-1.0, digits.replace(':', "")),
        _ => return None,
    };
    let (hours, minutes) = digits.split_at_checked(2)?;
    let number = |text: &str| text.parse::<u8>().ok().map(f64::from);
    (digits.len() == 4).then_some(())?;
    Some(sign * (number(hours)? * 3_600.0 + number(minutes)? * 60.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_formats_are_one() {
        let expected = Some(971_211_336.0);
        for text in [
            "2000-10-10T20:55:36Z",
            "2000-10-10T13:55:36-07:00",
            "2000-10-10 22:55:36+0200",
            "2000-10-10T20:55:36.000Z",
        ] {
            assert_eq!(parse_rfc3339(text), expected, "{text}");
        }
        assert_eq!(parse_common("10/Oct/2000:13:55:36 -0700"), expected);
        assert_eq!(parse_rfc3339("1970-01-01T00:00:01.25Z"), Some(1.25));
        for text in ["", "soon", "2000-10-10", "2000-10-10T20:55:36", "2000-10-10T20:55:36+7", "2000-13-10T20:55:36Z"] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
        for text in ["", "10/Okt/2000:13:55:36 -0700", "10/Oct/2000:13:55:36", "10/Oct/2000 -0700"] {
            assert_eq!(parse_common(text), None, "{text}");
        }
    }
}
