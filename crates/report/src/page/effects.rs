//! Main effects: what one choice changes when everything else stays equal. A dot and its interval per level.

use maud::{Markup, html};
use results::{Effect, Summary, ranks::interval_name};

use super::section::{Section, figure};
use crate::{
    format::{ratio, ratio_exact, short},
    matrix_view::{Drawable, MatrixView},
    picture::svg::{Anchor, Canvas, Drawing, Rect, Scale, Width, fit, picture, text_width},
};

/// Places of a ratio axis worth a label; 1 is always one of them.
const TICKS: [f64; 17] = [0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0];
/// Least distance between two tick labels, in units.
const TICK_GAP: f64 = 38.0;

/// `None` when no choice was varied.
pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let effects = drawable(view.summary);
    if effects.is_empty() {
        return None;
    }
    let note = html! {
        "Each dot: the median paired ratio of server CPU per request over all workloads and blocks when one choice "
        "changes, all else equal. Whisker: " (interval_name(view.summary.setup.blocks))
        ". Log axis, so ×2 and ÷2 are equally far from " i { "same" }
        ". Shaded: the noise floor. Open dot, “~”: no difference seen."
    };
    Some(Section {
        id: "effects",
        link: "effects",
        title: "What each choice changes".to_owned(),
        finding: finding(&effects),
        content: figure(&pictures(view, &effects), &note),
    })
}

/// Names the largest main effect, and the levels that change nothing.
pub(super) fn finding(effects: &[&Effect]) -> String {
    let seen = effects.iter().filter(|e| e.cpu.differs);
    let largest = seen.max_by(|a, b| a.cpu.median.ln().abs().total_cmp(&b.cpu.median.ln().abs()));
    let is_alone = effects.iter().all(|e| e.factor == effects[0].factor);
    let named = |e: &Effect| if is_alone { e.level.clone() } else { format!("{} {}", e.factor, e.level) };
    let same: Vec<String> = effects.iter().filter(|e| !e.cpu.differs).map(|e| named(e)).collect();
    let mut out = largest.map_or(String::new(), |e| {
        let (level, other, times) = (named(e), &e.instead_of, ratio(e.cpu.median));
        format!("The largest change: {level} instead of {other}, ×\u{a0}{times} server CPU per request. ")
    });
    if !same.is_empty() {
        out += &format!("No difference seen: {}.", same.join(", "));
    }
    out.trim_end().to_owned()
}

fn pictures(view: &MatrixView<'_>, effects: &[&Effect]) -> Markup {
    let description = "Ratio of server CPU per request when one choice changes and everything else stays equal.";
    picture(&view.id("eff"), "Main effects", description, |width| draw(effects, width))
}

pub(super) fn drawable(summary: &Summary) -> Vec<&Effect> {
    summary.effects.iter().filter(|e| e.cpu.is_drawable() && e.floor_percent.is_finite()).collect()
}

struct Axis {
    scale: Scale,
    ticks: Vec<f64>,
}

fn axis(effects: &[&Effect], width: Width) -> Axis {
    let gutter = width.pick(gutter(effects), 8.0);
    let right = width.units() - width.pick(152.0, 14.0);
    let low = effects.iter().map(|e| e.cpu.lo).fold(0.95, f64::min);
    let high = effects.iter().map(|e| e.cpu.hi).fold(1.05, f64::max);
    // Out to the next labelled place, so that both ends of the axis can be read.
    let domain_low = TICKS.into_iter().rev().find(|t| *t <= low).unwrap_or(low) * 0.98;
    let domain_high = TICKS.into_iter().find(|t| *t >= high).unwrap_or(high) * 1.02;
    let scale = Scale::log((domain_low, domain_high), (gutter, right));
    let mut ticks = vec![1.0];
    // From 1 outwards, so that "same" always has its room.
    let (below, above): (Vec<f64>, Vec<f64>) = TICKS.into_iter().partition(|t| *t < 1.0);
    for tick in above.into_iter().chain(below.into_iter().rev()) {
        let is_clear = |other: &f64| (scale.at(*other) - scale.at(tick)).abs() >= TICK_GAP;
        if scale.holds(tick) && ticks.iter().all(is_clear) {
            ticks.push(tick);
        }
    }
    Axis { scale, ticks }
}

fn gutter(effects: &[&Effect]) -> f64 {
    let widest = effects.iter().map(|e| text_width(&e.level, 12.5)).fold(0.0, f64::max);
    (widest + 16.0).clamp(150.0, 220.0)
}

/// The factors in the order given, each with its levels by cost.
fn factors<'a>(effects: &[&'a Effect]) -> Vec<(String, Vec<&'a Effect>)> {
    let mut factors: Vec<(String, Vec<&Effect>)> = Vec::new();
    for &effect in effects {
        let name = format!("{}, instead of {}", effect.factor, effect.instead_of);
        match factors.iter_mut().find(|(other, _)| *other == name) {
            Some((_, levels)) => levels.push(effect),
            None => factors.push((name, vec![effect])),
        }
    }
    for (_, levels) in &mut factors {
        levels.sort_by(|a, b| a.cpu.median.total_cmp(&b.cpu.median));
    }
    factors
}

fn draw(effects: &[&Effect], width: Width) -> Drawing {
    let axis = axis(effects, width);
    let row_height = width.pick(24.0, 33.0);
    let (mut grid, mut marks) = (Canvas::default(), Canvas::default());
    let mut y = 0.0;
    for (name, levels) in factors(effects) {
        marks.text(0.0, y + 12.0, "t i m", Anchor::Start, &fit(&name, 12.5, width.units()));
        y += width.pick(22.0, 26.0);
        for (i, effect) in levels.iter().enumerate() {
            let span = match width {
                // The grid runs through the rows; on a phone it leaves out the line of words above each whisker.
                Width::Wide => (y - 2.0, y + row_height - if i + 1 == levels.len() { 4.0 } else { 2.0 }),
                Width::Narrow => (y + 14.0, y + 30.0),
            };
            grid_lines(&mut grid, &axis, effect.floor_percent / 100.0, span);
            level(&mut marks, effect, &axis.scale, y, width);
            y += row_height;
        }
        y += 12.0;
    }
    y -= 14.0;
    tick_labels(&mut grid, &axis, y);
    grid.push(&marks);
    Drawing { height: y + 36.0, canvas: grid }
}

fn grid_lines(canvas: &mut Canvas, axis: &Axis, floor: f64, (top, bottom): (f64, f64)) {
    let (left, right) = (axis.scale.clamped(1.0 / (1.0 + floor)), axis.scale.clamped(1.0 + floor));
    canvas.rect(Rect::new(left, top, right - left, bottom - top), "band");
    for &tick in &axis.ticks {
        let x = axis.scale.at(tick);
        canvas.line((x, top), (x, bottom), if tick == 1.0 { "zero" } else { "grid" });
    }
}

fn level(canvas: &mut Canvas, effect: &Effect, scale: &Scale, y: f64, width: Width) {
    let value = &effect.cpu;
    let mark = if value.differs { "" } else { "\u{a0}\u{a0}~" };
    let figures = format!("{}\u{a0}\u{a0}[{}, {}]{mark}", ratio(value.median), ratio(value.lo), ratio(value.hi));
    let muted = if value.differs { "" } else { " m" };
    let [median, lo, hi] = [value.median, value.lo, value.hi].map(ratio_exact);
    let seen = if value.differs { "" } else { ", no difference seen" };
    let words = format!("{}: {median} [{lo}, {hi}]{seen}", effect.level);
    canvas.group(&[("data-t", &words)], |canvas| {
        let (end, centre) = (width.units(), y + width.pick(9.0, 22.0));
        let numbers = format!("{} num{}", width.pick("t", "s"), width.pick(muted, " m"));
        let name = format!("t{muted}");
        match width {
            Width::Wide => {
                let left = scale.start() - 14.0;
                canvas.text(left, centre + 4.0, &name, Anchor::End, &fit(&effect.level, 12.5, left));
                canvas.text(end, centre + 4.0, &numbers, Anchor::End, &figures);
            }
            Width::Narrow => {
                let room = end - text_width(&figures, 11.0) - 8.0;
                canvas.text(0.0, y + 9.0, &name, Anchor::Start, &fit(&effect.level, 12.5, room));
                canvas.text(end, y + 9.0, &numbers, Anchor::End, &figures);
            }
        }
        canvas.line((scale.clamped(value.lo), centre), (scale.clamped(value.hi), centre), "whisk");
        canvas.dot(scale.at(value.median), centre, if value.differs { "dot" } else { "dot open" }, None);
    });
}

fn tick_labels(canvas: &mut Canvas, axis: &Axis, y: f64) {
    for &tick in &axis.ticks {
        let label = if tick == 1.0 { "same".to_owned() } else { format!("×{}", short(tick)) };
        canvas.text(axis.scale.at(tick), y + 14.0, "s m", Anchor::Middle, &label);
    }
    let (cheaper, more_expensive) = ("← cheaper", "more expensive →");
    let end = (axis.scale.at(1.0) - 8.0).max(text_width(cheaper, 11.0));
    canvas.text(end, y + 30.0, "s m", Anchor::End, cheaper);
    canvas.text(end + 16.0, y + 30.0, "s m", Anchor::Start, more_expensive);
}
