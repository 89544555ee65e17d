//! Data that `bench-matrix` writes and the report reads: the setup, and `summary.json`. What only the engine reads back
//! (the plan, the single visits) is in [`record`].
//!
//! Plain data; nothing here measures, computes or draws. `docs/bench-files.md` describes the files in prose.
//! CPU costs are microseconds per request, latencies microseconds, loads requests per second, rates of use
//! fractions of one core (1.0 is a core that could do no more). Every list is in the order in which to show it.
//!
//! A run measures one matrix per server. A matrix is complete in itself: whoever reads one needs no other.

#![forbid(unsafe_code)]

mod curves;
mod difference;
pub mod ranks;
pub mod record;
mod setup;
mod summary;
pub mod warnings;
pub mod words;

pub use self::{
    curves::{BUCKETS_PER_DECADE, Bucket, LoadPoint, bucket_end},
    difference::{BLOCKS_MIN, Difference, Unseen},
    setup::{
        Arrivals, Cell, Connection, Flag, Git, Host, NotRun, Pinning, Quote, Quotes, RELEASE, Remote, Role, Setup,
        StoredCalibration, TurnPlan, Workload,
    },
    summary::{
        BlockFigures, BlockValue, CellResult, Comparison, Drift, Effect, Figures, FlagCount, Interval, LatencyFigures,
        Metric, Noise, Outcome, Progress, QuantilePoint, Ratio, Report, SecondaryFigures, Summary, Topic, Unranked,
        VisitSource, WindowPoint,
    },
};

/// Version of the three files. A new optional field does not change it; a changed meaning does.
pub const SCHEMA: &str = "bench-matrix/2";

/// Most points of a latency curve, in a visit as in a summary.
pub const QUANTILE_POINTS_MAX: usize = 120;

/// Noise floor that a table should have: where one is above, it says how long that would have taken.
pub const FLOOR_WANTED: f64 = 0.05;

/// Noise floor where no control tells one: nothing is called a difference that is not at least twofold.
pub const FLOOR_UNKNOWN: f64 = 1.0;
