//! Figures of somebody else beside ours, quoted as such: only a preset that names its original has them.

use maud::html;

use super::section::{Section, table_of};
use crate::{matrix_view::MatrixView, text::quoted_figures::quoted_figures};

pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let quoted = quoted_figures(view.summary)?;
    let entries = quoted.entries(|cell| cell.label.clone());
    let (head, rows) = entries.split_first()?;
    Some(Section {
        id: "quoted",
        link: "the original",
        title: "Beside what the original printed".to_owned(),
        finding: html! { "Measured elsewhere and by others: an order to compare, no ratio." },
        content: html! {
            (table_of("quoted figures beside ours", head, rows)) p.small.note { (quoted.sources()) }
        },
    })
}
