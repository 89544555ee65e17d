//! The matrix as a picture of its own, for the README: everything it needs is in the file, and it follows the reader's
//! choice of light or dark.

use super::heat;
use super::svg::{Width, escape, number};
use super::view::View;
use crate::matrix::model::Summary;

const CSS: &str = include_str!("standalone.css");

pub(crate) fn picture(summary: &Summary) -> String {
    let view = View::new(summary, 0, 0);
    let drawings = heat::drawings(&view, Width::Wide);
    let mut y = 8.0;
    let mut body = String::new();
    for drawing in drawings {
        body += &format!("<g transform=\"translate(8 {})\">{}</g>\n", number(y), drawing.canvas.into_svg());
        y += drawing.height;
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
