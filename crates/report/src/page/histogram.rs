//! Histograms of latency: a panel per server, both axes logarithmic, so that one request in a million is seen.

use maud::{Markup, html};
use results::{Bucket, LatencyFigures, bucket_end};

use super::section::{Section, WorkloadPart, affordable, columns_with, few, few_remark, per_workload};
use crate::{
    format::duration,
    matrix_view::{Drawable, MatrixView, is_open},
    picture::{
        axes::time_ticks,
        grid::Grid,
        series::Group,
        svg::{Anchor, Canvas, Drawing, Scale, Width, picture, text_width},
    },
};

/// Shares with a line of their own, and their names.
const SHARES: [(f64, &str); 4] = [(1.0, "all"), (1e-2, "1\u{a0}%"), (1e-4, "10⁻⁴"), (1e-6, "10⁻⁶")];

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
        "Ten bars to a factor of ten, the share of all requests in each; all visits together. Both axes are logarithmic: "
        "a hump at the right is a second way a request can go. " b { "Solid" }
        ": response time in an open loop, else service time. " b { "Dashed" } ": service time beside it." (rest) (few_remark(view))
    };
    Some(Section {
        id: "histogram",
        link: "histograms",
        title: "How latency is spread".to_owned(),
        finding: Markup::default(),
        content: per_workload(&parts, &note),
    })
}

/// The workloads that are drawn, and a remark where that is not all.
pub(super) fn columns(view: &MatrixView<'_>) -> (Vec<usize>, &'static str) {
    affordable(view, columns_with(view, |column| !panels(view, column).is_empty()))
}

struct Panel<'a> {
    row: usize,
    main: &'a [Bucket],
    /// Service time beside the response time.
    beside: &'a [Bucket],
}

fn density(latency: Option<&LatencyFigures>) -> &[Bucket] {
    let density = latency.map_or(&[][..], |latency| &latency.density);
    let is_drawable = density.iter().all(|bar| bar.us.is_drawable() && bar.share.is_drawable());
    if is_drawable { density } else { &[] }
}

fn panel<'a>(view: &MatrixView<'a>, row: usize, column: usize) -> Option<Panel<'a>> {
    let figures = view.figures(row, column)?;
    let (response, service) = (density(figures.response.as_ref()), density(figures.service.as_ref()));
    let (main, beside) = if response.is_empty() { (service, response) } else { (response, service) };
    (!main.is_empty()).then_some(Panel { row, main, beside })
}

/// The rows that are drawn.
pub(super) fn rows(view: &MatrixView<'_>, column: usize) -> Vec<usize> {
    let served = view.compared().filter(|&row| view.series[row].group != Group::Null);
    few(view, served.filter(|&row| panel(view, row, column).is_some()))
}

fn panels<'a>(view: &MatrixView<'a>, column: usize) -> Vec<Panel<'a>> {
    rows(view, column).into_iter().filter_map(|row| panel(view, row, column)).collect()
}

fn pictures(view: &MatrixView<'_>, column: usize) -> Markup {
    let panels = panels(view, column);
    let workload = &view.workloads()[column];
    let kind = if is_open(workload) { "response time solid, service time dashed" } else { "service time" };
    let description = format!("{} panels, one per server: {kind}; shares on a log axis.", panels.len());
    let title = format!("Histogram of latency, {}", workload.name);
    picture(&view.id(format_args!("hist{column}")), &title, &description, |width| draw(view, column, &panels, width))
}

fn draw(view: &MatrixView<'_>, column: usize, panels: &[Panel<'_>], width: Width) -> Drawing {
    let grid = Grid::new(width);
    let bars = || panels.iter().flat_map(|panel| panel.main.iter().chain(panel.beside));
    let low = bars().map(|bar| bar.us).fold(f64::INFINITY, f64::min);
    let high = bars().map(|bar| bucket_end(bar.us)).fold(0.0, f64::max);
    let least = bars().map(|bar| bar.share).fold(1.0, f64::min);
    let (times, shares) = ((low / 1.1, high * 1.1), (least / 2.0, 1.6));
    let mut canvas = Canvas::default();
    for (index, panel) in panels.iter().enumerate() {
        let area = grid.area(index);
        let x = Scale::log(times, (area.x, area.x + area.width));
        let y = Scale::log(shares, (area.y + area.height, area.y));
        axes(&mut canvas, &grid, (index, panels.len()), (x, y), times);
        let series = &view.series[panel.row];
        let class = series.class();
        let (main, beside) = (outline(panel.main, (x, y)), outline(panel.beside, (x, y)));
        canvas.path(&beside, &format!("ln {class}"), &[("stroke-width", "1.2"), ("stroke-dasharray", "4 3")]);
        canvas.path(&main, &format!("ln filled {class}"), &[("stroke-width", "1.6")]);
        let worst = panel.main.last().map_or(String::new(), |bar| duration(bucket_end(bar.us)));
        let worst = if width.is_narrow() { worst } else { format!("all below {worst}") };
        grid.panel_head(&mut canvas, index, series, &worst);
        canvas.hit("hist", Some(&series.id), column, area, x, y);
    }
    let bottom = grid.bottom(panels.len());
    canvas.text(width.units() - 4.0, bottom + 34.0, "xs m", Anchor::End, "latency; share of requests per bar");
    Drawing { height: bottom + 40.0, canvas }
}

/// The outline of the bars; an empty bar reaches the bottom.
fn outline(bars: &[Bucket], (x, y): (Scale, Scale)) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(bars.len() * 2 + 2);
    let mut end: Option<f64> = None;
    for bar in bars {
        // Bounds are rounded to four digits.
        if end.is_none_or(|end| bar.us > end * 1.01) {
            points.extend(end.map(|end| (x.at(end), y.start())));
            points.push((x.at(bar.us), y.start()));
        }
        let next = bucket_end(bar.us);
        points.extend([(x.at(bar.us), y.at(bar.share)), (x.at(next), y.at(bar.share))]);
        end = Some(next);
    }
    points.extend(end.map(|end| (x.at(end), y.start())));
    points
}

fn axes(canvas: &mut Canvas, grid: &Grid, (index, count): (usize, usize), (x, y): (Scale, Scale), times: (f64, f64)) {
    let area = grid.area(index);
    let bottom = area.y + area.height;
    for (share, words) in SHARES.into_iter().filter(|(share, _)| y.holds(*share)) {
        canvas.line((area.x, y.at(share)), (area.x + area.width, y.at(share)), "grid");
        if grid.is_first_in_row(index) {
            canvas.text(area.x - 6.0, y.at(share) + 4.0, "s m num", Anchor::End, words);
        }
    }
    canvas.line((area.x, bottom), (area.x + area.width, bottom), "tick");
    let mut free_from = f64::NEG_INFINITY;
    for tick in time_ticks(times, 4) {
        let place = x.at(tick.at);
        canvas.line((place, bottom), (place, bottom + 4.0), "tick");
        // The widest a label gets when the reader chooses another unit.
        let half = text_width(&tick.label, 11.0).max(44.0) / 2.0;
        // Beside its own panel, not below the next one.
        let middle = place.clamp(area.x + half - 6.0, area.x + area.width - half + 6.0);
        if grid.is_last(index, count) && middle - half > free_from {
            canvas.time(middle, bottom + 16.0, Anchor::Middle, tick.at, &tick.label);
            free_from = middle + half;
        }
    }
}
