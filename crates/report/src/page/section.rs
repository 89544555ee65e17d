//! One section of a matrix's page: a heading, a sentence with the finding, and pictures or a table.

use maud::{Markup, html};

use crate::matrix_view::{MatrixView, is_open};

/// Cells beyond which only the first workload of the large pictures is drawn, so that the file stays small.
const CELLS_MAX: usize = 80;

pub(super) struct Section {
    pub(super) id: &'static str,
    /// Name in the row of links at the top.
    pub(super) link: &'static str,
    pub(super) title: String,
    /// Sentence below the heading; empty where there is nothing to find.
    pub(super) finding: String,
    pub(super) content: Markup,
}

impl Section {
    /// `tag`: a warning beside every heading.
    pub(super) fn html(&self, view: &MatrixView<'_>, tag: &Markup) -> Markup {
        html! {
            section id=(view.id(self.id)) {
                h2 { (self.title) (tag) }
                @if !self.finding.is_empty() { p.find { (self.finding) } }
                (self.content)
            }
            "\n"
        }
    }
}

/// Writes pictures with a note beside them.
pub(super) fn figure(pictures: &Markup, note: &Markup) -> Markup {
    html! { figure { div.pic { (pictures) } figcaption { (note) } } "\n" }
}

/// Wraps a table that may be wider than the screen.
pub(super) fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// The pictures of one workload.
pub(super) struct WorkloadPart {
    pub(super) name: String,
    pub(super) finding: String,
    pub(super) pictures: Markup,
}

/// Shows the first workload; the others, which say the same about another load, are folded.
pub(super) fn per_workload(parts: &[WorkloadPart], note: &Markup) -> Markup {
    html! {
        @for (i, part) in parts.iter().enumerate() {
            @if i == 0 {
                h3 { (part.name) }
                (figure(&part.pictures, note))
            } @else {
                details { summary { (part.name) } (figure(&part.pictures, &html! { (part.finding) })) }
                "\n"
            }
        }
    }
}

/// Lists the workloads with something to draw, the open loops first: theirs is the latency a user sees.
pub(super) fn columns_with(view: &MatrixView<'_>, has: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..view.workloads().len()).filter(|&column| has(column)).collect();
    columns.sort_by_key(|&column| !is_open(&view.workloads()[column]));
    columns
}

/// Returns the workloads to draw of those that have something, and a remark where that is not all.
pub(super) fn affordable(view: &MatrixView<'_>, mut columns: Vec<usize>) -> (Vec<usize>, &'static str) {
    if view.places().count() <= CELLS_MAX || columns.len() < 2 {
        return (columns, "");
    }
    columns.truncate(1);
    (columns, " Of so many cells only one workload is drawn; the data have all.")
}
