//! One section of a matrix's page: a heading, a sentence with the finding, and pictures or a table. All but the first are
//! folded.

use maud::{Markup, Render, html};

use crate::matrix_view::{MatrixView, is_open};

/// Cells up to which the large pictures are drawn of more than one workload, so that the file stays small.
const CELLS_MAX: usize = 30;
/// Curves of a picture, and panels of one; more cannot be told apart.
const ROWS_MAX: usize = 7;

pub(super) struct Section {
    pub(super) id: &'static str,
    /// Name in the row of links at the top.
    pub(super) link: &'static str,
    pub(super) title: String,
    /// Sentence below the heading; empty where there is nothing to find.
    pub(super) finding: Markup,
    pub(super) content: Markup,
}

impl Section {
    /// Writes a section that opens by a click, or by a link to it: the id is inside, and a browser that is led to it opens
    /// what is around it, with scripts or without.
    pub(super) fn folded(&self, view: &MatrixView<'_>) -> Markup {
        html! {
            section.fold {
                details {
                    summary { h2 { (self.title) } span.find { (self.finding) } }
                    div id=(view.id(self.id)) { (self.content) }
                }
            }
            "\n"
        }
    }

    pub(super) fn open(&self, view: &MatrixView<'_>) -> Markup {
        html! {
            section id=(view.id(self.id)) {
                h2 { (self.title) }
                @if !self.finding.0.is_empty() { p.find { (self.finding) } }
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

/// Writes a table whose first row is its head, in a frame for screens that are narrower.
pub(super) fn table_of<E: Render>(label: &str, head: &[E], rows: &[impl AsRef<[E]>]) -> Markup {
    let table = html! {
        table {
            thead { tr { @for title in head { th scope="col" { (title) } } } }
            tbody {
                "\n"
                @for row in rows { tr { @for entry in row.as_ref() { td { (entry) } } } "\n" }
            }
        }
    };
    scrolling(label, &table)
}

/// The pictures of one workload.
pub(super) struct WorkloadPart {
    pub(super) name: String,
    pub(super) finding: Markup,
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
                details { summary { (part.name) } (figure(&part.pictures, &part.finding)) }
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
    (columns, " Of so many cells only one workload is drawn; summary.json has all.")
}

/// A remark where [`few`] may leave out some.
pub(super) fn few_remark(view: &MatrixView<'_>) -> String {
    match view.compared().count() > ROWS_MAX {
        true => format!(" At most {ROWS_MAX} cells are drawn: the first of the matrix, and the reference."),
        false => String::new(),
    }
}

/// The rows to draw as curves, of those that have some.
pub(super) fn few(view: &MatrixView<'_>, rows: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut rows: Vec<usize> = rows.collect();
    let reference = rows.iter().copied().find(|&row| Some(row) == view.reference);
    let last = rows.get(ROWS_MAX - 1).copied();
    rows.truncate(ROWS_MAX);
    if let (Some(reference), Some(_)) = (reference.filter(|row| !rows.contains(row)), last) {
        rows.pop();
        rows.push(reference);
    }
    rows
}
