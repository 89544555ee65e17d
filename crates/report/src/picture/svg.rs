//! The drawing kit: elements, scales and the two widths every picture is drawn in.
//!
//! One unit is one CSS pixel, so type keeps its size on a phone. Coordinates are rounded to a tenth, which keeps the file
//! small and the golden files stable.

use std::fmt::Write as _;

use maud::{Markup, Render, html};

use crate::markup::{empty_element, push_attributes};

/// Size of a label's type in pixels, a little more because some are bold.
pub(crate) const LABEL_SIZE: f64 = 13.0;
/// Size of small type in pixels.
pub(crate) const SMALL_SIZE: f64 = 11.0;

/// One of the two drawings of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// 740 units, beside the notes.
    Wide,
    /// 348 units, for phones.
    Narrow,
}

impl Width {
    pub(crate) fn units(self) -> f64 {
        self.pick(740.0, 348.0)
    }

    pub(crate) fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }

    pub(crate) fn is_narrow(self) -> bool {
        self == Self::Narrow
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Rect {
    pub(crate) fn new(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self { x, y, width, height }
    }
}

/// Maps values to coordinates, linearly or by their logarithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    domain: (f64, f64),
    range: (f64, f64),
    is_log: bool,
}

impl Scale {
    pub(crate) fn linear(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self { domain, range, is_log: false }
    }

    /// Makes a logarithmic scale. Both ends of `domain` are positive.
    pub(crate) fn log(domain: (f64, f64), range: (f64, f64)) -> Self {
        Self { domain, range, is_log: true }
    }

    /// Returns the coordinate of `value`; values outside the domain land outside the range.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let position = |v: f64| if self.is_log { v.ln() } else { v };
        let (low, high) = (position(self.domain.0), position(self.domain.1));
        let span = if high == low { 1.0 } else { high - low };
        self.range.0 + (position(value) - low) / span * (self.range.1 - self.range.0)
    }

    /// Returns the coordinate of `value`, kept inside the range.
    pub(crate) fn clamped(&self, value: f64) -> f64 {
        self.at(value.clamp(self.domain.0.min(self.domain.1), self.domain.0.max(self.domain.1)))
    }

    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.domain.0..=self.domain.1).contains(&value)
    }

    /// The coordinate where the axis begins.
    pub(crate) fn start(&self) -> f64 {
        self.range.0
    }

    /// Writes what the script needs to find the nearest point: `[v0, v1, p0, p1, is_log]`.
    fn to_script(self) -> String {
        let (value, pixel) = (self.domain, self.range);
        format!("[{},{},{},{},{}]", value.0, value.1, number(pixel.0), number(pixel.1), u8::from(self.is_log))
    }
}

/// Returns the labelled places of a linear axis from 0 to at least `greatest`: at most 5 steps of 1, 2 or 5 times a power of ten.
pub(crate) fn linear_ticks(greatest: f64) -> Vec<f64> {
    let step = nice_step(greatest / 5.0);
    let count = (greatest / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|i| i as f64 * step).collect()
}

/// Returns the labelled places of a linear axis inside `low..=high`, about `count` of them.
pub(crate) fn ticks_between(low: f64, high: f64, count: f64) -> Vec<f64> {
    let step = nice_step((high - low) / count);
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(|i| i as f64 * step).collect()
}

fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= rough * 0.999).unwrap_or(10.0);
    factor * power
}

/// Returns the labelled places of a log axis: 1 and 3 of every decade inside `low..=high`.
pub(crate) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let places = decades.flat_map(|d| [1.0, 3.0].map(|f| f * 10f64.powi(d)));
    places.filter(|v| (low * 0.999..=high * 1.001).contains(v)).collect()
}

/// Elements in the order in which they are painted.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    out: String,
}

impl Canvas {
    pub(crate) fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, content: &str) {
        self.text_or_time(x, y, class, anchor, content, None);
    }

    /// Writes a time at a tick of an axis as `content`; the script rewrites it in the unit that the reader chose.
    pub(crate) fn time(&mut self, x: f64, y: f64, anchor: Anchor, us: f64, content: &str) {
        self.text_or_time(x, y, "s m num", anchor, content, Some(us));
    }

    fn text_or_time(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, content: &str, us: Option<f64>) {
        let anchor = match anchor {
            Anchor::Start => None,
            Anchor::Middle => Some("middle"),
            Anchor::End => Some("end"),
        };
        self.push(&html! {
            text x=(number(x)) y=(number(y)) class=(class) text-anchor=[anchor] data-us=[us] { (content) }
        });
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.empty("line", &[("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2), ("class", class)], &[]);
    }

    pub(crate) fn rect(&mut self, rect: Rect, class: &str) {
        self.rect_with(rect, class, &[]);
    }

    pub(crate) fn rect_with(&mut self, rect: Rect, class: &str, more: &[(&str, &str)]) {
        let [x, y, width, height] = [rect.x, rect.y, rect.width.max(0.0), rect.height.max(0.0)].map(number);
        let attributes = [("x", &*x), ("y", &y), ("width", &width), ("height", &height), ("class", class)];
        // What is at 0 need not say so.
        let from = if y == "0" { &[&attributes[..1], &attributes[2..]].concat() } else { &attributes[..] };
        self.empty("rect", from, more);
    }

    /// Draws a line through `points`; nothing where there are fewer than two.
    pub(crate) fn path(&mut self, points: &[(f64, f64)], class: &str, more: &[(&str, &str)]) {
        if points.len() >= 2 {
            self.empty("path", &[("d", &format!("M{}", places(points))), ("class", class)], more);
        }
    }

    /// Draws the band between two lines that run in the same direction.
    pub(crate) fn band(&mut self, upper: &[(f64, f64)], lower: &[(f64, f64)], class: &str) {
        if upper.len() < 2 || lower.len() < 2 {
            return;
        }
        let outline: Vec<_> = upper.iter().chain(lower.iter().rev()).copied().collect();
        self.empty("path", &[("d", &format!("M{}Z", places(&outline))), ("class", class)], &[]);
    }

    pub(crate) fn dot(&mut self, x: f64, y: f64, class: &str, read_out: Option<&str>) {
        let more = read_out.map(|words| ("data-t", words));
        self.empty("circle", &[("cx", &number(x)), ("cy", &number(y)), ("r", "4"), ("class", class)], more.as_slice());
    }

    fn empty(&mut self, name: &str, attributes: &[(&str, &str)], more: &[(&str, &str)]) {
        self.push(&empty_element(name, &[attributes, more].concat()));
    }

    pub(crate) fn group(&mut self, attributes: &[(&str, &str)], draw: impl FnOnce(&mut Self)) {
        self.element("g", attributes, draw);
    }

    pub(crate) fn element(&mut self, name: &str, attributes: &[(&str, &str)], draw: impl FnOnce(&mut Self)) {
        self.out.push('<');
        self.out.push_str(name);
        push_attributes(&mut self.out, attributes);
        self.out.push('>');
        draw(self);
        // Writing to a String cannot fail.
        let _ = write!(self.out, "</{name}>");
    }

    /// Adds an invisible surface on which the script reads out the nearest point of the curves of this `kind` under the
    /// workload at `column`: those of one series, or all for `None`.
    pub(crate) fn hit(&mut self, kind: &str, series: Option<&str>, column: usize, area: Rect, x: Scale, y: Scale) {
        let (series, x, y) = (series.unwrap_or_default(), x.to_script(), y.to_script());
        let plot = format!("{{\"f\":\"{kind}\",\"s\":\"{series}\",\"w\":{column},\"x\":{x},\"y\":{y}}}");
        self.rect_with(area, "hit", &[("data-plot", &plot)]);
    }

    pub(crate) fn push(&mut self, markup: &impl Render) {
        markup.render_to(&mut self.out);
    }
}

impl Render for Canvas {
    fn render_to(&self, out: &mut String) {
        out.push_str(&self.out);
    }
}

/// A finished drawing of one width.
#[derive(Debug)]
pub(crate) struct Drawing {
    pub(crate) height: f64,
    pub(crate) canvas: Canvas,
}

/// Makes both drawings of one picture; the style sheet shows one of them.
///
/// A picture of links is a group of them to a screen reader, every other one an image.
pub(crate) fn picture(id: &str, title: &str, description: &str, draw: impl Fn(Width) -> Drawing) -> Markup {
    let one = |width: Width| {
        let Drawing { height, canvas } = draw(width);
        let kind = width.pick("w", "n");
        let id = format!("{id}-{kind}");
        let [title_id, description_id] = [format!("{id}-t"), format!("{id}-d")];
        let role = if canvas.out.contains("<a ") { "group" } else { "img" };
        html! {
            svg class=(kind) id=(id) viewBox=(view_box(width.units(), height)) role=(role)
                aria-labelledby={ (title_id) " " (description_id) } {
                title id=(title_id) { (title) }
                desc id=(description_id) { (description) }
                (canvas)
            }
            "\n"
        }
    };
    html! { (one(Width::Wide)) (one(Width::Narrow)) }
}

pub(crate) fn view_box(width: f64, height: f64) -> String {
    format!("0 0 {} {}", number(width), number(height))
}

/// Defines the pattern of doubtful cells; a document needs it once.
pub(crate) fn hatch() -> Markup {
    let line = [("x1", "0"), ("y1", "0"), ("x2", "0"), ("y2", "6"), ("class", "hl")];
    html! {
        defs {
            pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                (empty_element("line", &line))
            }
        }
    }
}

/// Upper estimate of the width of `text` at `size` pixels, for the widest of the fallback fonts (DejaVu Sans).
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '\'' | '|' => 0.29,
            'f' | 't' | 'r' | 'I' | '.' | ',' | ':' | ' ' | '-' | '(' | ')' | '[' | ']' | '/' | '\u{a0}' => 0.4,
            'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.0,
            _ => 0.66,
        })
        .sum();
    em * size
}

/// `text`, or as much of it as fits into `width` with an ellipsis.
pub(crate) fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while short.pop().is_some() && !short.is_empty() {
        let candidate = format!("{short}…");
        if text_width(&candidate, size) <= width {
            return candidate;
        }
    }
    "…".to_owned()
}

/// Writes the first place, then steps from each to the next, which are shorter to write. Steps between rounded places, so that
/// nothing adds up.
fn places(points: &[(f64, f64)]) -> String {
    let tenth = |value: f64| if value.is_finite() { (value * 10.0).round() } else { 0.0 };
    let mut out = String::new();
    let mut last: Option<(f64, f64)> = None;
    for &(x, y) in points {
        let (x, y) = (tenth(x), tenth(y));
        let (dx, dy) = last.map_or((x, y), |(last_x, last_y)| (x - last_x, y - last_y));
        // Writing to a String cannot fail.
        let _ = match last {
            None => write!(out, "{} {}", number(dx / 10.0), number(dy / 10.0)),
            Some(_) if dx == 0.0 => write!(out, "v{}", number(dy / 10.0)),
            Some(_) if dy == 0.0 => write!(out, "h{}", number(dx / 10.0)),
            Some(_) => write!(out, "l{} {}", number(dx / 10.0), number(dy / 10.0)),
        };
        last = Some((x, y));
    }
    out
}

/// Writes a coordinate, to a tenth. Input is finite because the view only keeps finite measurements; a slip must not break
/// the file, so anything else becomes 0.
pub(crate) fn number(value: f64) -> String {
    debug_assert!(value.is_finite(), "coordinate {value}");
    let tenths = if value.is_finite() { (value * 10.0).round() } else { 0.0 };
    if tenths % 10.0 == 0.0 { format!("{}", tenths / 10.0 + 0.0) } else { format!("{:.1}", tenths / 10.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_scale_gives_equal_ratios_equal_room() {
        let scale = Scale::log((0.5, 8.0), (0.0, 100.0));
        let places = [0.5, 1.0, 2.0, 4.0, 8.0].map(|v| scale.at(v));
        assert!(places.iter().zip([0.0, 25.0, 50.0, 75.0, 100.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{places:?}");
        assert!((scale.clamped(80.0) - 100.0).abs() < 1e-9 && scale.clamped(0.1).abs() < 1e-9);
    }

    #[test]
    fn a_scale_of_one_value_stays_finite() {
        assert!(Scale::linear((3.0, 3.0), (0.0, 10.0)).at(3.0).is_finite());
        assert!(Scale::log((3.0, 3.0), (0.0, 10.0)).at(3.0).is_finite());
    }

    #[test]
    fn linear_ticks_are_few_round_and_reach_the_greatest_value() {
        for greatest in [1e-6, 0.07, 0.46, 1.0, 3.9, 8.14, 99.0, 152.0, 2e7] {
            let ticks = linear_ticks(greatest);
            assert!((3..=7).contains(&ticks.len()), "{greatest}: {ticks:?}");
            assert!(ticks[0] == 0.0 && *ticks.last().unwrap() >= greatest * 0.999, "{greatest}: {ticks:?}");
        }
    }

    #[test]
    fn log_ticks_are_ones_and_threes_inside_the_axis() {
        assert_eq!(log_ticks(45.0, 6500.0), [100.0, 300.0, 1000.0, 3000.0]);
    }

    #[test]
    fn what_is_fitted_is_no_wider_than_its_room() {
        for room in [20.0, 60.0, 90.0, 200.0] {
            for text in ["nginx, sendfile off", "uring", "kvcache/uring/dashmap/lru", "ünïcödé näme"] {
                assert!(text_width(&fit(text, 12.5, room), 12.5) <= room, "{text} in {room}");
            }
        }
        assert_eq!(fit("uring", 12.5, 100.0), "uring");
    }

    #[test]
    fn coordinates_are_rounded_to_a_tenth_and_never_minus_zero() {
        assert_eq!([1.0, 1.25, -0.04, 33.333, 0.1 + 0.2].map(number), ["1", "1.3", "0", "33.3", "0.3"]);
    }
}
