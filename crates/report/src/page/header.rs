//! The top of the page: stamp, title, verdicts, conditions, warnings, links.

use std::collections::BTreeSet;

use maud::{Markup, html};
use results::{Outcome, Role, Setup, Summary, ranks::interval_name};

use super::{environment::kernel, verdicts};
use crate::{format::count, markup::joined, matrix_view::MatrixView};

/// Id of the top of a page of several servers.
pub(super) const RUN_ID: &str = "run";
/// Cells named in one warning; the table has them all.
const NAMED_MAX: usize = 12;

/// Button between light and dark, for the whole page.
pub(super) fn theme() -> Markup {
    html! { button type="button" id="theme" hidden="hidden" { "dark" } }
}

/// `links`: id and name of each section; `others`: of the page's other matrices. What holds for the whole run is said at
/// the top of a page of several.
pub(super) fn html(view: &MatrixView<'_>, links: &[(String, &str)], others: &[(String, &str)]) -> Markup {
    let is_alone = others.is_empty();
    let verdicts = verdicts::verdicts(view);
    html! {
        header {
            @if is_alone {
                (stamps_html(&stamps(view.summary)))
                h1.title { (title(view)) }
            } @else {
                h2.title { (title(view)) }
            }
            p.sub { (subtitle(view)) } "\n"
            div.verdict role="region" aria-label="verdict" {
                @if !verdicts.is_empty() {
                    ol.verdicts { @for verdict in &verdicts { li { (verdict) } "\n" } }
                }
                p.host { (host_line(&[view])) }
                (warnings_html(&warnings(view)))
            }
            nav aria-label="pictures" { (links_html(links)) " " @if is_alone { (theme()) } }
            @if !is_alone {
                nav.others aria-label="servers" {
                    a href={ "#" (RUN_ID) } { "All servers of this run" } " " span { "Others:" } " " (links_html(others))
                }
            }
        }
        "\n"
    }
}

pub(super) fn links_html(links: &[(String, &str)]) -> Markup {
    let links = links.iter().map(|(id, name)| html! { a href={ "#" (id) } { (name) } });
    joined(&links.collect::<Vec<_>>(), " ")
}

pub(super) fn stamps_html(stamps: &[Stamp]) -> Markup {
    html! { @for (head, words) in stamps { p.sample role="note" { b { (head) } " " (words) } } }
}

pub(super) fn warnings_html(warnings: &[Markup]) -> Markup {
    html! {
        @if !warnings.is_empty() {
            ul.warn { @for warning in warnings { li { (warning) } "\n" } }
        }
    }
}

/// Words beside every heading of a run that must not be quoted as a ranking.
pub(super) fn tag(summary: &Summary) -> Markup {
    let words = match (summary.setup.quick, summary.progress.is_partial) {
        (true, _) => "quick, no ranking",
        (false, true) => "unfinished run",
        (false, false) => return Markup::default(),
    };
    html! { " " span.tag { (words) } }
}

/// Words on a run that is less than a full one, and what that means.
pub(super) type Stamp = (&'static str, &'static str);

pub(super) fn stamps(summary: &Summary) -> Vec<Stamp> {
    let quick = ("Quick, no ranking.", "Enough to see how things stand, too little to rank them.");
    let partial = ("Unfinished.", "Not every planned visit was made.");
    let stamps = [(summary.setup.quick, quick), (summary.progress.is_partial, partial)];
    stamps.into_iter().filter(|(applies, _)| *applies).map(|(_, stamp)| stamp).collect()
}

/// `http-server on seven drivers`.
pub(super) fn title(view: &MatrixView<'_>) -> String {
    let ours: Vec<_> = view.cells().iter().filter(|c| c.role == Role::Ours).collect();
    let servers: BTreeSet<&str> = ours.iter().map(|c| c.server.as_str()).collect();
    let factors: BTreeSet<&str> = ours.iter().flat_map(|c| c.factors.keys().map(String::as_str)).collect();
    let servers: Vec<&str> = servers.into_iter().collect();
    let things = match factors.into_iter().collect::<Vec<_>>().as_slice() {
        [factor] if servers.len() == 1 => format!("on {}", counted(ours.len(), factor)),
        _ => format!("in {}", counted(ours.len(), "combination")),
    };
    if servers.is_empty() { "Benchmark".to_owned() } else { format!("{} {things}", servers.join(", ")) }
}

fn counted(n: usize, noun: &str) -> String {
    const WORDS: [&str; 13] =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let number = WORDS.get(n).map_or_else(|| n.to_string(), |word| (*word).to_owned());
    format!("{number} {noun}{}", if n == 1 { "" } else { "s" })
}

fn subtitle(view: &MatrixView<'_>) -> String {
    let mut others: Vec<String> = Vec::new();
    for cell in view.cells() {
        let name = match cell.role {
            Role::Peer => cell.server.clone(),
            Role::Null => "the null server".to_owned(),
            Role::Ours | Role::Control => continue,
        };
        if !others.contains(&name) {
            others.push(name);
        }
    }
    let figures = "Server CPU per request, throughput and latency";
    match (others.pop(), others.as_slice()) {
        (None, _) => figures.to_owned(),
        (Some(only), []) => format!("{figures}, beside {only}"),
        (Some(last), rest) => format!("{figures}, beside {} and {last}", rest.join(", ")),
    }
}

/// Conditions of the run; what differs between matrices is said of each.
pub(super) fn host_line(views: &[&MatrixView<'_>]) -> String {
    let each = |words: &dyn Fn(&Setup) -> String| {
        let mut different: Vec<String> = Vec::new();
        for words in views.iter().map(|view| words(&view.summary.setup)) {
            if !different.contains(&words) {
                different.push(words);
            }
        }
        different.join(" or ")
    };
    let visits: u32 = views.iter().map(|view| view.summary.progress.visits_done).sum();
    let host = each(&|setup| {
        let version = kernel(&setup.host.kernel).split_whitespace().take(2).collect::<Vec<_>>().join("\u{a0}");
        let remote = setup.remote.as_ref();
        let place = remote.map_or_else(|| "loopback".to_owned(), |remote| format!("server at {}", remote.host));
        format!("{}, {version}, {place}", count(setup.host.cores as usize, "core"))
    });
    let cpus = each(&|setup| {
        format!("server on CPU {}, generator on CPU {}", setup.pinning.server_cpus, setup.pinning.client_cpus)
    });
    let blocks = each(&|setup| count(setup.blocks as usize, "randomised block"));
    let interval = each(&|setup| interval_name(setup.blocks));
    let visits = count(visits as usize, "visit");
    [
        host,
        cpus,
        format!("{visits} in {blocks}"),
        format!("in brackets the {interval}"),
        "“~” means no difference seen".to_owned(),
    ]
    .join(" · ")
}

/// The run's own warnings, then the cells that are hatched or missing in the matrix.
fn warnings(view: &MatrixView<'_>) -> Vec<Markup> {
    let mut out: Vec<Markup> = view.summary.warnings.iter().map(|warning| html! { (warning) }).collect();
    let hatched = view.places().filter(|&(row, column)| view.is_doubtful(row, column)).count();
    if hatched > 0 {
        let head = format!("{} hatched", count(hatched, "cell"));
        out.push(html! { b { (head) } " below: a flag casts doubt on the figures." });
    }
    for Missing { reason, places } in missing(view) {
        let more = places.len().saturating_sub(NAMED_MAX);
        let named = places[..places.len().min(NAMED_MAX)].join("; ");
        out.push(html! {
            b { "Not run" } " (" (reason) "): " (named)
            @if more > 0 { " and " (more) " more" }
            "."
        });
    }
    out
}

/// Cells that were not run for one reason.
pub(super) struct Missing {
    pub(super) reason: String,
    pub(super) places: Vec<String>,
}

/// Lists what was not run by reason, in the order in which they occur: `pool: get-1MiB-c16, conns-9000`, or `uring` for a server that could not
/// run at all.
pub(super) fn missing(view: &MatrixView<'_>) -> Vec<Missing> {
    let mut out: Vec<Missing> = Vec::new();
    for row in view.compared() {
        let label = &view.series[row].label;
        let outcomes = (0..view.workloads().len()).filter_map(|column| Some((column, view.outcome(row, column)?)));
        let outcomes: Vec<(usize, &Outcome)> = outcomes.collect();
        let mut of_row: Vec<(&str, Vec<&str>)> = Vec::new();
        for (column, outcome) in &outcomes {
            let Outcome::NotRun { reason } = outcome else { continue };
            let workload = view.workloads()[*column].name.as_str();
            match of_row.iter_mut().find(|(other, _)| other == reason) {
                Some((_, names)) => names.push(workload),
                None => of_row.push((reason, vec![workload])),
            }
        }
        for (reason, names) in of_row {
            let is_all = names.len() == outcomes.len();
            let place = if is_all { label.clone() } else { format!("{label}: {}", names.join(", ")) };
            match out.iter_mut().find(|other| other.reason == reason) {
                Some(other) => other.places.push(place),
                None => out.push(Missing { reason: reason.to_owned(), places: vec![place] }),
            }
        }
    }
    out
}
