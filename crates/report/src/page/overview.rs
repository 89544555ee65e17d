//! The top of a page of several servers: what the run was, a sentence or two about each server, conditions, warnings.

use maud::{Markup, html};
use results::{
    Comparison, Effect, Metric, Summary, Topic,
    warnings::{BLOCKS_MIN, Brief, brief},
};

use super::{
    costs, effects,
    header::{self, Missing, RUN_ID},
    verdicts,
};
use crate::{
    format::{count, percent, percent_interval, ratio},
    markup::{bounds, joined},
    matrix_view::MatrixView,
};

/// Questions about each server; the first that its matrix can answer is answered.
const QUESTIONS: [Topic; 4] =
    [Topic::BestOverPeer, Topic::BestOverReference, Topic::ReferenceOverPeer, Topic::BestOverNull];

/// `http-server, kvcache and fileserver`.
pub(super) fn title(views: &[MatrixView<'_>]) -> String {
    let mut servers: Vec<&str> = Vec::new();
    for view in views {
        let server = view.summary.setup.server.as_str();
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    verdicts::listed(&servers)
}

pub(super) fn html(views: &[MatrixView<'_>]) -> Markup {
    let mut stamps = Vec::new();
    for stamp in views.iter().flat_map(|view| header::stamps(view.summary)) {
        if !stamps.contains(&stamp) {
            stamps.push(stamp);
        }
    }
    let links: Vec<(String, &str)> =
        views.iter().map(|view| (view.id("top"), view.summary.setup.server.as_str())).collect();
    let warnings: Vec<Markup> = warnings(views).iter().map(warning_html).collect();
    html! {
        header.run id=(RUN_ID) {
            (header::stamps_html(&stamps))
            h1 { (title(views)) } p.sub { (subtitle(views)) } "\n"
            div.verdict role="region" aria-label="verdict on each server" {
                ul.verdicts {
                    @for (view, (id, server)) in views.iter().zip(&links) {
                        li { a href={ "#" (id) } { b { (server) } } ". " (verdict(view)) } "\n"
                    }
                }
                p.host { (header::host_line(&views.iter().collect::<Vec<_>>())) }
                (header::warnings_html(&warnings))
            }
            nav aria-label="servers" { (header::links_html(&links)) " " (header::theme()) }
        }
        "\n"
    }
}

/// Time and command; one of a merged page may have another.
fn subtitle(views: &[MatrixView<'_>]) -> Markup {
    let setups = || views.iter().map(|view| &view.summary.setup);
    let begun = setups().map(|setup| setup.created_utc.as_str()).min().unwrap_or_default();
    let mut commands: Vec<&str> = Vec::new();
    for setup in setups() {
        if !commands.contains(&setup.command.as_str()) {
            commands.push(&setup.command);
        }
    }
    let commands: Vec<Markup> = commands.iter().map(|command| html! { span.mono { (command) } }).collect();
    html! { (begun.replace('T', " ").replace('Z', " UTC")) ", " (joined(&commands, ", ")) }
}

/// Writes two sentences: how it stands beside others, and the choice that matters most.
fn verdict(view: &MatrixView<'_>) -> Markup {
    if view.summary.setup.blocks < BLOCKS_MIN {
        return html! { "Fewer than three blocks: no difference is claimed." };
    }
    let beside = QUESTIONS.into_iter().find_map(|topic| beside(view, topic));
    html! {
        @if let Some(beside) = beside { (beside) } @else { (costs::finding(view)) }
        @if let Some(effect) = effect(view) { " " (effect) }
    }
}

/// `Its cheapest back end beside the best peer, server CPU per request: less on 2 workloads (17 % to 33 %), no difference seen on 1.`
fn beside(view: &MatrixView<'_>, topic: Topic) -> Option<Markup> {
    let comparisons = verdicts::hardest(view, topic, Metric::ServerCpu);
    let unbeaten = if topic == Topic::BestOverReference { verdicts::unbeaten(view, &comparisons).len() } else { 0 };
    if comparisons.is_empty() && unbeaten == 0 {
        return None;
    }
    let (differing, same): (Vec<&Comparison>, Vec<&Comparison>) =
        comparisons.into_iter().partition(|comparison| comparison.ratio.differs);
    let (less, more): (Vec<&Comparison>, Vec<&Comparison>) =
        differing.into_iter().partition(|comparison| comparison.ratio.median < 1.0);
    let mut parts: Vec<String> = Vec::new();
    for (word, group) in [("less", less), ("more", more)] {
        if !group.is_empty() {
            parts.push(format!("{word} on {} ({})", count(group.len(), "workload"), span(&group)));
        }
    }
    if !same.is_empty() {
        parts.push(format!("no difference seen on {}", count(same.len(), "workload")));
    }
    if unbeaten > 0 {
        parts.push(format!("none of ours cost less on {}", count(unbeaten, "workload")));
    }
    let reference = html! { i { (view.reference_label()) } };
    let who = match topic {
        Topic::BestOverReference => html! { "Its cheapest back end beside " (reference) },
        Topic::BestOverPeer => html! { "Its cheapest back end beside the best peer" },
        Topic::ReferenceOverPeer => html! { (reference) " beside the best peer" },
        Topic::BestOverNull => html! { "Its cheapest back end beside the null server" },
    };
    Some(html! { (who) ", server CPU per request: " (parts.join("; ")) "." })
}

/// `17 %`, `17 % to 33 %`, `2.10 × to 4.00 ×`.
fn span(group: &[&Comparison]) -> String {
    let mut medians: Vec<f64> = group.iter().map(|comparison| comparison.ratio.median).collect();
    medians.sort_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()));
    let (Some(least), Some(most)) = (medians.first(), medians.last()) else { return String::new() };
    let words = |value: f64| {
        if (0.5..2.0).contains(most) { percent(value) } else { format!("{}\u{a0}×", ratio(value)) }
    };
    let (least, most) = (words(*least), words(*most));
    if least == most { least } else { format!("{least} to {most}") }
}

fn effect(view: &MatrixView<'_>) -> Option<Markup> {
    let effects = effects::drawable(view.summary);
    let size = |effect: &&Effect| effect.cpu.median.ln().abs();
    let largest = effects.into_iter().filter(|effect| effect.cpu.differs).max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let cpu = largest.cpu;
    let way = if cpu.median < 1.0 { "less" } else { "more" };
    Some(html! {
        "The choice that changes most: " (verdicts::level(view, largest)) " instead of " i { (largest.instead_of) } ", "
        (percent(cpu.median)) " " (way) " " (bounds(&percent_interval(cpu.lo, cpu.hi, cpu.median))) "."
    })
}

/// Lists one warning for each kind: those of the run, then the cells that are hatched or missing.
fn warnings(views: &[MatrixView<'_>]) -> Vec<Brief> {
    let summaries: Vec<&Summary> = views.iter().map(|view| view.summary).collect();
    let mut out = brief(&summaries);
    let hatched: Vec<String> = views
        .iter()
        .flat_map(|view| {
            let doubtful = view.places().filter(|&(row, column)| view.is_doubtful(row, column));
            doubtful.map(|(row, column)| {
                let (cell, workload) = (&view.series[row].label, &view.workloads()[column].name);
                format!("{}: {cell} {workload}", view.summary.setup.server)
            })
        })
        .collect();
    if !hatched.is_empty() {
        let words = format!("{} hatched: a flag casts doubt on the figures", count(hatched.len(), "cell"));
        out.push(Brief { words, places: hatched });
    }
    let missing: Vec<String> = views
        .iter()
        .flat_map(|view| {
            let server = &view.summary.setup.server;
            let missing = header::missing(view).into_iter();
            missing.map(move |Missing { reason, places }| format!("{server} ({reason}): {}", places.join("; ")))
        })
        .collect();
    if !missing.is_empty() {
        out.push(Brief { words: "some combinations were not run".to_owned(), places: missing });
    }
    out
}

fn warning_html(warning: &Brief) -> Markup {
    html! {
        @if warning.places.is_empty() {
            (warning.words)
        } @else {
            details { summary { (warning.words) } ul { @for place in &warning.places { li { (place) } } } }
        }
    }
}
