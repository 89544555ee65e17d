//! Amounts of memory, in the units of Redis.

/// Parses a number, perhaps with a fraction, and a unit in any case: `b` or nothing, `k`, `m`, `g` and `t` are powers of
/// 1000; `kb`, `mb`, `gb` and `tb` are powers of 1024, and so are `kib`, `mib`, `gib` and `tib`.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let is_number = |character: char| character.is_ascii_digit() || character == '.';
    let (number, unit) = text.split_at(text.find(|character| !is_number(character)).unwrap_or(text.len()));
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" | "kib" => 1 << 10,
        "m" => 1_000_000,
        "mb" | "mib" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" | "gib" => 1 << 30,
        "t" => 1_000_000_000_000,
        "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    if !number.contains('.') {
        return number.parse::<u64>().ok()?.checked_mul(factor);
    }
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    (bytes < u64::MAX as f64).then_some(bytes as u64)
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
            ("1.0gb", Some(1 << 30)),
            ("1.5gb", Some(3 << 29)),
            ("1tb", Some(1 << 40)),
            ("2 GB", Some(2 << 30)),
            ("1.5k", Some(1500)),
            (".", None),
            ("1.2.3", None),
            ("1pb", None),
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
