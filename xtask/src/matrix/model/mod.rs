//! What `bench-matrix` knows and the report reads: the setup, and `summary.json`. What only the engine reads back
//! (the plan, the single visits) is in [`super::record`].
//!
//! Plain data; nothing here measures, computes or draws. `docs/benchmarking.md` describes the files in prose.
//! CPU costs are microseconds per request, latencies microseconds, loads requests per second, rates of use
//! fractions of one core (1.0 is a core that could do no more). Every list is in the order in which to show it.
//!
//! A run measures one matrix per server. A matrix is complete in itself: whoever reads one needs no other.

mod curves;
mod setup;
mod summary;

pub(crate) use self::{
    curves::{BUCKETS_PER_DECADE, Bucket, LoadPoint, bucket_end},
    setup::{Arrivals, Cell, Flag, Git, Host, NotRun, Pinning, Quote, Quotes, RELEASE, Remote, Role, Setup, Workload},
    summary::{
        BlockFigures, BlockValue, CellResult, Comparison, Drift, Effect, Figures, FlagCount, Further, Interval,
        LatencyFigures, Metric, Noise, Outcome, Progress, QuantilePoint, Ratio, Report, Summary, Topic, WindowPoint,
    },
};

/// Version of the three files. A new optional field does not change it; a changed meaning does.
pub(crate) const SCHEMA: &str = "bench-matrix/2";

/// Most points of a latency curve, in a visit as in a summary.
pub(crate) const QUANTILE_POINTS_MAX: usize = 120;
