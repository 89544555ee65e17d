//! Values of options, and settings as a result records them.

use std::{collections::BTreeMap, fmt::Display, str::FromStr, time::Duration};

use clap::ValueEnum;
use loadgen::engine::Skew;
use serde_json::Value;

/// Parses a duration: `10s`, `500ms`, `2m`, `1h30m`; a number alone is seconds, as with wrk2, hey and memtier_benchmark.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let problem = || "not a duration; try 10s, 500ms or 2m (a number alone is seconds)".to_owned();
    seconds.or_else(|| humantime::parse_duration(text).ok()).ok_or_else(problem)
}

/// Parses a duration that is not zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|duration| {
        if duration.is_zero() { Err("too short; try 10s or 500ms".to_owned()) } else { Ok(duration) }
    })
}

/// Parses a positive number of requests per second: `2000`, `1.5k`, `2M`, `2000/s`.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    const MAX: f64 = 1e7;
    let problem = || format!("not a rate in requests per second, above 0 and up to {MAX}; try 2000, 1.5k or 2M");
    let number = text.strip_suffix("/s").unwrap_or(text);
    let (digits, unit) = match number.strip_suffix(['k', 'K']) {
        Some(thousands) => (thousands, 1e3),
        None => number.strip_suffix('M').map_or((number, 1.0), |millions| (millions, 1e6)),
    };
    let rate = digits.parse().ok().map(|digits: f64| digits * unit);
    rate.filter(|rate| *rate > 0.0 && *rate <= MAX).ok_or_else(problem)
}

/// Shares of a capacity: `10%..100%`, or `50%..90%/5%` with the step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    text: String,
    /// The shares; 1.0 is all of the capacity.
    pub(super) shares: Vec<f64>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// Units in a percent, so that steps add up exactly.
        const UNIT: f64 = 1e2;
        const MAX_PERCENT: f64 = 1e3;
        const STEPS_MAX: usize = 1000;
        let problem = || "not a range of shares; try 10%..100% or, with the step, 50%..90%/5%".to_owned();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be small and positive")]
        let percent = |text: &str| {
            let number: f64 = text.strip_suffix('%')?.parse().ok()?;
            (number > 0.0 && number <= MAX_PERCENT).then(|| (number * UNIT).round() as usize)
        };
        let (range, step) = text.split_once('/').unwrap_or((text, "10%"));
        let (low, high) = range.split_once("..").ok_or_else(problem)?;
        let parts = percent(low).zip(percent(high)).zip(percent(step));
        let ((low, high), step) = parts.filter(|((low, high), step)| low <= high && *step > 0).ok_or_else(problem)?;
        if (high - low) / step >= STEPS_MAX {
            return Err(format!("a range of more than {STEPS_MAX} steps; try 10%..100%"));
        }
        #[expect(clippy::cast_precision_loss, reason = "hundredths of a percent")]
        let shares = (low..=high).step_by(step).map(|share| share as f64 / UNIT / 1e2).collect();
        Ok(Self { text: text.to_owned(), shares })
    }
}

impl Display for Sweep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses a share of the connections and the share of the requests that it carries.
pub(super) fn skew(text: &str) -> Result<Skew, String> {
    let share = |text: &str| {
        let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
        (percent > 0.0 && percent < 100.0).then_some(percent / 1e2)
    };
    let shares = text.split_once(':').and_then(|(connections, requests)| share(connections).zip(share(requests)));
    shares
        .map(|(connections, requests)| Skew { connections, requests })
        .ok_or_else(|| "not a share of the connections and one of the requests; try 10%:90%".to_owned())
}

/// Parses a positive number up to a limit.
pub(super) fn count<const MAX: usize>(text: &str) -> Result<usize, String> {
    number(text, 1, MAX)
}

/// Parses a positive number.
pub(super) fn positive(text: &str) -> Result<u64, String> {
    number(text, 1, u64::MAX)
}

/// Parses a whole number between two limits.
pub(super) fn number<T: FromStr + PartialOrd + Display + Copy>(text: &str, min: T, max: T) -> Result<T, String> {
    let problem = || format!("not a whole number from {min} to {max}");
    text.parse().ok().filter(|number| (min..=max).contains(number)).ok_or_else(problem)
}

/// Parses a duration up to an hour: a number alone is milliseconds, which may have a fraction.
pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    const MAX: Duration = Duration::from_secs(3600);
    let problem = || "not a duration of up to an hour; try 100ms or 0.1s (a number alone is milliseconds)".to_owned();
    let alone: Option<f64> = text.parse().ok();
    let found = match alone {
        Some(ms) => Duration::try_from_secs_f64(ms / 1e3).ok(),
        None => duration(text).ok(),
    };
    found.filter(|found| *found <= MAX).ok_or_else(problem)
}

/// A SHA-256 digest in hexadecimal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest(pub(super) [u8; 32]);

impl FromStr for Digest {
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

/// Collects settings with their names.
pub(super) fn settings<const N: usize>(pairs: [(&str, Value); N]) -> BTreeMap<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the name of a value on the command line.
pub(super) fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_or_refused() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!((duration("10"), duration("0.5")), (Ok(Duration::from_secs(10)), Ok(Duration::from_millis(500))));
        assert!(["soon", "-1", "inf", "NaN", "1e30", ""].iter().all(|text| duration(text).is_err()));
        assert!(positive_duration("0s").is_err() && positive_duration("0").is_err());
        let rates =
            [("2.5e3", 2_500.0), ("1k", 1_000.0), ("1.5K", 1_500.0), ("2M", 2e6), ("2000/s", 2_000.0), ("3k/s", 3e3)];
        rates.iter().for_each(|(text, value)| assert_eq!(rate(text), Ok(*value), "{text}"));
        assert!(["0", "-1", "inf", "NaN", "x", "1m", "k", "11M", "1kk"].iter().all(|text| rate(text).is_err()));
        let shares = |text: &str| text.parse::<Sweep>().map(|sweep| sweep.shares);
        assert_eq!(shares("50%..90%/20%"), Ok(vec![0.5, 0.7, 0.9]));
        assert_eq!(shares("10%..100%").map(|shares| shares.len()), Ok(10));
        assert_eq!(shares("12.5%..12.5%"), Ok(vec![0.125]));
        assert_eq!(skew("10%:90%"), Ok(Skew { connections: 0.1, requests: 0.9 }));
        assert!(["", "10:90", "10%", "0%:90%", "10%:100%", "10%:90%:1%"].iter().all(|text| skew(text).is_err()));
        for text in ["", "10..100", "0%..10%", "90%..10%", "10%", "10%..", "1%..9%/0%", "1%..1000%/0.01%"] {
            assert!(shares(text).is_err(), "{text}");
        }
        assert!(count::<5>("5").is_ok() && count::<5>("6").is_err() && count::<5>("0").is_err());
        assert_eq!(milliseconds("0.5"), Ok(Duration::from_micros(500)));
        let milli = |ms| Ok(Duration::from_millis(ms));
        assert_eq!(["100", "100ms", "2s"].map(milliseconds), [milli(100), milli(100), milli(2_000)]);
        assert!(["-1", "inf", "NaN", "1x", "1e9", "2h"].iter().all(|text| milliseconds(text).is_err()));
        assert_eq!(number("x", 1, 5_u32), Err("not a whole number from 1 to 5".to_owned()));
        assert_eq!((number("5", 1, 5_u32), positive("0").is_err()), (Ok(5), true));
        assert_eq!("0a".repeat(32).parse::<Digest>().expect("valid").0, [10; 32]);
        assert!("0a".parse::<Digest>().is_err() && "zz".repeat(32).parse::<Digest>().is_err());
    }
}
