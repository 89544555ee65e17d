//! Numbers in words as every output writes them: a ratio is `1.275×`, with its interval `[1.26, 1.29]` behind it.

use std::cmp::Ordering;

/// Writes a ratio without its sign: `0.0460`, `0.975`, `1.275`, `2.31`, `13.5`, `152`.
pub fn ratio(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 1.9995 => format!("{v:.2}"),
        v if v >= 0.0995 => format!("{v:.3}"),
        v if v > 0.0 => format!("{v:.*}", (2 - v.log10().floor() as i32).clamp(3, 12) as usize),
        _ => "0".to_owned(),
    }
}

/// Writes a ratio with its sign: `1.275×`.
pub fn times(value: f64) -> String {
    format!("{}×", ratio(value))
}

/// Writes an interval of ratios: `[1.26, 1.29]`.
pub fn ratio_interval(lo: f64, hi: f64) -> String {
    format!("[{}, {}]", ratio(lo), ratio(hi))
}

/// Difference of instructions per request that is none: their number moves by some tenths of a per cent from count to count.
const INSTRUCTIONS_ALIKE: f64 = 0.01;

/// Says what instructions make of a difference of CPU time: `cpu` is its direction where one was seen, `instructions` the ratio of
/// their numbers.
pub fn agreement(cpu: Ordering, instructions: f64) -> &'static str {
    let counted = match instructions.ln() {
        log if log > INSTRUCTIONS_ALIKE => Ordering::Greater,
        log if log < -INSTRUCTIONS_ALIKE => Ordering::Less,
        _ => Ordering::Equal,
    };
    match (cpu, counted) {
        (Ordering::Equal, Ordering::Equal) => "agree: no difference",
        (cpu, counted) if cpu == counted => "agree",
        (_, Ordering::Equal) => "as many: the difference of time lies elsewhere (kernel, caches)",
        (Ordering::Equal, _) => "differ, and no difference of time was seen",
        _ => "disagree",
    }
}

/// Writes a number of things: `1 visit`, `3 visits`, with a space that does not break.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1\u{a0}{noun}") } else { format!("{number}\u{a0}{noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_keeps_the_digits_that_tell() {
        let values = [0.000_123_4, 0.046, 0.975, 1.0, 1.275, 1.9996, 2.314, 9.996, 13.52, 99.96, 1234.5];
        let words = ["0.000123", "0.0460", "0.975", "1.000", "1.275", "2.00", "2.31", "10.0", "13.5", "100", "1234"];
        assert_eq!(values.map(ratio), words);
        assert_eq!((times(0.975).as_str(), ratio_interval(0.9, 2.0).as_str()), ("0.975×", "[0.900, 2.00]"));
    }

    #[test]
    fn instructions_agree_where_they_differ_in_the_same_direction() {
        use Ordering::{Equal, Greater, Less};
        for (cpu, instructions, words) in [
            (Greater, 1.03, "agree"),
            (Less, 0.97, "agree"),
            (Less, 1.03, "disagree"),
            (Greater, 0.97, "disagree"),
            (Equal, 1.005, "agree: no difference"),
        ] {
            assert_eq!(agreement(cpu, instructions), words, "{cpu:?} {instructions}");
        }
        assert!(agreement(Greater, 0.995).starts_with("as many"));
        assert!(agreement(Equal, 0.9).starts_with("differ"));
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([0, 1, 2].map(|n| count(n, "visit")), ["0\u{a0}visits", "1\u{a0}visit", "2\u{a0}visits"]);
    }
}
