//! `summary.md`: tables to paste into a document, one or two per matrix.

use std::fmt::Write as _;

use results::{Figures, Report, Role, Summary, Workload, ranks::interval_name};

use super::{
    counterparts,
    entries::{Reasons, entry, marks},
    names::name,
    quoted_figures::quoted_figures,
    witness,
};
use crate::{
    claims,
    format::{count, short},
    matrix_view::MatrixView,
};

/// Writes one or two tables per matrix.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for summary in &report.matrices {
        costs(summary, &mut text);
        text.push_str(&counterparts::tables(summary, "###"));
        keeping(summary, &mut text);
        text.push_str(&witness::markdown(summary));
        text.extend(quoted_figures(summary).map(|table| table.markdown() + "\n"));
    }
    text
}

/// Server CPU per request beside the reference and throughput, or the open loop's p99.
fn costs(summary: &Summary, text: &mut String) {
    let (setup, view) = (&summary.setup, MatrixView::alone(summary));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "## {}\n\n{}\n\nServer CPU per request as a multiple (×) of `{}`'s, with the {}; of `{}` itself in µs. Below it verified \
         requests per second (open loop: p99 of the response time).{} Medians of {}, {} s slices; `{}`, {}.\n",
        setup.server,
        claims::headline(&view).text(),
        view.reference_label(),
        interval_name(setup.blocks),
        view.reference_label(),
        marks(&view),
        count(setup.blocks as usize, "block"),
        short(setup.slice_s),
        setup.command,
        setup.created_utc
    );
    for claim in claims::stamps(std::slice::from_ref(&view)) {
        let _ = writeln!(text, "{}\n", claim.text());
    }
    let columns: Vec<usize> =
        (0..view.workloads().len()).filter(|&column| !view.workloads()[column].is_load_sweep()).collect();
    let mut reasons = Reasons::default();
    let heads = columns.iter().map(|&column| &view.workloads()[column].short).map(|[a, b]| format!(" {a}, {b} |"));
    let _ = writeln!(text, "| |{}\n|---|{}", heads.collect::<String>(), "---|".repeat(columns.len()));
    for row in view.compared() {
        let entries: Vec<String> = columns.iter().map(|&column| entry(&view, row, column, &mut reasons)).collect();
        let _ = writeln!(text, "| {} | {} |", name(&view.cells()[row]), entries.join(" | "));
    }
    let floors = columns.iter().filter_map(|&column| view.noise(&view.workloads()[column].name));
    let floors: Vec<String> =
        floors.map(|noise| format!("{} {}", noise.workload, noise.cpu_floor_in_words())).collect();
    let _ = writeln!(text, "\n{}Noise floor (A/A): {}.\n", reasons.words(), floors.join(", "));
}

/// Memory per key and hit ratios, where there are some.
fn keeping(summary: &Summary, text: &mut String) {
    let kept = |workload: &&Workload| {
        let cells = &summary.setup.cells;
        cells.iter().filter_map(|cell| summary.figures(&cell.id, &workload.name)).any(|figures| keep(figures).is_some())
    };
    let workloads: Vec<&Workload> = summary.setup.workloads.iter().filter(kept).collect();
    if workloads.is_empty() {
        return;
    }
    text.push_str(
        "Resident bytes that a key and its value add; where keys are evicted, the share of gets that hit.\n\n",
    );
    table(summary, &workloads, text);
    text.push('\n');
}

fn table(summary: &Summary, workloads: &[&Workload], text: &mut String) {
    let heads = workloads.iter().map(|workload| format!(" {}, {} |", workload.short[0], workload.short[1]));
    let _ = writeln!(text, "| |{}", heads.collect::<String>());
    let _ = writeln!(text, "|---|{}", "---|".repeat(workloads.len()));
    for cell in summary.setup.cells.iter().filter(|cell| cell.role != Role::Control) {
        let entries: Vec<Option<String>> =
            (workloads.iter()).map(|workload| summary.figures(&cell.id, &workload.name).and_then(keep)).collect();
        if entries.iter().any(Option::is_some) {
            let entries = entries.into_iter().map(|entry| format!(" {} |", entry.unwrap_or_else(|| "n/a".to_owned())));
            let _ = writeln!(text, "| {} |{}", name(cell), entries.collect::<String>());
        }
    }
}

fn keep(figures: &Figures) -> Option<String> {
    let bytes = figures.bytes_per_key.map(|bytes| format!("{:.1}", bytes.median));
    bytes.or_else(|| figures.hit_ratio.map(|hits| format!("{:.1} %", hits.median * 100.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn costs_with_misses_are_not_compared_and_say_so() {
        let mut text = String::new();
        costs(&sample::cache(), &mut text);
        assert_eq!(text.matches("not compared: a miss costs less than a hit").count(), 1, "{text}");
    }
}
