//! Histogram of durations, which threads record without sharing cache lines, as Prometheus reads it.

use std::{fmt, time::Duration};

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};

use crate::Counters;

/// Upper bounds of the buckets, in nanoseconds: 100 µs to 10 s, three to a power of ten. Longer durations have a bucket
/// of their own.
const BOUNDS_NS: [u64; 16] = {
    let mut bounds = [0; 16];
    let (mut at, mut decade) = (0, 100_000);
    while at < bounds.len() {
        bounds[at] = match at % 3 {
            0 => decade,
            1 => decade * 5 / 2,
            _ => decade * 5,
        };
        if at % 3 == 2 {
            decade *= 10;
        }
        at += 1;
    }
    bounds
};
const BUCKETS: usize = BOUNDS_NS.len() + 1;
const SUM_NS: usize = BUCKETS;
const NS_PER_S: f64 = 1e9;

/// Durations by bucket, and their sum.
#[derive(Debug, Default)]
pub struct Histogram(Counters<{ BUCKETS + 1 }>);

impl Histogram {
    #[inline]
    pub fn record(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.0.add_one(bucket(ns), 1);
        self.0.add_one(SUM_NS, ns);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.0.sum()[..BUCKETS].iter().sum()
    }

    /// Writes it as a metric of a [`prometheus_client::collector::Collector`].
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let sums = self.0.sum();
        let bounds = BOUNDS_NS.iter().map(|&bound| bound as f64 / NS_PER_S).chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(sums.iter().copied()).collect();
        let count = sums[..BUCKETS].iter().sum();
        encoder.encode_histogram::<NoLabelSet>(sums[SUM_NS] as f64 / NS_PER_S, count, &buckets, None)
    }
}

/// Returns the number of the first bucket whose upper bound is not below `ns`.
fn bucket(ns: u64) -> usize {
    BOUNDS_NS.partition_point(|&bound| bound < ns)
}

#[cfg(test)]
mod tests {
    use prometheus_client::{
        collector::Collector,
        encoding::{DescriptorEncoder, text},
        metrics::MetricType,
        registry::{Registry, Unit},
    };

    use super::*;

    #[derive(Debug)]
    struct Durations(Histogram);

    impl Collector for Durations {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let unit = Unit::Seconds;
            self.0.encode(encoder.encode_descriptor("wait", "Waits", Some(&unit), MetricType::Histogram)?)
        }
    }

    #[test]
    fn bounds_are_round_and_reach_from_100_us_to_10_s() {
        assert_eq!(
            (BOUNDS_NS[0], BOUNDS_NS[1], BOUNDS_NS[2], BOUNDS_NS[15]),
            (100_000, 250_000, 500_000, 10_000_000_000)
        );
        for (at, &bound) in BOUNDS_NS.iter().enumerate() {
            assert_eq!((bucket(bound), bucket(bound + 1)), (at, at + 1), "a bound belongs to its bucket");
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    /// Buckets are cumulative and end with all.
    #[test]
    fn prometheus_reads_what_was_recorded() {
        let histogram = Histogram::default();
        for duration in [Duration::ZERO, Duration::from_micros(100), Duration::from_millis(30), Duration::from_secs(60)]
        {
            histogram.record(duration);
        }
        assert_eq!(histogram.count(), 4);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Durations(histogram)));
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        for line in [
            "# TYPE wait_seconds histogram",
            "wait_seconds_sum 60.0301",
            "wait_seconds_count 4",
            "wait_seconds_bucket{le=\"0.0001\"} 2",
            "wait_seconds_bucket{le=\"0.025\"} 2",
            "wait_seconds_bucket{le=\"0.05\"} 3",
            "wait_seconds_bucket{le=\"10.0\"} 3",
            "wait_seconds_bucket{le=\"+Inf\"} 4",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}: {page}");
        }
    }
}
