//! Somebody else's figures beside ours, quoted as such: only a preset that names its original has them.

use std::fmt::Write as _;

use crate::{matrix_view::View, page::Section, picture::svg::escape, text::quoted_figures};

pub(super) fn section(view: &View<'_>) -> Option<Section> {
    let quoted = quoted_figures::table(view.summary)?;
    let entries = quoted.entries(|cell| view.label(&cell.id).to_owned());
    let (head, rows) = entries.split_first()?;
    let mut table =
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"quoted figures beside ours\"><table>\
                     <thead><tr>"
            .to_owned();
    for title in head {
        // Writing to a String cannot fail.
        let _ = write!(table, "<th scope=\"col\">{}</th>", escape(title));
    }
    table += "</tr></thead><tbody>\n";
    for row in rows {
        let entries: String = row.iter().map(|entry| format!("<td>{}</td>", escape(entry))).collect();
        let _ = writeln!(table, "<tr>{entries}</tr>");
    }
    table += "</tbody></table></div>";
    Some(Section {
        id: "quoted",
        link: "the original",
        title: "Beside what the original printed".to_owned(),
        finding: "Measured elsewhere and by others: an order to compare, no ratio.".to_owned(),
        content: format!("{table}<p class=\"small note\">{}</p>", escape(&quoted.sources())),
    })
}
