//! Cell by cell: the section that a click in the matrix opens. Everything known of one server under one workload, in
//! words, its visits one by one, and the commands that make it again.

use maud::{Markup, html};
use results::{BlockFigures, Figures, Interval, LatencyFigures, Outcome};

use super::section::Section;
use crate::{
    format::{count, duration, floor, rate as rate_words, ratio_exact, significant},
    markup::bounds,
    matrix_view::{Drawable, MatrixView, is_open},
    picture::svg::{Anchor, Canvas, Drawing, Rect, Scale, Width, ticks_between, view_box},
};

pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let cells_of = |row: usize| -> Vec<Markup> {
        (0..view.workloads().len()).filter_map(|column| one(view, row, column)).collect()
    };
    let servers: Vec<(usize, Vec<Markup>)> =
        view.compared().map(|row| (row, cells_of(row))).filter(|(_, cells)| !cells.is_empty()).collect();
    (!servers.is_empty()).then(|| Section {
        id: "cells",
        link: "cells",
        title: "Cell by cell".to_owned(),
        finding: "What a click in the matrix opens: a server under a workload, its visits, and its commands."
            .to_owned(),
        content: html! {
            @for (row, cells) in &servers {
                div.cells { h3 { (view.series[*row].label) } @for cell in cells { (cell) } }
                "\n"
            }
        },
    })
}

fn one(view: &MatrixView<'_>, row: usize, column: usize) -> Option<Markup> {
    let outcome = view.outcome(row, column)?;
    let (workload, series) = (&view.workloads()[column], &view.series[row]);
    let brief = match outcome {
        Outcome::NotRun { reason } => format!("n/a: {reason}"),
        Outcome::Measured(figures) => brief(view, (row, column), figures),
    };
    // The id is inside: a browser that is led to it opens what is around it, with scripts or without.
    Some(html! {
        details data-r=(series.id) data-wn=(workload.name) {
            summary { (workload.name) " " (bounds(&brief)) }
            div id=(view.cell_id(row, column)) {
                @if let Outcome::Measured(figures) = outcome {
                    dl { @for (term, words) in facts(view, (row, column), figures) { dt { (term) } dd { (words) } } }
                    "\n"
                    (strip(view, (row, column), &figures.per_block))
                }
                pre { (view.cells()[row].command) "\n" (workload.command) }
                p.small {
                    a href={ "#raw-" (series.id) "-" (column) } { "Its row in the table of all figures" }
                }
            }
        }
        "\n"
    })
}

fn brief(view: &MatrixView<'_>, (row, column): (usize, usize), figures: &Figures) -> String {
    let cost = view.cpu(row, column).map(|cpu| format!("{}\u{a0}µs", significant(cpu.median)));
    let beside = view.ratio(row, column).filter(|_| row != view.reference).map(|ratio| {
        let mark = if ratio.differs { "" } else { "\u{a0}~" };
        format!("{}\u{a0}×{mark}", ratio_exact(ratio.median))
    });
    let rate = Some(figures.throughput_rps.median).filter(Drawable::is_drawable);
    let rate = rate.map(|rate| format!("{}\u{a0}requests/s", rate_words(rate)));
    [cost, beside, rate].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn interval(value: Option<&Interval>, unit: &str) -> Option<Markup> {
    let value = value.filter(|value| value.is_drawable())?;
    let [median, lo, hi] = [value.median, value.lo, value.hi].map(significant);
    Some(html! { (median) (unit) " " (bounds(&format!("[{lo}, {hi}]"))) })
}

fn facts(view: &MatrixView<'_>, (row, column): (usize, usize), figures: &Figures) -> Vec<(&'static str, Markup)> {
    let workload = &view.workloads()[column];
    let words = |words: String| html! { (words) };
    let times = |latency: &Option<_>| latency.as_ref().map(quantiles).map(words);
    let beside = view.ratio(row, column).filter(|_| row != view.reference).map(|ratio| {
        let [median, lo, hi] = [ratio.median, ratio.lo, ratio.hi].map(ratio_exact);
        html! {
            (median) " × " (view.reference_label()) " " (bounds(&format!("[{lo}, {hi}]")))
            @if !ratio.differs { ", no difference seen" }
            @if let Some(noise) = view.noise(&workload.name) { " (noise " (floor(noise.cpu_floor_percent / 100.0)) ")" }
        }
    });
    let busy = |fraction: f64| format!("{:.0}\u{a0}%", fraction * 100.0);
    let both = figures
        .server_busy
        .map(|server| format!("server {} of its cores, generator {}", busy(server), busy(figures.client_busy)));
    let flags = view.flags(row, column).into_iter();
    let flags = flags
        .map(|(flag, visits)| format!("{} ({}): {}", flag.name(), count(visits as usize, "visit"), flag.meaning()));
    let flags: Vec<String> = flags.collect();
    let service = if is_open(workload) { "service time" } else { "service time, not user latency" };
    let visits = format!("{} of {}", figures.visits, count(figures.attempts as usize, "attempt"));
    let calls = figures.further.syscalls_per_request.filter(|calls| calls.is_finite());
    let entries = [
        ("load", Some(words(workload.title.clone()))),
        ("server CPU per request", interval(figures.cpu_us.as_ref(), "\u{a0}µs")),
        ("beside the reference", beside),
        ("requests per second", interval(Some(&figures.throughput_rps), "")),
        ("response time", times(&figures.response)),
        (service, times(&figures.service)),
        ("busy", both.map(words)),
        ("warm-up", warm_up(figures).map(words)),
        ("system calls per request", calls.map(significant).map(words)),
        ("visits that counted", Some(words(visits))),
        ("flags", (!flags.is_empty()).then(|| words(flags.join("; ")))),
    ];
    entries.into_iter().filter_map(|(term, words)| Some((term, words?))).collect()
}

/// Time of the warm-up, and where it was to end by itself, whether it did.
fn warm_up(figures: &Figures) -> Option<String> {
    let time = duration(Some(figures.further.warmup_s?).filter(Drawable::is_drawable)? * 1e6);
    Some(match figures.further.unsettled_visits {
        None => time,
        Some(0) => format!("{time}, until the load was steady"),
        Some(visits) => format!("{time}; in {visits} of {} not steady then", count(figures.visits as usize, "visit")),
    })
}

fn quantiles(latency: &LatencyFigures) -> String {
    let named = [("p50", latency.p50), ("p90", latency.p90), ("p99", latency.p99), ("p99.9", latency.p999)];
    let shown = named.iter().filter(|(_, value)| value.median.is_drawable());
    let mut words: Vec<String> = shown.map(|(name, value)| format!("{name} {}", duration(value.median))).collect();
    words.extend(Some(latency.max).filter(Drawable::is_drawable).map(|max| format!("max {}", duration(max))));
    words.join(", ")
}

/// The visits one by one: server CPU per request over the blocks, in one drawing for all screens.
fn strip(view: &MatrixView<'_>, (row, column): (usize, usize), blocks: &[BlockFigures]) -> Markup {
    let points: Vec<(&BlockFigures, f64)> =
        blocks.iter().filter_map(|block| Some((block, block.cpu_us.filter(Drawable::is_drawable)?))).collect();
    if points.len() < 2 {
        return Markup::default();
    }
    let title = view.id(format_args!("strip-{}-{column}-t", view.series[row].id));
    let Drawing { height, canvas } = draw_strip(&points);
    html! {
        svg class="strip" viewBox=(view_box(Width::Narrow.units(), height)) role="img" aria-labelledby=(title) {
            title id=(title) { "Server CPU per request in each block" }
            (canvas)
        }
        "\n"
    }
}

fn draw_strip(points: &[(&BlockFigures, f64)]) -> Drawing {
    let values = || points.iter().map(|(_, value)| *value);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let spare = ((high - low) * 0.2).max(high * 0.01);
    let last = points.iter().map(|(block, _)| block.block).max().unwrap_or(0);
    let area = Rect::new(64.0, 6.0, Width::Narrow.units() - 72.0, 64.0);
    let x = Scale::linear((0.5, f64::from(last) + 1.5), (area.x, area.x + area.width));
    let y = Scale::linear((low - spare, high + spare), (area.y + area.height, area.y));
    let mut canvas = Canvas::default();
    for tick in ticks_between(low - spare, high + spare, 3.0) {
        canvas.line((area.x, y.at(tick)), (area.x + area.width, y.at(tick)), "grid");
        canvas.text(area.x - 7.0, y.at(tick) + 4.0, "s m num", Anchor::End, &format!("{}\u{a0}µs", significant(tick)));
    }
    for (block, value) in points {
        let number = block.block + 1;
        let doubt = if block.valid { "" } else { ", flagged" };
        let words = format!("block {number}: {}{doubt}", duration(*value));
        canvas.dot(x.at(f64::from(number)), y.at(*value), if block.valid { "dot" } else { "dot open" }, Some(&words));
    }
    let right = area.x + area.width;
    canvas.text(area.x, area.y + area.height + 16.0, "xs m", Anchor::Start, "block 1");
    canvas.text(right, area.y + area.height + 16.0, "xs m", Anchor::End, &format!("block {}", last + 1));
    Drawing { height: area.y + area.height + 22.0, canvas }
}
