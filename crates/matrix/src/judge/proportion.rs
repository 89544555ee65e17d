//! Shares of a number of cases, and how much is known of them.

use serde::{Deserialize, Serialize};

/// Two-sided 95 % of a normal distribution.
const Z: f64 = 1.959_963_985;

/// Cases that hold, of so many.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Proportion {
    pub(crate) holds: u32,
    pub(crate) of: u32,
}

impl Proportion {
    /// Counts the cases that hold.
    pub(crate) fn count(cases: impl Iterator<Item = bool>) -> Self {
        cases.fold(Self::default(), |so_far, holds| Self { holds: so_far.holds + u32::from(holds), of: so_far.of + 1 })
    }

    pub(crate) fn share(self) -> f64 {
        f64::from(self.holds) / f64::from(self.of.max(1))
    }

    /// The 95 % interval of the true share (Wilson 1927), which has a width even where none or all of the cases hold.
    pub(crate) fn interval(self) -> (f64, f64) {
        if self.of == 0 {
            return (0.0, 1.0);
        }
        let (n, share, square) = (f64::from(self.of), self.share(), Z * Z);
        let centre = (share + square / (2.0 * n)) / (1.0 + square / n);
        let half = Z / (1.0 + square / n) * (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt();
        ((centre - half).max(0.0), (centre + half).min(1.0))
    }

    /// `19 of 20 [76 %, 99 %]`.
    pub(crate) fn in_words(self) -> String {
        let (low, high) = self.interval();
        format!("{} of {} [{:.0}\u{a0}%, {:.0}\u{a0}%]", self.holds, self.of, low * 100.0, high * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilsons() {
        // Newcombe, Two-sided confidence intervals for the single proportion (1998), table I.
        for (holds, of, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let interval = Proportion { holds, of }.interval();
            assert!((interval.0 - low).abs() < 1e-4 && (interval.1 - high).abs() < 1e-4, "{interval:?}");
        }
        assert_eq!(Proportion::default().interval(), (0.0, 1.0));
        assert_eq!(Proportion::count([true, false, true].into_iter()), Proportion { holds: 2, of: 3 });
        assert_eq!(Proportion { holds: 19, of: 20 }.in_words(), "19 of 20 [76\u{a0}%, 99\u{a0}%]");
    }
}
