//! The result of a run: the JSON that `--format json` prints. `docs/loadgen-result.md` explains it.
//!
//! Doc comments of fields are the descriptions in `docs/schema/loadgen-result.schema.json`, which is derived from these types.

mod agents;
mod latency;
#[cfg(test)]
pub(crate) mod samples;
mod settings;
mod tls;

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    num::NonZeroU64,
};

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::{
    agents::AgentShare,
    latency::{Backlog, Latency},
    settings::Settings,
    tls::{Handshakes, TlsSession},
};
use crate::{error::ErrorClass, instructions::CountedModes};

/// Version of the JSON. A new optional field does not change it; a changed meaning does.
pub const SCHEMA: u32 = 1;

/// Result of a run of loadgen.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[schemars(title = "Result of a run of loadgen", transform = never_negative)]
pub struct RunResult {
    /// Version of this format. It changes when the meaning of a field does; fields may be added without.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Protocol that was driven.
    pub kind: ProtocolKind,
    /// Address or URLs as given, separated by blanks.
    pub target: String,
    /// Options in force, defaults included.
    #[schemars(with = "Settings")]
    pub config: BTreeMap<String, Value>,
    /// Seconds of the measured window, warm-up excluded.
    pub duration_s: f64,
    /// Seconds of the warm-up, of several rates all together; null where there was none, and in merged results.
    #[serde(default)]
    pub warmup_s: Option<f64>,
    /// True if the load was steady when the warm-up ended, of several rates each time; null without --max-warmup.
    #[serde(default)]
    pub warmup_steady: Option<bool>,
    /// Replies and failures in the window: ok plus the sum of errors.
    pub requests: u64,
    /// Requests answered and verified.
    pub ok: u64,
    /// Failed requests by class; a class that did not occur is absent.
    #[schemars(with = "BTreeMap<String, NonZeroU64>", extend("propertyNames" = error_class_names()))]
    pub errors: BTreeMap<String, u64>,
    /// Failed requests by what the server said with its reply: a status, an error text. By class; a class of which nothing more is
    /// known is absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub error_details: BTreeMap<String, BTreeMap<String, u64>>,
    /// Connections of config.connections that were open at some time; null where each request has one of its own, and for mq.
    #[serde(default)]
    pub connections_opened: Option<u64>,
    /// Verified replies that found a key (gets and deletions) or a document; null for http and mq. The sum of hits, misses and
    /// stores is ok.
    pub hits: Option<u64>,
    /// Verified replies that rightly found nothing; null for http and mq. Misses of what should be there are errors, unless
    /// they are allowed.
    pub misses: Option<u64>,
    /// Keys stored; null for all but kv.
    pub stores: Option<u64>,
    /// Connections opened again because the server had closed one between two requests. No errors.
    pub reconnects: u64,
    /// Bytes received inside the window.
    pub bytes_in: u64,
    /// Bytes sent inside the window.
    pub bytes_out: u64,
    /// Verified requests per second: ok / duration_s.
    pub throughput_rps: f64,
    /// Open loop: response time, from the scheduled send. Closed loop: service time, from the actual send. Null if no reply was
    /// verified.
    // In memory "none" is all zeros.
    #[schemars(with = "Option<Latency>")]
    #[serde(with = "null_for_none")]
    pub latency_us: Latency,
    /// Service time of an open loop, from the actual send; null in a closed loop.
    pub service_us: Option<Latency>,
    /// Time to the first byte of the answer, from when latency_us counts; mq only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<Latency>,
    /// Service time of a closed loop as wrk corrects it, with samples made up for the requests that were not sent while an
    /// answer was slow. An estimate; an open loop measures it.
    #[serde(default)]
    pub corrected_us: Option<Latency>,
    /// Delay of requests that had a free connection, by the generator's own doing; null in a closed loop.
    #[serde(default)]
    pub lag_us: Option<Latency>,
    /// Number of requests that were due and had no connection, or no free client of a queue; null in a closed loop.
    #[serde(default)]
    pub backlog: Option<Backlog>,
    /// TLS handshakes completed in the window; null without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
    /// Versions, ciphers and protocols that the TLS handshakes of the run ended in, each once, those of the warm-up included; absent
    /// without TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls_sessions: Vec<TlsSession>,
    /// CPU seconds of the generator's threads in the window.
    pub client_cpu_s: f64,
    /// Part of client_cpu_s outside of the kernel, as the kernel's sampling divides it.
    #[serde(default)]
    pub client_user_s: Option<f64>,
    /// Part of client_cpu_s in the kernel.
    #[serde(default)]
    pub client_system_s: Option<f64>,
    /// Process named by --server-pid, if it lived to the end.
    pub server: Option<ServerUsage>,
    /// Signs that the generator, not the server, set the pace.
    pub saturation: Saturation,
    /// Verified replies that took 60 s or more. Histograms end there and have them as 60 s.
    #[serde(default)]
    pub clipped: u64,
    #[serde(flatten)]
    pub origin: Origin,
    /// Histogram of latency_us in nanoseconds: HdrHistogram V2 with DEFLATE, base64.
    #[schemars(extend("contentEncoding" = "base64"))]
    pub histogram: String,
    /// Histogram of service_us.
    #[schemars(extend("contentEncoding" = "base64"))]
    pub service_histogram: Option<String>,
    /// Histogram of lag_us.
    #[schemars(extend("contentEncoding" = "base64"))]
    #[serde(default)]
    pub lag_histogram: Option<String>,
    /// Histogram of backlog, in requests.
    #[schemars(extend("contentEncoding" = "base64"))]
    #[serde(default)]
    pub backlog_histogram: Option<String>,
    /// Histogram of first_byte_us.
    #[schemars(extend("contentEncoding" = "base64"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_histogram: Option<String>,
    /// Histogram of handshakes.latency_us.
    #[schemars(extend("contentEncoding" = "base64"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_histogram: Option<String>,
    /// Bodies of the good replies of http, in the order of the requests; absent if none was compared. Merged results have each
    /// body that any of them saw.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bodies: Vec<BodySeen>,
    /// Shares of the agents of a load from several machines; absent without --agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentShare>,
    /// The window in intervals; null without --timeline.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// Throughput that the shares of --rate-sweep are shares of; null without it.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// A step for each of several rates, otherwise empty. The fields above are then about all steps together.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// Protocol of a run, which is also the command that drives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolKind {
    Http,
    Kv,
    File,
    Mq,
}

impl ProtocolKind {
    /// The name in JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Kv => "kv",
            Self::File => "file",
            Self::Mq => "mq",
        }
    }
}

impl fmt::Display for ProtocolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Place and time of a measurement. Older results lack it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Serialize)]
pub struct Origin {
    /// Time at which the measured window was opened: UTC, RFC 3339, with milliseconds. Of merged results the first.
    #[serde(default)]
    pub started_utc: Option<String>,
    /// Version of loadgen; null where merged results differ.
    #[serde(default)]
    pub version: Option<String>,
    /// Name of the generator's machine; null where merged results differ.
    #[serde(default)]
    pub host: Option<String>,
    /// True if SIGINT or SIGTERM ended the run before its time.
    #[serde(default)]
    pub interrupted: bool,
}

impl RunResult {
    /// True if the clock set the pace, so that latency counts from the schedule.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.service_us.is_some() || self.config.get("mode").is_some_and(|mode| mode == "open")
    }

    /// Returns the number of connections that were asked for and of those that were opened, if these are fewer although
    /// the run took its time: a few requests need no more connections than they use.
    #[must_use]
    pub fn missing_connections(&self) -> Option<(u64, u64)> {
        if self.origin.interrupted || self.config.contains_key("requests") {
            return None;
        }
        let asked = self.config.get("connections").and_then(Value::as_u64)?;
        self.connections_opened.filter(|&opened| opened < asked).map(|opened| (asked, opened))
    }
}

/// Body of the good replies to a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema, Serialize)]
pub struct BodySeen {
    /// Method and target, as the request line has them.
    pub request: String,
    /// Length as it was sent, without transfer coding.
    pub bytes: u64,
    /// Value of Content-Encoding; identity where there was none, other for several or an unknown one.
    #[schemars(extend("enum" = ["identity", "gzip", "zstd", "br", "other"]))]
    pub coding: String,
    /// SHA-256 of the body as it was sent, in hexadecimal digits; null where only lengths were compared.
    pub sha256: Option<String>,
}

impl BodySeen {
    /// Returns each of them once, in their order.
    pub fn distinct(bodies: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut known = HashSet::new();
        bodies.into_iter().filter(|body| known.insert(body.clone())).collect()
    }
}

/// A result and its name in messages.
#[derive(Clone, Debug)]
pub struct NamedResult {
    pub name: String,
    pub result: RunResult,
}

/// The measured window and what came after it, cut into intervals. An outcome belongs to the interval in which it was given.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[schemars(transform = never_negative)]
pub struct Timeline {
    /// Seconds of each interval.
    pub interval_s: f64,
    /// All intervals, those that are not settled included.
    pub rows: Vec<TimelineRow>,
    /// The warm-up in whole intervals that end where the window was to open; in no other figure. Absent without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warmup: Vec<TimelineRow>,
}

/// One interval. Its latencies are response times in an open loop and service times in a closed one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
pub struct TimelineRow {
    /// Seconds since the window opened; negative in the warm-up.
    pub start_s: f64,
    /// Requests verified in this interval.
    pub ok: u64,
    /// Requests that failed in this interval.
    pub errors: u64,
    /// Median latency in microseconds; 0 if nothing was answered.
    #[schemars(range(min = 0.0))]
    pub p50_us: f64,
    /// 99th percentile in microseconds; 0 if nothing was answered.
    #[schemars(range(min = 0.0))]
    pub p99_us: f64,
    /// Longest latency in microseconds; 0 if nothing was answered.
    #[schemars(range(min = 0.0))]
    pub max_us: f64,
    /// Longest delay of a request by the generator's own doing, in microseconds.
    #[schemars(range(min = 0.0))]
    pub lag_us_max: f64,
}

/// Throughput of a closed loop with as many connections and requests in flight as the steps behind it have.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[schemars(transform = never_negative)]
pub struct Capacity {
    /// Verified requests per second.
    pub throughput_rps: f64,
    /// Seconds of its window.
    pub duration_s: f64,
    /// Service time at capacity.
    pub service_us: Latency,
}

/// One of several rates.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[schemars(transform = never_negative)]
pub struct Step {
    /// Requests per second that were offered.
    pub rate: f64,
    /// Share of the capacity, 1.0 for all of it; null without --rate-sweep.
    pub share: Option<f64>,
    /// True if the server kept up. The run ends with the first step for which this is false.
    pub is_served: bool,
    /// Reason why it did not keep up, otherwise empty.
    pub note: String,
    /// Result of this rate alone.
    pub result: RunResult,
}

/// Resources that the server's process used in the measured window, all threads.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[schemars(transform = never_negative)]
pub struct ServerUsage {
    /// The process.
    pub pid: u32,
    /// CPU seconds, from the process CPU clock (nanosecond resolution).
    pub cpu_s: f64,
    /// CPU seconds outside of the kernel, from /proc/PID/stat (in steps of 10 ms).
    pub user_s: f64,
    /// CPU seconds in the kernel, from /proc/PID/stat (in steps of 10 ms).
    pub system_s: f64,
    /// Resident memory at the end of the window.
    pub rss_bytes: u64,
    /// Voluntary context switches of the threads that lived at the end.
    pub context_switches_voluntary: u64,
    /// Involuntary context switches of the threads that lived at the end.
    pub context_switches_involuntary: u64,
    /// Instructions executed, where the processor counts them (perf_event_open).
    #[serde(default)]
    pub instructions: Option<u64>,
    /// Modes of the processor in which instructions were counted.
    #[serde(default)]
    pub instructions_modes: Option<CountedModes>,
    /// Reason why instructions were not counted; null under --no-instructions.
    #[serde(default)]
    pub instructions_unknown: Option<String>,
}

/// Signs that the generator, not the server, set the pace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Serialize)]
#[schemars(transform = never_negative)]
pub struct Saturation {
    /// CPU seconds per second and generator thread: 1.0 is a generator that could do no more.
    pub client_cpu_fraction: f64,
    /// Warning in words, empty if there is none.
    pub note: String,
    /// Requests per second that the generator's threads could do at most, measured before the run against a null server of
    /// its own (--self-check).
    #[serde(default)]
    pub ceiling_rps: Option<f64>,
    /// throughput_rps / ceiling_rps; above 0.8 there is a note.
    #[serde(default)]
    pub ceiling_fraction: Option<f64>,
    /// Reason why the ceiling could not be measured, if it was to be.
    #[serde(default)]
    pub ceiling_unknown: Option<String>,
}

/// Returns the JSON Schema of a result as this version writes it. Older results lack the fields that came later.
#[must_use]
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<RunResult>()
}

/// Adds to the schema of an object that none of its numbers is negative.
fn never_negative(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        let is_number = match property.get("type") {
            Some(Value::Array(types)) => types.iter().any(|name| name == "number"),
            name => name.is_some_and(|name| name == "number"),
        };
        if is_number {
            property.insert("minimum".to_owned(), json!(0));
        }
    }
}

fn error_class_names() -> Value {
    let names: Vec<_> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
    json!({ "enum": names })
}

/// Serialises a latency of which nothing was recorded as null.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name_everywhere() {
        for kind in [ProtocolKind::Http, ProtocolKind::Kv, ProtocolKind::File, ProtocolKind::Mq] {
            assert_eq!(serde_json::to_value(kind).expect("JSON"), kind.name());
        }
    }
}
