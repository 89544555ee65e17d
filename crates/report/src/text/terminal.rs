//! Tables for a terminal.

use std::fmt::Write as _;

use results::{Figures, Flag, Noise, Outcome, Role, Summary, words::times};

use crate::{claims, format::significant, matrix_view::MatrixView};

/// Writes what a terminal shows at the end: the claim of the report's first screen, ratios by cost, noise floor, and how to
/// read them.
pub fn table(summary: &Summary) -> String {
    let view = MatrixView::alone(summary);
    let columns: Vec<usize> =
        (0..view.workloads().len()).filter(|&column| !view.workloads()[column].is_load_sweep()).collect();
    let mut rows = vec![vec!["server CPU per request".to_owned()]];
    rows[0].extend(columns.iter().map(|&column| view.workloads()[column].name.clone()));
    for row in view.compared() {
        let mut entries = vec![view.cells()[row].id.clone()];
        entries.extend(columns.iter().map(|&column| entry(&view, row, column)));
        rows.push(entries);
    }
    let mut floor = vec!["noise floor".to_owned()];
    let floors = columns.iter().map(|&column| view.noise(&view.workloads()[column].name));
    floor.extend(floors.map(|noise| noise.map_or_else(|| "unknown".to_owned(), Noise::cpu_floor_in_words)));
    rows.push(floor);
    let mut text = aligned(&rows) + &keeping(summary);
    text.push('\n');
    for claim in claims::stamps(std::slice::from_ref(&view)).iter().chain([&claims::headline(&view)]) {
        text += &format!("{}\n", claim.text().replace('\u{a0}', " "));
    }
    let is_uncompared = view.compared().any(|row| columns.iter().any(|&column| is_uncompared(&view, row, column)));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "×: multiples of {} in the same block, below 1 is cheaper; intervals are in the report.{} `!`: flagged or failed visits.{}",
        view.reference_label(),
        if view.is_ranked() { " `~`: no difference seen." } else { "" },
        if is_uncompared { " `?`: not compared, the report says why." } else { "" }
    );
    if summary.setup.quick {
        text.push_str("A run without --quick takes longer slices and more blocks.\n");
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

fn entry(view: &MatrixView<'_>, row: usize, column: usize) -> String {
    let figures = match view.outcome(row, column) {
        None => return "-".to_owned(),
        Some(Outcome::NotRun { reason }) if reason.starts_with("failed") => return "failed".to_owned(),
        Some(Outcome::NotRun { .. }) => return "n/a".to_owned(),
        Some(Outcome::Measured(figures)) => figures,
    };
    let mark = if view.is_doubtful(row, column) || has_mark(figures) { "!" } else { "" };
    match (view.cpu(row, column), view.ratio(row, column)) {
        (_, Some(ratio)) if Some(row) != view.reference => {
            let verdict = match (is_uncompared(view, row, column), view.is_same(row, column)) {
                (true, _) => " ?",
                (false, true) => " ~",
                (false, false) => "",
            };
            format!("{}{verdict}{mark}", times(ratio.median))
        }
        (Some(cpu), _) => format!("{} µs{mark}", significant(cpu.median)),
        (None, _) => "no CPU".to_owned(),
    }
}

/// True if a multiple is shown of a cell that is sound itself, but has nothing sound beside it, or must not be compared.
fn is_uncompared(view: &MatrixView<'_>, row: usize, column: usize) -> bool {
    view.unjudged(row, column).is_some_and(|silence| !silence.is_doubt())
}

fn has_mark(figures: &Figures) -> bool {
    figures.flags.iter().any(|count| matches!(count.flag, Flag::ClientSaturated | Flag::SharedCore))
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

#[cfg(test)]
mod tests {
    use results::{Flag, FlagCount};

    use super::*;
    use crate::sample;

    #[test]
    fn a_multiple_of_a_reference_in_doubt_is_marked() {
        let mut summary = sample::summary();
        assert!(!table(&summary).contains('?'), "{}", table(&summary));
        let (reference, first) = (summary.setup.reference.clone(), summary.setup.workloads[0].name.clone());
        let of = |result: &&mut results::CellResult| result.cell == reference && result.workload == first;
        let Outcome::Measured(figures) = &mut summary.results.iter_mut().find(of).unwrap().outcome else { panic!() };
        figures.flags = vec![FlagCount { flag: Flag::Noisy, visits: 4 }];
        let text = table(&summary);
        let row = |cell: &str| {
            let line = text.lines().find(|line| line.starts_with(cell)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("http-server/epoll")[1], "µs!", "{text}");
        assert_eq!(row("http-server/uring")[1], "?", "{text}");
        assert_eq!(row("http-server/uring").iter().filter(|word| *word == "?").count(), 1, "{text}");
        assert!(text.contains(" `?`: not compared, the report says why.\n"), "{text}");
    }
}
