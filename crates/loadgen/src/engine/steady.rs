//! End of a warm-up: the server's figures neither rise nor fall any more.
//!
//! Windows of a machine with neighbours differ by more than a few per cent for ever, and windows of few requests do by
//! chance. Both scatter, while a server that warms up drifts: so it is the trend through the last windows that is
//! judged.

use std::{collections::VecDeque, time::Duration};

use super::{live::LiveReading, pace::Pacing};
use crate::{
    clock::{MILLISECOND, Nanos},
    trend::trend,
};

/// Length of a window.
pub(super) const WIDTH: Nanos = 100 * MILLISECOND;
/// Number of windows whose trend is judged.
const WINDOWS: u8 = 5;
/// Largest trend of a steady load, as a fraction of the mean.
const TREND_MAX: f64 = 0.03;
/// Number of standard deviations that are put down to chance.
const DEVIATIONS: f64 = 2.0;

/// Length of a warm-up. `is_steady` is true if it ended because the load was steady, and `None` if its length was
/// fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WarmUp {
    pub duration: Nanos,
    pub is_steady: Option<bool>,
}

impl WarmUp {
    /// Shortest warm-up that ends by itself.
    pub const SHORTEST: Duration = Duration::from_nanos(WIDTH * WINDOWS as u64);

    /// Adds another warm-up: the sum of both times, steady if both were.
    pub(super) fn absorb(&mut self, other: Self) {
        self.duration += other.duration;
        self.is_steady = self.is_steady.zip(other.is_steady).map(|(ours, theirs)| ours && theirs);
    }
}

/// Rounds up to whole windows.
pub(super) fn whole(length: Nanos) -> Nanos {
    length.div_ceil(WIDTH).saturating_mul(WIDTH)
}

/// Figure of a window, and the distance by which chance alone may move it.
#[derive(Clone, Copy, Debug)]
struct Figure {
    value: f64,
    chance: f64,
}

/// Figures of a window in which there were replies.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowFigures {
    /// Number of replies in [`WIDTH`].
    completed: Figure,
    /// Median latency in microseconds; open loop only, where the clock decides how much is completed unless the server
    /// falls behind.
    median: Option<Figure>,
}

impl WindowFigures {
    /// Computes the figures. `elapsed` is the time since the reading before, which may be late. `None` without a reply.
    #[expect(clippy::cast_precision_loss, reason = "a count and a time of about a tenth of a second")]
    pub(super) fn new(window: &LiveReading, elapsed: Nanos, pacing: Pacing) -> Option<Self> {
        let count = window.answered() as f64;
        if count == 0.0 || elapsed == 0 {
            return None;
        }
        // Independent arrivals scatter by the root of their number; replies of a closed loop by less.
        let per_width = WIDTH as f64 / elapsed as f64;
        let completed = Figure { value: count * per_width, chance: DEVIATIONS * count.sqrt() * per_width };
        let median = match pacing {
            Pacing::Closed => None,
            Pacing::Open { .. } => median(window, count),
        };
        Some(Self { completed, median })
    }
}

/// Computes the median: the rank of a median of n scatters by √n / 2 about the middle.
fn median(window: &LiveReading, count: f64) -> Option<Figure> {
    let deviation = 0.5 / count.sqrt();
    let at = |share: f64| window.interpolated_us(share);
    let spread = at(0.5 + deviation)? - at(0.5 - deviation)?;
    Some(Figure { value: at(0.5)?, chance: DEVIATIONS * spread / 2.0 })
}

/// Figures of the last windows.
#[derive(Debug, Default)]
pub(super) struct Steadiness {
    windows: VecDeque<WindowFigures>,
}

impl Steadiness {
    /// Adds a window. Returns true if the load is steady by this window and those before it. One without replies begins
    /// anew.
    pub(super) fn push(&mut self, window: Option<WindowFigures>) -> bool {
        let Some(window) = window else {
            self.windows.clear();
            return false;
        };
        if self.windows.len() == usize::from(WINDOWS) {
            self.windows.pop_front();
        }
        self.windows.push_back(window);
        self.windows.len() == usize::from(WINDOWS)
            && is_level(self.windows.iter().map(|window| window.completed))
            && is_level(self.windows.iter().filter_map(|window| window.median))
    }
}

/// Returns true if the trend is no greater than [`TREND_MAX`], or than chance may make it.
fn is_level(figures: impl Iterator<Item = Figure>) -> bool {
    let figures: Vec<Figure> = figures.collect();
    let values: Vec<f64> = figures.iter().map(|figure| figure.value).collect();
    let mean = |pick: fn(&Figure) -> f64| figures.iter().map(pick).sum::<f64>() / f64::from(WINDOWS);
    trend(&values).abs() <= f64::max(TREND_MAX * mean(|figure| figure.value), mean(|figure| figure.chance))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{live::ThreadStats, pace::Arrivals},
        *,
    };

    const OPEN: Pacing = Pacing::Open { rate: 1e5, arrivals: Arrivals::Constant };

    /// Makes a window of `count` requests whose latencies lie evenly from half of `median_us` to half as much again.
    fn window(count: u64, median_us: f64, pacing: Pacing) -> Option<WindowFigures> {
        let stats = ThreadStats::default();
        for index in 0..count {
            let share = (index as f64 + 0.5) / count as f64;
            stats.add_ok((median_us * (0.5 + share) * 1e3) as u64, 1);
        }
        let mut reading = LiveReading::default();
        stats.add_to(&mut reading);
        WindowFigures::new(&reading, WIDTH, pacing)
    }

    fn first_steady(windows: impl IntoIterator<Item = Option<WindowFigures>>) -> Option<usize> {
        let mut steadiness = Steadiness::default();
        windows.into_iter().position(|window| steadiness.push(window))
    }

    fn closed(counts: &[u64]) -> Option<usize> {
        first_steady(counts.iter().map(|&count| window(count, 100.0, Pacing::Closed)))
    }

    #[test]
    fn five_windows_without_a_trend_are_steady_and_four_are_not() {
        assert_eq!(closed(&[20_000; 6]), Some(4));
        assert_eq!(closed(&[20_000; 4]), None);
        assert_eq!(closed(&[2_000, 9_000, 17_000, 19_000, 20_000, 20_100, 20_050, 20_150, 20_100]), Some(7));
    }

    #[test]
    fn a_trend_of_more_than_three_per_cent_is_not_steady() {
        let line = |percent: u64| -> Vec<u64> { (0..5).map(|step| 40_000 + step * 100 * percent).collect() };
        assert_eq!(closed(&line(3)), Some(4));
        assert_eq!(closed(&line(4)), None);
        let falling: Vec<u64> = line(4).into_iter().rev().collect();
        assert_eq!(closed(&falling), None);
        // A slow rise is not steady for being slow: 1 % a window.
        let rise: Vec<u64> = (0..30).map(|step| (20_000.0 * 1.01_f64.powi(step)) as u64).collect();
        assert_eq!(closed(&rise), None);
    }

    #[test]
    fn noise_is_no_trend() {
        assert_eq!(closed(&[20_000, 23_000, 20_000, 23_000, 20_000]), Some(4));
        assert_eq!(closed(&[20_000, 20_000, 3_000, 20_000, 20_000]), Some(4), "a stall");
        // A neighbour takes up to a fifth of each window: no five of them are within 3 %, and yet the warm-up ends.
        let mut random = fastrand::Rng::with_seed(7);
        let mut ended = 0;
        for _ in 0..500 {
            let counts: [u64; 20] = std::array::from_fn(|_| random.u64(16_000..20_000));
            ended += u32::from(closed(&counts).is_some());
        }
        assert!(ended >= 480, "{ended} of 500");
    }

    #[test]
    fn few_requests_are_steady_within_chance() {
        // 50 a second: 5 ± 2 in a window.
        assert_eq!(closed(&[3, 7, 4, 6, 7]), Some(4));
        // 200 a second, from 8 to 32 in a window, is no chance.
        assert_eq!(closed(&[8, 14, 20, 26, 32]), None);
        let mut random = fastrand::Rng::with_seed(7);
        let mut poisson = |mean: f64| {
            let end = (-mean).exp();
            let (mut count, mut product) = (0, random.f64());
            while product > end {
                (count, product) = (count + 1, product * random.f64());
            }
            count
        };
        // Of many warm-ups of at most 2 s, how many end by agreement?
        for (mean, least) in [(5.0, 0.99), (50.0, 0.99), (500.0, 0.99)] {
            let ended = (0..500).filter(|_| closed(&std::array::from_fn::<u64, 20, _>(|_| poisson(mean))).is_some());
            let share = ended.count() as f64 / 500.0;
            assert!(share >= least, "{mean} in a window: {share}");
        }
    }

    #[test]
    fn a_window_without_replies_starts_over() {
        let steady = || window(1_000, 100.0, Pacing::Closed);
        let four = || std::iter::repeat_with(steady).take(4);
        assert_eq!(first_steady(four().chain([window(0, 1.0, Pacing::Closed)]).chain(four())), None);
        assert_eq!(first_steady(four().chain([None]).chain(four()).chain([steady()])), Some(9));
        assert_eq!((whole(1), whole(WIDTH), whole(WIDTH + 1)), (WIDTH, WIDTH, 2 * WIDTH));
    }

    #[test]
    fn an_open_loop_is_steady_when_its_median_is_too() {
        let with_medians = |medians: &[f64], pacing| {
            first_steady(medians.iter().map(|&median_us| window(10_000, median_us, pacing)).collect::<Vec<_>>())
        };
        let level = [200.0, 201.0, 199.0, 200.5, 200.0];
        let falling = [300.0, 270.0, 240.0, 220.0, 200.0];
        assert_eq!(with_medians(&level, OPEN), Some(4));
        assert_eq!(with_medians(&falling, OPEN), None);
        assert_eq!(with_medians(&falling, Pacing::Closed), Some(4), "there it is the count that tells");
        // Ten requests in a window do not have the median of thousands.
        let few: Vec<_> = [100.0, 104.0, 98.0, 109.0, 112.0].map(|median_us| window(10, median_us, OPEN)).into();
        assert_eq!(first_steady(few), Some(4));
    }

    #[test]
    fn a_late_reading_is_a_longer_window_and_no_faster_server() {
        let late = |count: u64, elapsed| {
            let stats = ThreadStats::default();
            stats.add_ok(1_000, count);
            let mut reading = LiveReading::default();
            stats.add_to(&mut reading);
            WindowFigures::new(&reading, elapsed, Pacing::Closed)
        };
        let windows = (0..5).map(|step| late(10_000 + 1_000 * step, WIDTH + WIDTH / 10 * step));
        assert_eq!(first_steady(windows), Some(4));
        assert!(late(0, WIDTH).is_none() && late(1, 0).is_none());
    }

    #[test]
    fn several_warm_ups_were_steady_if_all_were() {
        let warm_up = |is_steady| WarmUp { duration: 7, is_steady };
        for (one, other, both) in
            [(Some(true), Some(true), Some(true)), (Some(true), Some(false), Some(false)), (None, Some(true), None)]
        {
            let mut all = warm_up(one);
            all.absorb(warm_up(other));
            assert_eq!(all, WarmUp { duration: 14, is_steady: both });
        }
    }
}
