//! What `bench-matrix` knows and the report reads: the setup, and `summary.json`. What only the engine reads back
//! (the plan, the single visits) is in [`super::record`].
//!
//! Plain data; nothing here measures, computes or draws. `docs/benchmarking.md` describes the files in prose.
//! CPU costs are microseconds per request, latencies microseconds, loads requests per second, rates of use
//! fractions of one core (1.0 is a core that could do no more). Every list is in the order in which to show it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the three files. A new optional field does not change it; a changed meaning does.
pub(crate) const SCHEMA: &str = "bench-matrix/1";

/// Most points of a latency curve, in a visit as in a summary.
pub(crate) const QUANTILE_POINTS_MAX: usize = 120;

/// Everything that was decided or found before measuring.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Setup {
    /// RFC 3339, UTC, to the second.
    pub created_utc: String,
    pub git: Git,
    /// `rustc --version`.
    pub rustc: String,
    /// The command that started this run, to run it again.
    pub command: String,
    /// A quick run says how things stand; it does not rank.
    pub quick: bool,
    pub seed: u64,
    pub blocks: u32,
    pub slice_s: f64,
    pub warmup_s: f64,
    /// How often an invalid visit is repeated at the end of its block.
    pub retries_max: u32,
    /// A repeat must leave all visits expected to take at most this long; `None` is no limit.
    #[serde(default)]
    pub retry_budget_s: Option<f64>,
    /// [`Cell::id`] of the cell that every ratio is taken against.
    pub reference: String,
    pub cells: Vec<Cell>,
    pub workloads: Vec<Workload>,
    /// Combinations that were selected and cannot run, with the reason.
    pub not_run: Vec<NotRun>,
    pub pinning: Pinning,
    pub host: Host,
    /// Decisions a reader should know, one sentence each: time budget, how the open loop's load was found, …
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Git {
    /// Abbreviated commit, or `unknown` outside a repository.
    pub sha: String,
    /// Whether tracked files differed from that commit.
    pub dirty: bool,
}

/// A server in one configuration: a row of the matrix.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Cell {
    /// Unique: `http-server/uring`, `nginx/sendfile-on`, `lighttpd`, `null`, `control-aa`.
    pub id: String,
    /// Short name for tables and curves: `uring`, `nginx`, `null server`, `A/A control`.
    pub label: String,
    pub role: Role,
    /// The program: `http-server`, `nginx`, `lighttpd`, `loadgen`.
    pub server: String,
    /// The level of each factor (`driver` → `uring`); empty for peers and the null server.
    pub factors: BTreeMap<String, String>,
    /// One line on what it is.
    pub description: String,
    /// What the program says its version is; peers only.
    pub version: Option<String>,
    /// The exact command; `SITE`, `CONF` and `BYTES` stand for the temporary site, configuration and body size.
    pub command: String,
    /// The configuration file of a peer, as written.
    pub config: Option<String>,
}

/// What a cell is in the comparison.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// One of this project's servers; the reference is one of them.
    Ours,
    /// Somebody else's server.
    Peer,
    /// The fixed responder: what any server on this machine pays for the same bytes.
    Null,
    /// The reference once more (A/A): its distance from the reference is the noise.
    Control,
}

/// One kind of load: a column of the matrix.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Workload {
    /// `get-128B-c64`.
    pub name: String,
    /// `128-byte file, 64 connections`.
    pub title: String,
    /// Two short lines for narrow column heads: `128 B`, `c64`.
    pub short: [String; 2],
    pub body_bytes: u64,
    pub connections: u32,
    /// Requests outstanding per connection.
    pub pipeline: u32,
    pub arrivals: Arrivals,
    /// The exact load generator command; `ADDR` and `PID` stand for what differs from visit to visit.
    pub command: String,
}

/// What decides when the next request is sent.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Arrivals {
    /// The previous reply. Measures throughput; its latencies are service times at saturation, not user latency.
    Closed,
    /// A schedule, the same for every cell. Latency counts from the scheduled send.
    Open {
        rate_rps: f64,
        /// `rate_rps` over `capacity_rps`.
        fraction: f64,
        /// What the reference served in the closed loop of the calibration visit.
        capacity_rps: f64,
    },
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct NotRun {
    pub cell: String,
    pub workload: String,
    /// `a thread per connection: 9,000 threads`.
    pub reason: String,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Pinning {
    /// As taskset takes them: `0`, `0,2-3`.
    pub server_cpus: String,
    pub client_cpus: String,
    /// Server and generator share a core: nothing measured can be trusted.
    pub shared: bool,
}

/// Facts of the machine; `None` is "not visible here".
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Host {
    pub kernel: String,
    pub cpu_model: String,
    pub cores: u32,
    pub memory_bytes: u64,
    pub governor: Option<String>,
    pub smt: Option<String>,
    /// Whether the CPU reports a hypervisor.
    pub virtual_machine: bool,
    /// Vulnerability → state, for those that affect this CPU.
    pub mitigations: BTreeMap<String, String>,
    pub clocksource: Option<String>,
    pub transparent_hugepages: Option<String>,
    pub somaxconn: Option<u64>,
    /// The system's default for TCP; our own servers use reno on loopback, peers use this.
    #[serde(default)]
    pub congestion_control: Option<String>,
    pub port_range: Option<[u16; 2]>,
    pub open_files_soft: u64,
    pub open_files_hard: u64,
    /// One-minute load average when the run began.
    pub load1: f64,
}

/// Why to look twice at a visit.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Flag {
    Errors,
    Failed,
    ClientSaturated,
    Lag,
    Noisy,
    SharedCore,
    ServerSaturated,
}

impl Flag {
    /// The name in the files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Failed => "failed",
            Self::ClientSaturated => "client-saturated",
            Self::Lag => "lag",
            Self::Noisy => "noisy",
            Self::SharedCore => "shared-core",
            Self::ServerSaturated => "server-saturated",
        }
    }

    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Errors => "some replies failed or were wrong",
            Self::Failed => "the server or the generator did not run to its end",
            Self::ClientSaturated => {
                "the generator's core was busier than 90 % and the server's was not: the throughput is the generator's"
            }
            Self::Lag => "the open loop could not keep its schedule: less than 98 % of the offered load was sent",
            Self::Noisy => "steal above 1 %, or other processes above 5 % of a core",
            Self::SharedCore => "server and generator share a core",
            Self::ServerSaturated => {
                "the server's core was busier than 95 %: expected in a closed loop, too much in an open one"
            }
        }
    }

    /// Whether a visit with this flag is repeated and, if it stays, is marked in every picture.
    /// The others are remarks: a closed loop is meant to saturate something.
    pub(crate) fn is_invalid(self) -> bool {
        matches!(self, Self::Errors | Self::Failed | Self::Lag | Self::Noisy)
    }

    /// Whether the figures may still be shown (marked): a visit with errors has no throughput.
    pub(crate) fn is_fatal(self) -> bool {
        matches!(self, Self::Errors | Self::Failed)
    }
}

/// `summary.json`: all that the report draws.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub schema: String,
    pub setup: Setup,
    pub progress: Progress,
    /// Every cell × every workload, cells outermost, in the order of [`Setup`]; combinations that were not
    /// selected are absent, those that could not run are [`Outcome::NotRun`].
    pub results: Vec<CellResult>,
    /// One per workload.
    pub noise: Vec<Noise>,
    pub effects: Vec<Effect>,
    pub drift: Vec<Drift>,
    /// What the verdict sentences are made of, workload by workload.
    pub comparisons: Vec<Comparison>,
    /// One sentence each; show them all.
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Progress {
    pub visits_planned: u32,
    /// Slots with at least one attempt.
    pub visits_done: u32,
    /// Attempts, retries included.
    pub attempts: u32,
    /// Slots without a valid attempt.
    pub visits_invalid: u32,
    /// Slots whose every attempt had errors or no figures.
    pub visits_failed: u32,
    pub blocks_complete: u32,
    /// Sum of all attempts' times.
    pub elapsed_s: f64,
    /// Not all planned visits were made.
    pub is_partial: bool,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct CellResult {
    pub cell: String,
    pub workload: String,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// `n/a: reason`.
    NotRun {
        reason: String,
    },
    Measured(Box<Figures>),
}

/// A median over blocks and its 95 % bootstrap interval.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Interval {
    pub median: f64,
    pub lo: f64,
    pub hi: f64,
}

/// Subject over object, paired within blocks: the median of the per-block ratios and its 95 % bootstrap interval.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub median: f64,
    pub lo: f64,
    pub hi: f64,
    /// The interval leaves out 1 and the median lies outside the noise floor. False is "~", no difference seen.
    pub differs: bool,
    /// Blocks in which both were measured.
    pub blocks: u32,
}

/// What is known of one cell under one workload.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Server CPU per request: the figure that ranks. `None` when the generator gave no server usage.
    pub cpu_us: Option<Interval>,
    /// Medians of the split of `cpu_us`; they add up to it only roughly.
    pub user_us: Option<f64>,
    pub system_us: Option<f64>,
    /// `cpu_us` over the reference's. `None` without a common block; the reference itself has 1.
    pub cpu_ratio: Option<Ratio>,
    pub throughput_rps: Interval,
    pub throughput_ratio: Option<Ratio>,
    pub client_cpu_us: Interval,
    /// Server and client together: the figure to read for large bodies, whose sends finish in the receiver's context.
    pub total_cpu_us: Option<Interval>,
    pub total_cpu_ratio: Option<Ratio>,
    pub server_busy: Option<f64>,
    pub client_busy: f64,
    pub rss_bytes: Option<u64>,
    /// From the scheduled send; open loop only. This is user latency.
    pub response: Option<LatencyFigures>,
    /// From the actual send. In a closed loop: "service time, not user latency".
    pub service: Option<LatencyFigures>,
    /// Flags of the visits that counted, by number of visits; empty when there is nothing to say.
    pub flags: Vec<FlagCount>,
    /// Visits that counted, and attempts made for them.
    pub visits: u32,
    pub attempts: u32,
    /// The visits one by one.
    pub per_block: Vec<BlockFigures>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct BlockFigures {
    /// From 0.
    pub block: u32,
    pub cpu_us: Option<f64>,
    pub throughput_rps: f64,
    pub valid: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct FlagCount {
    pub flag: Flag,
    pub visits: u32,
}

/// Quantiles per visit, then the median and interval over visits; `max` is the greatest of all visits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct LatencyFigures {
    pub p50: Interval,
    pub p90: Interval,
    pub p99: Interval,
    pub p999: Interval,
    pub max: f64,
    /// At most [`QUANTILE_POINTS_MAX`], `x` rising from 1; ends where the samples no longer carry the quantile.
    pub points: Vec<QuantilePoint>,
}

/// A point of the percentile curve.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct QuantilePoint {
    /// 1 / (1 − q).
    pub x: f64,
    /// From the merged histograms of all visits.
    pub us: f64,
    /// Least and greatest visit.
    pub min_us: f64,
    pub max_us: f64,
}

/// How far the reference is from itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Noise {
    pub workload: String,
    /// A/A: the control over the reference; `None` when it was not measured.
    pub cpu_aa: Option<Ratio>,
    pub throughput_aa: Option<Ratio>,
    /// Half-width of the A/A interval or its distance from 1, whichever is larger, and at least 1 %.
    pub cpu_floor_percent: f64,
    pub throughput_floor_percent: f64,
}

/// What one choice changes, all else equal, over all closed- and open-loop workloads.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Effect {
    /// `driver`.
    pub factor: String,
    /// `uring`.
    pub level: String,
    /// The level it replaces: the reference's.
    pub instead_of: String,
    /// Server CPU per request: median over blocks of the geometric mean over workloads and equal partners.
    pub cpu: Ratio,
    /// The mean of the workloads' noise floors.
    pub floor_percent: f64,
    /// Workloads pooled.
    pub workloads: Vec<String>,
}

/// The controls over the blocks, for one workload: did the machine move?
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Drift {
    pub workload: String,
    /// Server CPU per request of the null server.
    pub null_cpu_us: Vec<BlockValue>,
    /// Control over reference, server CPU per request.
    pub aa_ratio: Vec<BlockValue>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct BlockValue {
    /// From 0.
    pub block: u32,
    pub value: f64,
}

/// `subject` over `object`, paired: an input of a verdict sentence.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub topic: Topic,
    pub workload: String,
    pub metric: Metric,
    pub subject: String,
    pub object: String,
    pub ratio: Ratio,
    pub floor_percent: f64,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Topic {
    /// Our cheapest cell over the reference (absent when the reference is the cheapest).
    BestOverReference,
    /// Our cheapest cell over the null server: the multiple of the floor.
    BestOverNull,
    /// Our cheapest cell over each peer.
    BestOverPeer,
    /// The reference over each peer.
    ReferenceOverPeer,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// Lower is better.
    ServerCpu,
    /// Higher is better; closed loop only.
    Throughput,
}
