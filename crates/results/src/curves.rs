//! Curves beside the percentiles: the distribution, the load, the time within a visit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Interval;

/// A bar of a latency histogram: bounds grow by a constant factor, so that bars are equally wide on a log axis.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Bucket {
    /// Lower bound, microseconds.
    pub us: f64,
    /// Share of all requests, 0 to 1; never 0.
    pub share: f64,
}

/// Bars per factor of ten.
pub const BUCKETS_PER_DECADE: f64 = 10.0;

/// The bound above a bar whose lower bound is `us`.
pub fn bucket_end(us: f64) -> f64 {
    us * 10_f64.powf(1.0 / BUCKETS_PER_DECADE)
}

/// One offered load of a sweep, medians over visits with their intervals.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct LoadPoint {
    /// Share of the capacity that the same visit measured in a closed loop, 0 to 1.
    pub share: f64,
    pub offered_rps: f64,
    pub served_rps: f64,
    /// True if the server kept up in at least half of the visits.
    pub is_served: bool,
    /// Response time, from the scheduled send, microseconds.
    pub p50: Interval,
    pub p99: Interval,
}
