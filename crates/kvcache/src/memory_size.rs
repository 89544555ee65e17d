//! Amounts of memory in the units of Redis and in the usual ones.

use bytesize::ByteSize;

/// Parses `100`, `100b`, `1k` (1000), `1kb` (1024), `1m`, `1mb`, `1g`, `1gb`, and anything that [`ByteSize`] takes, like
/// `1.5GiB`.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return text.parse::<ByteSize>().ok().map(|size| size.as_u64()),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Formats a size as INFO shows it to people: `1.50M` is 1.5 × 1024².
pub(crate) fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let (mut amount, mut unit) = (bytes as f64 / 1024.0, 0);
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.2}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_as_by_redis() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("100b", Some(100)),
            ("1k", Some(1000)),
            ("1kb", Some(1024)),
            ("2MB", Some(2 << 20)),
            ("1gb", Some(1 << 30)),
            ("1GiB", Some(1 << 30)),
            ("1.5MiB", Some(3 << 19)),
            ("", None),
            ("-1", None),
            ("foo", None),
            ("99999999999gb", None),
        ] {
            assert_eq!(parse(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_shown_with_two_decimals() {
        assert_eq!([0, 1023, 1536, 3 << 29].map(format_size), ["0B", "1023B", "1.50K", "1.50G"]);
    }
}
