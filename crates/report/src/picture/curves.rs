//! Several curves on one pair of axes, panels below one another. On a wide screen every curve is named at its end; a key
//! in front of the picture names them on a narrow one, and switches them on and off.

use maud::{Markup, html};

use super::{
    axes::{Axis, Tick},
    svg::{Anchor, Canvas, Drawing, Rect, Scale, Width, fit, text_width},
};
use crate::markup::{empty_element, joined};

/// Least distance between two names at the ends of curves.
const NAME_GAP: f64 = 13.0;

pub(crate) struct Curve {
    /// Colour and dash.
    pub(crate) class: String,
    /// Name by which the key switches it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) is_reference: bool,
    pub(crate) points: Vec<(f64, f64)>,
    /// Points that get a mark, with what it says; open where the third is true.
    pub(crate) marks: Vec<((f64, f64), String, bool)>,
}

pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
    /// End of a shaded area that begins at the left edge, and its name.
    pub(crate) shade: Option<(f64, &'static str)>,
    /// Kind of what the script reads out of the embedded data, and the workload; `None` where the marks speak.
    pub(crate) read_out: Option<(&'static str, usize)>,
}

/// Draws the panels, and `note` below the last.
pub(crate) fn draw(panels: &[Panel], note: &str, width: Width) -> Drawing {
    let names = panels.iter().flat_map(|panel| &panel.curves).map(|curve| text_width(&curve.name, 11.0));
    let right = width.pick(names.fold(0.0, f64::max).clamp(30.0, 130.0) + 26.0, 8.0);
    let (left, height) = width.pick((56.0, 190.0), (48.0, 160.0));
    let mut canvas = Canvas::default();
    let mut y = 0.0;
    for panel in panels {
        canvas.text(0.0, y + 12.0, "t b", Anchor::Start, &panel.title);
        let area = Rect::new(left, y + 24.0, width.units() - left - right, height);
        draw_panel(&mut canvas, panel, area, width);
        y += 24.0 + height + 44.0;
    }
    canvas.text(width.units() - right, y - 8.0, "xs m", Anchor::End, note);
    Drawing { height: y, canvas }
}

fn draw_panel(canvas: &mut Canvas, panel: &Panel, area: Rect, width: Width) {
    let (right, bottom) = (area.x + area.width, area.y + area.height);
    let (x, y) = (panel.x.scale((area.x, right)), panel.y.scale((bottom, area.y)));
    if let Some((end, words)) = panel.shade {
        let shaded = Rect::new(area.x, area.y, x.clamped(end) - area.x, area.height);
        canvas.rect(shaded, "shade");
        let place = between_lines(panel, area, y);
        canvas.text(area.x + 5.0, place, "xs m", Anchor::Start, &fit(words, 10.5, shaded.width));
    }
    axes(canvas, panel, area, (x, y));
    // The reference on top.
    let (own, others): (Vec<&Curve>, Vec<&Curve>) = panel.curves.iter().partition(|curve| curve.is_reference);
    for curve in others.into_iter().chain(own) {
        canvas.group(&[("data-s", &curve.id)], |canvas| draw_curve(canvas, curve, (x, y)));
    }
    if !width.is_narrow() {
        names(canvas, &panel.curves, area, (x, y));
    }
    if let Some((kind, column)) = panel.read_out {
        canvas.hit(kind, None, column, area, x, y);
    }
}

/// Base line of a word that no grid line crosses: the topmost that has room.
fn between_lines(panel: &Panel, area: Rect, y: Scale) -> f64 {
    const ROOM: f64 = 14.0;
    let lines = panel.y.ticks.iter().filter(|tick| y.holds(tick.at)).map(|tick| y.at(tick.at));
    let mut edges: Vec<f64> = lines.chain([area.y, area.y + area.height]).collect();
    edges.sort_by(f64::total_cmp);
    let room = edges.windows(2).find(|pair| pair[1] - pair[0] >= ROOM);
    room.map_or(area.y, |pair| pair[0]) + ROOM - 3.0
}

fn axes(canvas: &mut Canvas, panel: &Panel, area: Rect, (x, y): (Scale, Scale)) {
    let (right, bottom) = (area.x + area.width, area.y + area.height);
    for tick in panel.y.ticks.iter().filter(|tick| y.holds(tick.at)) {
        let place = y.at(tick.at);
        canvas.line((area.x, place), (right, place), "grid");
        label(canvas, (area.x - 7.0, place + 4.0), Anchor::End, tick);
    }
    let mut free_from = f64::NEG_INFINITY;
    for tick in panel.x.ticks.iter().filter(|tick| x.holds(tick.at)) {
        let (place, half) = (x.at(tick.at), text_width(&tick.label, 11.0) / 2.0);
        canvas.line((place, bottom), (place, bottom + 4.0), "tick");
        if place - half > free_from {
            label(canvas, (place, bottom + 17.0), Anchor::Middle, tick);
            free_from = place + half + 6.0;
        }
    }
}

fn label(canvas: &mut Canvas, (x, y): (f64, f64), anchor: Anchor, tick: &Tick) {
    match tick.us {
        Some(us) => canvas.time(x, y, anchor, us, &tick.label),
        None => canvas.text(x, y, "s m num", anchor, &tick.label),
    }
}

fn draw_curve(canvas: &mut Canvas, curve: &Curve, (x, y): (Scale, Scale)) {
    let at = |&(px, py): &(f64, f64)| (x.at(px), y.clamped(py));
    let places: Vec<_> = curve.points.iter().map(at).collect();
    let stroke = if curve.is_reference { "2.2" } else { "1.6" };
    canvas.path(&places, &format!("ln dash {}", curve.class), &[("stroke-width", stroke)]);
    for (point, words, is_open) in &curve.marks {
        let (px, py) = at(point);
        let class = format!("pt {}{}", curve.class, if *is_open { " open" } else { "" });
        canvas.dot(px, py, &class, Some(words));
    }
}

/// The names at the right, in the order of the curves' ends; none where they have no room.
fn names(canvas: &mut Canvas, curves: &[Curve], area: Rect, (x, y): (Scale, Scale)) {
    let end = |curve: &Curve| curve.points.last().map(|&(px, py)| (x.at(px), y.clamped(py)));
    let mut ends: Vec<(f64, f64, &Curve)> =
        curves.iter().filter_map(|curve| end(curve).map(|(px, py)| (px, py, curve))).collect();
    if ends.len() as f64 * NAME_GAP > area.height + NAME_GAP {
        return;
    }
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    if let [highest, _, .., lowest] = ends.as_slice()
        && lowest.1 - highest.1 < 1.0
    {
        // Many curves that end as one: the names would point at the same place, as zeros do. The key has them.
        return;
    }
    let places = spread(&ends.iter().map(|end| end.1).collect::<Vec<_>>(), area.y, area.y + area.height);
    for ((px, py, curve), place) in ends.into_iter().zip(places) {
        let left = area.x + area.width + 18.0;
        canvas.group(&[("data-s", &curve.id)], |canvas| {
            canvas.line((px + 3.0, py), (left - 3.0, place), &format!("lead {}", curve.class));
            let class = format!("s lab {}{}", curve.class, if curve.is_reference { " b" } else { "" });
            canvas.text(left, place + 4.0, &class, Anchor::Start, &fit(&curve.name, 11.0, 130.0));
        });
    }
}

/// Spreads places so that they are at least [`NAME_GAP`] apart, near the wanted ones, which rise; inside `low..=high` if they fit at all.
fn spread(wanted: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::with_capacity(wanted.len());
    for &place in wanted {
        let free = places.last().map_or(low, |last| last + NAME_GAP);
        places.push(place.max(free));
    }
    let mut limit = high;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - NAME_GAP;
    }
    places
}

/// The key in front of the picture: a sample of each line and its name; none for one curve.
pub(crate) fn key(curves: &[Curve]) -> Markup {
    let entry = |curve: &Curve| {
        let class = format!("ln dash {}", curve.class);
        let line = [("x1", "0"), ("y1", "4"), ("x2", "30"), ("y2", "4"), ("class", &class), ("stroke-width", "2")];
        html! {
            span class="key" data-key=(curve.id) {
                svg width="30" height="8" aria-hidden="true" { (empty_element("line", &line)) }
                (curve.name)
            }
        }
    };
    html! {
        @if curves.len() >= 2 {
            p.keys { (joined(&curves.iter().map(entry).collect::<Vec<_>>(), " ")) }
            "\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_order_their_distance_and_their_room() {
        for wanted in [vec![10.0, 11.0, 12.0], vec![95.0, 99.0, 100.0], vec![0.0, 50.0, 50.0, 100.0], vec![50.0]] {
            let places = spread(&wanted, 0.0, 100.0);
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAME_GAP - 1e-9), "{wanted:?}: {places:?}");
            assert!(places.iter().all(|place| (-1e-9..=100.0 + 1e-9).contains(place)), "{wanted:?}: {places:?}");
        }
        assert_eq!(spread(&[20.0, 60.0], 0.0, 100.0), [20.0, 60.0], "nothing moves without need");
    }
}
