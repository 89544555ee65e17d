//! A histogram of times that threads record without getting in each other's way.

use std::time::Duration;

use service::Counters;

/// Steps within each power of two: a value is known to 1 part in 16.
const STEPS_LOG2: u32 = 4;
const STEPS: usize = 1 << STEPS_LOG2;
/// The longest time told apart from longer ones: 2^36 ns, over a minute.
const POWERS: usize = 36;
const BUCKETS: usize = (POWERS - STEPS_LOG2 as usize + 1) * STEPS;

/// Counts of times, in buckets that grow with them.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Counters<BUCKETS>);

/// Microseconds.
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

/// The least time that is counted in a bucket, nanoseconds.
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
        self.0.add_one(bucket(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)), times);
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let counts = self.0.sum();
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
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every time falls into the bucket whose bounds are around it, and buckets are no wider than a sixteenth.
        #[test]
        fn buckets_are_narrow_and_without_gaps(nanoseconds in 0..1_u64 << POWERS) {
            let at = bucket(nanoseconds);
            prop_assert!(least(at) <= nanoseconds && nanoseconds < least(at + 1));
            prop_assert!(least(at + 1) - least(at) <= 1 + nanoseconds / STEPS as u64);
        }
    }

    #[test]
    fn percentiles_are_where_the_times_are() {
        let latencies = Latencies::default();
        assert_eq!(latencies.percentiles(), Percentiles::default());
        for microseconds in 1..=1000 {
            latencies.record(Duration::from_micros(microseconds), 1);
        }
        latencies.record(Duration::from_hours(1), 1);
        let got = latencies.percentiles();
        assert_eq!(got.count, 1001);
        for (value, want) in [(got.p50, 500.0), (got.p90, 900.0), (got.p99, 990.0), (got.p999, 1000.0)] {
            assert!((value / want - 1.0).abs() < 0.07, "{value} instead of {want}");
        }
        assert!(got.max > 60e6, "what is too long is still the longest: {}", got.max);
    }
}
