//! The second witness: instructions per request beside the CPU time.

use maud::html;

use super::section::{Section, table_of};
use crate::{matrix_view::MatrixView, text::witness};

/// `None` where nothing was counted.
pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let rows = witness::rows(view.summary)?;
    let (head, rows) = rows.split_first()?;
    Some(Section {
        id: "witness",
        link: "instructions",
        title: "A second witness: instructions".to_owned(),
        finding: html! {},
        content: html! { (table_of("instructions per request", head, rows)) p.small.note { (witness::NOTE) } },
    })
}
