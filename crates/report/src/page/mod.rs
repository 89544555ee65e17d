//! `report.html`: one self-contained file that loads nothing, is well-formed XML and is complete with scripts off.
//!
//! Every picture is SVG drawn here, once 740 and once 348 units wide; the style sheet shows one of the two. Pictures
//! whose data a run does not have are left out.

mod cells;
mod cpu_budget;
mod data;
mod drift;
mod effects;
mod environment;
mod figures;
mod header;
mod histogram;
mod interaction;
mod latency;
mod load_sweep;
mod memory;
mod null_server;
mod overview;
mod quoted;
mod timeline;
mod verdicts;

use results::{Report, Summary, ranks::interval_name};

use self::cpu_budget as budget;
use crate::{
    matrix_view::{self, View},
    picture::{
        heat_map,
        series::{self, Series},
        svg::escape,
    },
};

const CSS: &str = include_str!("page.css");
/// The filter first: the script that is about the page uses it.
const JS: [&str; 2] = [include_str!("filter.js"), include_str!("page.js")];

/// The whole report, an article for each matrix, under one verdict where there are several. Never fails: what cannot be drawn is left out.
pub fn render(report: &Report) -> String {
    let views = views(&report.matrices);
    let articles: String = views.iter().map(|view| article(view, &views)).collect();
    let colours: String = views.iter().flat_map(|view| &view.series).map(Series::css).collect();
    let (title, front) = match views.as_slice() {
        [only] => (header::title(only), String::new()),
        several => (overview::title(several), overview::html(several)),
    };
    let title = escape(&title);
    let colours = colours + &series::level_css();
    let json = data::json(report, &views);
    let script = JS.concat();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/><title>{title}</title>\n\
         <style>/*<![CDATA[*/\n{CSS}{colours}/*]]>*/</style></head><body>\
         <svg width=\"0\" height=\"0\" aria-hidden=\"true\" class=\"defs\"><defs><pattern id=\"hatch\" width=\"6\" \
         height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" class=\"hl\"/></pattern></defs></svg>\n\
         <main>{front}{articles}</main><div id=\"tip\" hidden=\"hidden\"></div>\n\
         <script type=\"application/json\" id=\"data\">{json}</script>\n\
         <script>//<![CDATA[\n{{\n{script}}}\n//]]></script></body></html>\n"
    )
}

fn views(matrices: &[Summary]) -> Vec<View<'_>> {
    let mut series = 0;
    let mut views = Vec::new();
    for (position, summary) in matrices.iter().enumerate() {
        views.push(View::new(summary, position, series));
        series += summary.setup.cells.len();
    }
    views
}

/// One matrix, with links to the others of the page.
fn article(view: &View<'_>, all: &[View<'_>]) -> String {
    let sections: Vec<Section> = [
        Some(matrix(view)),
        quoted::section(view),
        memory(view),
        effects(view),
        interaction::section(view),
        latency(view),
        load_sweep::section(view),
        timeline::section(view),
        histogram::section(view),
        budget(view),
        drift(view),
        cells::section(view),
        Some(all_figures(view)),
        Some(surroundings(view)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let others = all.iter().filter(|other| other.prefix != view.prefix);
    let others = others.map(|other| (other.id("top"), other.summary.setup.server.as_str()));
    let links: Vec<(String, &str)> = sections.iter().map(|s| (view.id(s.id), s.link)).collect();
    let others: Vec<(String, &str)> = others.collect();
    let tag = header::tag(view.summary);
    let body: String = sections.iter().map(|section| section.html(view, &tag)).collect();
    let (id, prefix, header) = (view.id("top"), &view.prefix, header::html(view, &links, &others));
    format!("<article id=\"{id}\" data-p=\"{prefix}\">{header}{body}</article>\n")
}

/// A title, one finding, and what follows; all of it HTML except the two names.
struct Section {
    id: &'static str,
    link: &'static str,
    title: String,
    finding: String,
    content: String,
}

impl Section {
    fn html(&self, view: &View<'_>, tag: &str) -> String {
        let finding =
            if self.finding.is_empty() { String::new() } else { format!("<p class=\"find\">{}</p>", self.finding) };
        let (id, title) = (view.id(self.id), &self.title);
        format!("<section id=\"{id}\"><h2>{title}{tag}</h2>{finding}{}</section>\n", self.content)
    }
}

fn figure(pictures: &str, note: &str) -> String {
    format!("<figure><div class=\"pic\">{pictures}</div><figcaption>{note}</figcaption></figure>\n")
}

/// The first workload is open to the eye; the others, which say the same about another load, unfold.
fn per_workload(parts: &[(String, String, String)], note: &str) -> String {
    let mut out = String::new();
    for (i, (name, finding, pictures)) in parts.iter().enumerate() {
        let name = escape(name);
        if i == 0 {
            out += &format!("<h3>{name}</h3>{}", figure(pictures, note));
        } else {
            out += &format!("<details><summary>{name}</summary>{}</details>\n", figure(pictures, finding));
        }
    }
    out
}

fn matrix(view: &View<'_>) -> Section {
    let reference = escape(view.reference_label());
    let letters = view.flag_letters().into_iter().map(|(flag, letter)| {
        let meaning = escape(flag.meaning());
        format!("<li><b>{letter}</b> <span class=\"mono\">{}</span>: {meaning}</li>", flag.name())
    });
    let letters: String = letters.collect();
    let letters = if letters.is_empty() { letters } else { format!("<ul class=\"foot\">{letters}</ul>") };
    let note = format!(
        "Server CPU per request, divided by {reference}’s in the same block. 1 is equal, below 1 is cheaper. The \
         {reference} row shows its own microseconds. Small figures: {}. Grey figures: no difference \
         seen. Hatched: a flag casts doubt on the cell. In a closed loop every server runs at its own pace, and at \
         saturation larger batches make a request cheaper. A click opens what is known of the cell.",
        interval_name(view.summary.setup.blocks)
    );
    let [bar, input, count] = ["filterbar", "filter", "fcount"].map(|name| view.id(name));
    let filter = format!(
        "<p class=\"filter\" id=\"{bar}\" hidden=\"hidden\"><label for=\"{input}\">Filter</label> \
         <input id=\"{input}\" type=\"text\" spellcheck=\"false\" autocomplete=\"off\" \
         placeholder=\"(driver=uring|epoll) &amp; !workload~*open\" aria-describedby=\"{count}\"/> \
         <span id=\"{count}\" aria-live=\"polite\"></span></p>"
    );
    Section {
        id: "matrix",
        link: "matrix",
        title: format!("Cost relative to {reference}"),
        finding: verdicts::matrix_finding(view),
        content: filter + &figure(&(heat_map::pictures(view) + &letters), &note),
    }
}

fn memory(view: &View<'_>) -> Option<Section> {
    let table = memory::html(view)?;
    let interval = interval_name(view.summary.setup.blocks);
    let note = format!(
        "What storing the keys added to the server’s resident set, divided by their number: key, value and all \
                that keeping them takes. Where keys are evicted instead the share of gets that hit, and such workloads \
                are left out of the verdicts: a miss costs less than a hit. In brackets the {interval}."
    );
    Some(Section {
        id: "memory",
        link: "memory",
        title: "Memory and hits".to_owned(),
        finding: memory::finding(view),
        content: format!("{table}<p class=\"small note\">{note}</p>"),
    })
}

fn effects(view: &View<'_>) -> Option<Section> {
    let pictures = effects::pictures(view)?;
    let interval = interval_name(view.summary.setup.blocks);
    let note = format!(
        "Each dot: the median paired ratio of server CPU per request over all workloads and blocks when one \
                choice changes, all else equal. Whisker: {interval}. Log axis, so ×2 and ÷2 are equally far \
                from <i>same</i>. Shaded: the noise floor. Open dot, “~”: no difference seen."
    );
    Some(Section {
        id: "effects",
        link: "effects",
        title: "What each choice changes".to_owned(),
        finding: verdicts::effects_finding(&effects::drawable(view.summary)),
        content: figure(&pictures, &note),
    })
}

/// Beyond that many cells only the first workload of the large pictures is drawn, so that the file stays small.
const CELLS_MAX: usize = 80;

/// What to draw of the workloads that have something, and what to say where that is not all.
fn affordable(view: &View<'_>, mut columns: Vec<usize>) -> (Vec<usize>, &'static str) {
    if view.places().count() <= CELLS_MAX || columns.len() < 2 {
        return (columns, "");
    }
    columns.truncate(1);
    (columns, " Of so many cells only one workload is drawn; the data have all.")
}

/// The workloads with something to draw, the open loops first: theirs is the latency a user sees.
fn columns(view: &View<'_>, has: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..view.workloads().len()).filter(|&column| has(column)).collect();
    columns.sort_by_key(|&column| !matrix_view::is_open(&view.workloads()[column]));
    columns
}

fn latency(view: &View<'_>) -> Option<Section> {
    let columns = columns(view, |column| latency::has_curves(view, column));
    let first = *columns.first()?;
    let parts: Vec<_> = columns.iter().map(|&column| latency_part(view, column)).collect();
    let band = "Band: least and greatest visit. Grey: the other servers, for comparison. The axis is 1/(1\u{a0}−\u{a0}q), \
                so each decade of the tail has the same room.";
    let note = if matrix_view::is_open(&view.workloads()[first]) {
        format!(
            "Open loop. <b>Solid</b>: response time, counted from the scheduled send. <b>Dashed</b>: service time, \
             counted from the actual send. {band}"
        )
    } else {
        format!("Closed loop: <b>service time, not user latency</b>, dashed. {band}")
    };
    let finding = verdicts::latency_finding(view, first);
    let title = "Latency by percentile".to_owned();
    let units =
        ["auto", "µs", "ms"].map(|unit| format!("<button type=\"button\" data-unit=\"{unit}\">{unit}</button>"));
    let units = format!("<p class=\"units\" hidden=\"hidden\">Times in {}</p>", units.join(" "));
    let content = units + &per_workload(&parts, &note);
    Some(Section { id: "latency", link: "latency", title, finding, content })
}

fn latency_part(view: &View<'_>, column: usize) -> (String, String, String) {
    let workload = &view.workloads()[column];
    let kind = if matrix_view::is_open(workload) { "" } else { " · service time, not user latency" };
    let name = format!("{} · {}{kind}", workload.name, workload.title);
    (name, verdicts::latency_finding(view, column), latency::pictures(view, column))
}

fn budget(view: &View<'_>) -> Option<Section> {
    let columns = columns(view, |column| budget::has_bars(view, column));
    let first = *columns.first()?;
    let parts: Vec<_> = columns
        .iter()
        .map(|&column| {
            let workload = &view.workloads()[column];
            let name = format!("{} · {}", workload.name, header::load(workload));
            (name, verdicts::budget_finding(view, column), cpu_budget::pictures(view, column))
        })
        .collect();
    let note = "Thick bar: server. Thin bar: generator. Full colour: kernel, pale: user. Dashed line: what the \
                null server pays for the same bytes. Totals are read in nanoseconds; their split \
                follows the kernel’s coarser accounting of user and system time. System calls are the server’s, \
                counted in a pass of its own where the run was asked for it (<span class=\"mono\">--syscalls</span>).";
    Some(Section {
        id: "cpu",
        link: "CPU",
        title: "CPU budget of one request".to_owned(),
        finding: verdicts::budget_finding(view, first),
        content: per_workload(&parts, note),
    })
}

fn drift(view: &View<'_>) -> Option<Section> {
    let drifts: Vec<_> = view.summary.drift.iter().filter(|d| drift::has_points(d)).collect();
    let first = *drifts.first()?;
    let parts: Vec<_> = drifts
        .iter()
        .enumerate()
        .map(|(i, d)| (d.workload.clone(), verdicts::drift_finding(view, d), drift::pictures(view, i, d)))
        .collect();
    let note = "<b>Null server</b>: the same fixed loop in every block. <b>A/A</b>: the reference against itself, at \
                two random places of each block; its spread <i>is</i> the noise floor. Ratios are taken within a \
                block, so what moves a whole block cancels.";
    Some(Section {
        id: "drift",
        link: "drift",
        title: "Did the machine move?".to_owned(),
        finding: verdicts::drift_finding(view, first),
        content: per_workload(&parts, note),
    })
}

fn all_figures(view: &View<'_>) -> Section {
    let content = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"all figures\">{}</div>\
         <p class=\"small note\">Medians over blocks, in brackets the {}. “~”: no difference seen. \
         Response time counts from the scheduled send and exists in an open loop only; service time counts from the \
         actual send. Visits: those that counted, and in brackets the retries of invalid ones. Flags: by number of \
         visits.</p>",
        figures::html(view),
        interval_name(view.summary.setup.blocks)
    );
    Section { id: "table", link: "table", title: "All figures".to_owned(), finding: String::new(), content }
}

fn surroundings(view: &View<'_>) -> Section {
    let mut content = environment::html(view);
    if view.prefix.is_empty() {
        content += "<p class=\"small\">The data behind every picture are in this file, in the element \
                    <span class=\"mono\">script#data</span>, with numbers of four digits and latency curves of at most \
                    36 points; <span class=\"mono\">summary.json</span> beside this file has them in full. \
                    <span id=\"dl\"></span></p>";
    }
    let title = "Environment and commands".to_owned();
    Section { id: "env", link: "environment", title, finding: String::new(), content }
}

#[cfg(test)]
mod tests;
