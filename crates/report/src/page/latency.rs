//! Latency by percentile: a panel per server, all panels of one workload on the same two axes.

use maud::{Markup, html};
use results::{Figures, QuantilePoint};

use super::section::{Section, WorkloadPart, affordable, columns_with, few, few_remark, per_workload};
use crate::{
    claims,
    format::{duration, short},
    matrix_view::{MatrixView, curve, is_open},
    picture::{
        grid::Grid,
        series::Group,
        svg::{Anchor, Canvas, Drawing, Scale, Width, log_ticks, picture, text_width},
    },
};

/// Below the median a latency curve says little; 1.6 leaves the label `50` some room.
const X_MIN: f64 = 1.6;
/// 1 / (1 − q) of the labelled percentiles.
const PERCENTILES: [(f64, &str); 6] =
    [(2.0, "50"), (10.0, "90"), (100.0, "99"), (1e3, "99.9"), (1e4, "99.99"), (1e5, "99.999")];

pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let (columns, rest) = columns(view);
    let first = *columns.first()?;
    let part = |&column: &usize| {
        let workload = &view.workloads()[column];
        let kind = if is_open(workload) { "" } else { " · service time, not user latency" };
        let name = format!("{} · {}{kind}", workload.name, workload.title);
        WorkloadPart { name, finding: finding(view, column), pictures: pictures(view, column) }
    };
    let note = html! {
        @if is_open(&view.workloads()[first]) {
            "Open loop. " b { "Solid" } ": response time, counted from the scheduled send. " b { "Dashed" }
            ": service time, counted from the actual send. "
        } @else {
            "Closed loop: " b { "service time, not user latency" } ", dashed. "
        }
        "Band: least and greatest visit. Grey: the other servers, for comparison. The axis is 1/(1\u{a0}−\u{a0}q), so each "
        "decade of the tail has the same room." (rest) (few_remark(view))
    };
    let units = html! {
        p.units hidden="hidden" {
            "Times in"
            @for unit in ["auto", "µs", "ms"] { " " button type="button" data-unit=(unit) { (unit) } }
        }
    };
    let parts: Vec<WorkloadPart> = columns.iter().map(part).collect();
    Some(Section {
        id: "latency",
        link: "latency",
        title: "Latency by percentile".to_owned(),
        finding: finding(view, first),
        content: html! { (units) (per_workload(&parts, &note)) },
    })
}

/// The workloads that are drawn, and a remark where that is not all.
pub(super) fn columns(view: &MatrixView<'_>) -> (Vec<usize>, &'static str) {
    affordable(view, columns_with(view, |column| has_curves(view, column)))
}

fn finding(view: &MatrixView<'_>, column: usize) -> Markup {
    html! { @if let Some(claim) = claims::latency(view, column) { (claim.html()) } }
}

/// The curves of one server under one workload.
struct Panel {
    row: usize,
    /// Times from the scheduled send; empty in a closed loop.
    response: Vec<QuantilePoint>,
    service: Vec<QuantilePoint>,
}

impl Panel {
    fn new(row: usize, figures: &Figures) -> Option<Self> {
        let points = |latency: &Option<_>| latency.as_ref().map_or_else(Vec::new, curve);
        let panel = Self { row, response: points(&figures.response), service: points(&figures.service) };
        (panel.main().len() >= 2).then_some(panel)
    }

    /// The main curve: the response time where there is one.
    fn main(&self) -> &[QuantilePoint] {
        if self.response.is_empty() { &self.service } else { &self.response }
    }

    fn points(&self) -> impl Iterator<Item = &QuantilePoint> {
        self.response.iter().chain(&self.service).filter(|p| p.x >= X_MIN)
    }
}

/// True if any server has a latency curve under this workload.
fn has_curves(view: &MatrixView<'_>, column: usize) -> bool {
    !panels(view, column).is_empty()
}

/// The rows that are drawn.
pub(super) fn rows(view: &MatrixView<'_>, column: usize) -> Vec<usize> {
    let served = view.compared().filter(|&row| view.series[row].group != Group::Null);
    few(view, served.filter(|&row| view.figures(row, column).is_some_and(|figures| Panel::new(row, figures).is_some())))
}

/// The null server has no panel: it answers before anything could queue.
fn panels(view: &MatrixView<'_>, column: usize) -> Vec<Panel> {
    let panel = |row| Panel::new(row, view.figures(row, column)?);
    rows(view, column).into_iter().filter_map(panel).collect()
}

/// Draws one workload; call only where [`has_curves`].
fn pictures(view: &MatrixView<'_>, column: usize) -> Markup {
    let panels = panels(view, column);
    let workload = &view.workloads()[column];
    let (kind, title) = if is_open(workload) {
        ("response time solid, service time dashed", format!("Latency by percentile, {}", workload.name))
    } else {
        ("service time, not user latency", format!("Service time by percentile, {}", workload.name))
    };
    let description = format!("{} panels, one per server: {kind}, band from least to greatest visit.", panels.len());
    let id = view.id(format_args!("lat{column}"));
    picture(&id, &title, &description, |width| Figure::new(view, column, &panels, width).draw())
}

struct Figure<'a> {
    view: &'a MatrixView<'a>,
    column: usize,
    panels: &'a [Panel],
    width: Width,
    grid: Grid,
    x_domain: (f64, f64),
    y_domain: (f64, f64),
}

impl<'a> Figure<'a> {
    fn new(view: &'a MatrixView<'a>, column: usize, panels: &'a [Panel], width: Width) -> Self {
        let points = || panels.iter().flat_map(Panel::points);
        let low = points().map(|p| p.us.min(p.min_us)).fold(f64::INFINITY, f64::min);
        let high = points().map(|p| p.us.max(p.max_us)).fold(0.0, f64::max);
        let x_end = points().map(|p| p.x).fold(10.0, f64::max);
        let has_points = low.is_finite() && high > 0.0;
        Self {
            view,
            column,
            panels,
            width,
            grid: Grid::new(width),
            x_domain: (X_MIN, x_end * 1.1),
            y_domain: if has_points { (low * 0.85, high * 1.15) } else { (1.0, 10.0) },
        }
    }

    fn scales(&self, (x, y): (f64, f64)) -> (Scale, Scale) {
        (
            Scale::log(self.x_domain, (x, x + self.grid.panel_width)),
            Scale::log(self.y_domain, (y + self.grid.panel_height, y)),
        )
    }

    fn draw(&self) -> Drawing {
        let mut canvas = Canvas::default();
        self.define_ghosts(&mut canvas);
        for (index, panel) in self.panels.iter().enumerate() {
            self.panel(&mut canvas, index, panel);
        }
        let bottom = self.grid.bottom(self.panels.len());
        let words =
            self.width.pick("per cent of requests, x = 1/(1 − q)", "figures: p99; per cent of requests, x = 1/(1 − q)");
        canvas.text(self.width.units() - 4.0, bottom + 34.0, "xs m", Anchor::End, words);
        Drawing { height: bottom + 40.0, canvas }
    }

    fn ghost_id(&self) -> String {
        self.view.id(format_args!("ghost{}{}", self.column, self.width.pick("w", "n")))
    }

    /// Defines all curves in grey, drawn once and placed behind every panel.
    fn define_ghosts(&self, canvas: &mut Canvas) {
        if self.panels.len() < 2 {
            return;
        }
        let (x, y) = self.scales((0.0, 0.0));
        canvas.element("defs", &[], |canvas| {
            canvas.group(&[("id", &self.ghost_id())], |canvas| {
                for panel in self.panels {
                    let visible: Vec<_> = panel.main().iter().filter(|p| p.x >= X_MIN).collect();
                    let points: Vec<_> = visible.iter().step_by(2).map(|p| (x.at(p.x), y.at(p.us))).collect();
                    canvas.path(&points, "ghost", &[]);
                }
            });
        });
    }

    fn panel(&self, canvas: &mut Canvas, index: usize, panel: &Panel) {
        let corner = self.grid.corner(index);
        let (x, y) = self.scales(corner);
        let series = &self.view.series[panel.row];
        self.axes(canvas, index, (x, y));
        if self.panels.len() > 1 {
            let place = [corner.0, corner.1].map(|v| format!("{v:.1}"));
            let link = format!("#{}", self.ghost_id());
            canvas.element("use", &[("href", &link), ("x", &place[0]), ("y", &place[1])], |_| {});
        }
        // Half as wide, half as many points; the last one always.
        let step = self.width.pick(1, 2);
        let visible = |points: &[QuantilePoint]| -> Vec<QuantilePoint> {
            let visible: Vec<_> = points.iter().filter(|p| p.x >= X_MIN).copied().collect();
            let count = visible.len();
            let kept = visible.into_iter().enumerate().filter(|(i, _)| (count - 1 - i).is_multiple_of(step));
            kept.map(|(_, point)| point).collect()
        };
        let (main, service) = (visible(panel.main()), visible(&panel.service));
        let along = |points: &[QuantilePoint], value: fn(&QuantilePoint) -> f64| -> Vec<(f64, f64)> {
            points.iter().map(|p| (x.at(p.x), y.clamped(value(p)))).collect()
        };
        let class = series.class();
        canvas.band(&along(&main, |p| p.max_us), &along(&main, |p| p.min_us), &format!("area {class}"));
        let line = format!("ln {class}");
        canvas.path(&along(&service, |p| p.us), &line, &[("stroke-width", "1.4"), ("stroke-dasharray", "4 3")]);
        if !panel.response.is_empty() {
            canvas.path(&along(&main, |p| p.us), &line, &[("stroke-width", "2")]);
        }
        self.grid.panel_head(canvas, index, series, &self.figure(panel));
        canvas.hit("lat", Some(&series.id), self.column, self.grid.area(index), x, y);
    }

    fn figure(&self, panel: &Panel) -> String {
        let figures = self.view.figures(panel.row, self.column);
        let latency = figures.and_then(|f| f.response.as_ref().or(f.service.as_ref()));
        let p99 = latency.map(|l| l.p99.median).filter(|v| v.is_finite()).map_or(String::new(), duration);
        if self.width.is_narrow() || p99.is_empty() { p99 } else { format!("p99 {p99}") }
    }

    fn axes(&self, canvas: &mut Canvas, index: usize, (x, y): (Scale, Scale)) {
        let (left, top) = self.grid.corner(index);
        let (right, bottom) = (left + self.grid.panel_width, top + self.grid.panel_height);
        for tick in self.y_ticks() {
            canvas.line((left, y.at(tick)), (right, y.at(tick)), "grid");
            if self.grid.is_first_in_row(index) {
                canvas.time(left - 6.0, y.at(tick) + 4.0, Anchor::End, tick, &tick_label(tick));
            }
        }
        let is_last = self.grid.is_last(index, self.panels.len());
        let mut free_from = f64::NEG_INFINITY;
        for (value, label) in PERCENTILES {
            if !x.holds(value) {
                continue;
            }
            canvas.line((x.at(value), bottom), (x.at(value), bottom + 4.0), "tick");
            let half = text_width(label, 11.0) / 2.0;
            let middle = x.at(value).min(self.width.units() - half);
            if is_last && middle - half > free_from {
                canvas.text(middle, bottom + 16.0, "s m num", Anchor::Middle, label);
                free_from = middle + half + 7.0;
            }
        }
    }

    /// Ticks at 1 and 3; only the ones where the whole axis is too long for both.
    fn y_ticks(&self) -> Vec<f64> {
        let ticks = log_ticks(self.y_domain.0, self.y_domain.1);
        let room = (self.grid.panel_height / 17.0) as usize;
        let is_one = |v: &f64| (v.log10() - v.log10().round()).abs() < 1e-6;
        if ticks.len() > room { ticks.into_iter().filter(is_one).collect() } else { ticks }
    }
}

/// Ones carry the unit, threes only the figure.
fn tick_label(us: f64) -> String {
    let leading = 10f64.powf(us.log10().rem_euclid(1.0));
    if (leading - 3.0).abs() > 0.1 {
        return duration(us);
    }
    let in_unit = [1e6, 1e3].into_iter().find(|unit| us >= unit * 0.999).map_or(us, |unit| us / unit);
    short(in_unit)
}
