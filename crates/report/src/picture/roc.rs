//! How often effects are seen over how often nothing is taken for one (receiver operating characteristic), a line for each size.

use maud::{PreEscaped, html};

use super::svg::{Anchor, Canvas, Scale, number, view_box};
use crate::markup::{empty_element, guarded};

const CSS: &str = include_str!("standalone.css");
const LINES: &str = ".line{fill:none;stroke:var(--cheap);stroke-width:1.6}.line1{stroke:var(--costly);stroke-dasharray:6 3}\
.line2{stroke:var(--ink);stroke-dasharray:2 3}.line3{stroke:var(--mute);stroke-dasharray:8 3 2 3}.axis{stroke:var(--hair2)}";
const LINE_STYLES: usize = 4;
/// Side of the square plot.
const SIDE: f64 = 300.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 30.0;

/// A line of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct RocCurve {
    pub name: String,
    /// Shares of false alarms and of effects that were seen, from threshold to threshold, both 0 to 1.
    pub points: Vec<(f64, f64)>,
}

/// Draws the lines as a file of its own.
pub fn roc(title: &str, curves: &[RocCurve]) -> String {
    let (x, y) = (Scale::linear((0.0, 1.0), (LEFT, LEFT + SIDE)), Scale::linear((0.0, 1.0), (TOP + SIDE, TOP)));
    let mut canvas = Canvas::default();
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let words = format!("{:.0}\u{a0}%", tick * 100.0);
        canvas.line((x.at(tick), TOP), (x.at(tick), TOP + SIDE), "ref");
        canvas.line((LEFT, y.at(tick)), (LEFT + SIDE, y.at(tick)), "ref");
        canvas.text(x.at(tick), TOP + SIDE + 16.0, "xs m", Anchor::Middle, &words);
        canvas.text(LEFT - 6.0, y.at(tick) + 4.0, "xs m", Anchor::End, &words);
    }
    canvas.text(LEFT + SIDE / 2.0, TOP + SIDE + 34.0, "s", Anchor::Middle, "equal servers called different");
    canvas.text(LEFT, TOP - 12.0, "s", Anchor::Start, "effects seen, in the right direction");
    for (at, curve) in curves.iter().enumerate() {
        let class = format!("line line{}", at % LINE_STYLES);
        let points: Vec<_> = curve.points.iter().map(|(alarms, seen)| (x.clamped(*alarms), y.clamped(*seen))).collect();
        canvas.path(&points, &class, &[]);
        let row = TOP + 14.0 + 18.0 * at as f64;
        canvas.path(&[(LEFT + SIDE + 16.0, row - 4.0), (LEFT + SIDE + 44.0, row - 4.0)], &class, &[]);
        canvas.text(LEFT + SIDE + 50.0, row, "s", Anchor::Start, &curve.name);
    }
    let (width, height) = (LEFT + SIDE + 190.0, TOP + SIDE + 46.0);
    let [wide, high] = [width, height].map(number);
    let paper = [("width", &*wide), ("height", &high), ("class", "paper")];
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(view_box(width, height)) width=(wide) height=(high) role="img"
            aria-labelledby="title" {
            title id="title" { (PreEscaped(guarded(&html! { (title) }))) }
            style { (PreEscaped(CSS)) (PreEscaped(LINES)) }
            (empty_element("rect", &paper))
            (PreEscaped(guarded(&html! { (canvas) })))
        }
        "\n"
    };
    svg.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_curve_has_its_line_and_its_name_and_nothing_is_loaded() {
        let curve = |name: &str, seen| RocCurve { name: name.to_owned(), points: vec![(0.0, seen), (1.0, 1.0)] };
        let svg = roc("what <is> seen", &[curve("1 % & less", 0.5), curve("10 %", 0.99)]);
        assert_eq!(svg.matches("class=\"line line0\"").count(), 2, "the line and its key: {svg}");
        assert!(svg.contains("1 % &amp; less") && svg.contains("what &lt;is&gt; seen"), "{svg}");
        // Half of the effects at no false alarm: in the middle of the left edge.
        assert!(svg.contains("M52 180") || svg.contains("M52,180"), "{svg}");
        assert_eq!(svg.replace("http://www.w3.org/2000/svg", "").matches("http").count(), 0);
        assert_eq!(roc("", &[]).matches("class=\"line").count(), 0);
    }
}
