//! Costs that TLS and HTTP/2 add: workloads beside those that ask for the same with less, a table for each of the latter.

use std::fmt::Write as _;

use results::{Figures, Summary, ranks::interval_name, words::times};

use super::{
    entries::{Reasons, bracketed, not_measured},
    names::name,
};
use crate::{format::significant, matrix_view::MatrixView};

/// Returns true if a run has a workload and the one that asks for the same with less.
pub(crate) fn has_counterparts(summary: &Summary) -> bool {
    summary.setup.workloads.iter().any(|workload| {
        let counterpart = workload.counterpart.as_ref();
        counterpart.is_some_and(|name| summary.setup.workloads.iter().any(|other| other.name == *name))
    })
}

/// Writes the tables, each behind a heading of that level (`###`); empty where there are none.
pub(crate) fn tables(summary: &Summary, heading: &str) -> String {
    if !has_counterparts(summary) {
        return String::new();
    }
    let view = MatrixView::alone(summary);
    let mut out = format!(
        "Server CPU per request in µs; below it, as a multiple of what the same server costs in the first column, within one block, with the {}; \
         and in the last line as a multiple of `{}` in the same column. “~”: no difference seen.\n\n",
        interval_name(summary.setup.blocks),
        view.reference_label()
    );
    let mut reasons = Reasons::default();
    for base in 0..view.workloads().len() {
        let columns = columns(&view, base);
        if columns.len() > 1 {
            table(&view, &columns, heading, &mut reasons, &mut out);
        }
    }
    out + &reasons.words()
}

/// Returns the column of a workload and those of the workloads that are more of the same.
pub(crate) fn columns(view: &MatrixView<'_>, base: usize) -> Vec<usize> {
    let name = &view.workloads()[base].name;
    let more = (0..view.workloads().len()).filter(|&it| view.workloads()[it].counterpart.as_ref() == Some(name));
    std::iter::once(base).chain(more).collect()
}

fn table(view: &MatrixView<'_>, columns: &[usize], heading: &str, reasons: &mut Reasons, out: &mut String) {
    let workloads = columns.iter().map(|&column| &view.workloads()[column]);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{heading} {}\n", view.workloads()[columns[0]].title);
    let head = |workload: &results::Workload| {
        let noise =
            view.noise(&workload.name).map_or(String::new(), |it| format!("<br>noise {}", it.cpu_floor_in_words()));
        format!(" {} {}{noise} |", workload.short[0], workload.short[1])
    };
    let _ = writeln!(out, "| |{}\n|:---|{}", workloads.map(head).collect::<String>(), "---:|".repeat(columns.len()));
    for row in view.compared().filter(|&row| columns.iter().any(|&column| view.figures(row, column).is_some())) {
        let entries: Vec<String> = columns.iter().map(|&column| entry(view, row, column, reasons)).collect();
        let _ = writeln!(out, "| {} | {} |", name(&view.cells()[row]), entries.join(" | "));
    }
    out.push('\n');
}

/// `**5.12 µs**<br>1.42× [1.38, 1.47]<br>0.610× `epoll``
fn entry(view: &MatrixView<'_>, row: usize, column: usize, reasons: &mut Reasons) -> String {
    let Some(figures) = view.figures(row, column) else { return not_measured(view, row, column, reasons) };
    let Some(cpu) = view.cpu(row, column) else { return not_measured(view, row, column, reasons) };
    let mut lines = vec![format!("**{}\u{a0}µs**", significant(cpu.median))];
    lines.extend(more(figures));
    if let Some(ratio) = view.ratio(row, column).filter(|_| Some(row) != view.reference) {
        let mark = if view.is_same(row, column) { "~\u{a0}" } else { "" };
        lines.push(format!("{mark}{}\u{a0}`{}`", times(ratio.median), view.reference_label()));
    }
    let text = lines.join("<br>");
    match view.unjudged(row, column) {
        Some(silence) => reasons.entry(&text, silence.words(view.reference_label())),
        None => text,
    }
}

/// The multiple of what the same cell costs with less.
fn more(figures: &Figures) -> Option<String> {
    let ratio = figures.counterpart_ratio?;
    let mark = if ratio.differs { "" } else { "~\u{a0}" };
    Some(format!("{mark}{}\u{a0}{}", times(ratio.median), bracketed(&ratio)))
}

#[cfg(test)]
mod tests {
    use results::{Outcome, Ratio};

    use super::*;
    use crate::sample;

    /// The first two workloads of a matrix as one and more of the same, which costs half as much again.
    fn with_counterpart() -> Summary {
        let mut summary = sample::summary();
        let [less, more] = [0, 1].map(|place| summary.setup.workloads[place].name.clone());
        summary.setup.workloads[1].counterpart = Some(less);
        let ratio = Ratio { median: 1.5, lo: 1.4, hi: 1.6, differs: true, blocks: 7 };
        for result in summary.results.iter_mut().filter(|result| result.workload == more) {
            if let Outcome::Measured(figures) = &mut result.outcome {
                figures.counterpart_ratio = Some(ratio);
            }
        }
        summary
    }

    #[test]
    fn what_more_costs_stands_beside_the_same_with_less() {
        assert_eq!(tables(&sample::summary(), "##"), "", "nothing is more of the same");
        let summary = with_counterpart();
        let text = tables(&summary, "##").replace('\u{a0}', " ");
        assert!(text.contains(&format!("## {}\n", summary.setup.workloads[0].title)), "{text}");
        let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        let reference = row("| `epoll` |");
        assert!(reference.contains("µs** | **") && reference.contains("<br>1.500× [1.400, 1.600] |"), "{text}");
        assert!(row("| *nginx").contains("× `epoll` |"), "{text}");
        assert!(!text.contains("A/A control"), "{text}");
        assert_eq!(reference.matches('|').count(), 4, "a column each");
    }

    #[test]
    fn what_was_not_seen_to_differ_is_marked() {
        let mut summary = with_counterpart();
        for result in &mut summary.results {
            if let Outcome::Measured(figures) = &mut result.outcome
                && let Some(ratio) = &mut figures.counterpart_ratio
            {
                ratio.differs = false;
            }
        }
        let text = tables(&summary, "##").replace('\u{a0}', " ");
        assert!(text.contains("<br>~ 1.500× [1.400, 1.600]"), "{text}");
    }
}
