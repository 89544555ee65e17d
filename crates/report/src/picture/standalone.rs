//! The matrix as a picture of its own, for a results page: everything it needs is in the file, and it follows the reader's
//! choice of light or dark.

use maud::{Markup, PreEscaped, html};
use results::Summary;

use super::{
    heat_map,
    svg::{Anchor, Canvas, Width, hatch, number, text_width, view_box},
};
use crate::{
    markup::{empty_element, guarded, joined},
    matrix_view::MatrixView,
};

const CSS: &str = include_str!("standalone.css");

pub fn picture(summary: &Summary) -> String {
    let view = MatrixView::alone(summary);
    let drawings = heat_map::drawings(&view, Width::Wide);
    let mut y = 8.0;
    let mut body = Vec::new();
    for drawing in drawings {
        body.push(moved(y, &drawing.canvas));
        y += drawing.height;
    }
    for line in flags(&view) {
        let mut canvas = Canvas::default();
        canvas.text(0.0, 10.0, "xs m", Anchor::Start, &line);
        body.push(moved(y + 6.0, &canvas));
        y += 15.0;
    }
    let (width, height) = (Width::Wide.units() + 16.0, y + 8.0);
    let [wide, high] = [width, height].map(number);
    let title = format!("{}: server CPU per request relative to {}", summary.setup.server, view.reference_label());
    let inner = html! {
        title id="title" { (PreEscaped(guarded(&html! { (title) }))) } "\n"
        style { (PreEscaped(CSS)) } "\n"
        (hatch()) "\n"
        (empty_element("rect", &[("width", &wide), ("height", &high), ("class", "paper")])) "\n"
        (PreEscaped(guarded(&joined(&body, ""))))
    };
    // The one address is the name space.
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(view_box(width, height)) width=(wide) height=(high) role="img"
            aria-labelledby="title" { (inner) }
        "\n"
    };
    svg.into_string()
}

fn moved(y: f64, canvas: &Canvas) -> Markup {
    html! { g transform={ "translate(8 " (number(y)) ")" } { (canvas) } "\n" }
}

/// Meanings of the letters, in lines that fit.
fn flags(view: &MatrixView<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (flag, letter) in view.flag_letters() {
        let mut line = format!("{letter}\u{a0}\u{a0}{}:", flag.name());
        for word in flag.meaning().split(' ') {
            let longer = format!("{line} {word}");
            if text_width(&longer, 10.5) > Width::Wide.units() {
                lines.push(std::mem::replace(&mut line, format!("\u{a0}\u{a0}\u{a0}\u{a0}{word}")));
            } else {
                line = longer;
            }
        }
        lines.push(line);
    }
    lines
}
