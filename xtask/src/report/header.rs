//! The top of the page: stamp, title, verdicts, conditions, warnings, links.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::environment::kernel;
use super::format::{count, thousands};
use super::svg::escape;
use super::view::{View, offered_rps};
use super::words;
use crate::matrix::model::{Outcome, Role, Summary, Workload};
use crate::matrix::ranks::interval_name;

/// Cells named in one warning; the table has them all.
const NAMED_MAX: usize = 12;

/// `links`: id and name of each section; `others`: of the page's other matrices. What holds for the whole run is said of the
/// first matrix only.
pub(super) fn html(view: &View<'_>, links: &[(String, &str)], others: &[(String, &str)]) -> String {
    let is_first = view.prefix.is_empty();
    let mut out = "<header>".to_owned();
    for (head, words) in stamps(view.summary).into_iter().filter(|_| is_first) {
        let _ = write!(out, "<p class=\"sample\" role=\"note\"><b>{head}</b> {words}</p>");
    }
    let _ = writeln!(out, "<h1>{}</h1><p class=\"sub\">{}</p>", escape(&title(view)), escape(&subtitle(view)));
    let verdicts: String = words::verdicts(view).iter().map(|v| format!("<li>{v}</li>\n")).collect();
    out += "<div class=\"verdict\" role=\"region\" aria-label=\"verdict\">";
    if !verdicts.is_empty() {
        let _ = write!(out, "<ol class=\"verdicts\">{verdicts}</ol>");
    }
    let _ = write!(out, "<p class=\"host\">{}</p>", escape(&host_line(view)));
    let warnings: String = warnings(view).iter().map(|w| format!("<li>{w}</li>\n")).collect();
    if !warnings.is_empty() {
        let _ = write!(out, "<ul class=\"warn\">{warnings}</ul>");
    }
    out += "</div>";
    let list = |links: &[(String, &str)]| -> String {
        let links = links.iter().map(|(id, name)| format!("<a href=\"#{id}\">{name}</a>"));
        links.collect::<Vec<_>>().join(" ")
    };
    let others = if others.is_empty() {
        String::new()
    } else {
        format!(
            "<nav class=\"others\" aria-label=\"servers\"><span>Other servers of this run:</span> {}</nav>",
            list(others)
        )
    };
    let theme = "<button type=\"button\" id=\"theme\" hidden=\"hidden\">dark</button>";
    let theme = if is_first { theme } else { "" };
    let _ = writeln!(out, "<nav aria-label=\"pictures\">{} {theme}</nav>{others}</header>", list(links));
    out
}

/// What is printed beside every heading of a run that must not be quoted as a ranking.
pub(super) fn tag(summary: &Summary) -> String {
    let words = match (summary.setup.quick, summary.progress.is_partial) {
        (true, _) => "quick, no ranking",
        (false, true) => "unfinished run",
        (false, false) => return String::new(),
    };
    format!(" <span class=\"tag\">{words}</span>")
}

fn stamps(summary: &Summary) -> Vec<(&'static str, &'static str)> {
    let quick = ("Quick, no ranking.", "Enough to see how things stand, too little to rank them.");
    let partial = ("Unfinished.", "Not every planned visit was made.");
    let stamps = [(summary.setup.quick, quick), (summary.progress.is_partial, partial)];
    stamps.into_iter().filter(|(applies, _)| *applies).map(|(_, stamp)| stamp).collect()
}

/// `http-server on seven drivers`.
pub(super) fn title(view: &View<'_>) -> String {
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

fn subtitle(view: &View<'_>) -> String {
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

fn host_line(view: &View<'_>) -> String {
    let (setup, progress) = (&view.summary.setup, &view.summary.progress);
    let version = kernel(&setup.host.kernel).split_whitespace().take(2).collect::<Vec<_>>().join("\u{a0}");
    let blocks = count(setup.blocks as usize, "randomised block");
    let remote = setup.remote.as_ref();
    let place = remote.map_or_else(|| "loopback".to_owned(), |remote| format!("server at {}", remote.host));
    [
        format!("{}, {version}, {place}", count(setup.host.cores as usize, "core")),
        format!("server on CPU {}, generator on CPU {}", setup.pinning.server_cpus, setup.pinning.client_cpus),
        format!("{} in {blocks}", count(progress.visits_done as usize, "visit")),
        format!("in brackets the {}", interval_name(setup.blocks)),
        "“~” means no difference seen".to_owned(),
    ]
    .join(" · ")
}

/// `100,000 requests/s` or `closed loop`.
pub(super) fn load(workload: &Workload) -> String {
    offered_rps(workload).map_or_else(|| "closed loop".to_owned(), |rps| format!("{}\u{a0}requests/s", thousands(rps)))
}

/// The run's own warnings, then the cells that are hatched or missing in the matrix.
fn warnings(view: &View<'_>) -> Vec<String> {
    let mut out: Vec<String> = view.summary.warnings.iter().map(|w| escape(w)).collect();
    let hatched = view.places().filter(|&(row, column)| view.is_doubtful(row, column)).count();
    if hatched > 0 {
        out.push(format!("<b>{} hatched</b> below: a flag casts doubt on the figures.", count(hatched, "cell")));
    }
    for (reason, places) in missing(view) {
        let more = places.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = escape(&places[..places.len().min(NAMED_MAX)].join("; "));
        out.push(format!("<b>Not run</b> ({}): {named}{more}.", escape(&reason)));
    }
    out
}

/// By reason, in the order in which they occur: `pool: get-1MiB-c16, conns-9000`, or `uring` for a server that could not
/// run at all.
fn missing(view: &View<'_>) -> Vec<(String, Vec<String>)> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
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
            match out.iter_mut().find(|(other, _)| other == reason) {
                Some((_, places)) => places.push(place),
                None => out.push((reason.to_owned(), vec![place])),
            }
        }
    }
    out
}
