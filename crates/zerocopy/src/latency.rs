//! Histogram of times, which threads record without sharing cache lines.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use service::Counters;

/// Steps within each power of two, as a logarithm: a value is known to 1 part in 16.
const STEPS_LOG2: u32 = 4;
const STEPS: usize = 1 << STEPS_LOG2;
/// Powers of two that are told apart: up to 2^36 ns, over a minute.
const POWERS: usize = 36;
const BUCKETS: usize = (POWERS - STEPS_LOG2 as usize + 1) * STEPS;

/// Number of ticks that recent times reach back.
const WINDOW_TICKS: usize = 10;

/// Counts of times, in buckets whose width grows with them.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    counts: Counters<BUCKETS>,
    /// Counts at the last ticks, the oldest first.
    ticks: Mutex<VecDeque<Box<[u64; BUCKETS]>>>,
}

/// Percentiles of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < STEPS as u64 {
        return nanoseconds as usize;
    }
    let power = nanoseconds.ilog2().min(POWERS as u32 - 1);
    let step = (nanoseconds >> (power - STEPS_LOG2)) as usize & (STEPS - 1);
    ((power - STEPS_LOG2 + 1) as usize) * STEPS + step
}

/// Least time that is counted in a bucket, in nanoseconds.
fn least(bucket: usize) -> u64 {
    match (bucket / STEPS, (bucket % STEPS) as u64) {
        (0, step) => step,
        (row, step) => (STEPS as u64 + step) << (row - 1),
    }
}

fn middle_us(bucket: usize) -> f64 {
    (least(bucket) + least(bucket + 1)) as f64 / 2_000.0
}

impl Latencies {
    #[inline]
    pub(crate) fn record(&self, time: Duration, times: u64) {
        self.counts.add_one(bucket(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)), times);
    }

    /// Ends a second, for [`Latencies::recent`].
    pub(crate) fn tick(&self) {
        let mut ticks = self.ticks.lock();
        if ticks.len() == WINDOW_TICKS {
            ticks.pop_front();
        }
        ticks.push_back(Box::new(self.counts.sum()));
    }

    /// Percentiles since the start.
    pub(crate) fn all(&self) -> Percentiles {
        percentiles(&self.counts.sum())
    }

    /// Percentiles over the last ten ticks and since, and the number of ticks there were.
    pub(crate) fn recent(&self) -> (Percentiles, usize) {
        let mut counts = self.counts.sum();
        let ticks = self.ticks.lock();
        if let Some(oldest) = ticks.front() {
            counts.iter_mut().zip(&**oldest).for_each(|(count, before)| *count -= (*before).min(*count));
        }
        (percentiles(&counts), ticks.len())
    }
}

fn percentiles(counts: &[u64; BUCKETS]) -> Percentiles {
    let count = counts.iter().sum();
    if count == 0 {
        return Percentiles::default();
    }
    let at = |share: f64| {
        let rank = (share * count as f64).ceil() as u64;
        let mut seen = 0;
        let found = counts.iter().position(|&here| {
            seen += here;
            seen >= rank
        });
        middle_us(found.unwrap_or(BUCKETS - 1))
    };
    Percentiles { count, p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every time falls into the bucket whose bounds surround it, and buckets are no wider than a sixteenth.
        #[test]
        fn buckets_are_narrow_and_without_gaps(nanoseconds in 0..1_u64 << POWERS) {
            let at = bucket(nanoseconds);
            prop_assert!(least(at) <= nanoseconds && nanoseconds < least(at + 1));
            prop_assert!(least(at + 1) - least(at) <= 1 + nanoseconds / STEPS as u64);
        }
    }

    #[test]
    fn percentiles_follow_the_times() {
        let latencies = Latencies::default();
        assert_eq!(latencies.all(), Percentiles::default());
        for microseconds in 1..=1000 {
            latencies.record(Duration::from_micros(microseconds), 1);
        }
        latencies.record(Duration::from_hours(1), 1);
        let got = latencies.all();
        assert_eq!(got.count, 1001);
        for (value, want) in [(got.p50, 500.0), (got.p90, 900.0), (got.p99, 990.0), (got.p999, 1000.0)] {
            assert!((value / want - 1.0).abs() < 0.07, "{value} instead of {want}");
        }
        assert!(got.max > 60e6, "what is too long is still the longest: {}", got.max);
    }

    #[test]
    fn old_times_are_not_recent() {
        let latencies = Latencies::default();
        latencies.record(Duration::from_secs(1), 5);
        assert_eq!((latencies.recent().0.count, latencies.recent().1), (5, 0));
        (0..WINDOW_TICKS + 3).for_each(|_| latencies.tick());
        latencies.record(Duration::from_micros(100), 3);
        let (recent, ticks) = latencies.recent();
        assert_eq!((recent.count, ticks, latencies.all().count), (3, WINDOW_TICKS, 8));
        assert!(recent.max < 107.0, "{recent:?}");
    }
}
