//! Latencies and backlogs as a result has them: percentiles read off histograms.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::never_negative;

/// Latency in microseconds, of verified requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema, Serialize)]
#[schemars(transform = never_negative)]
pub struct Latency {
    pub mean: f64,
    pub stddev: f64,
    pub min: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    /// 0 in results of versions that did not have it.
    #[serde(default)]
    pub p99999: f64,
    pub max: f64,
}

impl Latency {
    /// Reads the latency off a histogram of nanoseconds: all 0 if that is empty.
    #[must_use]
    pub fn from_histogram(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        #[expect(clippy::cast_precision_loss, reason = "at most a minute in nanoseconds")]
        let quantile = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean: histogram.mean() / 1e3,
            stddev: histogram.stdev() / 1e3,
            min: quantile(0.0),
            p50: quantile(0.5),
            p75: quantile(0.75),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            p99999: quantile(0.99999),
            max: quantile(1.0),
        }
    }

    /// Reads the latency off a histogram of nanoseconds, if that holds anything.
    #[must_use]
    pub fn if_recorded(histogram: &Histogram<u64>) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self::from_histogram(histogram))
    }
}

/// Requests of one generator thread (for mq: of one client) that waited for a connection, counted whenever one fell due, itself
/// included.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
pub struct Backlog {
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

impl Backlog {
    /// Reads the backlog off a histogram of requests, if that holds anything.
    #[must_use]
    pub fn if_recorded(histogram: &Histogram<u64>) -> Option<Self> {
        let quantile = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self { p50: quantile(0.5), p99: quantile(0.99), max: quantile(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_microseconds() {
        let mut histogram = Histogram::<u64>::new(3).expect("valid");
        histogram.record_n(2_000, 99).expect("in range");
        histogram.record(1_000_000).expect("in range");
        let latency = Latency::from_histogram(&histogram);
        assert!((latency.p50 - 2.0).abs() < 0.01 && (latency.max - 1_000.0).abs() < 1.0, "{latency:?}");
    }

    #[test]
    fn an_empty_histogram_has_no_latency() {
        let empty = Histogram::<u64>::new(3).expect("valid");
        assert_eq!((Latency::from_histogram(&empty), Latency::if_recorded(&empty)), (Latency::default(), None));
        assert_eq!(Backlog::if_recorded(&empty), None);
    }
}
