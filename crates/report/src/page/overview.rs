//! The top of a page of several servers: what the run was, a sentence or two about each server, conditions, warnings.

use std::fmt::Write as _;

use results::{
    Comparison, Effect, Metric, Summary, Topic,
    warnings::{BLOCKS_MIN, Brief, brief},
};

use crate::{
    format::{count, percent, percent_interval, ratio},
    matrix_view::View,
    page::{
        header::{self, Missing},
        verdicts,
    },
    picture::svg::escape,
};

/// What the top of the page is called.
pub(super) const ID: &str = "run";
/// What is asked of each server: the first that its matrix can answer.
const QUESTIONS: [Topic; 4] =
    [Topic::BestOverPeer, Topic::BestOverReference, Topic::ReferenceOverPeer, Topic::BestOverNull];

/// `http-server, kvcache and fileserver`.
pub(super) fn title(views: &[View<'_>]) -> String {
    let mut servers: Vec<String> = Vec::new();
    for view in views {
        if !servers.contains(&view.summary.setup.server) {
            servers.push(view.summary.setup.server.clone());
        }
    }
    verdicts::listed(&servers)
}

pub(super) fn html(views: &[View<'_>]) -> String {
    let mut out = format!("<header class=\"run\" id=\"{ID}\">");
    let mut stamps = Vec::new();
    for stamp in views.iter().flat_map(|view| header::stamps(view.summary)) {
        if !stamps.contains(&stamp) {
            stamps.push(stamp);
        }
    }
    for (head, words) in stamps {
        let _ = write!(out, "<p class=\"sample\" role=\"note\"><b>{head}</b> {words}</p>");
    }
    let _ = writeln!(out, "<h1>{}</h1><p class=\"sub\">{}</p>", escape(&title(views)), subtitle(views));
    out += "<div class=\"verdict\" role=\"region\" aria-label=\"verdict on each server\"><ul class=\"verdicts\">";
    for view in views {
        let (id, server) = (view.id("top"), escape(&view.summary.setup.server));
        let _ = writeln!(out, "<li><a href=\"#{id}\"><b>{server}</b></a>. {}</li>", verdict(view));
    }
    let hosts = header::host_line(&views.iter().collect::<Vec<_>>());
    let _ = write!(out, "</ul><p class=\"host\">{}</p>", escape(&hosts));
    let warnings: String = warnings(views).iter().map(|warning| format!("<li>{}</li>\n", line(warning))).collect();
    if !warnings.is_empty() {
        let _ = write!(out, "<ul class=\"warn\">{warnings}</ul>");
    }
    let links = views.iter().map(|view| {
        let (id, server) = (view.id("top"), escape(&view.summary.setup.server));
        format!("<a href=\"#{id}\">{server}</a>")
    });
    let links = links.collect::<Vec<_>>().join(" ");
    let _ = writeln!(out, "</div><nav aria-label=\"servers\">{links} {}</nav></header>", header::THEME);
    out
}

/// When and by what command; one of a merged page may have another.
fn subtitle(views: &[View<'_>]) -> String {
    let setups = || views.iter().map(|view| &view.summary.setup);
    let begun = setups().map(|setup| setup.created_utc.as_str()).min().unwrap_or_default();
    let mut commands: Vec<&str> = Vec::new();
    for setup in setups() {
        if !commands.contains(&setup.command.as_str()) {
            commands.push(&setup.command);
        }
    }
    let commands = commands.iter().map(|command| format!("<span class=\"mono\">{}</span>", escape(command)));
    format!("{}, {}", escape(&begun.replace('T', " ").replace('Z', " UTC")), commands.collect::<Vec<_>>().join(", "))
}

/// Two sentences: how it stands beside others, and the choice that matters most.
fn verdict(view: &View<'_>) -> String {
    if view.summary.setup.blocks < BLOCKS_MIN {
        return "Fewer than three blocks: no difference is claimed.".to_owned();
    }
    let beside = QUESTIONS.into_iter().find_map(|topic| beside(view, topic));
    let out = beside.unwrap_or_else(|| verdicts::matrix_finding(view));
    effect(view).map_or_else(|| out.clone(), |effect| format!("{out} {effect}"))
}

/// `Its cheapest back end beside the best peer, server CPU per request: less on 2 workloads (17 % to 33 %), no difference seen on 1.`
fn beside(view: &View<'_>, topic: Topic) -> Option<String> {
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
    let reference = escape(view.reference_label());
    let who = match topic {
        Topic::BestOverReference => format!("Its cheapest back end beside <i>{reference}</i>"),
        Topic::BestOverPeer => "Its cheapest back end beside the best peer".to_owned(),
        Topic::ReferenceOverPeer => format!("<i>{reference}</i> beside the best peer"),
        Topic::BestOverNull => "Its cheapest back end beside the null server".to_owned(),
    };
    Some(format!("{who}, server CPU per request: {}.", parts.join("; ")))
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

fn effect(view: &View<'_>) -> Option<String> {
    let effects = crate::page::effects::drawable(view.summary);
    let size = |effect: &&Effect| effect.cpu.median.ln().abs();
    let largest = effects.into_iter().filter(|effect| effect.cpu.differs).max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let cpu = largest.cpu;
    let interval = verdicts::ci(&percent_interval(cpu.lo, cpu.hi, cpu.median));
    let (level, other) = (verdicts::level(view, largest), escape(&largest.instead_of));
    let way = if cpu.median < 1.0 { "less" } else { "more" };
    Some(format!(
        "The choice that changes most: {level} instead of <i>{other}</i>, {} {way} {interval}.",
        percent(cpu.median)
    ))
}

/// One for each kind: those of the run, then the cells that are hatched or missing.
fn warnings(views: &[View<'_>]) -> Vec<Brief> {
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

fn line(warning: &Brief) -> String {
    let words = escape(&warning.words);
    if warning.places.is_empty() {
        return words;
    }
    let places: String = warning.places.iter().map(|place| format!("<li>{}</li>", escape(place))).collect();
    format!("<details><summary>{words}</summary><ul>{places}</ul></details>")
}
