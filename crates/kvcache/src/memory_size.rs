//! Amounts of memory, as INFO shows them.

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
    fn sizes_are_shown_with_two_decimals() {
        assert_eq!([0, 1023, 1536, 3 << 29].map(format_size), ["0B", "1023B", "1.50K", "1.50G"]);
    }
}
