//! The matrix of costs: the first picture, its filter, and where the servers differ most.

use maud::{Markup, html};
use results::ranks::interval_name;

use super::section::{Section, figure};
use crate::{
    claims,
    markup::empty_element,
    matrix_view::MatrixView,
    picture::{heat_map, series::Group},
};

pub(super) fn section(view: &MatrixView<'_>) -> Section {
    let reference = view.reference_label();
    let letters = view.flag_letters();
    let leaders: Vec<_> = (0..view.workloads().len()).filter_map(|column| claims::cheapest(view, column)).collect();
    let letters = html! {
        @if !letters.is_empty() || !leaders.is_empty() {
            ul.foot {
                @for (flag, letter) in letters {
                    li { b { (letter) } " " span.mono { (flag.name()) } ": " (flag.meaning()) }
                }
                @for claim in &leaders { li { (claim.html()) } }
            }
        }
    };
    let note = html! {
        "Server CPU per request as a multiple (×) of " (reference) "’s in the same block; the " (reference)
        " row shows its own microseconds. Small figures: " (interval_name(view.summary.setup.blocks)) ". "
        @if view.is_ranked() {
            "Rows: by the mean over the columns. Colour: a difference; grey: none is claimed. "
        } @else {
            "Without a ranking there are no colours, and rows stand in the order of the plan. "
        }
        "Hatched: in doubt. In a closed loop every server runs at its own pace, and at saturation larger batches make a "
        "request cheaper. A click leads to the cell’s row in the table of all figures."
    };
    let pictures = html! { (heat_map::pictures(view)) (letters) };
    Section {
        id: "matrix",
        link: "matrix",
        title: format!("Cost relative to {reference}"),
        finding: html! { @if let Some(claim) = claims::matrix(view) { (claim.html()) } },
        content: html! { (filter(view)) (figure(&pictures, &note)) },
    }
}

/// The field of the filter; the script shows it and does the work.
fn filter(view: &MatrixView<'_>) -> Markup {
    let [bar, input, count] = ["filterbar", "filter", "fcount"].map(|name| view.id(name));
    let ours = view.compared().filter(|&row| view.series[row].group == Group::Ours);
    let row = ours.last().map_or("", |row| view.series[row].label.as_str());
    let workload = view.workloads().first().map_or("", |workload| workload.name.as_str());
    let example = format!("{row} {workload}");
    let attributes = [
        ("id", input.as_str()),
        ("type", "text"),
        ("spellcheck", "false"),
        ("autocomplete", "off"),
        ("placeholder", &example),
        ("aria-describedby", &count),
    ];
    html! {
        p.filter id=(bar) hidden="hidden" {
            label for=(input) { "Filter by words" } " " (empty_element("input", &attributes)) " "
            span id=(count) aria-live="polite" {}
        }
    }
}
