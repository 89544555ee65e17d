//! What one run measured. This is the JSON that `--format json` prints; `docs/loadgen-result.md` documents it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::instructions::CountedModes;

/// Version of the JSON below. A new optional field does not change it; a changed meaning does.
pub const SCHEMA: u32 = 1;

/// One run, as printed by `--format json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RunResult {
    /// Always [`SCHEMA`] when written.
    pub schema: u32,
    /// The protocol driven: `http`, `kv`, `file` or `mq`.
    pub kind: String,
    /// The address or URL as given.
    pub target: String,
    /// The options in force, defaults included.
    pub config: BTreeMap<String, serde_json::Value>,
    /// Seconds of the measured window, warm-up excluded.
    pub duration_s: f64,
    /// Seconds of the warm-up, of several rates all together; null where there was none, in merged and in older results.
    #[serde(default)]
    pub warmup_s: Option<f64>,
    /// `--max-warmup` only: whether the load was steady when the warm-up ended, of several rates each time.
    #[serde(default)]
    pub warmup_steady: Option<bool>,
    /// Replies and failures in the window: `ok` plus the sum of `errors`.
    pub requests: u64,
    /// Requests answered and verified.
    pub ok: u64,
    /// Requests that failed, by class; a class that did not occur is absent.
    pub errors: BTreeMap<String, u64>,
    /// Not `http`, and `hits + misses + stores = ok`: replies that found a key (gets and deletions) or a document.
    pub hits: Option<u64>,
    /// Not `http`: replies that rightly found none. Misses of what should be there are in `errors`, unless allowed.
    pub misses: Option<u64>,
    /// `kv` only: keys stored.
    pub stores: Option<u64>,
    /// Connections opened again after the server closed one between two requests. Not an error.
    pub reconnects: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// `ok / duration_s`.
    pub throughput_rps: f64,
    /// Open loop: response time, from the scheduled send. Closed loop: service time, from the actual send. Without a
    /// verified reply there is none: null in JSON, and all 0 here.
    #[serde(with = "null_for_none")]
    pub latency_us: Latency,
    /// Open loop only: service time, from the actual send.
    pub service_us: Option<Latency>,
    /// `mq` only: to the first byte of the answer, from when `latency_us` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<Latency>,
    /// Closed loop only: service time as wrk corrects it, with samples made up for requests that were not sent while an
    /// answer was slow. An estimate; an open loop measures it.
    #[serde(default)]
    pub corrected_us: Option<Latency>,
    /// Open loop only: how late requests were sent although a connection was free. The generator's own doing.
    #[serde(default)]
    pub lag_us: Option<Latency>,
    /// Open loop only: how many requests were due and had no connection, or no client of a queue that was free.
    #[serde(default)]
    pub backlog: Option<Backlog>,
    /// CPU seconds of the generator's threads in the window.
    pub client_cpu_s: f64,
    /// Of these, outside of the kernel and in it, as the kernel's sampling divides them.
    #[serde(default)]
    pub client_user_s: Option<f64>,
    #[serde(default)]
    pub client_system_s: Option<f64>,
    /// The process named by `--server-pid`.
    pub server: Option<ServerUsage>,
    pub saturation: Saturation,
    /// Of the verified replies, those that took 60 s or more: histograms reach no further, and have them as 60 s.
    #[serde(default)]
    pub clipped: u64,
    #[serde(flatten)]
    pub origin: Origin,
    /// HdrHistogram V2 + DEFLATE of `latency_us` in nanoseconds, base64.
    pub histogram: String,
    /// The same for `service_us`.
    pub service_histogram: Option<String>,
    /// The same for `lag_us`.
    #[serde(default)]
    pub lag_histogram: Option<String>,
    /// Of `backlog`, in requests.
    #[serde(default)]
    pub backlog_histogram: Option<String>,
    /// The same for `first_byte_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_histogram: Option<String>,
    /// `--timeline` only.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// `--rate-sweep` only: what the shares are shares of.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// Of a run with several rates, each a result of its own; what is above is then all of them together.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// Where and when a result was measured, and whether to its end. Older results do not say.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Origin {
    /// When the measured window was opened: UTC, RFC 3339, with milliseconds. Of merged results the first.
    #[serde(default)]
    pub started_utc: Option<String>,
    /// Of loadgen. Null where merged results do not agree, and so is the host.
    #[serde(default)]
    pub version: Option<String>,
    /// The name of the generator's machine.
    #[serde(default)]
    pub host: Option<String>,
    /// SIGINT or SIGTERM ended the run before its time.
    #[serde(default)]
    pub interrupted: bool,
}

impl RunResult {
    /// Whether the clock set the pace, so that latency counts from the schedule.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.service_us.is_some() || self.config.get("mode").is_some_and(|mode| mode == "open")
    }
}

/// The measured window and what came after it, cut into intervals. A verdict belongs to the interval in which it was given.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Timeline {
    /// Seconds of each interval.
    pub interval_s: f64,
    pub rows: Vec<TimelineRow>,
    /// The warm-up in whole intervals that end where the window was to open; in no other figure. `start_s` is negative.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warmup: Vec<TimelineRow>,
}

/// One interval; its latencies are response times in an open loop, and service times in a closed one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct TimelineRow {
    /// Seconds since the window opened; negative in the warm-up.
    pub start_s: f64,
    pub ok: u64,
    pub errors: u64,
    /// Microseconds; 0 if nothing was answered.
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// The longest that a request was sent too late by the generator's own doing.
    pub lag_us_max: f64,
}

/// What the server did in a closed loop, as many connections and requests in flight as in the steps behind it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Capacity {
    pub throughput_rps: f64,
    pub duration_s: f64,
    /// Service time at capacity.
    pub service_us: Latency,
}

/// One of several rates.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Step {
    /// Requests per second that were offered.
    pub rate: f64,
    /// `--rate-sweep` only: as a share of the capacity, 1.0 for all of it.
    pub share: Option<f64>,
    /// The server kept up. With the first step for which this is false the run ends.
    pub is_served: bool,
    /// What was wrong, otherwise empty.
    pub note: String,
    pub result: RunResult,
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
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

/// Requests of one generator thread that waited for a connection, counted whenever one fell due, itself included.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Backlog {
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

/// What the server's process used in the measured window, all threads.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ServerUsage {
    pub pid: u32,
    /// CPU seconds, from the process CPU clock (nanosecond resolution).
    pub cpu_s: f64,
    /// The same split by /proc/PID/stat (resolution 10 ms).
    pub user_s: f64,
    pub system_s: f64,
    /// Resident set at the end of the window.
    pub rss_bytes: u64,
    pub context_switches_voluntary: u64,
    pub context_switches_involuntary: u64,
    /// That it executed, where the processor counts them: perf_event_open(2).
    #[serde(default)]
    pub instructions: Option<u64>,
    /// In which modes of the processor they were counted.
    #[serde(default)]
    pub instructions_modes: Option<CountedModes>,
    /// Why they were not.
    #[serde(default)]
    pub instructions_unknown: Option<String>,
}

/// Whether the generator, not the server, set the pace.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Saturation {
    /// CPU seconds per second and generator thread: 1.0 is a generator that could do no more.
    pub client_cpu_fraction: f64,
    /// Empty when there is nothing to say.
    pub note: String,
    /// Requests per second that the generator's threads could do at most, measured against a null server of its own
    /// before the run (`--self-check`).
    #[serde(default)]
    pub ceiling_rps: Option<f64>,
    /// `throughput_rps / ceiling_rps`; above 0.8 there is a note.
    #[serde(default)]
    pub ceiling_fraction: Option<f64>,
    /// Why it could not be measured, if it was to be.
    #[serde(default)]
    pub ceiling_unknown: Option<String>,
}

/// A latency that nothing was recorded of, as null.
mod null_for_none {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Latency;

    pub(super) fn serialize<S: Serializer>(latency: &Latency, serializer: S) -> Result<S::Ok, S::Error> {
        Some(latency).filter(|latency| **latency != Latency::default()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Latency, D::Error> {
        Option::deserialize(deserializer).map(Option::unwrap_or_default)
    }
}
