//! The timeline of a visit: requests per second, p99, failures and the generator's lag in windows of 100 ms. Was it steady, and had
//! it warmed up?

use maud::{Markup, html};
use results::WindowPoint;

use super::section::{Section, WorkloadPart, affordable, few, few_remark, per_workload};
use crate::{
    matrix_view::{Drawable, MatrixView},
    picture::{
        axes,
        curves::{self, Curve, Panel},
        svg::picture,
    },
};

type Pick = fn(&WindowPoint) -> Option<f64>;

pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let (columns, rest) = columns(view);
    columns.first()?;
    let parts: Vec<_> = columns
        .iter()
        .map(|&column| WorkloadPart {
            name: view.workloads()[column].name.clone(),
            finding: Markup::default(),
            pictures: pictures(view, column),
        })
        .collect();
    let note = html! {
        "Windows of 100\u{a0}ms over all visits: medians, and of failures the mean. Shaded: warm-up, which is in no other "
        "figure; of visits that warmed up for different times the end that all have. A line that rises or falls through "
        "the slice was not steady yet. Where nothing failed, and where no schedule could be late, there is no panel."
        (rest) (few_remark(view))
    };
    Some(Section {
        id: "within",
        link: "within a visit",
        title: "Within a visit".to_owned(),
        finding: Markup::default(),
        content: per_workload(&parts, &note),
    })
}

/// The workloads that are drawn, and a remark where that is not all.
pub(super) fn columns(view: &MatrixView<'_>) -> (Vec<usize>, &'static str) {
    affordable(view, (0..view.workloads().len()).filter(|&column| has_curves(view, column)).collect())
}

fn windows<'a>(view: &MatrixView<'a>, row: usize, column: usize) -> Vec<&'a WindowPoint> {
    // A window without a reply is a stall, and has its place.
    let is_drawable = |window: &&WindowPoint| window.s.is_finite() && window.rps.is_finite() && window.rps >= 0.0;
    view.figures(row, column)
        .map_or_else(Vec::new, |figures| figures.further.windows.iter().filter(is_drawable).collect())
}

fn has_curves(view: &MatrixView<'_>, column: usize) -> bool {
    view.compared().any(|row| windows(view, row, column).len() >= 2)
}

/// The rows that are drawn.
pub(super) fn rows(view: &MatrixView<'_>, column: usize) -> Vec<usize> {
    few(view, view.compared().filter(|&row| windows(view, row, column).len() >= 2))
}

fn pictures(view: &MatrixView<'_>, column: usize) -> Markup {
    let rows = rows(view, column);
    let all = || rows.iter().flat_map(|&row| windows(view, row, column));
    let begin = all().map(|window| window.s).fold(0.0, f64::min);
    let end = all().map(|window| window.s).fold(0.0, f64::max);
    let panel = |kind, title: &str, y, pick| Panel {
        title: title.to_owned(),
        x: axes::seconds(begin, end),
        y,
        curves: rows.iter().map(|&row| curve(view, row, column, pick)).collect(),
        shade: (begin < 0.0).then_some((0.0, "warm-up")),
        read_out: Some((kind, column)),
    };
    let rates = axes::rates(all().map(|window| window.rps));
    let mut panels = vec![panel("rate", "completed per second", rates, |window| Some(window.rps))];
    if all().any(|window| window.p99_us.is_drawable()) {
        let times = axes::times(all().map(|window| window.p99_us));
        panels.push(panel("p99", "p99", times, |window| Some(window.p99_us).filter(Drawable::is_drawable)));
    }
    if all().any(|window| window.errors_rps.is_drawable()) {
        let rates = axes::rates(all().map(|window| window.errors_rps));
        panels.push(panel("errors", "failed per second", rates, |window| Some(window.errors_rps)));
    }
    if all().any(|window| window.lag_us.is_drawable()) {
        let times = axes::times(all().map(|window| window.lag_us));
        let late = "how late the generator was at most";
        panels.push(panel("lag", late, times, |window| Some(window.lag_us).filter(Drawable::is_drawable)));
    }
    let title = format!("Within a visit, {}", view.workloads()[column].name);
    let description = "Completed requests per second, p99 and, where there are some, failures and the generator's lag over the \
                       seconds of a visit, a curve per server.";
    let drawn = picture(&view.id(format_args!("in{column}")), &title, description, |width| {
        curves::draw(&panels, "seconds of the visit", width)
    });
    html! { (curves::key(&panels[0].curves)) (drawn) }
}

fn curve(view: &MatrixView<'_>, row: usize, column: usize, pick: Pick) -> Curve {
    let series = &view.series[row];
    let windows = windows(view, row, column);
    let points = windows.into_iter().filter_map(|window| Some((window.s, pick(window)?)));
    Curve {
        class: series.class(),
        id: series.id.clone(),
        name: series.label.clone(),
        is_reference: series.is_reference,
        points: points.filter(|(_, value)| value.is_finite()).collect(),
        marks: Vec::new(),
    }
}
