//! A comparison as text: a sentence per server and metric, then a row per cell that changed.

use std::fmt::Write as _;

use report::{significant, terminal::aligned};
use results::{
    Metric, Ratio, Role,
    words::{ratio_interval, times},
};

use super::{Change, Changes, MatrixChanges, Overall};

pub(crate) fn text(changes: &Changes) -> String {
    let mut text = format!(
        "before: {} ({}), `{}`\nafter:  {} ({}), `{}`\n",
        changes.before.created_utc,
        changes.before.commit,
        changes.before.command,
        changes.after.created_utc,
        changes.after.commit,
        changes.after.command
    );
    for remark in &changes.remarks {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "remark: {remark}");
    }
    if changes.matrices.is_empty() {
        text.push_str("no server was measured in both runs\n");
    }
    for matrix in &changes.matrices {
        of_matrix(matrix, &mut text);
    }
    text
}

fn of_matrix(matrix: &MatrixChanges, text: &mut String) {
    let _ = writeln!(text, "\n{}", matrix.server);
    for overall in &matrix.overall {
        let _ = writeln!(text, "{}", sentence(overall));
    }
    for machine in matrix.rows.iter().filter(|row| row.role == Role::Null && row.metric == Metric::ServerCpu) {
        if machine.ratio.differs {
            let _ = writeln!(
                text,
                "the null server itself needs {} under {}: part of what follows is the machine",
                times(machine.ratio.median),
                machine.workload
            );
        }
    }
    let mut table =
        vec![["cell", "workload", "metric", "before", "after", "after / before"].map(str::to_owned).to_vec()];
    table.extend(matrix.rows.iter().filter(|row| row.role != Role::Control).map(line));
    text.push_str(&aligned(&table));
    for (names, when) in [(&matrix.only_before, "before"), (&matrix.only_after, "after")] {
        if !names.is_empty() {
            let _ = writeln!(text, "measured {when} only: {}", names.join(", "));
        }
    }
    text.push_str("×: after as a multiple of before. `~`: no difference seen above the noise floor of either run.\n");
}

fn sentence(overall: &Overall) -> String {
    let ratio = &overall.ratio;
    let cells = if ratio.blocks == 1 { "one cell".to_owned() } else { format!("{} cells", ratio.blocks) };
    let what = if ratio.differs { "" } else { ", no difference seen" };
    let p = overall.p.map_or_else(String::new, |p| format!(", signed-rank p {p:.3}"));
    let floor = times(1.0 + overall.floor_percent / 100.0);
    format!("{} over {cells}: {}{what} (noise floor {floor}{p})", name(overall.metric), with_interval(ratio))
}

fn line(row: &Change) -> Vec<String> {
    let figure = |value: f64| match row.metric {
        Metric::ServerCpu => format!("{} µs", significant(value)),
        Metric::Throughput => format!("{:.1} k/s", value / 1_000.0),
    };
    vec![
        row.cell.clone(),
        row.workload.clone(),
        name(row.metric).to_owned(),
        figure(row.before.median),
        figure(row.after.median),
        change(row),
    ]
}

/// Formats the change as `1.031× [1.020, 1.042]`, with `~` before it where no difference is seen.
pub(crate) fn change(row: &Change) -> String {
    let mark = if row.ratio.differs { "" } else { "~ " };
    format!("{mark}{}", with_interval(&row.ratio))
}

fn with_interval(ratio: &Ratio) -> String {
    format!("{} {}", times(ratio.median), ratio_interval(ratio.lo, ratio.hi))
}

pub(crate) fn name(metric: Metric) -> &'static str {
    match metric {
        Metric::ServerCpu => "server CPU per request",
        Metric::Throughput => "throughput",
    }
}
