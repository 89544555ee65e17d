//! The top of the page: stamp, title, verdicts, conditions, warnings, links.

use std::{collections::BTreeSet, fmt::Write as _};

use results::{Outcome, Role, Setup, Summary, Workload, ranks::interval_name};

use crate::{
    format::{count, thousands},
    matrix_view::{View, offered_rps},
    page::{environment::kernel, overview, verdicts},
    picture::svg::escape,
};

/// Cells named in one warning; the table has them all.
const NAMED_MAX: usize = 12;

/// Light or dark, for the whole page.
pub(super) const THEME: &str = "<button type=\"button\" id=\"theme\" hidden=\"hidden\">dark</button>";

/// `links`: id and name of each section; `others`: of the page's other matrices. What holds for the whole run is said at
/// the top of a page of several.
pub(super) fn html(view: &View<'_>, links: &[(String, &str)], others: &[(String, &str)]) -> String {
    let is_alone = others.is_empty();
    let mut out = "<header>".to_owned();
    for (head, words) in stamps(view.summary).into_iter().filter(|_| is_alone) {
        let _ = write!(out, "<p class=\"sample\" role=\"note\"><b>{head}</b> {words}</p>");
    }
    // Of several the run has the heading of the page.
    let heading = if is_alone { "h1" } else { "h2" };
    let (title, subtitle) = (escape(&title(view)), escape(&subtitle(view)));
    let _ = writeln!(out, "<{heading} class=\"title\">{title}</{heading}><p class=\"sub\">{subtitle}</p>");
    let verdicts: String = verdicts::verdicts(view).iter().map(|v| format!("<li>{v}</li>\n")).collect();
    out += "<div class=\"verdict\" role=\"region\" aria-label=\"verdict\">";
    if !verdicts.is_empty() {
        let _ = write!(out, "<ol class=\"verdicts\">{verdicts}</ol>");
    }
    let _ = write!(out, "<p class=\"host\">{}</p>", escape(&host_line(&[view])));
    let warnings: String = warnings(view).iter().map(|w| format!("<li>{w}</li>\n")).collect();
    if !warnings.is_empty() {
        let _ = write!(out, "<ul class=\"warn\">{warnings}</ul>");
    }
    out += "</div>";
    let list = |links: &[(String, &str)]| -> String {
        let links = links.iter().map(|(id, name)| format!("<a href=\"#{id}\">{name}</a>"));
        links.collect::<Vec<_>>().join(" ")
    };
    let others = if is_alone {
        String::new()
    } else {
        format!(
            "<nav class=\"others\" aria-label=\"servers\"><a href=\"#{}\">All servers of this run</a> <span>Others:</span> \
             {}</nav>",
            overview::ID,
            list(others)
        )
    };
    let theme = if is_alone { THEME } else { "" };
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

pub(super) fn stamps(summary: &Summary) -> Vec<(&'static str, &'static str)> {
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

/// Where and how; what differs between matrices is said of each.
pub(super) fn host_line(views: &[&View<'_>]) -> String {
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
    for Missing { reason, places } in missing(view) {
        let more = places.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = escape(&places[..places.len().min(NAMED_MAX)].join("; "));
        out.push(format!("<b>Not run</b> ({}): {named}{more}.", escape(&reason)));
    }
    out
}

/// What was not run, and why.
pub(super) struct Missing {
    pub(super) reason: String,
    pub(super) places: Vec<String>,
}

/// By reason, in the order in which they occur: `pool: get-1MiB-c16, conns-9000`, or `uring` for a server that could not
/// run at all.
pub(super) fn missing(view: &View<'_>) -> Vec<Missing> {
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
