//! Cell by cell: what a click in the matrix opens. Everything known of one server under one workload, in words, its
//! visits one by one, and the commands that make it again.

use std::fmt::Write as _;

use results::{BlockFigures, Figures, Interval, Outcome};

use crate::{
    format::{count, duration, floor, rate as rate_words, ratio_exact, significant},
    matrix_view::{Drawable, View, is_open},
    page::Section,
    picture::svg::{Anchor, Canvas, Drawing, Rect, Scale, Width, escape, number, ticks_between},
};

pub(super) fn section(view: &View<'_>) -> Option<Section> {
    let mut content = String::new();
    for row in view.compared() {
        let cells: String = (0..view.workloads().len()).filter_map(|column| one(view, row, column)).collect();
        if !cells.is_empty() {
            let _ = writeln!(content, "<div class=\"cells\"><h3>{}</h3>{cells}</div>", escape(&view.series[row].label));
        }
    }
    (!content.is_empty()).then(|| Section {
        id: "cells",
        link: "cells",
        title: "Cell by cell".to_owned(),
        finding: "What a click in the matrix opens: a server under a workload, its visits, and its commands."
            .to_owned(),
        content,
    })
}

fn one(view: &View<'_>, row: usize, column: usize) -> Option<String> {
    let outcome = view.outcome(row, column)?;
    let workload = &view.workloads()[column];
    let (id, name) = (view.cell_id(row, column), escape(&workload.name));
    let (brief, body) = match outcome {
        Outcome::NotRun { reason } => (format!("n/a: {}", escape(reason)), String::new()),
        Outcome::Measured(figures) => (brief(view, (row, column), figures), measured(view, (row, column), figures)),
    };
    let commands = escape(&format!("{}\n{}", view.cells()[row].command, workload.command));
    let table = format!("raw-{}-{column}", view.series[row].id);
    // The id is inside: a browser that is led to it opens what is around it, with scripts or without.
    Some(format!(
        "<details data-r=\"{}\" data-wn=\"{name}\"><summary>{name} <span class=\"ci\">{brief}</span></summary>\
         <div id=\"{id}\">{body}<pre>{commands}</pre><p class=\"small\"><a href=\"#{table}\">Its row in the table of all \
         figures</a></p></div></details>\n",
        view.series[row].id
    ))
}

fn brief(view: &View<'_>, (row, column): (usize, usize), figures: &Figures) -> String {
    let cost = view.cpu(row, column).map(|cpu| format!("{}\u{a0}µs", significant(cpu.median)));
    let beside = view.ratio(row, column).filter(|_| row != view.reference).map(|ratio| {
        let mark = if ratio.differs { "" } else { "\u{a0}~" };
        format!("{}\u{a0}×{mark}", ratio_exact(ratio.median))
    });
    let rate = Some(figures.throughput_rps.median).filter(Drawable::is_drawable);
    let rate = rate.map(|rate| format!("{}\u{a0}requests/s", rate_words(rate)));
    [cost, beside, rate].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn measured(view: &View<'_>, (row, column): (usize, usize), figures: &Figures) -> String {
    let mut out = "<dl>".to_owned();
    for (term, words) in facts(view, (row, column), figures) {
        let _ = write!(out, "<dt>{term}</dt><dd>{words}</dd>");
    }
    out += "</dl>\n";
    out + &strip(view, (row, column), &figures.per_block)
}

fn interval(value: Option<&Interval>, unit: &str) -> Option<String> {
    let value = value.filter(|value| value.is_drawable())?;
    let [median, lo, hi] = [value.median, value.lo, value.hi].map(significant);
    Some(format!("{median}{unit} <span class=\"ci\">[{lo}, {hi}]</span>"))
}

fn facts(view: &View<'_>, (row, column): (usize, usize), figures: &Figures) -> Vec<(&'static str, String)> {
    let workload = &view.workloads()[column];
    let times = |latency: &Option<_>| latency.as_ref().map(quantiles);
    let beside = view.ratio(row, column).filter(|_| row != view.reference).map(|ratio| {
        let [median, lo, hi] = [ratio.median, ratio.lo, ratio.hi].map(ratio_exact);
        let seen = if ratio.differs { "" } else { ", no difference seen" };
        let reference = escape(view.reference_label());
        let noise = view.noise(&workload.name).map(|noise| floor(noise.cpu_floor_percent / 100.0));
        let noise = noise.map_or(String::new(), |noise| format!(" (noise {noise})"));
        format!("{median} × {reference} <span class=\"ci\">[{lo}, {hi}]</span>{seen}{noise}")
    });
    let busy = |fraction: f64| format!("{:.0}\u{a0}%", fraction * 100.0);
    let both = figures
        .server_busy
        .map(|server| format!("server {} of its cores, generator {}", busy(server), busy(figures.client_busy)));
    let flags = view.flags(row, column).into_iter().map(|(flag, visits)| {
        format!("{} ({}): {}", flag.name(), count(visits as usize, "visit"), escape(flag.meaning()))
    });
    let flags: Vec<String> = flags.collect();
    let service = if is_open(workload) { "service time" } else { "service time, not user latency" };
    let visits = format!("{} of {}", figures.visits, count(figures.attempts as usize, "attempt"));
    let calls = figures.further.syscalls_per_request.filter(|calls| calls.is_finite());
    let entries = [
        ("load", Some(escape(&workload.title))),
        ("server CPU per request", interval(figures.cpu_us.as_ref(), "\u{a0}µs")),
        ("beside the reference", beside),
        ("requests per second", interval(Some(&figures.throughput_rps), "")),
        ("response time", times(&figures.response)),
        (service, times(&figures.service)),
        ("busy", both),
        ("warm-up", warm_up(figures)),
        ("system calls per request", calls.map(significant)),
        ("visits that counted", Some(visits)),
        ("flags", (!flags.is_empty()).then(|| flags.join("; "))),
    ];
    entries.into_iter().filter_map(|(term, words)| Some((term, words?))).collect()
}

/// How long it was, and where it was to end by itself, whether it did.
fn warm_up(figures: &Figures) -> Option<String> {
    let time = duration(Some(figures.further.warmup_s?).filter(Drawable::is_drawable)? * 1e6);
    Some(match figures.further.unsettled_visits {
        None => time,
        Some(0) => format!("{time}, until the load was steady"),
        Some(visits) => format!("{time}; in {visits} of {} not steady then", count(figures.visits as usize, "visit")),
    })
}

fn quantiles(latency: &results::LatencyFigures) -> String {
    let named = [("p50", latency.p50), ("p90", latency.p90), ("p99", latency.p99), ("p99.9", latency.p999)];
    let shown = named.iter().filter(|(_, value)| value.median.is_drawable());
    let mut words: Vec<String> = shown.map(|(name, value)| format!("{name} {}", duration(value.median))).collect();
    words.extend(Some(latency.max).filter(Drawable::is_drawable).map(|max| format!("max {}", duration(max))));
    words.join(", ")
}

/// The visits one by one: server CPU per request over the blocks, in one drawing for all screens.
fn strip(view: &View<'_>, (row, column): (usize, usize), blocks: &[BlockFigures]) -> String {
    let points: Vec<(&BlockFigures, f64)> =
        blocks.iter().filter_map(|block| Some((block, block.cpu_us.filter(Drawable::is_drawable)?))).collect();
    if points.len() < 2 {
        return String::new();
    }
    let id = view.id(format_args!("strip-{}-{column}", view.series[row].id));
    let Drawing { height, canvas } = draw_strip(&points);
    let (units, height) = (number(Width::Narrow.units()), number(height));
    format!(
        "<svg class=\"strip\" viewBox=\"0 0 {units} {height}\" role=\"img\" aria-labelledby=\"{id}-t\">\
         <title id=\"{id}-t\">Server CPU per request in each block</title>{}</svg>\n",
        canvas.into_svg()
    )
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
