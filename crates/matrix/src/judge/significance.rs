//! The signed-rank test of a comparison of two runs, and the trend of a slice. What is called a difference is decided by
//! interval and noise floor, not here.

/// Up to so many differences the distribution is counted out; beyond, it is as good as normal.
const EXACT_MAX: usize = 50;
/// Fewer windows tell nothing about a trend.
const WINDOWS_MIN: usize = 6;

/// Two-sided p of Wilcoxon's signed-rank test that the differences are symmetric about 0; `None` without any that is not 0.
/// Ties share their mean rank, and the distribution is that of the ranks as they are.
pub(crate) fn signed_rank(differences: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    if sorted.is_empty() || sorted.iter().any(|difference| difference.is_nan()) {
        return None;
    }
    sorted.sort_unstable_by(|left, right| left.abs().total_cmp(&right.abs()));
    let doubled_ranks = doubled_ranks(&sorted);
    let total: usize = doubled_ranks.iter().sum();
    let positive: usize =
        sorted.iter().zip(&doubled_ranks).filter(|(difference, _)| **difference > 0.0).map(|(_, rank)| rank).sum();
    let least = positive.min(total - positive);
    let p = if sorted.len() <= EXACT_MAX { exact(&doubled_ranks, least) } else { normal(&doubled_ranks, least) };
    Some(p.min(1.0))
}

/// Twice the mean rank of each, so that ties stay whole numbers; `sorted` by magnitude.
fn doubled_ranks(sorted: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted.len());
    while let Some(first) = sorted.get(ranks.len()) {
        let begin = ranks.len();
        let equal = sorted[begin..].iter().take_while(|other| other.abs() == first.abs()).count();
        // Ranks begin+1 … begin+equal; twice their mean.
        ranks.extend(std::iter::repeat_n(2 * begin + equal + 1, equal));
    }
    ranks
}

/// The part of all 2ⁿ signs that give a sum as small, doubled for both sides.
fn exact(doubled_ranks: &[usize], least: usize) -> f64 {
    // Probability of each sum, rank by rank.
    let mut probability = vec![0.0; doubled_ranks.iter().sum::<usize>() + 1];
    probability[0] = 1.0;
    for &rank in doubled_ranks {
        for sum in (0..probability.len()).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |before| probability[before]);
            probability[sum] = (probability[sum] + with) / 2.0;
        }
    }
    2.0 * probability[..=least].iter().sum::<f64>()
}

/// The normal approximation with a correction for continuity; ties are in the sum of squares.
fn normal(doubled_ranks: &[usize], least: usize) -> f64 {
    let ranks = doubled_ranks.iter().map(|&rank| rank as f64 / 2.0);
    let mean = ranks.clone().sum::<f64>() / 2.0;
    let deviation = (ranks.map(|rank| rank * rank).sum::<f64>() / 4.0).sqrt();
    let distance = (mean - least as f64 / 2.0 - 0.5).max(0.0) / deviation;
    complementary_error(distance / std::f64::consts::SQRT_2)
}

/// erfc for x ≥ 0: Abramowitz and Stegun 7.1.26, wrong by at most 1.5e-7.
fn complementary_error(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429]
        .iter()
        .rev()
        .fold(0.0, |sum, c| (sum + c) * t);
    series * (-x * x).exp()
}

/// Returns the change of a rate over its windows, as a fraction of its median: the median of all slopes between two windows
/// (Theil and Sen) times their number, so that one stall is no trend. `None` for too few windows, or idle ones.
pub(crate) fn trend(windows: &[f64]) -> Option<f64> {
    if windows.len() < WINDOWS_MIN {
        return None;
    }
    let middle = crate::judge::stats::median(windows);
    (middle > 0.0).then(|| loadgen::trend::trend(windows) / middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64, by: f64) -> bool {
        (left - right).abs() <= by
    }

    /// Differences 1 … n of which those in `negative` are below 0.
    fn ranks(n: u32, negative: &[u32]) -> Vec<f64> {
        (1..=n).map(|rank| if negative.contains(&rank) { -f64::from(rank) } else { f64::from(rank) }).collect()
    }

    #[test]
    fn wilcoxon_agrees_with_the_published_tables() {
        // Critical values of the smaller sum, two-sided 5 %: the greatest W with p ≤ 0.05 (any textbook's table).
        for (n, critical) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (11, 10), (12, 13), (15, 25), (20, 52), (25, 89)]
        {
            let p = |least: u32| {
                // Any set of ranks with that sum will do: greedy from the largest.
                let mut rest = least;
                let negative: Vec<u32> = (1..=n)
                    .rev()
                    .filter(|&rank| {
                        rank <= rest && {
                            rest -= rank;
                            true
                        }
                    })
                    .collect();
                assert_eq!(rest, 0);
                signed_rank(&ranks(n, &negative)).unwrap()
            };
            assert!(p(critical) <= 0.05 && p(critical + 1) > 0.05, "n = {n}: {} {}", p(critical), p(critical + 1));
        }
        // Seven blocks that all agree: 2 / 2⁷.
        assert!(close(signed_rank(&ranks(7, &[])).unwrap(), 0.015_625, 1e-12));
        assert!(close(signed_rank(&ranks(5, &[1])).unwrap(), 0.125, 1e-12));
    }

    #[test]
    fn ties_share_ranks_zeros_do_not_count_symmetry_shows_nothing() {
        assert_eq!(signed_rank(&[]), None);
        assert_eq!(signed_rank(&[0.0, 0.0]), None);
        assert_eq!(signed_rank(&[1.0, -1.0, 2.0, -2.0]), Some(1.0));
        assert_eq!(signed_rank(&[0.0, 1.0, 2.0, 3.0]), signed_rank(&[1.0, 2.0, 3.0]));
        // Ranks 1.5, 1.5, 3, 4 with one 1.5 negative: sums ≤ 1.5 are {}, {1.5}, {1.5'}: 3 of 16, both sides.
        assert!(close(signed_rank(&[-1.0, 1.0, 2.0, 3.0]).unwrap(), 6.0 / 16.0, 1e-12));
        assert_eq!(signed_rank(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn the_approximation_meets_the_exact_distribution() {
        let differences = ranks(50, &[50, 49, 48, 47, 46, 45, 44, 20]);
        let exact = signed_rank(&differences).unwrap();
        let doubled = doubled_ranks(&differences);
        let least = 2 * (50 + 49 + 48 + 47 + 46 + 45 + 44 + 20);
        assert!(close(normal(&doubled, least), exact, 0.002), "{} {exact}", normal(&doubled, least));
        // Φ: two-sided 5 % lies at 1.96, 1 % at 2.576.
        assert!(close(complementary_error(1.959_964 / std::f64::consts::SQRT_2), 0.05, 1e-6));
        assert!(close(complementary_error(2.575_829 / std::f64::consts::SQRT_2), 0.01, 1e-6));
    }

    #[test]
    fn signed_ranks_are_uniform_where_nothing_differs() {
        let mut random = fastrand::Rng::with_seed(11);
        let runs = 4_000;
        let below = (0..runs)
            .filter(|_| {
                let differences: Vec<f64> = (0..12).map(|_| random.f64() - 0.5).collect();
                signed_rank(&differences).unwrap() <= 0.05
            })
            .count();
        // At n = 12 the attainable level is 4.25 %.
        assert!((110..=240).contains(&below), "{below} of {runs}");
    }

    #[test]
    fn a_trend_is_seen_and_one_stall_or_noise_is_none() {
        let rising: Vec<f64> = (0..15).map(|window| 100.0 + f64::from(window)).collect();
        assert!(close(trend(&rising).unwrap(), 14.0 / 107.0, 1e-9));
        let mut stalled = vec![100.0; 15];
        stalled[14] = 0.0;
        assert_eq!(trend(&stalled), Some(0.0));
        let mut random = fastrand::Rng::with_seed(5);
        let noisy: Vec<f64> = (0..15).map(|_| 100.0 + 4.0 * (random.f64() - 0.5)).collect();
        assert!(trend(&noisy).unwrap().abs() < 0.05);
        assert_eq!(trend(&[1.0; 5]), None);
        assert_eq!(trend(&[0.0; 15]), None);
    }
}
