//! Numbers as the report prints them: three figures that matter, and never parted from their unit.

/// Space between a number and its unit, where no line breaks.
const NBSP: char = '\u{a0}';

/// Writes three significant digits, thousands grouped: `0.460`, `4.00`, `152`, `1,234`.
pub fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let decimals = (2 - rounded.abs().log10().floor() as i32).clamp(0, 9) as usize;
    if decimals > 0 { format!("{rounded:.decimals$}") } else { thousands(value) }
}

/// Writes three significant digits without trailing zeros: `4`, `1.5`, `152`.
pub(crate) fn short(value: f64) -> String {
    let digits = significant(value);
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.').to_owned() } else { digits }
}

/// A whole number in groups of three: `100,000`.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 && digits != "0" { format!("−{out}") } else { out }
}

/// A rate where there is room, of any size: `0.0460`, `46.1`, `1,234`, `249,876`.
pub fn rate(value: f64) -> String {
    if value < 999.5 { significant(value) } else { thousands(value) }
}

/// A count of requests per second on an axis: `50 k`, `1.2 M`.
pub(crate) fn compact(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{}{NBSP}M", short(v / 1e6)),
        v if v >= 999.5 => format!("{}{NBSP}k", short(v / 1e3)),
        v => short(v),
    }
}

/// The same in a table, where digits stand below one another: `10.0 k`.
pub(crate) fn compact_digits(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{}{NBSP}M", significant(v / 1e6)),
        v if v >= 999.5 => format!("{}{NBSP}k", significant(v / 1e3)),
        v => significant(v),
    }
}

/// Microseconds in the unit that reads best.
pub(crate) fn duration(us: f64) -> String {
    match us {
        us if us >= 999_500.0 => format!("{}{NBSP}s", short(us / 1e6)),
        us if us >= 999.5 => format!("{}{NBSP}ms", short(us / 1e3)),
        us => format!("{}{NBSP}µs", short(us)),
    }
}

/// Seconds as a person says them: `17 min 08 s`.
pub(crate) fn elapsed(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, s) => format!("{s}{NBSP}s"),
        (0, m, s) => format!("{m}{NBSP}min {s:02}{NBSP}s"),
        (h, m, _) => format!("{h}{NBSP}h {m:02}{NBSP}min"),
    }
}

/// `1 cell`, `3 cells`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1{NBSP}{noun}") } else { format!("{}{NBSP}{noun}s", thousands(n as f64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace(NBSP, " ")
    }

    #[test]
    fn three_digits_are_significant_whatever_the_size() {
        let cases = [
            (0.0, "0"),
            (0.04604, "0.0460"),
            (0.46, "0.460"),
            (4.0, "4.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (152.4, "152"),
            (999.6, "1,000"),
            (1234.5, "1,234"),
            (2_173_913.0, "2,173,913"),
            (-4.0, "-4.00"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text, "{value}");
        }
        assert_eq!([4.0, 1.5, 10.0, 100.0, 2000.0].map(short), ["4", "1.5", "10", "100", "2,000"]);
    }

    #[test]
    fn slow_rates_keep_their_digits() {
        assert_eq!([0.046_04, 2.5, 46.123, 999.6, 249_876.4].map(rate), ["0.0460", "2.50", "46.1", "1,000", "249,876"]);
        let compacted = [0.046, 2.5, 46.12, 999.6, 249_876.4, 1.2e6].map(|value| plain(compact(value)));
        assert_eq!(compacted, ["0.046", "2.5", "46.1", "1 k", "250 k", "1.2 M"]);
        assert_eq!([2.5, 10_000.0, 1.2e6].map(|value| plain(compact_digits(value))), ["2.50", "10.0 k", "1.20 M"]);
    }

    #[test]
    fn durations_take_the_unit_that_reads_best() {
        let cases = [(0.414, "0.414 µs"), (60.0, "60 µs"), (999.4, "999 µs"), (999.6, "1 ms"), (2110.0, "2.11 ms")];
        for (us, text) in cases {
            assert_eq!(plain(duration(us)), text);
        }
        assert_eq!(plain(duration(1.5e6)), "1.5 s");
        assert_eq!([45.0, 1028.0, 7260.0].map(|s| plain(elapsed(s))), ["45 s", "17 min 08 s", "2 h 01 min"]);
    }

    #[test]
    fn a_number_and_its_unit_stay_on_one_line() {
        let texts = [duration(5.0), compact(50_000.0), elapsed(61.0), count(2, "cell")];
        for text in texts {
            let parted = text.split(' ').any(|word| word.chars().all(char::is_alphabetic));
            assert!(!parted, "{text}");
        }
    }
}
