//! Lengths of values. They depend on the key alone, so that the length is known when a value is verified.

use std::ops::RangeInclusive;

use super::space::Noise;

/// Number of deviations from the median of a lognormal law beyond which lengths are cut off: one in 30,000.
const DEVIATIONS_MAX: f64 = 4.0;
/// Number of keys from which the typical length is computed.
const SAMPLE_KEYS: u32 = 1_000;

/// Lengths of values.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueSizes {
    /// Evenly distributed lengths.
    Range(RangeInclusive<usize>),
    /// Some sizes and their weights, of which at least one is not 0.
    Weighted(Vec<(usize, u32)>),
    /// The logarithm of the length is normally distributed around that of the median: many small values and a few large
    /// ones, as caches often have them.
    LogNormal { median: f64, sigma: f64 },
}

impl From<RangeInclusive<usize>> for ValueSizes {
    fn from(range: RangeInclusive<usize>) -> Self {
        Self::Range(range)
    }
}

impl ValueSizes {
    /// Returns the shortest length that occurs.
    #[must_use]
    pub fn min(&self) -> usize {
        match self {
            Self::Range(range) => *range.start(),
            Self::Weighted(sizes) => weighted(sizes).map(|(size, _)| size).min().unwrap_or_default(),
            Self::LogNormal { median, sigma } => bytes(median * (-DEVIATIONS_MAX * sigma).exp()),
        }
    }

    /// Returns the longest length that occurs.
    #[must_use]
    pub fn max(&self) -> usize {
        match self {
            Self::Range(range) => *range.end(),
            Self::Weighted(sizes) => weighted(sizes).map(|(size, _)| size).max().unwrap_or_default(),
            Self::LogNormal { median, sigma } => bytes(median * (DEVIATIONS_MAX * sigma).exp()),
        }
    }

    /// Returns about the mean length.
    #[must_use]
    pub fn typical(&self) -> usize {
        let sum: usize = (0..SAMPLE_KEYS).map(|key| self.length(key)).sum();
        sum.div_ceil(SAMPLE_KEYS as usize)
    }

    /// Returns the length of a key's value.
    pub(super) fn length(&self, key: u32) -> usize {
        let mut noise = Noise(u64::from(key) ^ (1 << 40));
        match self {
            Self::Range(range) => match range.end().saturating_sub(*range.start()) {
                0 => *range.start(),
                span => range.start() + noise.below(span + 1),
            },
            Self::Weighted(sizes) => {
                let total: u64 = weighted(sizes).map(|(_, weight)| u64::from(weight)).sum();
                let mut place = noise.next() % total.max(1);
                let chosen = weighted(sizes).find(|&(_, weight)| {
                    let is_it = place < u64::from(weight);
                    place = place.saturating_sub(u64::from(weight));
                    is_it
                });
                chosen.map_or(0, |(size, _)| size)
            }
            Self::LogNormal { median, sigma } => {
                // Box and Muller's: a normally distributed number from two uniform ones, the first of them not 0.
                let (one, other) = (1.0 - noise.share(), noise.share());
                let deviations = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
                bytes(median * (deviations.clamp(-DEVIATIONS_MAX, DEVIATIONS_MAX) * sigma).exp())
            }
        }
    }
}

/// Returns the sizes that occur.
fn weighted(sizes: &[(usize, u32)]) -> impl Iterator<Item = (usize, u32)> + '_ {
    sizes.iter().copied().filter(|&(_, weight)| weight > 0)
}

/// Rounds a length, to at least 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what is too large becomes the largest")]
fn bytes(length: f64) -> usize {
    length.round().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(sizes: &ValueSizes) -> Vec<usize> {
        let mut lengths: Vec<_> = (0..100_000).map(|key| sizes.length(key)).collect();
        assert!(lengths.iter().all(|length| (sizes.min()..=sizes.max()).contains(length)), "{sizes:?}");
        lengths.sort_unstable();
        lengths
    }

    #[test]
    fn listed_sizes_occur_in_their_proportions() {
        let sizes = ValueSizes::Weighted(vec![(8, 70), (1_024, 25), (4, 0), (65_536, 5)]);
        let lengths = lengths(&sizes);
        for (size, share) in [(8, 0.70), (1_024, 0.25), (65_536, 0.05)] {
            let found = lengths.iter().filter(|&&length| length == size).count() as f64 / lengths.len() as f64;
            // The standard error is at most 0.0015.
            assert!((found - share).abs() < 0.008, "{size}: {found}");
        }
        assert_eq!((sizes.min(), sizes.max()), (8, 65_536));
        assert!((2_500..4_500).contains(&sizes.typical()), "{}", sizes.typical());
    }

    #[test]
    fn a_lognormal_law_has_its_median_and_its_quantiles() {
        let sizes = ValueSizes::LogNormal { median: 300.0, sigma: 1.2 };
        let lengths = lengths(&sizes);
        // The quantiles of a normal distribution: 0, 1 and -1 deviations.
        for (quantile, expected) in [(0.5, 300.0), (0.841_34, 300.0 * 1.2_f64.exp()), (0.158_66, 300.0 / 1.2_f64.exp())]
        {
            let found = lengths[(quantile * lengths.len() as f64) as usize] as f64;
            assert!((found / expected - 1.0).abs() < 0.03, "{quantile}: {found} {expected}");
        }
    }
}
