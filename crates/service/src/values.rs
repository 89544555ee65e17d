//! Values of flags, and how bad ones are explained.

use std::{str::FromStr, time::Duration};

use bytesize::ByteSize;

/// Parses a time: a number of seconds, or numbers with units.
///
/// # Errors
/// An explanation with an example.
pub fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .or_else(|| humantime::parse_duration(text).ok())
        .ok_or_else(|| "not a time, like 30, 500ms, 30s or 2min".to_owned())
}

/// Parses a time that is not 0.
///
/// # Errors
/// An explanation, with an example of what is no time at all.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be more than 0".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses an amount of memory, as [`parse_size`] does.
///
/// # Errors
/// An explanation with an example.
pub fn size(text: &str) -> Result<ByteSize, String> {
    parse_size(text).map(ByteSize).ok_or_else(|| "not a size, like 4096, 64KiB, 10MB or 1GiB".to_owned())
}

/// Parses an amount of memory: a number of bytes, or a number, perhaps with a fraction, and a unit in any case. Units are
/// those of Redis, for all programs alike: `kb`, `mb`, `gb`, `tb` and `pb` are powers of 1024, as are `kib` to `pib`; `k`,
/// `m`, `g`, `t` and `p` are powers of 1000.
pub fn parse_size(text: &str) -> Option<u64> {
    let is_number = |character: char| character.is_ascii_digit() || character == '.';
    let (number, unit) = text.split_at(text.find(|character| !is_number(character)).unwrap_or(text.len()));
    let unit = unit.trim().to_ascii_lowercase();
    let (prefix, base) = match unit.strip_suffix('b') {
        None => (unit.strip_suffix('i').unwrap_or(&unit), if unit.ends_with('i') { 1024_u64 } else { 1000 }),
        Some(prefix) => (prefix.strip_suffix('i').unwrap_or(prefix), 1024),
    };
    let exponent = match prefix {
        "" if unit.contains('i') => return None,
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let factor = base.pow(exponent);
    if !number.contains('.') {
        return number.parse::<u64>().ok()?.checked_mul(factor);
    }
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    (bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// Parses a size that is not 0.
///
/// # Errors
/// An explanation, with an example of what is no size at all.
pub fn positive_size(text: &str) -> Result<ByteSize, String> {
    match size(text)? {
        ByteSize(0) => Err("must be at least 1 byte".to_owned()),
        size => Ok(size),
    }
}

/// Parses an amount per second.
pub(crate) fn rate(text: &str) -> Result<ByteSize, String> {
    size(text.strip_suffix("/s").unwrap_or(text)).map_err(|_| "not a rate, like 500, 500B/s or 64KiB/s".to_owned())
}

/// Parses a size that setsockopt(2) takes: a positive `int`.
pub(crate) fn buffer_bytes(text: &str) -> Result<usize, String> {
    match i32::try_from(size(text)?.as_u64()) {
        Ok(0) | Err(_) => Err(format!("must be at least 1 byte and at most {} bytes", i32::MAX)),
        Ok(bytes) => Ok(bytes.unsigned_abs() as usize),
    }
}

/// Parses a backlog as listen(2) takes it: a positive `int`.
pub(crate) fn backlog(text: &str) -> Result<i32, String> {
    i32::try_from(at_least_one(text)?).map_err(|_| format!("must be at most {}", i32::MAX))
}

/// Parses a number of things.
///
/// # Errors
/// An explanation with an example.
pub fn count<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "not a whole number, like 4".to_owned())
}

/// Parses a number of things that cannot be none.
///
/// # Errors
/// An explanation, with an example of what is no number at all.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match count(text)? {
        0 => Err("must be at least 1".to_owned()),
        n => Ok(n),
    }
}

/// Parses permissions in octal.
///
/// # Errors
/// An explanation with an example.
pub fn octal_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "not permissions in octal, such as 600 or 622".to_owned())
}

/// Parses `on` or `off`.
///
/// # Errors
/// It is neither.
pub fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_unit_is_in_seconds() {
        for (text, ms) in [("30", 30_000), ("0", 0), ("1.5", 1_500), ("250ms", 250), ("1min 30s", 90_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "soon", "-1", "5 parsecs", "inf", "NaN", "1e300"] {
            assert!(duration(bad).unwrap_err().contains("like 30, 500ms"), "{bad}");
        }
        assert!(positive_duration("0ms").is_err() && positive_duration("1ms").is_ok());
    }

    #[test]
    fn a_bad_size_is_explained_by_an_example() {
        for (text, bytes) in [("4096", 4096), ("64KiB", 64 << 10), ("10MB", 10 << 20), ("0", 0)] {
            assert_eq!(size(text), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "large", "-1", "1 elephant"] {
            assert!(size(bad).unwrap_err().contains("like 4096, 64KiB"), "{bad}");
        }
        assert!(positive_size("0KiB").is_err() && positive_size("1").is_ok());
    }

    #[test]
    fn sizes_have_the_units_of_redis() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("100b", Some(100)),
            ("1k", Some(1000)),
            ("1kb", Some(1024)),
            ("1Ki", Some(1024)),
            ("2MB", Some(2 << 20)),
            ("1gb", Some(1 << 30)),
            ("1GiB", Some(1 << 30)),
            ("1.5MiB", Some(3 << 19)),
            ("1.0gb", Some(1 << 30)),
            ("1.5gb", Some(3 << 29)),
            ("1tb", Some(1 << 40)),
            ("1pb", Some(1 << 50)),
            ("2 GB", Some(2 << 30)),
            ("1.5k", Some(1500)),
            (".", None),
            ("i", None),
            ("1i", None),
            ("1ib", None),
            ("1.2.3", None),
            ("1bb", None),
            ("", None),
            ("-1", None),
            ("foo", None),
            ("99999999999gb", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn a_bad_count_is_explained_by_an_example() {
        assert_eq!((count("0"), count("12"), at_least_one("12")), (Ok(0_u8), Ok(12_u64), Ok(12)));
        for bad in ["", "x", "-1", "1.5", "99999999999999999999"] {
            assert!(count::<u64>(bad).unwrap_err().contains("like 4") && at_least_one(bad).is_err(), "{bad}");
        }
        assert!(at_least_one("0").unwrap_err().contains("at least 1"));
    }

    #[test]
    fn a_rate_is_a_size_per_second() {
        for (text, bytes) in [("500", 500), ("500B/s", 500), ("64KiB/s", 64 << 10), ("0", 0)] {
            assert_eq!(rate(text), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "/s", "fast", "5B/min"] {
            assert!(rate(bad).unwrap_err().contains("like 500, 500B/s"), "{bad}");
        }
    }

    #[test]
    fn a_buffer_is_as_large_as_a_socket_can_be_told() {
        assert_eq!((buffer_bytes("64KiB"), buffer_bytes("4096")), (Ok(64 << 10), Ok(4096)));
        for bad in ["0", "2GiB", "large", ""] {
            assert!(buffer_bytes(bad).is_err(), "{bad:?}");
        }
    }
}
