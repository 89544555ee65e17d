//! Costs that TLS and HTTP/2 add: a table for each workload that others are more of the same of.

use maud::{Markup, html};
use results::{ranks::interval_name, words::times};

use super::section::{Section, scrolling};
use crate::{
    format::significant,
    markup::bounds,
    matrix_view::MatrixView,
    text::counterparts::{columns, has_counterparts},
};

/// `None` where no workload was measured beside the one that asks for the same with less.
pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    if !has_counterparts(view.summary) {
        return None;
    }
    let tables = (0..view.workloads().len()).map(|base| columns(view, base)).filter(|columns| columns.len() > 1);
    let note = html! {
        p.small.note {
            "Server CPU per request; behind it, as a multiple of what the same server costs in the first column, the median over the "
            "blocks, with the " (interval_name(view.summary.setup.blocks)) ". “~”: no difference seen."
        }
    };
    Some(Section {
        id: "counterparts",
        link: "TLS and HTTP/2",
        title: "What TLS and HTTP/2 add".to_owned(),
        finding: html! {},
        content: html! { @for columns in tables { (scrolling("what TLS and HTTP/2 add", &table(view, &columns))) } (note) },
    })
}

fn table(view: &MatrixView<'_>, columns: &[usize]) -> Markup {
    let is_measured = |row: &usize| columns.iter().any(|&column| view.figures(*row, column).is_some());
    html! {
        table {
            thead { tr {
                th scope="col" { "server" }
                @for &column in columns { th scope="col" class="r" { (view.workloads()[column].name) } }
            } }
            tbody {
                "\n"
                @for row in view.compared().filter(is_measured) {
                    tr {
                        th scope="row" { (view.series[row].label) }
                        @for &column in columns { td.r { (entry(view, row, column)) } }
                    }
                    "\n"
                }
            }
        }
    }
}

fn entry(view: &MatrixView<'_>, row: usize, column: usize) -> Markup {
    let Some((figures, cpu)) = view.figures(row, column).zip(view.cpu(row, column)) else {
        return html! { span.m { "n/a" } };
    };
    html! {
        (significant(cpu.median)) "\u{a0}µs"
        @if let Some(ratio) = figures.counterpart_ratio {
            " " @if !ratio.differs { "~\u{a0}" } (times(ratio.median)) " "
            (bounds(&results::words::ratio_interval(ratio.lo, ratio.hi)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_run_with_counterparts_has_their_table_and_others_none() {
        let mut summary = sample::summary();
        assert!(section(&MatrixView::alone(&summary)).is_none());
        summary.setup.workloads[1].counterpart = Some(summary.setup.workloads[0].name.clone());
        let section = section(&MatrixView::alone(&summary)).unwrap();
        let text = section.content.into_string();
        for workload in &summary.setup.workloads[..2] {
            assert!(text.contains(&workload.name), "{text}");
        }
        assert!(text.matches("<table>").count() == 1 && text.contains("4.00\u{a0}µs"), "{text}");
    }
}
