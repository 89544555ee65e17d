//! `--fail-on-regression`: a slowdown that is certain enough to stop somebody.

use results::{Metric, Role};

use super::{Change, Changes};

/// From which slowdown on, as a fraction: 0.05 is five per cent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) threshold: f64,
}

/// Verdict on one cell, or on all: the worst of its cells.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Verdict {
    /// The slowdown is below the threshold, its upper bound included.
    Passed,
    /// It may be above the threshold, or the noise would hide it.
    Inconclusive,
    /// The slowdown's lower bound is above the threshold, and the noise below it.
    Regressed,
}

impl Gate {
    /// The rows of ours that did not pass, worst first, and what holds for all of them. Nothing to judge is
    /// inconclusive.
    pub(crate) fn judge<'a>(&self, changes: &'a Changes) -> (Verdict, Vec<(Verdict, &'a Change)>) {
        let rows = changes.matrices.iter().flat_map(|matrix| &matrix.rows).filter(|row| row.role == Role::Ours);
        let mut judged: Vec<(Verdict, &Change)> = rows.map(|row| (self.of(row), row)).collect();
        judged.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
        let worst = judged.first().map_or(Verdict::Inconclusive, |(verdict, _)| *verdict);
        judged.retain(|(verdict, _)| *verdict != Verdict::Passed);
        (worst, judged)
    }

    fn of(&self, row: &Change) -> Verdict {
        // More CPU per request is slower, more requests per second are faster.
        let (lower, upper) = match row.metric {
            Metric::ServerCpu => (row.ratio.lo, row.ratio.hi),
            Metric::Throughput => (1.0 / row.ratio.hi, 1.0 / row.ratio.lo),
        };
        let limit = 1.0 + self.threshold;
        let can_be_seen = row.floor_percent / 100.0 < self.threshold && row.ratio.blocks >= 3;
        match (lower > limit, upper > limit) {
            (true, _) if can_be_seen => Verdict::Regressed,
            (false, false) if can_be_seen => Verdict::Passed,
            _ => Verdict::Inconclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use results::{Interval, Ratio};

    use super::*;

    fn row(metric: Metric, lo: f64, hi: f64, floor_percent: f64, blocks: u32) -> Change {
        let ratio = Ratio { median: (lo * hi).sqrt(), lo, hi, differs: true, blocks };
        let (cell, workload) = ("kvcache/epoll".to_owned(), "get-P1".to_owned());
        let interval = Interval::default();
        Change { cell, role: Role::Ours, workload, metric, before: interval, after: interval, ratio, floor_percent }
    }

    #[test]
    fn only_a_certain_slowdown_above_the_threshold_fails() {
        let gate = Gate { threshold: 0.05 };
        for (metric, lo, hi, floor, blocks, verdict) in [
            (Metric::ServerCpu, 1.06, 1.10, 2.0, 7, Verdict::Regressed),
            (Metric::ServerCpu, 1.04, 1.10, 2.0, 7, Verdict::Inconclusive),
            (Metric::ServerCpu, 1.01, 1.04, 2.0, 7, Verdict::Passed),
            (Metric::ServerCpu, 0.50, 0.60, 2.0, 7, Verdict::Passed),
            (Metric::ServerCpu, 1.06, 1.10, 6.0, 7, Verdict::Inconclusive),
            (Metric::ServerCpu, 1.06, 1.10, 2.0, 2, Verdict::Inconclusive),
            (Metric::Throughput, 0.90, 0.94, 2.0, 7, Verdict::Regressed),
            (Metric::Throughput, 0.90, 0.97, 2.0, 7, Verdict::Inconclusive),
            (Metric::Throughput, 1.10, 1.20, 2.0, 7, Verdict::Passed),
        ] {
            assert_eq!(gate.of(&row(metric, lo, hi, floor, blocks)), verdict, "{metric:?} {lo} {hi} {floor} {blocks}");
        }
    }
}
