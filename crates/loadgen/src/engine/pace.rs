//! Pace of a load: when requests fall due, and how many there will be.

use std::{sync::Arc, time::Duration};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::timetable::Timetable;
use crate::clock::Nanos;

/// Source of the pace.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub enum Pacing {
    /// The replies: each one lets the next request go.
    Closed,
    /// The clock: requests fall due `rate` times a second, whatever the server does.
    Open { rate: f64, arrivals: Arrivals },
}

/// Gaps of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
pub enum Arrivals {
    /// Equal gaps
    Constant,
    /// Random gaps, as from many independent users
    Poisson,
}

/// End of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Limit {
    Duration(Duration),
    Requests(u64),
}

/// One thread's share of an open loop: a sequence of due times without end.
#[derive(Debug)]
pub(crate) struct Schedule {
    origin: Nanos,
    course: Course,
    threads: f64,
    state: State,
    /// Time at which the next request falls due.
    due: Nanos,
}

/// Times of the requests of all threads, by their position.
#[derive(Debug)]
enum Course {
    /// The rate, in requests per second, grows from 0 over so many nanoseconds.
    Even {
        rate: f64,
        ramp: f64,
    },
    Timetable {
        timetable: Arc<Timetable>,
        warmup: Nanos,
    },
}

/// Position of the next request.
#[derive(Debug)]
enum State {
    Constant { index: u64, thread: f64 },
    Poisson { position: f64, rng: fastrand::Rng },
}

impl Schedule {
    /// Makes the share of `thread` among `threads`; together they make `rate` a second.
    #[expect(clippy::cast_precision_loss, reason = "a number of threads is small, and no ramp takes a hundred days")]
    pub(crate) fn new(
        arrivals: Arrivals,
        rate: f64,
        ramp: Nanos,
        origin: Nanos,
        seed: u64,
        thread: usize,
        threads: usize,
    ) -> Self {
        let state = match arrivals {
            Arrivals::Constant => State::Constant { index: 0, thread: thread as f64 },
            Arrivals::Poisson => {
                State::Poisson { position: 0.0, rng: fastrand::Rng::with_seed(seed.wrapping_add(thread as u64)) }
            }
        };
        let course = Course::Even { rate, ramp: ramp as f64 };
        let mut schedule = Self { origin, course, threads: threads as f64, state, due: origin };
        if arrivals == Arrivals::Poisson {
            schedule.advance();
        } else {
            schedule.due = schedule.time_of_next();
        }
        schedule
    }

    /// Follows a timetable instead of the rate. `warmup` is what precedes the window.
    pub(crate) fn following(self, timetable: Arc<Timetable>, warmup: Nanos) -> Self {
        let mut schedule = Self { course: Course::Timetable { timetable, warmup }, ..self };
        schedule.due = schedule.time_of_next();
        schedule
    }

    /// Returns when the next request falls due.
    #[inline]
    pub(crate) fn due(&self) -> Nanos {
        self.due
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "exact to a nanosecond for a hundred days"
    )]
    fn time_of_next(&self) -> Nanos {
        let position = match &self.state {
            State::Constant { index, thread } => *index as f64 * self.threads + thread,
            State::Poisson { position, .. } => *position,
        };
        let elapsed = match &self.course {
            Course::Even { rate, ramp } => ramped(position * 1e9 / rate, *ramp) as Nanos,
            Course::Timetable { timetable, warmup } => timetable.due(position, *warmup),
        };
        self.origin.saturating_add(elapsed)
    }

    /// Goes on to the one after it.
    pub(crate) fn advance(&mut self) {
        match &mut self.state {
            State::Constant { index, .. } => *index += 1,
            // `f64` draws from [0, 1), so the argument of the logarithm is never 0.
            State::Poisson { position, rng } => *position -= self.threads * (1.0 - rng.f64()).ln(),
        }
        self.due = self.time_of_next();
    }
}

/// Returns when a request falls due in a ramp that falls due after `even` at the full rate. At time t of a ramp
/// over T, R t²/2T requests have fallen due instead of R t, and R T/2 at its end.
fn ramped(even: f64, ramp: f64) -> f64 {
    if even < ramp / 2.0 { (2.0 * ramp * even).sqrt() } else { even + ramp / 2.0 }
}

/// Returns when part `index` begins of a span that is divided into `count` equal ones.
pub(crate) fn begin_of(span: Nanos, index: usize, count: usize) -> Nanos {
    let begin = u128::from(span) * index as u128 / count as u128;
    u64::try_from(begin).unwrap_or(Nanos::MAX)
}

/// Returns one thread's share of a number of requests.
pub(crate) fn share(total: u64, thread: usize, threads: usize) -> u64 {
    let (thread, threads) = (thread as u64, threads as u64);
    total / threads + u64::from(thread < total % threads)
}

/// Returns the first of `total` things that belongs to `thread`, if each thread takes its [`share`] in turn.
pub(super) fn first_of(total: u64, thread: usize, threads: usize) -> u64 {
    let (thread, threads) = (thread as u64, threads as u64);
    thread * (total / threads) + thread.min(total % threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    fn due_times(arrivals: Arrivals, rate: f64, count: usize, thread: usize, threads: usize) -> Vec<Nanos> {
        let mut schedule = Schedule::new(arrivals, rate, 0, 1_000, 42, thread, threads);
        let mut next = || {
            let due = schedule.due();
            schedule.advance();
            due
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_constant_schedule_has_no_drift() {
        let due = due_times(Arrivals::Constant, 3_000.0, 3_000_001, 0, 1);
        assert_eq!(due[0], 1_000);
        assert_eq!(due[3_000_000], 1_000 + 1_000_000_000_000);
    }

    #[test]
    fn threads_share_a_constant_schedule_without_gap_or_overlap() {
        let mut shared: Vec<_> = (0..3).flat_map(|k| due_times(Arrivals::Constant, 1e6, 100, k, 3)).collect();
        shared.sort_unstable();
        assert_eq!(shared, due_times(Arrivals::Constant, 1e6, 300, 0, 1));
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let due = due_times(Arrivals::Poisson, 10_000.0, 200_001, 0, 1);
        let gaps: Vec<f64> = due.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        // The standard error of the mean is 0.22 %.
        assert!((mean / 100_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "{deviation}");
    }

    #[test]
    fn the_seed_decides_and_threads_differ() {
        let due = |thread| due_times(Arrivals::Poisson, 1e3, 50, thread, 2);
        assert_eq!(due(0), due(0));
        assert_ne!(due(0), due(1));
    }

    #[test]
    fn a_ramp_grows_linearly_to_the_full_rate() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let mut schedule = Schedule::new(arrivals, 10_000.0, 4 * SECOND, 0, 42, 0, 1);
            let mut within = [0_i32; 6];
            while schedule.due() < 6 * SECOND {
                within[usize::try_from(schedule.due() / SECOND).expect("small")] += 1;
                schedule.advance();
            }
            // Linear from 0 to 10,000 a second: the mean of each second is the rate in its middle.
            for (found, expected) in within.into_iter().zip([1_250, 3_750, 6_250, 8_750, 10_000, 10_000]) {
                // Four standard deviations of a Poisson count, and none of a constant schedule's but rounding.
                let tolerance = if arrivals == Arrivals::Constant { 1 } else { 400 };
                assert!((found - expected).abs() <= tolerance, "{arrivals:?}: {within:?}");
            }
        }
    }

    #[test]
    fn parts_of_a_span_begin_evenly_however_long_it_is() {
        assert_eq!([0, 1, 2].map(|index| begin_of(1_000, index, 3)), [0, 333, 666]);
        assert_eq!(begin_of(Nanos::MAX, 1, 2), Nanos::MAX / 2);
    }

    #[test]
    fn shares_add_up() {
        for total in [0, 1, 7, 1_000] {
            assert_eq!((0..3).map(|thread| share(total, thread, 3)).sum::<u64>(), total);
            let lengths = (0..3).map(|thread| first_of(total, thread + 1, 3) - first_of(total, thread, 3));
            assert!(lengths.eq((0..3).map(|thread| share(total, thread, 3))));
        }
    }
}
