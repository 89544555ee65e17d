//! The top of a server's page, its first screen: one claim with its number, one picture, and how far to trust it.

use std::collections::BTreeSet;

use maud::{Markup, html};
use results::{Outcome, Role, Setup, StoredCalibration, warnings::brief};

use super::{environment::kernel, first_picture};
use crate::{claims, format::count, markup::joined, matrix_view::MatrixView};

/// Id of the top of a page of several servers.
pub(super) const RUN_ID: &str = "run";

/// Button between light and dark, for the whole page.
pub(super) fn theme() -> Markup {
    html! { button type="button" id="theme" hidden="hidden" { "dark" } }
}

/// `links`: id and name of each section; `others`: of the page's other matrices. What holds for the whole run is said at
/// the top of a page of several.
pub(super) fn html(view: &MatrixView<'_>, links: &[(String, &str)], others: &[(String, &str)]) -> Markup {
    let is_alone = others.is_empty();
    let views = std::slice::from_ref(view);
    let headline = claims::headline(view);
    html! {
        header {
            @if is_alone { (stamps(views)) }
            p.over { (title(view)) (beside(view)) }
            @if is_alone { h1 { (headline.html()) } } @else { h2.title { (headline.html()) } }
            p.sub { (subtitle(view)) } "\n"
            (first_picture::html(view))
            (trust(views, is_alone))
            nav aria-label="sections" { (links_html(links)) " " @if is_alone { (theme()) } }
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

/// Says in one line each that a run ranks nothing, or is unfinished.
pub(super) fn stamps(views: &[MatrixView<'_>]) -> Markup {
    html! { @for claim in claims::stamps(views) { p.sample role="note" { (claim.html()) } } }
}

/// How far to trust the figures; folded below it the conditions of the run and its warnings.
pub(super) fn trust(views: &[MatrixView<'_>], has_conditions: bool) -> Markup {
    let claims: Vec<Markup> = claims::trust(views).iter().map(claims::Claim::html).collect();
    let warnings = warnings(views);
    let head = format!("Conditions of the run and {}", count(warnings.len(), "warning"));
    html! {
        div.trust role="region" aria-label="how far to trust this" {
            p { (joined(&claims, " ")) }
            @if has_conditions {
                details {
                    summary { (head) }
                    p.host { (host_line(views)) }
                    @for sentence in calibrations(views) { p.host { (sentence) } }
                    @if let Some(floors) = claims::wide_floors(views) { p.host { (floors.html()) } }
                    ul.warn { @for (words, places) in &warnings { li { (warning(words, places)) } "\n" } }
                }
            }
        }
        "\n"
    }
}

/// Describes what the machine's calibration saw; the same for all matrices of a run.
fn calibrations(views: &[MatrixView<'_>]) -> BTreeSet<String> {
    let known = views.iter().filter_map(|view| view.summary.setup.calibration.as_ref());
    known.map(calibration).collect()
}

/// `On this machine, in 10 minutes …`, with what it was sealed by.
pub(super) fn calibration(StoredCalibration { created_utc, sentence, seal }: &StoredCalibration) -> String {
    format!("{sentence} Calibrated {created_utc}, before the run; the labels had been sealed by sha256 {seal}.")
}

fn warning(words: &str, places: &[String]) -> Markup {
    html! {
        @if places.is_empty() {
            (words)
        } @else {
            details { summary { (words) } ul { @for place in places { li { (place) } } } }
        }
    }
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

/// `, beside lighttpd, nginx and the null server`.
fn beside(view: &MatrixView<'_>) -> String {
    let mut others: Vec<&str> = Vec::new();
    for cell in view.cells() {
        let name = match cell.role {
            Role::Peer => &cell.server,
            Role::Null => "the null server",
            Role::Ours | Role::Control => continue,
        };
        if !others.contains(&name) {
            others.push(name);
        }
    }
    if others.is_empty() { String::new() } else { format!(", beside {}", listed(&others)) }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Describes the workload of the headline, and how the same comparison ends under the others.
fn subtitle(view: &MatrixView<'_>) -> Markup {
    let workload = claims::picture_column(view).map(|column| &view.workloads()[column]);
    let subject = claims::subject(view);
    let tally = subject.and_then(|subject| claims::tally(view, subject.row));
    // One that was chosen among many is chosen by luck, too, where others cannot be told apart from it.
    let chosen = subject.filter(|subject| view.cells()[subject.row].role == Role::Ours);
    let cheapest = chosen.and_then(|subject| claims::cheapest(view, subject.column));
    html! {
        @if let Some(workload) = workload { (workload.name) ": " (workload.title) ". " }
        @if let Some(tally) = tally { (tally.html()) " " }
        @if let Some(cheapest) = cheapest { (cheapest.html()) }
    }
}

/// Conditions of the run; what differs between matrices is said of each.
pub(super) fn host_line(views: &[MatrixView<'_>]) -> String {
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
    let visits = count(visits as usize, "visit");
    [host, cpus, format!("{visits} in {blocks}")].join(" · ")
}

/// Lists one warning for each kind: those of the run, then the cells that are hatched or missing.
fn warnings(views: &[MatrixView<'_>]) -> Vec<(String, Vec<String>)> {
    let summaries: Vec<_> = views.iter().map(|view| view.summary).collect();
    let mut out: Vec<_> = brief(&summaries).into_iter().map(|warning| (warning.words, warning.places)).collect();
    let of_view = |view: &MatrixView<'_>, place: &str| match views {
        [_] => place.to_owned(),
        _ => format!("{}: {place}", view.summary.setup.server),
    };
    let mut hatched = Vec::new();
    let mut missing_places = Vec::new();
    for view in views {
        let doubtful = view.places().filter(|&(row, column)| view.is_doubtful(row, column));
        hatched.extend(doubtful.map(|(row, column)| of_view(view, &view.read_out(row, column))));
        missing_places.extend(
            missing(view)
                .into_iter()
                .map(|Missing { reason, places }| of_view(view, &format!("{reason}: {}", places.join("; ")))),
        );
    }
    if !hatched.is_empty() {
        out.push((format!("{} in doubt, hatched in the matrix", count(hatched.len(), "cell")), hatched));
    }
    if !missing_places.is_empty() {
        out.push(("some combinations were not run".to_owned(), missing_places));
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
