//! `manifest.json` and the lines of `visits.jsonl`: what a run can be resumed and analysed again from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Flag, Setup};

/// `manifest.json`: written once, before the first planned visit; `--resume` runs what it lists and nothing else.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Manifest {
    pub schema: String,
    /// One per server.
    pub matrices: Vec<Planned>,
}

/// Plan of one server's measurements.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Planned {
    pub setup: Setup,
    /// One shuffled list per block. A slot is a visit that must happen; its retries are not planned.
    pub plan: Vec<Vec<Slot>>,
}

impl Manifest {
    /// The visits of each matrix.
    pub fn by_matrix(&self, visits: Vec<Visit>) -> Vec<Vec<Visit>> {
        let mut sorted = vec![Vec::new(); self.matrices.len()];
        for visit in visits {
            let matrix = self.matrices.iter().position(|planned| planned.setup.server == visit.matrix);
            if let Some(matrix) = matrix {
                sorted[matrix].push(visit);
            }
        }
        sorted
    }
}

/// One planned visit.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct Slot {
    /// [`super::Cell::id`].
    pub cell: String,
    /// [`super::Workload::name`].
    pub workload: String,
}

/// One line of `visits.jsonl`: one attempt at one slot, appended and flushed when it ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Visit {
    /// Line format, 2.
    pub v: u32,
    /// [`Setup::server`]: whose matrix it belongs to.
    pub matrix: String,
    /// From 0.
    pub block: u32,
    /// Index into the block's plan.
    pub slot: u32,
    /// From 1. A valid attempt ends the slot; without one, the last that has figures counts.
    pub attempt: u32,
    pub cell: String,
    pub workload: String,
    pub started_utc: String,
    /// From starting the server to its end.
    pub elapsed_s: f64,
    /// From starting the server until it was ready; absent where it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_s: Option<f64>,
    /// True if the figures may be used: measured, and no flag that [`Flag::is_invalid`].
    pub valid: bool,
    pub flags: Vec<Flag>,
    /// Reason that there are no figures (`server did not start: …`), or what else went wrong (`server exited with 1`).
    pub failure: Option<String>,
    pub measured: Option<Measured>,
    pub host: HostDuring,
}

/// Figures of the load generator from one visit.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    pub duration_s: f64,
    /// Time of the warm-up before; absent where the generator was not told to, and in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_s: Option<f64>,
    /// True if the load was steady when the warm-up ended; absent where that was a fixed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_steady: Option<bool>,
    pub requests: u64,
    /// Answered and verified.
    pub ok: u64,
    /// Failed, by class.
    pub errors: BTreeMap<String, u64>,
    pub reconnects: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub throughput_rps: f64,
    /// Cost of the server's process.
    pub server: Option<ServerCost>,
    /// Generator CPU per request, and its split where the generator gave one.
    pub client_cpu_us: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_user_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_system_us: Option<f64>,
    pub client_busy: f64,
    /// From the scheduled send; open loop only.
    pub response: Option<Latency>,
    /// From the actual send.
    pub service: Option<Latency>,
    /// Counters of the server's process from before the warm-up to the end of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessDuring>,
    /// The warm-up and the slice in windows of 100 ms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Delay of the generator with requests that it could have sent, 99th percentile; open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_p99_us: Option<f64>,
    /// Bytes that storing the keys added to the server's resident set, per key; where it must keep them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_key: Option<f64>,
    /// Gets that found their key; where a miss is no error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// Steps of a load sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Turns beside the reference; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnFigures>,
    /// Bytes of a reply beside its body, where they can be told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_bytes: Option<f64>,
    /// Remark of the generator, or empty.
    pub note: String,
}

/// Cost beside a fresh process of the reference: both lived at once and were loaded in turns of milliseconds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct TurnFigures {
    /// Centre of the logarithms of this cell's CPU time per request over the reference's, pair by pair.
    pub cpu_log: f64,
    /// The same of the 99th percentile of latency.
    pub p99_log: f64,
    /// Pairs of turns that counted, and those that others disturbed.
    pub pairs: u32,
    pub rejected: u32,
}

/// Server CPU per request and its split, all threads of the process.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ServerCost {
    pub cpu_us: f64,
    pub user_us: f64,
    pub system_us: f64,
    /// CPU seconds per second, over the cores it may use.
    pub busy: f64,
    pub rss_bytes: u64,
    pub context_switches_voluntary: u64,
    pub context_switches_involuntary: u64,
    /// Instructions per request, where the processor counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
}

/// Counters of the server's process, all threads, from /proc.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ProcessDuring {
    /// Between the two readings.
    pub elapsed_s: f64,
    pub cpu_s: f64,
    pub cpu_source: CpuSource,
    /// By the tick, 10 ms.
    pub user_s: f64,
    pub system_s: f64,
    /// Runnable, and not running: somebody else had the core.
    pub run_queue_wait_s: f64,
    pub switches_voluntary: u64,
    pub switches_involuntary: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// At the end.
    pub rss_bytes: u64,
    /// Since it was started (VmHWM).
    pub peak_rss_bytes: u64,
}

/// Source of a CPU time.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuSource {
    /// /proc/PID/task/*/schedstat, nanoseconds.
    Schedstat,
    /// utime and stime of /proc/PID/stat, 10 ms: threads ended meanwhile.
    Ticks,
}

/// One window.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Window {
    /// Seconds since the slice began; negative in the warm-up.
    pub s: f64,
    /// Verified replies per second.
    pub rps: f64,
    pub errors: u64,
    /// 0 without a reply.
    pub p99_us: f64,
    /// The longest that a request was sent too late by the generator's own doing; open loop only.
    #[serde(default)]
    pub lag_us: f64,
}

/// One visit's latencies, microseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// HdrHistogram V2 + DEFLATE, nanoseconds, base64, as the generator gave it.
    pub histogram: String,
}

/// Load of the machine by others during one visit, from /proc/stat.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct HostDuring {
    /// Fraction of all cores' time that the hypervisor took.
    pub steal: f64,
    /// Busy time that was neither the server's nor the generator's, as a fraction of one core.
    pub foreign: f64,
    pub load1: f64,
}

impl Visit {
    /// True if there are figures worth showing, flagged or not.
    pub fn is_usable(&self) -> bool {
        self.measured.is_some() && !self.flags.iter().copied().any(Flag::is_fatal)
    }
}

/// One step of one visit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// Share of the capacity, 1.0 for all of it.
    pub share: f64,
    pub offered_rps: f64,
    pub served_rps: f64,
    pub is_served: bool,
    /// Response time, microseconds.
    pub p50_us: f64,
    pub p99_us: f64,
}
