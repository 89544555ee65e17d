//! Schema of the settings that a result records.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::Serialize;

use super::never_negative;

/// Options in force. Each kind of run has more of its own, which docs/loadgen-result.md lists.
// A type for the schema alone: a result keeps its settings in a map, because each command writes its own.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(transform = never_negative)]
pub struct Settings {
    /// Open loop, in which the clock sets the pace, or closed loop, in which the replies do.
    #[schemars(extend("enum" = ["open", "closed"]))]
    mode: String,
    /// Requests per second that were offered; null in a closed loop and where there are several rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    /// The rates of a run with several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rates: Vec<f64>,
    /// Gaps between the requests of an open loop; null in a closed loop.
    #[schemars(with = "Option<String>", extend("enum" = ["constant", "poisson", "recorded", null]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    arrivals: Option<String>,
    /// Phases of a rate that changed, as a line of --rate-file has them; null otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_phases: Option<Vec<String>>,
    /// Requests after which a connection was closed; null if they were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_requests: Option<NonZeroU64>,
    /// Seconds after which a connection was closed; null if they were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_age_s: Option<f64>,
    /// Share of the connections and the share of the requests that it carried; null if all carried the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    skew: Option<[f64; 2]>,
    /// Connections of all threads.
    #[schemars(with = "NonZeroU64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<NonZeroU64>,
    /// Threads of the generator.
    #[schemars(with = "NonZeroU64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<NonZeroU64>,
    /// Requests in flight on each connection.
    #[schemars(with = "NonZeroU64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pipeline: Option<NonZeroU64>,
    /// True if HTTP/2 was spoken; null otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    http2: Option<bool>,
    /// Streams in flight on each connection; null without HTTP/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<NonZeroU64>,
    /// True if TLS sessions were resumed where the server gave tickets; null without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_resume: Option<bool>,
    /// Seconds to measure, unless a number of requests was asked for.
    #[schemars(with = "f64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_s: Option<f64>,
    /// Requests to measure, if a number of them was asked for.
    #[schemars(with = "NonZeroU64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<NonZeroU64>,
    /// Seconds of warm-up, without the ramp before it.
    #[schemars(with = "f64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup_s: Option<f64>,
    /// Limit for each request, in seconds.
    #[schemars(with = "f64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_s: Option<f64>,
    /// Level to which replies are verified, or the share of them that is.
    verify: String,
    /// Seed of all random choices; null where merged results differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Number of results that went into a merged one.
    #[schemars(with = "NonZeroU64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    merged: Option<NonZeroU64>,
    /// Order in time of the merged results; null where it differs.
    #[schemars(with = "Option<String>", extend("enum" = ["concurrent", "consecutive", null]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    merged_as: Option<String>,
}
