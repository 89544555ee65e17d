//! Ratios on one log axis: a dot and its interval per row, the noise floor as a band about 1.

use results::{Ratio, words};

use super::svg::{Anchor, Canvas, Drawing, Rect, Scale, Width, fit, text_width};

/// Places of a ratio axis with a label; 1 is always one of them.
const TICKS: [f64; 26] = [
    1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0,
    50.0, 100.0, 1e3, 1e4, 1e5,
];
/// Least distance between two tick labels, in units.
const TICK_GAP: f64 = 42.0;
const MORE_EXPENSIVE: &str = "more expensive →";
const CHEAPER: &str = "← cheaper";

pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) ratio: Ratio,
    /// Noise floor as a fraction.
    pub(crate) floor: f64,
    /// Words of the row when it is pointed at.
    pub(crate) words: String,
    /// True if a difference is claimed: the others are grey and open.
    pub(crate) is_claimed: bool,
    pub(crate) is_reference: bool,
}

/// Rows below a heading; an empty heading takes no room.
pub(crate) struct RowGroup {
    pub(crate) heading: String,
    pub(crate) rows: Vec<Row>,
}

struct Axis {
    scale: Scale,
    ticks: Vec<f64>,
}

pub(crate) fn draw(groups: &[RowGroup], width: Width) -> Drawing {
    let axis = axis(groups, width);
    let row_height = width.pick(23.0, 32.0);
    let (mut grid, mut marks) = (Canvas::default(), Canvas::default());
    let mut y = 0.0;
    for group in groups {
        if !group.heading.is_empty() {
            marks.text(0.0, y + 12.0, "t i m", Anchor::Start, &fit(&group.heading, 12.5, width.units()));
            y += width.pick(22.0, 26.0);
        }
        let end = y + row_height * group.rows.len() as f64 - 3.0;
        for (i, row) in group.rows.iter().enumerate() {
            let span = match width {
                // The grid runs through the rows; on a phone it leaves out the line of words above each whisker.
                Width::Wide => (y - 2.0, (y + row_height - 2.0).min(end)),
                Width::Narrow => (y + 14.0, y + 29.0),
            };
            band(&mut grid, &axis, row.floor, span);
            match width {
                Width::Wide if i + 1 < group.rows.len() => {}
                Width::Wide => grid_lines(&mut grid, &axis, (end + 1.0 - row_height * group.rows.len() as f64, end)),
                Width::Narrow => grid_lines(&mut grid, &axis, span),
            }
            draw_row(&mut marks, row, &axis.scale, y, width);
            y += row_height;
        }
        y += 12.0;
    }
    y -= 13.0;
    tick_labels(&mut grid, &axis, y, width);
    grid.push(&marks);
    Drawing { height: y + 34.0, canvas: grid }
}

fn axis(groups: &[RowGroup], width: Width) -> Axis {
    let rows = || groups.iter().flat_map(|group| &group.rows);
    let widest = rows().map(|row| text_width(&row.label, LABEL)).fold(0.0, f64::max);
    let left = width.pick((widest + 16.0).clamp(110.0, 240.0), 8.0);
    let widest = rows().map(|row| text_width(&figures(&row.ratio), 12.5)).fold(0.0, f64::max);
    let right = width.units() - width.pick(widest + 12.0, 14.0);
    let reach = |row: &Row| (1.0 / (1.0 + row.floor), 1.0 + row.floor);
    let low = rows().map(|row| row.ratio.lo.min(reach(row).0)).fold(0.95, f64::min);
    let high = rows().map(|row| row.ratio.hi.max(reach(row).1)).fold(1.05, f64::max);
    // Out to the next labelled place, so that both ends of the axis can be read.
    let domain_low = TICKS.into_iter().rev().find(|t| *t <= low).unwrap_or(low) * 0.98;
    let domain_high = TICKS.into_iter().find(|t| *t >= high).unwrap_or(high) * 1.02;
    let scale = Scale::log((domain_low, domain_high), (left, right));
    let mut ticks = vec![1.0];
    // From 1 outwards, so that it always has its room.
    let (below, above): (Vec<f64>, Vec<f64>) = TICKS.into_iter().partition(|t| *t < 1.0);
    for tick in above.into_iter().chain(below.into_iter().rev()) {
        let is_clear = |other: &f64| (scale.at(*other) - scale.at(tick)).abs() >= TICK_GAP;
        if scale.holds(tick) && ticks.iter().all(is_clear) {
            ticks.push(tick);
        }
    }
    Axis { scale, ticks }
}

/// The noise floor as it is tested: as far below 1 as above it, on a log axis.
fn band(canvas: &mut Canvas, axis: &Axis, floor: f64, (top, bottom): (f64, f64)) {
    let (left, right) = (axis.scale.clamped(1.0 / (1.0 + floor)), axis.scale.clamped(1.0 + floor));
    canvas.rect(Rect::new(left, top, right - left, bottom - top), "band");
    for x in [left, right] {
        canvas.line((x, top), (x, bottom), "edge");
    }
}

fn grid_lines(canvas: &mut Canvas, axis: &Axis, (top, bottom): (f64, f64)) {
    for &tick in &axis.ticks {
        let x = axis.scale.at(tick);
        canvas.line((x, top), (x, bottom), if tick == 1.0 { "zero" } else { "grid" });
    }
}

/// `1.275×  [1.26, 1.29]`
fn figures(ratio: &Ratio) -> String {
    format!("{}\u{a0}\u{a0}{}", words::times(ratio.median), words::ratio_interval(ratio.lo, ratio.hi))
}

fn draw_row(canvas: &mut Canvas, row: &Row, scale: &Scale, y: f64, width: Width) {
    let ratio = &row.ratio;
    let figures = if row.is_reference { words::times(1.0) } else { figures(ratio) };
    let muted = if row.is_claimed || row.is_reference { "" } else { " m" };
    canvas.group(&[("data-t", &row.words)], |canvas| {
        let (end, centre) = (width.units(), y + width.pick(9.0, 22.0));
        let numbers = format!("{} num{}", width.pick("t", "s"), width.pick(muted, " m"));
        let name = format!("t{muted}{}", if row.is_reference { " b" } else { "" });
        match width {
            Width::Wide => {
                let left = scale.start() - 14.0;
                canvas.text(left, centre + 4.0, &name, Anchor::End, &fit(&row.label, LABEL, left));
                canvas.text(end, centre + 4.0, &numbers, Anchor::End, &figures);
            }
            Width::Narrow => {
                let room = end - text_width(&figures, 11.0) - 8.0;
                canvas.text(0.0, y + 9.0, &name, Anchor::Start, &fit(&row.label, LABEL, room));
                canvas.text(end, y + 9.0, &numbers, Anchor::End, &figures);
            }
        }
        canvas.line((scale.clamped(ratio.lo), centre), (scale.clamped(ratio.hi), centre), whisker(row));
        let dot = match row {
            Row { is_reference: true, .. } => "dot ink",
            Row { is_claimed: true, .. } => "dot",
            Row { .. } => "dot open",
        };
        canvas.dot(scale.at(ratio.median), centre, dot, None);
    });
}

/// Size of a row's name; bold ones are a little wider.
const LABEL: f64 = 13.0;

fn whisker(row: &Row) -> &'static str {
    if row.is_claimed { "whisk" } else { "whisk faint" }
}

fn tick_labels(canvas: &mut Canvas, axis: &Axis, y: f64, width: Width) {
    for &tick in &axis.ticks {
        let label = if tick == 1.0 { "1×".to_owned() } else { format!("{tick}×") };
        canvas.text(axis.scale.at(tick), y + 14.0, "s m", Anchor::Middle, &label);
    }
    // Around 1×, as far as both have room there.
    let last = width.units() - 16.0 - text_width(MORE_EXPENSIVE, 11.0);
    let end = (axis.scale.at(1.0) - 8.0).min(last).max(text_width(CHEAPER, 11.0));
    canvas.text(end, y + 29.0, "s m", Anchor::End, CHEAPER);
    canvas.text(end + 16.0, y + 29.0, "s m", Anchor::Start, MORE_EXPENSIVE);
}
