//! The matrix as a picture of its own, for the README: everything it needs is in the file, and it follows the reader's
//! choice of light or dark.

use results::Summary;

use crate::{
    matrix_view::View,
    picture::{
        heat_map,
        svg::{Anchor, Canvas, Width, escape, number, text_width},
    },
};

const CSS: &str = include_str!("standalone.css");

pub fn picture(summary: &Summary) -> String {
    let view = View::new(summary, 0, 0);
    let drawings = heat_map::drawings(&view, Width::Wide);
    let mut y = 8.0;
    let mut body = String::new();
    for drawing in drawings {
        body += &format!("<g transform=\"translate(8 {})\">{}</g>\n", number(y), drawing.canvas.into_svg());
        y += drawing.height;
    }
    for line in flags(&view) {
        let mut canvas = Canvas::default();
        canvas.text(0.0, 10.0, "xs m", Anchor::Start, &line);
        body += &format!("<g transform=\"translate(8 {})\">{}</g>\n", number(y + 6.0), canvas.into_svg());
        y += 15.0;
    }
    let (width, height) = (number(Width::Wide.units() + 16.0), number(y + 8.0));
    let title =
        escape(&format!("{}: server CPU per request relative to {}", summary.setup.server, view.reference_label()));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"title\"><title id=\"title\">{title}</title>\n<style>{CSS}</style>\n\
         <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" class=\"hl\"/></pattern></defs>\n\
         <rect width=\"{width}\" height=\"{height}\" class=\"paper\"/>\n{body}</svg>\n"
    )
}

/// What the letters mean, in lines that fit.
fn flags(view: &View<'_>) -> Vec<String> {
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
