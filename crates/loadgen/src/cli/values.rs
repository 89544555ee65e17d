//! Values of options.

use std::time::Duration;

/// `10s`, `500ms`, `2m`, `1h30m`; a unit is required.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "not a duration like 10s, 500ms or 2m".to_owned())
}

/// A duration that is not zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|duration| {
        if duration.is_zero() { Err("must be longer than nothing".to_owned()) } else { Ok(duration) }
    })
}

/// A positive number of requests per second, of which each gets its verdict one by one.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    const MAX: f64 = 1e7;
    let problem = || format!("not a positive number of requests per second up to {MAX}");
    text.parse().ok().filter(|rate: &f64| *rate > 0.0 && *rate <= MAX).ok_or_else(problem)
}

/// A positive number up to a limit.
pub(super) fn count<const MAX: usize>(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=MAX).contains(count)).ok_or_else(|| format!("not a number from 1 to {MAX}"))
}

/// Milliseconds, up to an hour; fractions are understood.
pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    const MAX: f64 = 3_600_000.0;
    let problem = || format!("not a number of milliseconds from 0 to {MAX}");
    let found = text.parse().ok().filter(|ms: &f64| (0.0..=MAX).contains(ms)).ok_or_else(problem)?;
    Ok(Duration::from_secs_f64(found / 1e3))
}

/// A SHA-256 digest in hexadecimal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest(pub(super) [u8; 32]);

impl std::str::FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || "not a SHA-256 digest of 64 hexadecimal digits".to_owned();
        if text.len() != 64 || !text.is_ascii() {
            return Err(problem());
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digit = |index: usize| char::from(pair[index]).to_digit(16).ok_or_else(problem);
            *byte = u8::try_from(digit(0)? * 16 + digit(1)?).map_err(|_| problem())?;
        }
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood_or_refused() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(duration("10").is_err() && duration("soon").is_err() && positive_duration("0s").is_err());
        assert_eq!(rate("2.5e3"), Ok(2_500.0));
        assert!(["0", "-1", "inf", "NaN", "x"].iter().all(|text| rate(text).is_err()));
        assert!(count::<5>("5").is_ok() && count::<5>("6").is_err() && count::<5>("0").is_err());
        assert_eq!(milliseconds("0.5"), Ok(Duration::from_micros(500)));
        assert!(["-1", "inf", "NaN", "1s", "1e9"].iter().all(|text| milliseconds(text).is_err()));
        assert_eq!("0a".repeat(32).parse::<Digest>().expect("valid").0, [10; 32]);
        assert!("0a".parse::<Digest>().is_err() && "zz".repeat(32).parse::<Digest>().is_err());
    }
}
