//! Tables for a terminal.

use std::fmt::Write as _;

use results::{Flag, Noise, Outcome, Role, Summary, Workload};

use crate::format::significant;

/// Writes the table that a terminal shows at the end: ratios, noise floor, and how to read them.
pub fn table(summary: &Summary) -> String {
    let setup = &summary.setup;
    let mut rows = vec![vec!["server CPU per request".to_owned()]];
    let workloads: Vec<&Workload> = setup.workloads.iter().filter(|workload| !workload.is_load_sweep()).collect();
    rows[0].extend(workloads.iter().map(|workload| workload.name.clone()));
    for cell in &setup.cells {
        let mut row = vec![cell.id.clone()];
        row.extend(workloads.iter().map(|workload| table_entry(summary, &cell.id, &workload.name)));
        rows.push(row);
    }
    let mut floor = vec!["noise floor (A/A)".to_owned()];
    floor.extend(summary.noise.iter().map(Noise::cpu_floor_in_words));
    rows.push(floor);
    let mut text = aligned(&rows) + &keeping(summary);
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "\nRatios to {} in the same block: below 1 is cheaper. `~`: no difference seen above the noise floor. `!`: flagged visits.",
        setup.reference
    );
    if setup.quick {
        text.push_str("quick: no ranking. A run without --quick takes longer slices and more blocks.\n");
    }
    text
}

/// Memory that it took to keep the keys, and how many were found; empty where there are none.
fn keeping(summary: &Summary) -> String {
    let setup = &summary.setup;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (cell, workload) in setup.selected().filter(|(cell, _)| cell.role != Role::Control) {
        let Some(figures) = summary.figures(&cell.id, &workload.name) else { continue };
        let kept = figures.bytes_per_key.map(|bytes| format!("{:.1} B/key", bytes.median));
        let found = figures.hit_ratio.map(|hits| format!("{:.1} % hits", hits.median * 100.0));
        rows.extend(kept.or(found).map(|words| vec![cell.id.clone(), workload.name.clone(), words]));
    }
    if rows.is_empty() { String::new() } else { format!("\n{}", aligned(&rows)) }
}

fn table_entry(summary: &Summary, cell: &str, workload: &str) -> String {
    let result = summary.results.iter().find(|result| result.cell == cell && result.workload == workload);
    let figures = match result.map(|result| &result.outcome) {
        None => return "-".to_owned(),
        Some(Outcome::NotRun { reason }) if reason.starts_with("failed") => return "failed".to_owned(),
        Some(Outcome::NotRun { .. }) => return "n/a".to_owned(),
        Some(Outcome::Measured(figures)) => figures,
    };
    let mark = if figures.flags.iter().any(|count| is_worth_a_mark(count.flag)) { "!" } else { "" };
    match (figures.cpu_us, figures.cpu_ratio) {
        (Some(cpu), _) if cell == summary.setup.reference => format!("{} µs{mark}", significant(cpu.median)),
        (_, Some(ratio)) => format!("{:.3}{}{mark}", ratio.median, if ratio.differs { "" } else { " ~" }),
        (Some(cpu), None) => format!("{} µs{mark}", significant(cpu.median)),
        (None, None) => "?".to_owned(),
    }
}

fn is_worth_a_mark(flag: Flag) -> bool {
    flag.is_invalid() || flag == Flag::ClientSaturated || flag == Flag::SharedCore
}

/// Aligns the first column to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (entry, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = if column == 0 { write!(text, "{entry:<width$}") } else { write!(text, "  {entry:>width$}") };
        }
        text.push('\n');
    }
    text
}
