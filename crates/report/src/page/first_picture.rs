//! The picture of the first screen: the cells under the headline's workload beside the reference; of several servers the
//! cell of each headline.

use maud::{Markup, html};

use crate::{
    claims::{self, Subject},
    format::count,
    matrix_view::{Drawable, MatrixView},
    picture::{
        svg::picture,
        whiskers::{self, Row, RowGroup},
    },
};

/// Rows that fit on a first screen.
const ROWS_MAX: usize = 10;

/// Empty where no two cells have a ratio.
pub(super) fn html(view: &MatrixView<'_>) -> Markup {
    let Some(column) = claims::picture_column(view) else { return Markup::default() };
    let rows = rows(view, column);
    let left = view.compared().filter(|&row| view.outcome(row, column).is_some()).count() - rows.len();
    let title = format!("Server CPU per request under {}", view.workloads()[column].name);
    let description = format!("{}, each as a multiple of {}.", count(rows.len(), "cell"), view.reference_label());
    let group = [RowGroup { heading: heading(view), rows }];
    html! {
        div.first.pic {
            (picture(&view.id("first"), &title, &description, |width| whiskers::draw(&group, width)))
        }
        @if left > 0 { p.small { (count(left, "cell")) " more in the matrix below." } }
    }
}

fn heading(view: &MatrixView<'_>) -> String {
    format!("server CPU per request, × {}", view.reference_label())
}

/// The cheapest, and the reference and the headline's cell in any case.
fn rows(view: &MatrixView<'_>, column: usize) -> Vec<Row> {
    let mut rows: Vec<usize> = view.compared().filter(|&row| view.ratio(row, column).is_some()).collect();
    if view.is_ranked() {
        let cost = |row: &usize| view.ratio(*row, column).map_or(f64::INFINITY, |ratio| ratio.median);
        rows.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    }
    let headline = claims::subject(view).map(|subject| subject.row);
    let is_fixed = |row: usize| Some(row) == view.reference || Some(row) == headline;
    let mut room = ROWS_MAX.saturating_sub(rows.iter().filter(|&&row| is_fixed(row)).count());
    rows.retain(|&row| {
        let is_kept = is_fixed(row) || room > 0;
        room -= usize::from(is_kept && !is_fixed(row));
        is_kept
    });
    let row = |row: usize| one(view, Subject { row, column }, view.series[row].label.clone());
    rows.into_iter().filter_map(row).collect()
}

fn one(view: &MatrixView<'_>, Subject { row, column }: Subject, label: String) -> Option<Row> {
    Some(Row {
        label,
        ratio: view.ratio(row, column)?,
        floor: view.floor(column),
        words: view.read_out(row, column),
        is_claimed: view.difference(row, column).is_some(),
        is_reference: Some(row) == view.reference,
    })
}

/// One row per server of a page of several.
pub(super) fn of_servers(views: &[MatrixView<'_>]) -> Markup {
    let row = |view: &MatrixView<'_>| {
        let subject = claims::subject(view)?;
        let label = format!("{}: {}", view.summary.setup.server, view.series[subject.row].label);
        one(view, subject, label)
    };
    let rows: Vec<Row> = views.iter().filter_map(row).filter(|row| row.ratio.is_drawable()).collect();
    if rows.is_empty() {
        return Markup::default();
    }
    let heading = "server CPU per request, × its own reference".to_owned();
    let group = [RowGroup { heading, rows }];
    let description = "One row per server: the cell of its headline beside its reference.";
    html! {
        div.first.pic {
            (picture("servers", "Server CPU per request", description, |width| whiskers::draw(&group, width)))
        }
    }
}
