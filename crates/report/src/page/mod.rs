//! `report.html`: one self-contained file that loads nothing, is well-formed XML and is complete with scripts off.
//!
//! Every picture is SVG drawn here, once 740 and once 348 units wide; the style sheet shows one of the two. Pictures
//! whose data a run does not have are left out.

mod costs;
mod counterparts;
mod cpu_budget;
mod data;
mod effects;
pub(crate) mod environment;
mod figures;
mod first_picture;
mod header;
mod histogram;
mod interaction;
mod latency;
mod load_sweep;
mod memory;
mod overview;
mod quoted;
mod section;
mod timeline;
pub(crate) mod visits;
mod witness;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use results::Report;

use self::section::Section;
use crate::{
    markup::{empty_element, guarded},
    matrix_view::MatrixView,
    picture::{series, svg::hatch},
};

const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");

/// Renders the whole report: an article for each matrix, and an overview above them where there are several. Never
/// fails: what cannot be drawn is left out.
pub fn render(report: &Report) -> String {
    let views = MatrixView::all(&report.matrices);
    let body = html! {
        main {
            @if views.len() != 1 { (overview::html(&views)) }
            @for view in &views { (article(view, &views)) }
        }
        div #tip role="status" hidden="hidden" {}
        "\n"
    };
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            (head(&views))
            body {
                svg width="0" height="0" aria-hidden="true" class="defs" { (hatch()) } "\n"
                (PreEscaped(guarded(&body)))
                script #data type="application/json" { (PreEscaped(data::json(&views))) } "\n"
                script { "//" (PreEscaped("<![CDATA[")) "\n{\n" (PreEscaped(JS)) "}\n//" (PreEscaped("]]>")) }
            }
        }
        "\n"
    };
    page.into_string()
}

fn head(views: &[MatrixView<'_>]) -> Markup {
    let title = match views {
        [only] => header::title(only),
        several => overview::title(several),
    };
    let colours = series::css(views.iter().flat_map(|view| &view.series), levels_max(views));
    html! {
        head {
            (empty_element("meta", &[("charset", "utf-8")]))
            (empty_element("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]))
            (empty_element("meta", &[("name", "color-scheme"), ("content", "light dark")]))
            title { (PreEscaped(guarded(&html! { (title) }))) } "\n"
            style { "/*" (PreEscaped("<![CDATA[")) "*/\n" (PreEscaped(CSS)) (PreEscaped(colours)) "/*" (PreEscaped("]]>")) "*/" }
        }
    }
}

/// Most levels that one dimension has, of those that are drawn as curves.
fn levels_max(views: &[MatrixView<'_>]) -> usize {
    views.iter().map(interaction::levels_max).max().unwrap_or(0)
}

/// One matrix, with links to the others of the page.
fn article(view: &MatrixView<'_>, all: &[MatrixView<'_>]) -> Markup {
    let sections: Vec<Section> = [
        Some(costs::section(view)),
        counterparts::section(view),
        quoted::section(view),
        memory::section(view),
        effects::section(view),
        interaction::section(view),
        latency::section(view),
        load_sweep::section(view),
        timeline::section(view),
        histogram::section(view),
        cpu_budget::section(view),
        witness::section(view),
        Some(figures::section(view)),
        Some(environment::section(view)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let others = all.iter().filter(|other| other.prefix != view.prefix);
    let others: Vec<(String, &str)> =
        others.map(|other| (other.id("top"), other.summary.setup.server.as_str())).collect();
    let links: Vec<(String, &str)> = sections.iter().map(|s| (view.id(s.id), s.link)).collect();
    html! {
        article id=(view.id("top")) data-p=(view.prefix) data-server=(view.summary.setup.server) {
            (header::html(view, &links, &others))
            @for (place, section) in sections.iter().enumerate() {
                @if place == 0 && others.is_empty() { (section.open(view)) } @else { (section.folded(view)) }
            }
        }
        "\n"
    }
}

#[cfg(test)]
mod tests;
