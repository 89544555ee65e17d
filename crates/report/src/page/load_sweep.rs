//! Latency under load: the time that an open loop waits at each share of a server's capacity. The knee is where the server ends.

use maud::{Markup, html};
use results::{Interval, LoadPoint};

use super::section::{Section, WorkloadPart, affordable, few, few_remark, per_workload};
use crate::{
    claims,
    format::compact,
    matrix_view::{Drawable, MatrixView},
    picture::{
        axes,
        curves::{self, Curve, Panel},
        svg::picture,
    },
};

type Pick = fn(&LoadPoint) -> Interval;

const PANELS: [(&str, &str, Pick); 2] =
    [("load50", "p50 response time", |point| point.p50), ("load99", "p99 response time", |point| point.p99)];

pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let (columns, rest) = columns(view);
    let first = *columns.first()?;
    let parts: Vec<_> = columns
        .iter()
        .map(|&column| WorkloadPart {
            name: view.workloads()[column].name.clone(),
            finding: finding(view, column),
            pictures: pictures(view, column),
        })
        .collect();
    let note = html! {
        "Open loop: requests are sent by a schedule at rising shares of what each server did in a closed loop just "
        "before, and wait in a queue when it cannot keep up. Response time counts from the scheduled send. The end of a "
        "curve is where the server ends; open points: it did not keep up. Medians over visits." (rest) (few_remark(view))
    };
    Some(Section {
        id: "load",
        link: "load",
        title: "Latency under load".to_owned(),
        finding: finding(view, first),
        content: per_workload(&parts, &note),
    })
}

/// The workloads that are drawn, and a remark where that is not all.
pub(super) fn columns(view: &MatrixView<'_>) -> (Vec<usize>, &'static str) {
    affordable(view, (0..view.workloads().len()).filter(|&column| has_curves(view, column)).collect())
}

/// The points of a row that can be drawn, load rising.
fn points<'a>(view: &MatrixView<'a>, row: usize, column: usize) -> Vec<&'a LoadPoint> {
    let is_drawable = |point: &&LoadPoint| {
        point.served_rps.is_drawable() && point.p50.median.is_drawable() && point.p99.median.is_drawable()
    };
    view.figures(row, column).map_or_else(Vec::new, |figures| figures.sweep.iter().filter(is_drawable).collect())
}

fn has_curves(view: &MatrixView<'_>, column: usize) -> bool {
    view.compared().any(|row| points(view, row, column).len() >= 2)
}

/// The rows that are drawn.
pub(super) fn rows(view: &MatrixView<'_>, column: usize) -> Vec<usize> {
    few(view, view.compared().filter(|&row| points(view, row, column).len() >= 2))
}

fn pictures(view: &MatrixView<'_>, column: usize) -> Markup {
    let rows = rows(view, column);
    let all = || rows.iter().flat_map(|&row| points(view, row, column));
    let y = || axes::times(all().flat_map(|point| [point.p50.median, point.p99.median]));
    let panels = PANELS.map(|(kind, title, pick)| Panel {
        title: title.to_owned(),
        x: axes::rates(all().map(|point| point.served_rps)),
        y: y(),
        curves: rows.iter().map(|&row| curve(view, row, column, pick)).collect(),
        shade: None,
        read_out: Some((kind, column)),
    });
    let title = format!("Latency under load, {}", view.workloads()[column].name);
    let description = "Response time over the load that was served, p50 above and p99 below, a curve per server.";
    let drawn = picture(&view.id(format_args!("load{column}")), &title, description, |width| {
        curves::draw(&panels, "requests per second", width)
    });
    html! { (curves::key(&panels[0].curves)) (drawn) }
}

fn curve(view: &MatrixView<'_>, row: usize, column: usize, pick: Pick) -> Curve {
    let (series, points) = (&view.series[row], points(view, row, column));
    let place = |point: &LoadPoint| (point.served_rps, pick(point).median);
    let words = |point: &LoadPoint| {
        let (share, load) = (100.0 * point.share, compact(point.offered_rps));
        format!("{}: did not keep up with {load}/s ({share:.0} % of its capacity)", series.label)
    };
    let late = points.iter().filter(|point| !point.is_served);
    Curve {
        class: series.class(),
        id: series.id.clone(),
        name: series.label.clone(),
        is_reference: series.is_reference,
        points: points.iter().map(|point| place(point)).collect(),
        marks: late.map(|point| (place(point), words(point), true)).collect(),
    }
}

fn finding(view: &MatrixView<'_>, column: usize) -> Markup {
    html! { @if let Some(claim) = claims::kept_up(view, column) { (claim.html()) } }
}
