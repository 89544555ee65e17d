//! Two runs beside each other: what became more expensive or cheaper, cell by cell and over all cells. Pure, like the analysis.
//!
//! Blocks of two runs have nothing to do with each other, so a cell's ratio is that of two medians, each resampled by
//! itself; over all cells the ratios are paired, cell with cell.

mod gate;
mod words;

use std::collections::BTreeMap;

use results::{Arrivals, BlockFigures, Interval, Metric, Outcome, Ratio, Report, Role, Setup, Summary};
use serde::{Deserialize, Serialize};

pub(crate) use self::{
    gate::{Gate, Verdict},
    words::{change, name, text},
};
use crate::judge::{
    significance::signed_rank,
    stats::{Bootstrap, FLOOR_MIN},
};

/// Version of `comparison.json`.
pub(crate) const SCHEMA: &str = "bench-matrix-comparison/1";

/// `comparison.json`: a run beside an earlier one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Changes {
    pub schema: String,
    pub before: Side,
    pub after: Side,
    /// One per server that both runs measured.
    pub matrices: Vec<MatrixChanges>,
    /// Reasons that the two are hard to compare, one sentence each.
    pub remarks: Vec<String>,
}

/// Which run it is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Side {
    pub created_utc: String,
    pub commit: String,
    pub command: String,
}

/// Changes of one server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MatrixChanges {
    pub server: String,
    pub overall: Vec<Overall>,
    pub rows: Vec<Change>,
    /// Cells under workloads that only one of the runs measured.
    pub only_before: Vec<String>,
    pub only_after: Vec<String>,
}

/// After over before over all of our cells.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Overall {
    pub metric: Metric,
    /// Median of the cells' ratios, and its interval over cells.
    pub ratio: Ratio,
    /// P-value of the signed-rank test over cells; secondary.
    pub p: Option<f64>,
    /// The mean of the cells' floors.
    pub floor_percent: f64,
}

/// One cell under one workload.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Change {
    pub cell: String,
    pub role: Role,
    pub workload: String,
    pub metric: Metric,
    pub before: Interval,
    pub after: Interval,
    pub ratio: Ratio,
    /// The larger of the two runs' noise floors.
    pub floor_percent: f64,
}

/// Compares what both have.
pub(crate) fn changes(before: &Report, after: &Report) -> Changes {
    let mut remarks = Vec::new();
    let pairs = after.matrices.iter().filter_map(|new| {
        let server = &new.setup.server;
        Some((before.matrices.iter().find(|old| old.setup.server == *server)?, new))
    });
    let mut matrices = Vec::new();
    for (old, new) in pairs {
        remarks.extend(differences(&old.setup, &new.setup));
        matrices.push(matrix(old, new));
    }
    Changes { schema: SCHEMA.to_owned(), before: side(before), after: side(after), matrices, remarks }
}

fn side(report: &Report) -> Side {
    let setup = report.matrices.first().map(|summary| &summary.setup);
    let text = |pick: fn(&Setup) -> String| setup.map(pick).unwrap_or_default();
    Side {
        created_utc: text(|setup| setup.created_utc.clone()),
        commit: text(|setup| format!("{}{}", setup.git.sha, if setup.git.dirty { " with changes" } else { "" })),
        command: text(|setup| setup.command.clone()),
    }
}

/// Returns what a reader must know before believing the comparison.
fn differences(old: &Setup, new: &Setup) -> Vec<String> {
    let mut remarks = Vec::new();
    let server = &new.server;
    let mut remark = |what: &str, old: String, new: String| {
        if old != new {
            remarks.push(format!("{server}: {what} was {old} and is {new}"));
        }
    };
    remark("the processor", old.host.cpu_model.clone(), new.host.cpu_model.clone());
    remark("the kernel", old.host.kernel.clone(), new.host.kernel.clone());
    remark("the slice", format!("{} s", old.slice_s), format!("{} s", new.slice_s));
    remark("the warm-up", old.warm_up_in_words(), new.warm_up_in_words());
    remark("the profile", old.profile.clone(), new.profile.clone());
    remark("the placement", placement(old), placement(new));
    for workload in &new.workloads {
        let Some(earlier) = old.workloads.iter().find(|earlier| earlier.name == workload.name) else { continue };
        if let (Arrivals::Open { rate_rps: was, .. }, Arrivals::Open { rate_rps: is, .. }) =
            (earlier.arrivals, workload.arrivals)
        {
            remark(&format!("the load of {}", workload.name), format!("{was}/s"), format!("{is}/s"));
        }
    }
    remarks
}

fn placement(setup: &Setup) -> String {
    let remote = setup.remote.as_ref().map(|remote| format!(" behind `{}`", remote.prefix.join(" ")));
    format!(
        "server on {}, generator on {}{}",
        setup.pinning.server_cpus,
        setup.pinning.client_cpus,
        remote.unwrap_or_default()
    )
}

fn matrix(old: &Summary, new: &Summary) -> MatrixChanges {
    let bootstrap = Bootstrap::new(new.setup.seed);
    let blocks = |summary: &Summary| -> BTreeMap<(String, String), Vec<BlockFigures>> {
        let measured = summary.results.iter().filter_map(|result| match &result.outcome {
            Outcome::Measured(figures) => {
                Some(((result.cell.clone(), result.workload.clone()), figures.per_block.clone()))
            }
            Outcome::NotRun { .. } => None,
        });
        measured.collect()
    };
    let (olds, news) = (blocks(old), blocks(new));
    let names = |these: &BTreeMap<(String, String), _>, those: &BTreeMap<(String, String), _>| {
        these.keys().filter(|key| !those.contains_key(*key)).map(|(cell, load)| format!("{cell} {load}")).collect()
    };
    let mut rows = Vec::new();
    for result in &new.results {
        let key = (result.cell.clone(), result.workload.clone());
        let (Some(before), Some(after)) = (olds.get(&key), news.get(&key)) else { continue };
        for metric in [Metric::ServerCpu, Metric::Throughput] {
            rows.extend(row(&bootstrap, (old, new), &key, metric, before, after));
        }
    }
    let overall = [Metric::ServerCpu, Metric::Throughput].into_iter();
    MatrixChanges {
        server: new.setup.server.clone(),
        overall: overall.filter_map(|metric| overall_of(&bootstrap, &rows, metric)).collect(),
        only_before: names(&olds, &news),
        only_after: names(&news, &olds),
        rows,
    }
}

fn row(
    bootstrap: &Bootstrap,
    (old, new): (&Summary, &Summary),
    (cell, workload): &(String, String),
    metric: Metric,
    before: &[BlockFigures],
    after: &[BlockFigures],
) -> Option<Change> {
    let spec = new.setup.workloads.iter().find(|known| known.name == *workload)?;
    // An open loop serves what is offered: its throughput says nothing.
    if metric == Metric::Throughput && spec.arrivals != Arrivals::Closed {
        return None;
    }
    let values = |blocks: &[BlockFigures]| -> Vec<f64> {
        let pick = |block: &BlockFigures| match metric {
            Metric::ServerCpu => block.cpu_us,
            Metric::Throughput => Some(block.throughput_rps),
        };
        blocks.iter().filter_map(pick).filter(|value| *value > 0.0).collect()
    };
    let (before, after) = (values(before), values(after));
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let floor = floor(old, workload, metric).max(floor(new, workload, metric));
    Some(Change {
        cell: cell.clone(),
        role: new.setup.cells.iter().find(|known| known.id == *cell)?.role,
        workload: workload.clone(),
        metric,
        before: bootstrap.interval(&before)?,
        after: bootstrap.interval(&after)?,
        ratio: bootstrap.unpaired_ratio(&logs(&before), &logs(&after), floor)?,
        floor_percent: floor * 100.0,
    })
}

/// As a fraction.
fn floor(summary: &Summary, workload: &str, metric: Metric) -> f64 {
    let noise = summary.noise.iter().find(|noise| noise.workload == workload);
    noise.map_or(FLOOR_MIN, |noise| match metric {
        Metric::ServerCpu => noise.cpu_floor_percent / 100.0,
        Metric::Throughput => noise.throughput_floor_percent / 100.0,
    })
}

fn overall_of(bootstrap: &Bootstrap, rows: &[Change], metric: Metric) -> Option<Overall> {
    let rows = rows.iter().filter(|row| row.metric == metric && row.role == Role::Ours);
    let (logs, floors): (Vec<f64>, Vec<f64>) = rows.map(|row| (row.ratio.median.ln(), row.floor_percent)).unzip();
    let floor_percent = floors.iter().sum::<f64>() / floors.len().max(1) as f64;
    let ratio = bootstrap.ratio(&logs, floor_percent / 100.0)?;
    Some(Overall { metric, ratio, p: signed_rank(&logs), floor_percent })
}

#[cfg(test)]
mod tests;
