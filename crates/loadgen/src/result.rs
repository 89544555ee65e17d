//! What one run measured. This is the JSON that `--format json` prints; `docs/loadgen-result.md` documents it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Open loop: response time, from the scheduled send. Closed loop: service time, from the actual send.
    pub latency_us: Latency,
    /// Open loop only: service time, from the actual send.
    pub service_us: Option<Latency>,
    /// `mq` only: to the first byte of the answer, from when `latency_us` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<Latency>,
    /// CPU seconds of the generator's threads in the window.
    pub client_cpu_s: f64,
    /// The process named by `--server-pid`.
    pub server: Option<ServerUsage>,
    pub saturation: Saturation,
    /// HdrHistogram V2 + DEFLATE of `latency_us` in nanoseconds, base64.
    pub histogram: String,
    /// The same for `service_us`.
    pub service_histogram: Option<String>,
    /// The same for `first_byte_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_histogram: Option<String>,
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
    pub max: f64,
}

/// What the server's process used in the measured window, all threads.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
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
}

/// Whether the generator, not the server, set the pace.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Saturation {
    /// CPU seconds per second and generator thread: 1.0 is a generator that could do no more.
    pub client_cpu_fraction: f64,
    /// Empty when there is nothing to say.
    pub note: String,
}
