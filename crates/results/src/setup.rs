//! Decisions and findings before measuring, and what may be wrong with a visit.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that was decided or found before measuring a matrix.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Setup {
    /// The server of ours that this matrix is about: `http-server`.
    pub server: String,
    /// RFC 3339, UTC, to the second.
    pub created_utc: String,
    pub git: Git,
    /// `rustc --version`.
    pub rustc: String,
    /// The cargo profile of what was measured.
    #[serde(default = "release")]
    pub profile: String,
    /// The command that started this run, to run it again.
    pub command: String,
    /// A quick run says how things stand; it ranks only what turns tell.
    pub quick: bool,
    pub seed: u64,
    pub blocks: u32,
    pub slice_s: f64,
    /// At least, where [`Self::max_warmup_s`] is there.
    pub warmup_s: f64,
    /// A visit warms up until the load is steady, at most this long; `None` is a fixed time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_warmup_s: Option<f64>,
    /// Number of times that an invalid visit is repeated at the end of its block.
    pub retries_max: u32,
    /// Limit of the run's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_budget_s: Option<f64>,
    /// A repeat must leave all visits of the matrix expected to take at most this long; `None` is no limit.
    #[serde(default)]
    pub retry_budget_s: Option<f64>,
    /// Turns beside the reference that each visit of a closed loop takes, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnPlan>,
    /// Calibration of turns that was made on this machine before the run, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<StoredCalibration>,
    /// [`Cell::id`] of the cell that every ratio is taken against.
    pub reference: String,
    pub cells: Vec<Cell>,
    pub workloads: Vec<Workload>,
    /// Combinations that were selected and cannot run, with the reason.
    pub not_run: Vec<NotRun>,
    pub pinning: Pinning,
    /// Place of the servers, if they were not started here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
    /// System calls are counted in a pass of their own.
    #[serde(default)]
    pub syscalls: bool,
    /// Instructions are counted under valgrind in a pass of their own.
    #[serde(default)]
    pub instructions: bool,
    /// The generator's histograms are kept, a file per visit.
    #[serde(default)]
    pub histograms: bool,
    pub host: Host,
    /// Decisions a reader should know, one sentence each: time budget, how the open loop's load was found, …
    pub notes: Vec<String>,
    /// Somebody else's figures for cells of this matrix, measured elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotes: Option<Quotes>,
}

impl Setup {
    /// Every combination that was selected, whether or not it can run, cells outermost.
    pub fn selected(&self) -> impl Iterator<Item = (&Cell, &Workload)> {
        let pairs = self.cells.iter().flat_map(|cell| self.workloads.iter().map(move |workload| (cell, workload)));
        pairs.filter(|(cell, workload)| cell.is_selected_for(workload))
    }

    /// Returns why a combination was not run, if it was not.
    pub fn why_not(&self, cell: &str, workload: &str) -> Option<&str> {
        let not_run = self.not_run.iter().find(|not_run| not_run.cell == cell && not_run.workload == workload)?;
        Some(&not_run.reason)
    }

    /// `0.5 s` or `0.5 to 2 s`, with spaces that do not break.
    pub fn warm_up_in_words(&self) -> String {
        match self.max_warmup_s {
            None => format!("{}\u{a0}s", self.warmup_s),
            Some(most_s) => format!("{} to {most_s}\u{a0}s", self.warmup_s),
        }
    }
}

/// Turns of a visit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct TurnPlan {
    /// Length of a turn.
    pub turn_s: f64,
    /// Turns of each server, in pairs.
    pub pairs: u32,
}

/// Outcome of a calibration, as far as a report tells it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct StoredCalibration {
    /// RFC 3339, UTC, to the second.
    pub created_utc: String,
    /// Sentence that says what was seen, how often, and in what time.
    pub sentence: String,
    /// SHA-256 digest of the labels, which was told before the first pair.
    pub seal: String,
}

/// The profile whose figures count.
pub const RELEASE: &str = "release";

fn release() -> String {
    RELEASE.to_owned()
}

/// Figures that are quoted, not measured, to stand beside ours.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Quotes {
    /// Origin of the figures, and what they are.
    pub source: String,
    /// Workload of the rows that name none.
    pub workload: String,
    pub rows: Vec<Quote>,
}

/// One row of them. Times are round trips in milliseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Quote {
    /// [`Cell::id`] of what answers to it here.
    pub cell: String,
    /// Name that it had there.
    pub name: String,
    /// The workload of ours that answers to what was asked there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_ms: Option<f64>,
    /// From the first request to the end of the last answer, where that was printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_ms: Option<f64>,
    /// Requests per second, where there were some printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_rps: Option<f64>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct Git {
    /// Abbreviated commit, or `unknown` outside a repository.
    pub sha: String,
    /// True if tracked files differed from that commit.
    pub dirty: bool,
}

/// A server in one configuration: a row of the matrix.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct Cell {
    /// Unique in its matrix: `http-server/uring`, `nginx/sendfile-on`, `lighttpd`, `null`, `control-aa`.
    pub id: String,
    /// Short name for tables and curves: `uring`, `nginx`, `null server`, `A/A control`.
    pub label: String,
    pub role: Role,
    /// The program: `http-server`, `nginx`, `redis-server`, `loadgen`.
    pub server: String,
    /// The level of each factor (`driver` → `uring`); empty for peers and the null server.
    pub factors: BTreeMap<String, String>,
    /// Place of a connection while it is served, of a server that has drivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,
    /// One line on what it is.
    pub description: String,
    /// Version that the program of a peer prints; of a server of ours crate, version and ring flags of its driver, if that has any.
    pub version: Option<String>,
    /// The exact command; `SITE`, `CONF`, `BYTES` and `…` stand for the temporary site, configuration, body size and
    /// what the workload [adds](Workload::adds).
    pub command: String,
    /// The configuration file of a peer, as written.
    pub config: Option<String>,
    /// The workloads it is selected for; `None` is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_under: Option<Vec<String>>,
}

/// Place of a connection while it is served, as a driver says it of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// A thread of its own.
    Thread,
    /// One of a fixed number of threads.
    Worker,
    /// An event loop with many others.
    Loop,
    /// A task of its own on a runtime.
    Task,
    /// A task with a stack of its own, as a thread has, on threads of a runtime.
    Coroutine,
}

impl Cell {
    fn is_selected_for(&self, workload: &Workload) -> bool {
        self.only_under.as_ref().is_none_or(|names| names.contains(&workload.name))
    }
}

/// Role of a cell in the comparison.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// One of this project's servers; the reference is one of them.
    Ours,
    /// Somebody else's server.
    Peer,
    /// The fixed responder, which copies the same bytes from memory: a floor for small replies only.
    Null,
    /// The reference once more (A/A): its distance from the reference is the noise.
    Control,
}

/// One kind of load: a column of the matrix.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Workload {
    /// `get-128B-c64`.
    pub name: String,
    /// `128-byte file, 64 connections`.
    pub title: String,
    /// Two short lines for narrow column heads: `128 B`, `c64`.
    pub short: [String; 2],
    /// Size of a body, or of a cache's value.
    pub body_bytes: u64,
    /// Keys stored before the load begins; `None` where there is nothing to store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u32>,
    /// Number of answers that are hashed before the load begins, of a collection each document: under load only lengths are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<u32>,
    /// Each connection makes so many requests, sleeps after each, and then the visit is over; `None` is a slice of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// Not finding a key is no error: the server may evict. Servers then do different work, and are told apart by
    /// their hit ratios as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allows_misses: bool,
    pub connections: u32,
    /// Requests outstanding per connection.
    pub pipeline: u32,
    pub arrivals: Arrivals,
    /// Workload that asks for the same with less, in the clear or by HTTP/1.1: costs are compared cell by cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterpart: Option<String>,
    /// Arguments that servers of ours are started with under this workload only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adds: Vec<String>,
    /// The exact load generator command; `ADDR` and `PID` stand for what differs from visit to visit.
    pub command: String,
    /// The command that stores the keys or checks the documents, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preload: Option<String>,
}

impl Workload {
    /// The same offered load for all.
    pub fn is_open(&self) -> bool {
        matches!(self.arrivals, Arrivals::Open { .. })
    }

    /// It has only curves, and no figures to compare.
    pub fn is_load_sweep(&self) -> bool {
        self.arrivals == Arrivals::LoadSweep
    }

    /// Returns the number of what is stored, or asked for, before the load begins.
    pub fn prepared(&self) -> Option<u32> {
        self.keys.or(self.documents)
    }
}

/// Decision when the next request is sent.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Arrivals {
    /// The previous reply. Measures throughput; its latencies are service times at saturation, not user latency.
    Closed,
    /// A schedule, the same for every cell. Latency counts from the scheduled send.
    Open {
        rate_rps: f64,
        /// `rate_rps` over `capacity_rps`.
        fraction: f64,
        /// Throughput of the reference in the closed loop of the calibration visit.
        capacity_rps: f64,
    },
    /// Schedules at rising shares of what the same visit measured in a closed loop just before: where a server ends.
    /// Its cost is not compared, as every server gets loads of its own.
    #[serde(alias = "climb")]
    LoadSweep,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct NotRun {
    pub cell: String,
    pub workload: String,
    /// `a thread per connection: 9,000 threads`.
    pub reason: String,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct Pinning {
    /// As taskset takes them: `0`, `0,2-3`.
    pub server_cpus: String,
    pub client_cpus: String,
    /// Server and generator share a core: nothing measured can be trusted.
    pub shared: bool,
}

/// Servers behind a command: on another host, or in another network namespace.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct Remote {
    /// Command that a shell is started with there: `ssh host`, `ip netns exec ns1`.
    pub prefix: Vec<String>,
    /// The address on which the servers listen and the generator finds them.
    pub host: std::net::IpAddr,
    /// Commands that the generator's agents were started behind, if the load came from several machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
}

/// Facts of the machine; `None` is "not visible here".
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Host {
    pub kernel: String,
    pub cpu_model: String,
    pub cores: u32,
    pub memory_bytes: u64,
    pub governor: Option<String>,
    pub smt: Option<String>,
    /// True if the CPU reports a hypervisor.
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
    /// Describes if the processor counts instructions for us.
    #[serde(default)]
    pub instruction_counter: Option<String>,
    /// Facilities of the kernel by which our own servers confine themselves, as they do by default.
    #[serde(default)]
    pub confinement: Option<String>,
}

/// Reason to look twice at a visit.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Flag {
    Errors,
    Failed,
    ClientSaturated,
    Lag,
    Noisy,
    SharedCore,
    ServerSaturated,
    NoSteadyState,
    Unsettled,
}

impl Flag {
    /// The name in the files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Failed => "failed",
            Self::ClientSaturated => "client-saturated",
            Self::Lag => "lag",
            Self::Noisy => "noisy",
            Self::SharedCore => "shared-core",
            Self::ServerSaturated => "server-saturated",
            Self::NoSteadyState => "no-steady-state",
            Self::Unsettled => "unsettled",
        }
    }

    pub fn meaning(self) -> &'static str {
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
            Self::NoSteadyState => "the rate rose or fell by more than 5 % over the slice",
            Self::Unsettled => "the load was not steady yet when the longest warm-up was over",
        }
    }

    /// True if a visit with this flag is repeated and, if it stays, is marked in every picture.
    /// The others are remarks: a closed loop is meant to saturate something.
    pub fn is_invalid(self) -> bool {
        matches!(self, Self::Errors | Self::Failed | Self::Lag | Self::Noisy)
    }

    /// True if the figures may still be shown (marked): a visit with errors has no throughput.
    pub fn is_fatal(self) -> bool {
        matches!(self, Self::Errors | Self::Failed)
    }
}
