//! Intervals that follow from ranks alone (Hollander and Wolfe, Nonparametric Statistical Methods, 3.3 and 4.3): exact
//! however few the blocks are, where a bootstrap of the median is too narrow (of seven values it holds the median in 88 %).

/// Up to so many values; with more the bootstrap holds what it promises, and pairs would be many.
const COUNT_MAX: usize = 30;
/// Probability that may lie beyond each end.
const TAIL: f64 = 0.025;
/// Fewer values cannot have a 95 % interval: even their whole range holds the median less often.
const FULL_COVERAGE_MIN: u32 = 6;

/// Returns how often the interval from so many blocks holds the true median, in per cent: 95, or what their range has.
pub fn coverage_percent(blocks: u32) -> f64 {
    match blocks {
        0 => 0.0,
        1..FULL_COVERAGE_MIN => 100.0 * (1.0 - 0.5_f64.powf(f64::from(blocks - 1))),
        FULL_COVERAGE_MIN.. => 95.0,
    }
}

/// Returns the name of the intervals of so many blocks: `95 % interval`, `range of 3 blocks (a 75 % interval)`.
pub fn interval_name(blocks: u32) -> String {
    match blocks {
        0 | 1 => "figure of the only block (no interval)".to_owned(),
        2..FULL_COVERAGE_MIN => {
            let percent = coverage_percent(blocks).floor();
            format!("range of {blocks}\u{a0}blocks (a {percent}\u{a0}% interval)")
        }
        FULL_COVERAGE_MIN.. => "95\u{a0}% interval".to_owned(),
    }
}

/// The 95 % interval for the centre of values that are symmetric about it, by signed ranks: the mean of every pair, without as
/// many at both ends as chance explains; for fewer than six values their range. `None` for none and for too many.
pub fn centre(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() > COUNT_MAX {
        return None;
    }
    let pairs =
        values.iter().enumerate().flat_map(|(at, left)| values[at..].iter().map(move |right| (left + right) / 2.0));
    between(pairs.collect(), &signed_rank_counts(values.len()))
}

/// The same for how far `after` lies above `before`, which nothing pairs, by rank sums.
pub fn shift(before: &[f64], after: &[f64]) -> Option<(f64, f64)> {
    if before.len().max(after.len()) > COUNT_MAX {
        return None;
    }
    let differences = after.iter().flat_map(|new| before.iter().map(move |old| new - old));
    between(differences.collect(), &rank_sum_counts(before.len(), after.len()))
}

/// The order statistics of `values` that leave [`TAIL`] of the distribution that `counts` gives beyond each end.
fn between(mut values: Vec<f64>, counts: &[f64]) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let total: f64 = counts.iter().sum();
    let cumulative = counts.iter().scan(0.0, |sum, count| {
        *sum += count / total;
        Some(*sum)
    });
    let cut = cumulative.take_while(|probability| *probability <= TAIL).count().saturating_sub(1);
    Some((*values.get(cut)?, values[values.len() - 1 - cut]))
}

/// In how many of the 2ⁿ signs the ranks 1 … n with a plus have each sum.
fn signed_rank_counts(count: usize) -> Vec<f64> {
    let mut counts = vec![0.0; count * (count + 1) / 2 + 1];
    counts[0] = 1.0;
    for rank in 1..=count {
        for sum in (rank..counts.len()).rev() {
            counts[sum] += counts[sum - rank];
        }
    }
    counts
}

/// In how many orders of `left` and `right` values so many pairs are inverted: Gaussian binomial coefficients, built by
/// multiplication with (1 − xʲ⁺ʳⁱᵍʰᵗ) and division by (1 − xʲ).
fn rank_sum_counts(left: usize, right: usize) -> Vec<f64> {
    let mut counts = vec![0.0; left * right + 1];
    counts[0] = 1.0;
    for step in 1..=left {
        for sum in (step + right..counts.len()).rev() {
            counts[sum] -= counts[sum - step - right];
        }
        for sum in step..counts.len() {
            counts[sum] += counts[sum - step];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_those_of_all_signs_and_orders() {
        // Subsets of {1, 2, 3} by sum; orders of two and two by inversions.
        assert_eq!(signed_rank_counts(3), [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]);
        assert_eq!(rank_sum_counts(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(rank_sum_counts(7, 5).iter().sum::<f64>(), 792.0);
    }

    #[test]
    fn the_intervals_are_those_of_the_published_tables() {
        // Two-sided 5 %: the smaller sum of signed ranks may be 0, 2, 3, 5, 8 for 6 … 10 values, U may be 8 for 7 and 7.
        let cut = |count: usize| {
            let values: Vec<f64> = (0..count).map(|at| 3.0_f64.powi(at as i32)).collect();
            let low = centre(&values).unwrap().0;
            let mut pairs: Vec<f64> = (0..count)
                .flat_map(|at| (at..count).map(move |other| (at, other)))
                .map(|(at, other)| (values[at] + values[other]) / 2.0)
                .collect();
            pairs.sort_unstable_by(f64::total_cmp);
            pairs.iter().position(|pair| *pair == low).unwrap()
        };
        for (count, critical) in [(3, 0), (5, 0), (6, 0), (7, 2), (8, 3), (9, 5), (10, 8)] {
            assert_eq!(cut(count), critical, "{count}");
        }
        let ascending: Vec<f64> = (0..7).map(f64::from).collect();
        let spread: Vec<f64> = ascending.iter().map(|value| value * 100.0).collect();
        let mut differences: Vec<f64> =
            spread.iter().flat_map(|new| ascending.iter().map(move |old| new - old)).collect();
        differences.sort_unstable_by(f64::total_cmp);
        assert_eq!(shift(&ascending, &spread), Some((differences[8], differences[40])));
        assert_eq!(shift(&[], &[1.0]), None);
        assert_eq!((centre(&[]), centre(&vec![0.0; COUNT_MAX + 1])), (None, None));
    }

    #[test]
    fn few_blocks_say_what_their_range_is_worth() {
        assert_eq!([1, 2, 3, 5, 6, 7].map(coverage_percent), [0.0, 50.0, 75.0, 93.75, 95.0, 95.0]);
        assert_eq!(interval_name(3), "range of 3\u{a0}blocks (a 75\u{a0}% interval)");
        assert_eq!(interval_name(7), "95\u{a0}% interval");
        assert!(interval_name(1).contains("no interval"));
    }
}
