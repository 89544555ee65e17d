//! Summary of a matrix.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BLOCKS_MIN, Bucket, FLOOR_UNKNOWN, FLOOR_WANTED, Flag, LoadPoint, RELEASE, Setup, words::times};

/// `summary.json`: all that the report draws.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    pub schema: String,
    /// One per server.
    pub matrices: Vec<Summary>,
}

/// One matrix.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    pub setup: Setup,
    pub progress: Progress,
    /// Every cell × every workload, cells outermost, in the order of [`Setup`]; combinations that were not
    /// selected are absent, those that could not run are [`Outcome::NotRun`].
    pub results: Vec<CellResult>,
    /// One per workload.
    pub noise: Vec<Noise>,
    pub effects: Vec<Effect>,
    pub drift: Vec<Drift>,
    /// Best and reference beside peers and the null server, workload by workload.
    pub comparisons: Vec<Comparison>,
    /// One sentence each; show them all.
    pub warnings: Vec<String>,
}

impl Summary {
    /// The figures of a cell under a workload, if it was measured.
    pub fn figures(&self, cell: &str, workload: &str) -> Option<&Figures> {
        let result = self.results.iter().find(|result| result.cell == cell && result.workload == workload)?;
        match &result.outcome {
            Outcome::Measured(figures) => Some(figures),
            Outcome::NotRun { .. } => None,
        }
    }

    /// Returns why the run cannot rank, if it cannot: then no output claims a difference, in words or in colours. A quick run
    /// ranks what its turns can tell.
    pub fn why_unranked(&self) -> Option<Unranked> {
        let setup = &self.setup;
        match setup {
            _ if setup.quick && setup.turns.is_none() => Some(Unranked::Quick),
            _ if setup.pinning.shared => Some(Unranked::SharedCore),
            _ if setup.profile != RELEASE => Some(Unranked::Profile),
            _ if setup.blocks < BLOCKS_MIN => Some(Unranked::FewBlocks),
            _ => None,
        }
    }
}

/// Reason that a run cannot rank.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unranked {
    Quick,
    SharedCore,
    Profile,
    FewBlocks,
}

impl Unranked {
    /// `quick: short visits in few blocks`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Quick => "quick: short visits in few blocks",
            Self::SharedCore => "server and generator shared a core",
            Self::Profile => "what was measured was not built as a release",
            Self::FewBlocks => "fewer than three blocks",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Progress {
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

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct CellResult {
    pub cell: String,
    pub workload: String,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// `n/a: reason`.
    NotRun {
        reason: String,
    },
    Measured(Box<Figures>),
}

/// A median over blocks and its 95 % interval; of fewer than six blocks it is their range.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    pub median: f64,
    pub lo: f64,
    pub hi: f64,
}

/// Subject over object, paired within blocks: the median of the per-block ratios and its 95 % interval, as
/// [`Interval`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Ratio {
    pub median: f64,
    pub lo: f64,
    pub hi: f64,
    /// The interval leaves out 1 and the median lies outside the noise floor. False is "~", no difference seen.
    pub differs: bool,
    /// Blocks in which both were measured.
    pub blocks: u32,
}

/// Figures of one cell under one workload.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// Server CPU per request: the figure that ranks. `None` when the generator gave no server usage.
    pub cpu_us: Option<Interval>,
    /// Medians of the split of `cpu_us`; they add up to it only roughly.
    pub user_us: Option<f64>,
    pub system_us: Option<f64>,
    /// `cpu_us` over the reference's. `None` without a common block; the reference itself has 1.
    pub cpu_ratio: Option<Ratio>,
    /// `cpu_us` over the same cell's under the workload's [counterpart](super::Workload::counterpart), where both were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterpart_ratio: Option<Ratio>,
    pub throughput_rps: Interval,
    pub throughput_ratio: Option<Ratio>,
    pub client_cpu_us: Interval,
    /// Medians of its split, where the generator gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_user_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_system_us: Option<f64>,
    /// Server and client together: the figure to read for large bodies, whose sends finish in the receiver's context.
    pub total_cpu_us: Option<Interval>,
    pub total_cpu_ratio: Option<Ratio>,
    pub server_busy: Option<f64>,
    pub client_busy: f64,
    pub rss_bytes: Option<u64>,
    /// Bytes that storing the keys added to the resident set, per key; where all keys are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_key: Option<Interval>,
    /// Gets that found their key; where a miss is no error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<Interval>,
    /// From the scheduled send; open loop only. This is user latency.
    pub response: Option<LatencyFigures>,
    /// From the actual send. In a closed loop: "service time, not user latency".
    pub service: Option<LatencyFigures>,
    /// Flags of the visits that counted, by number of visits; empty when there is nothing to say.
    pub flags: Vec<FlagCount>,
    /// Visits that counted, and attempts made for them.
    pub visits: u32,
    pub attempts: u32,
    /// Blocks in which every attempt failed or had errors; such a cell makes no claim.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u32,
    /// The visits one by one.
    pub per_block: Vec<BlockFigures>,
    /// Points of a load sweep; `share` rises.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep: Vec<LoadPoint>,
    #[serde(default)]
    pub further: SecondaryFigures,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Secondary figures: medians over the visits, absent where nothing was counted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct SecondaryFigures {
    /// From a pass of its own (`--syscalls`), with the part of each call.
    pub syscalls_per_request: Option<f64>,
    pub syscalls: BTreeMap<String, f64>,
    /// Instructions of the server per request, where the processor counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_request: Option<f64>,
    /// Instructions of our server's program per request, without the kernel's, counted under valgrind in a pass of its own
    /// (`--witness instructions`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_under_valgrind: Option<f64>,
    /// Bytes of a reply beside its body, where they can be told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_bytes: Option<f64>,
    /// Seconds per second that a thread of the server could have run and did not.
    pub run_queue_wait: Option<f64>,
    /// Counters of the server's process while it was loaded, the warm-up included.
    pub minor_faults: Option<f64>,
    pub major_faults: Option<f64>,
    pub switches_voluntary: Option<f64>,
    pub switches_involuntary: Option<f64>,
    pub peak_rss_bytes: Option<u64>,
    /// Delay of the generator by its own doing; open loop only.
    pub lag_p99_us: Option<f64>,
    /// Time that a visit warmed up; absent where the generator was not told to.
    pub warmup_s: Option<f64>,
    /// Number of visits whose warm-up was to end by itself that were not steady at its limit; absent where it was a
    /// fixed time.
    pub unsettled_visits: Option<u32>,
    /// Warm-up and slice in windows of 100 ms, over the visits.
    pub windows: Vec<WindowPoint>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct WindowPoint {
    /// Seconds since the slice began; negative in the warm-up.
    pub s: f64,
    /// Medians; `p99_us` is 0 where nothing was answered.
    pub rps: f64,
    pub p99_us: f64,
    /// Failed per second: a mean, since a median would hide the one visit that had some.
    #[serde(default)]
    pub errors_rps: f64,
    /// Median of the longest that the generator was late; open loop only.
    #[serde(default)]
    pub lag_us: f64,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct BlockFigures {
    /// From 0.
    pub block: u32,
    pub cpu_us: Option<f64>,
    pub throughput_rps: f64,
    pub valid: bool,
    /// The line of `visits.jsonl` that they come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<VisitSource>,
}

/// A line of `visits.jsonl`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct VisitSource {
    pub slot: u32,
    pub attempt: u32,
    /// SHA-256 of the line without its end, in hexadecimal digits.
    pub sha256: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct FlagCount {
    pub flag: Flag,
    pub visits: u32,
}

/// Quantiles per visit, then the median and interval over visits; `max` is the greatest of all visits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct LatencyFigures {
    #[serde(default)]
    pub mean: Interval,
    pub p50: Interval,
    pub p90: Interval,
    pub p99: Interval,
    pub p999: Interval,
    pub max: f64,
    /// At most [`super::QUANTILE_POINTS_MAX`], `x` rising from 1; ends where the samples no longer carry the quantile.
    pub points: Vec<QuantilePoint>,
    /// The histogram of all visits, `us` rising; empty bars are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub density: Vec<Bucket>,
}

/// A point of the percentile curve.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct QuantilePoint {
    /// 1 / (1 − q).
    pub x: f64,
    /// From the merged histograms of all visits.
    pub us: f64,
    /// Least and greatest visit.
    pub min_us: f64,
    pub max_us: f64,
}

/// Distance of the reference from itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Noise {
    pub workload: String,
    /// A/A: the control over the reference; `None` when it was not measured.
    pub cpu_aa: Option<Ratio>,
    pub throughput_aa: Option<Ratio>,
    /// Half-width of the A/A interval or its distance from 1, whichever is larger, and at least 1 %; of three or four blocks
    /// half as much again. 100 where the control has fewer: it is not known.
    pub cpu_floor_percent: f64,
    pub throughput_floor_percent: f64,
    /// Time that all visits under the workload took, from starting a server to its end, in seconds; 0 in older runs.
    #[serde(default)]
    pub elapsed_s: f64,
}

impl Noise {
    /// `1.013×`: ratios from its inverse to it are noise.
    pub fn cpu_floor_in_words(&self) -> String {
        if self.is_known() { times(1.0 + self.cpu_floor()) } else { "unknown".to_owned() }
    }

    /// The floor of server CPU per request as a fraction.
    pub fn cpu_floor(&self) -> f64 {
        self.cpu_floor_percent / 100.0
    }

    /// Time that visits would have taken for a floor of [`FLOOR_WANTED`], in seconds, if it falls with the root of their number;
    /// `None` where it is as low, or where it or the time is unknown.
    pub fn wanted_s(&self) -> Option<f64> {
        let is_wide = self.is_known() && self.cpu_floor() > FLOOR_WANTED && self.elapsed_s > 0.0;
        is_wide.then(|| self.elapsed_s * (self.cpu_floor() / FLOOR_WANTED).powi(2))
    }

    pub fn is_known(&self) -> bool {
        self.cpu_floor_percent < FLOOR_UNKNOWN * 100.0
    }
}

/// Effect of one choice, all else equal, over all closed- and open-loop workloads.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
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
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Drift {
    pub workload: String,
    /// Server CPU per request of the null server.
    pub null_cpu_us: Vec<BlockValue>,
    /// Control over reference, server CPU per request.
    pub aa_ratio: Vec<BlockValue>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct BlockValue {
    /// From 0.
    pub block: u32,
    pub value: f64,
}

/// `subject` over `object`, paired.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    pub topic: Topic,
    pub workload: String,
    pub metric: Metric,
    pub subject: String,
    pub object: String,
    pub ratio: Ratio,
    pub floor_percent: f64,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// Our cheapest cell over the reference (absent when the reference is the cheapest).
    BestOverReference,
    /// Our cheapest cell over the null server: the multiple of the floor.
    BestOverNull,
    /// Our cheapest cell over each peer.
    BestOverPeer,
    /// The reference over each peer.
    ReferenceOverPeer,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Lower is better.
    ServerCpu,
    /// Higher is better; closed loop only.
    Throughput,
}
