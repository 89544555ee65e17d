//! Medians, bootstrap intervals over blocks, paired ratios, the noise floor.
//!
//! Requests inside a visit are not independent, so the unit of every interval is the block: a block's value goes in
//! once, and blocks are what is resampled. For so few blocks as a run has, resampling alone gives intervals that are too
//! narrow: they are widened to those of [`results::ranks`].

use std::{cell::RefCell, collections::HashMap};

use results::{BLOCKS_MIN, Interval, Ratio, ranks};

/// Resamples of a bootstrap.
const RESAMPLES: usize = 10_000;
/// No difference smaller than this is ever claimed, however quiet the A/A control was.
pub(crate) const FLOOR_MIN: f64 = 0.01;
/// The floor where no control tells one: nothing is called a difference that is not at least twofold.
pub(crate) const FLOOR_UNKNOWN: f64 = 1.0;
/// From fewer blocks a control tells its own spread so badly that its floor is raised by [`FEW_BLOCKS_MARGIN`]: with three,
/// one pair of equal servers in twenty-five is then told apart instead of one in thirteen.
const BLOCKS_FOR_A_FLOOR: u32 = 5;
const FEW_BLOCKS_MARGIN: f64 = 1.5;

/// The median; NaN for no values, which no caller passes.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0
}

/// For each resample, the two order statistics that its median lies between.
type Middles = Vec<(usize, usize)>;

/// Bootstraps medians with a seed, so that the same visits give the same summary.
pub(crate) struct Bootstrap {
    seed: u64,
    /// By number of values and stream.
    middles: RefCell<HashMap<(usize, u64), Middles>>,
}

impl Bootstrap {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, middles: RefCell::default() }
    }

    /// Median and 95 % interval: the percentile bootstrap, no narrower than that by signed ranks. Below six values it is their
    /// range ([`ranks::coverage_percent`]). `None` without values.
    pub(crate) fn interval(&self, values: &[f64]) -> Option<Interval> {
        if values.is_empty() {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        // Which order statistics a resample's median takes depends on the ranks drawn and not on the values.
        let mut cache = self.middles.borrow_mut();
        let middles = cache.entry((sorted.len(), 0)).or_insert_with(|| draw_middles(sorted.len(), self.seed));
        let mut medians: Vec<f64> = middles.iter().map(|&(low, high)| (sorted[low] + sorted[high]) / 2.0).collect();
        medians.sort_unstable_by(f64::total_cmp);
        Some(middle_of(&medians, median(&sorted), ranks::centre(&sorted)))
    }

    /// After over before where nothing pairs the two: the ratio of the medians, each resampled by itself. Both in
    /// logarithms; `floor` as in [`Self::ratio`].
    pub(crate) fn unpaired_ratio(&self, before: &[f64], after: &[f64], floor: f64) -> Option<Ratio> {
        let (old, new) = (self.resampled(before, 1)?, self.resampled(after, 2)?);
        let mut differences: Vec<f64> = new.iter().zip(&old).map(|(new, old)| new - old).collect();
        differences.sort_unstable_by(f64::total_cmp);
        let log = middle_of(&differences, median(after) - median(before), ranks::shift(before, after));
        Some(verdict(log, before.len().min(after.len()), floor))
    }

    /// Medians of resamples in the order drawn; `stream` keeps two sets of values from being drawn alike.
    fn resampled(&self, values: &[f64], stream: u64) -> Option<Vec<f64>> {
        if values.is_empty() {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let mut cache = self.middles.borrow_mut();
        let draw = || draw_middles(sorted.len(), self.seed.wrapping_add(stream));
        let middles = cache.entry((sorted.len(), stream)).or_insert_with(draw);
        Some(middles.iter().map(|&(low, high)| (sorted[low] + sorted[high]) / 2.0).collect())
    }

    /// The paired ratio from its logarithm in each block; `floor` as a fraction (0.01 is one per cent).
    pub(crate) fn ratio(&self, logs: &[f64], floor: f64) -> Option<Ratio> {
        Some(verdict(self.interval(logs)?, logs.len(), floor))
    }
}

/// The middle 95 % of sorted resamples, widened to what ranks say.
fn middle_of(resamples: &[f64], median: f64, by_ranks: Option<(f64, f64)>) -> Interval {
    let (lo, hi) = (resamples[RESAMPLES * 25 / 1000], resamples[RESAMPLES * 975 / 1000 - 1]);
    let (low, high) = by_ranks.unwrap_or((lo, hi));
    Interval { median, lo: lo.min(low), hi: hi.max(high) }
}

/// From logarithms to a ratio, and whether it is a difference.
fn verdict(log: Interval, blocks: usize, floor: f64) -> Ratio {
    let ratio = Interval { median: log.median.exp(), lo: log.lo.exp(), hi: log.hi.exp() };
    Ratio::judged(ratio, u32::try_from(blocks).unwrap_or(u32::MAX), floor)
}

fn draw_middles(count: usize, seed: u64) -> Middles {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ranks = vec![0; count];
    let last = count - 1;
    (0..RESAMPLES)
        .map(|_| {
            ranks.fill_with(|| random.usize(..count));
            ranks.sort_unstable();
            (ranks[last / 2], ranks[last.div_ceil(2)])
        })
        .collect()
}

/// Returns the least difference that is called one, as a fraction: the half-width of the A/A interval or its distance
/// from 1, whichever is larger, and at least [`FLOOR_MIN`]. [`FLOOR_UNKNOWN`] where the control has too few blocks.
pub(crate) fn noise_floor(aa: Option<&Ratio>) -> f64 {
    let Some(aa) = aa.filter(|aa| aa.blocks >= BLOCKS_MIN) else { return FLOOR_UNKNOWN };
    let half_width = ((aa.hi.ln() - aa.lo.ln()) / 2.0).exp_m1();
    let margin = if aa.blocks < BLOCKS_FOR_A_FLOOR { FEW_BLOCKS_MARGIN } else { 1.0 };
    (margin * half_width.max(aa.median.ln().abs().exp_m1())).max(FLOOR_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve uniform values make a good enough normal one (mean 0, deviation 1).
    fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    /// In how many of 1,500 runs the interval of `count` values held their true median, in per cent.
    fn coverage(count: usize, truth: f64, mut draw: impl FnMut() -> f64) -> f64 {
        let bootstrap = Bootstrap::new(1);
        let held = (0..1_500).filter(|_| {
            let values: Vec<f64> = (0..count).map(|_| draw()).collect();
            let interval = bootstrap.interval(&values).unwrap();
            interval.lo <= truth && truth <= interval.hi
        });
        held.count() as f64 / 15.0
    }

    #[test]
    fn the_interval_holds_the_median_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(2);
        for blocks in [3, 5, 6, 7, 9, 25] {
            let promised = ranks::coverage_percent(blocks);
            let held = coverage(blocks as usize, 10.0, || 10.0 + normal(&mut random));
            // Four standard errors, and no interval is so wide that it tells nothing.
            assert!(held >= promised - 4.0 && (blocks < 6 || held < 99.5), "{blocks} blocks: {held} % of {promised}");
        }
    }

    #[test]
    fn the_interval_covers_a_skewed_distribution_as_well() {
        // exp of a normal one: its median is 1, its mean is not.
        let mut random = fastrand::Rng::with_seed(13);
        for blocks in [7, 9, 25] {
            let held = coverage(blocks, 1.0, || (0.5 * normal(&mut random)).exp());
            assert!(held >= 92.0, "{blocks} blocks: {held} %");
        }
    }

    #[test]
    fn an_unpaired_ratio_of_few_blocks_holds_the_true_one_as_often() {
        let bootstrap = Bootstrap::new(16);
        let mut random = fastrand::Rng::with_seed(17);
        let mut draw = || (0..7).map(|_| 0.02 * normal(&mut random)).collect::<Vec<f64>>();
        let held = (0..600).filter(|_| {
            let ratio = bootstrap.unpaired_ratio(&draw(), &draw(), 0.0).unwrap();
            ratio.lo <= 1.0 && 1.0 <= ratio.hi
        });
        let held = held.count();
        assert!(held >= 556, "{held} of 600");
    }

    #[test]
    fn an_unpaired_ratio_holds_the_true_one_and_tells_what_is_apart() {
        let bootstrap = Bootstrap::new(14);
        let mut random = fastrand::Rng::with_seed(15);
        let mut draw =
            |count: usize, shift: f64| -> Vec<f64> { (0..count).map(|_| shift + 0.02 * normal(&mut random)).collect() };
        let runs = 400;
        let (mut held, mut told, mut false_alarms) = (0, 0, 0);
        for _ in 0..runs {
            let ratio = bootstrap.unpaired_ratio(&draw(15, 0.0), &draw(15, 1.10_f64.ln()), 0.01).unwrap();
            held += u32::from(ratio.lo <= 1.10 && 1.10 <= ratio.hi);
            told += u32::from(ratio.differs);
            let same = bootstrap.unpaired_ratio(&draw(15, 0.0), &draw(15, 0.0), 0.01).unwrap();
            false_alarms += u32::from(same.differs);
        }
        assert!((360..=398).contains(&held) && told == runs && false_alarms < 40, "{held} {told} {false_alarms}");
        assert_eq!(bootstrap.unpaired_ratio(&[], &[0.0], 0.01), None);
    }

    #[test]
    fn the_interval_narrows_with_the_square_root_of_the_blocks() {
        let bootstrap = Bootstrap::new(3);
        let mut random = fastrand::Rng::with_seed(4);
        let mut mean_width = |blocks: usize| {
            (0..200)
                .map(|_| {
                    let values: Vec<f64> = (0..blocks).map(|_| normal(&mut random)).collect();
                    let interval = bootstrap.interval(&values).unwrap();
                    interval.hi - interval.lo
                })
                .sum::<f64>()
                / 200.0
        };
        let gain = mean_width(20) / mean_width(80);
        assert!((1.7..2.4).contains(&gain), "{gain}");
    }

    #[test]
    fn one_odd_block_of_seven_moves_the_interval_half_way() {
        let interval = Bootstrap::new(5).interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 100.0]).unwrap();
        // By signed ranks two of the pairs' means are left out beyond each end: the third least is (1 + 3) / 2.
        assert_eq!((interval.lo, interval.median), (2.0, 4.0));
        assert!((50.0..=53.0).contains(&interval.hi), "{interval:?}");
    }

    #[test]
    fn the_interval_depends_on_the_seed_and_not_on_the_order() {
        let (first, second) = (Bootstrap::new(6), Bootstrap::new(6));
        assert_eq!(first.interval(&[1.0, 9.0, 4.0, 7.0]), second.interval(&[9.0, 7.0, 1.0, 4.0]));
        assert_eq!(first.interval(&[]), None);
    }

    #[test]
    fn a_difference_needs_the_interval_the_floor_and_three_blocks() {
        let bootstrap = Bootstrap::new(7);
        let logs = |ratio: f64, blocks: usize| vec![ratio.ln(); blocks];
        let differs = |logs: &[f64], floor| bootstrap.ratio(logs, floor).unwrap().differs;
        assert!(differs(&logs(1.05, 3), 0.02));
        assert!(differs(&logs(0.95, 3), 0.02));
        assert!(!differs(&logs(1.015, 3), 0.02), "inside the floor");
        assert!(!differs(&logs(1.5, 2), 0.02), "two blocks");
        assert!(!differs(&[-0.1, 0.2, 0.3], 0.01), "the interval holds 1");
    }

    #[test]
    fn equal_servers_are_seldom_told_apart() {
        let bootstrap = Bootstrap::new(8);
        let mut random = fastrand::Rng::with_seed(9);
        for (blocks, most) in [(3, 60), (5, 25), (7, 25)] {
            let mut logs = || (0..blocks).map(|_| 0.02 * normal(&mut random)).collect::<Vec<f64>>();
            let false_alarms = (0..1_000)
                .filter(|_| {
                    let floor = noise_floor(bootstrap.ratio(&logs(), 0.0).as_ref());
                    bootstrap.ratio(&logs(), floor).unwrap().differs
                })
                .count();
            assert!(false_alarms < most, "{blocks} blocks: {false_alarms} of 1000");
        }
    }

    #[test]
    fn the_floor_is_the_controls_spread_or_distance_from_one() {
        let ratio = |median: f64, lo: f64, hi: f64| Ratio { median, lo, hi, differs: false, blocks: 7 };
        assert_eq!(noise_floor(None), FLOOR_UNKNOWN);
        let of_few = |blocks| noise_floor(Some(&Ratio { blocks, ..ratio(1.0, 1.0 / 1.04, 1.04) }));
        assert_eq!([1, 2].map(of_few), [FLOOR_UNKNOWN; 2]);
        assert!((of_few(3) - 0.06).abs() < 1e-9 && (of_few(5) - 0.04).abs() < 1e-9);
        assert_eq!(noise_floor(Some(&ratio(1.0, 0.999, 1.001))), FLOOR_MIN);
        let spread = noise_floor(Some(&ratio(1.0, 1.0 / 1.03, 1.03)));
        assert!((spread - 0.03).abs() < 1e-9, "{spread}");
        let shifted = noise_floor(Some(&ratio(1.0 / 1.04, 0.95, 0.97)));
        assert!((shifted - 0.04).abs() < 1e-9, "{shifted}");
    }
}
