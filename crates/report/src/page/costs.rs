//! The matrix of costs: the first picture, its filter, and where the servers differ most.

use maud::{Markup, html};
use results::{Ratio, ranks::interval_name};

use super::section::{Section, figure};
use crate::{
    format::ratio,
    markup::empty_element,
    matrix_view::{MatrixView, range},
    picture::{heat_map, series::Group},
};

pub(super) fn section(view: &MatrixView<'_>) -> Section {
    let reference = view.reference_label();
    let letters = view.flag_letters();
    let letters = html! {
        @if !letters.is_empty() {
            ul.foot {
                @for (flag, letter) in letters {
                    li { b { (letter) } " " span.mono { (flag.name()) } ": " (flag.meaning()) }
                }
            }
        }
    };
    let note = html! {
        "Server CPU per request, divided by " (reference) "’s in the same block. 1 is equal, below 1 is cheaper. The "
        (reference) " row shows its own microseconds. Small figures: " (interval_name(view.summary.setup.blocks))
        ". Grey figures: no difference seen. Hatched: a flag casts doubt on the cell. In a closed loop every server runs "
        "at its own pace, and at saturation larger batches make a request cheaper. A click opens what is known of the "
        "cell."
    };
    let pictures = html! { (heat_map::pictures(view)) (letters) };
    Section {
        id: "matrix",
        link: "matrix",
        title: format!("Cost relative to {reference}"),
        finding: finding(view),
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

/// Names the workloads on which the servers differ most and least.
pub(super) fn finding(view: &MatrixView<'_>) -> String {
    let mut spans: Vec<(f64, usize, Vec<Ratio>)> = Vec::new();
    // A server that misses more has less to do.
    for column in (0..view.workloads().len()).filter(|&column| !view.workloads()[column].allows_misses) {
        let served = view.compared().filter(|&row| view.series[row].group != Group::Null);
        let ratios: Vec<Ratio> = served.filter_map(|row| view.ratio(row, column)).collect();
        let (low, high) = range(ratios.iter().map(|r| r.median));
        if ratios.len() > 1 {
            spans.push((high / low, column, ratios));
        }
    }
    spans.sort_by(|a, b| b.0.total_cmp(&a.0));
    let reference = view.reference_label();
    let name = |column: usize| &view.workloads()[column].name;
    let words = |ratios: &[Ratio]| {
        let (low, high) = range(ratios.iter().map(|r| r.median));
        format!("{} to {}\u{a0}× {reference}", ratio(low), ratio(high))
    };
    match spans.as_slice() {
        [] => "No two servers were measured under the same workload.".to_owned(),
        [(_, column, ratios)] if ratios.iter().any(|r| r.differs) => {
            format!("On {}: {}.", name(*column), words(ratios))
        }
        all if all.iter().all(|(.., ratios)| !ratios.iter().any(|r| r.differs)) => {
            format!("No difference from {reference} was seen anywhere.")
        }
        [(_, most, wide), .., (_, least, near)] => {
            let near_words = if near.iter().any(|r| r.differs) { words(near) } else { "no difference seen".to_owned() };
            let (most, least) = (name(*most), name(*least));
            format!("The servers lie furthest apart on {most} ({}), closest on {least} ({near_words}).", words(wide))
        }
        [(_, column, _)] => format!("No difference was seen on {}.", name(*column)),
    }
}
