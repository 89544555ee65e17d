//! The second witness: instructions per request beside the CPU time.

use maud::html;

use super::section::{Section, scrolling};
use crate::{matrix_view::MatrixView, text::witness};

/// `None` where nothing was counted.
pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let rows = witness::rows(view.summary)?;
    let (head, rows) = rows.split_first()?;
    let table = html! {
        table {
            thead { tr { @for title in head { th scope="col" { (title) } } } }
            tbody {
                "\n"
                @for row in rows { tr { @for entry in row { td { (entry) } } } "\n" }
            }
        }
    };
    Some(Section {
        id: "witness",
        link: "instructions",
        title: "A second witness: instructions".to_owned(),
        finding: html! {},
        content: html! { (scrolling("instructions per request", &table)) p.small.note { (witness::NOTE) } },
    })
}
