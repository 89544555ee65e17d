//! `report.html`: one self-contained file that loads nothing, is well-formed XML and is complete with scripts off.
//!
//! Every picture is SVG drawn here, once 740 and once 348 units wide; the style sheet shows one of the two. Pictures
//! whose data a run does not have are left out.

mod budget;
mod drift;
mod effects;
mod embed;
mod environment;
mod format;
mod header;
mod heat;
mod latency;
mod series;
mod svg;
mod table;
mod view;
mod words;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use self::svg::escape;
use self::view::View;
use crate::matrix::model::Summary;

const CSS: &str = include_str!("report.css");
const JS: &str = include_str!("report.js");

/// The whole report. Never fails: what cannot be drawn is left out.
pub(crate) fn render(summary: &Summary) -> String {
    let view = View::new(summary);
    let sections: Vec<Section> =
        [Some(matrix(&view)), effects(&view), latency(&view), budget(&view), drift(&view), Some(figures(&view))]
            .into_iter()
            .chain([Some(surroundings(&view))])
            .flatten()
            .collect();
    let colours: String = view.series.iter().map(series::Series::css).collect();
    let links: Vec<(&str, &str)> = sections.iter().map(|s| (s.id, s.link)).collect();
    let tag = header::tag(summary);
    let body: String = sections.iter().map(|section| section.html(&tag)).collect();
    let title = escape(&header::title(&view));
    let (header, data) = (header::html(&view, &links), embed::json(&view));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/><title>{title}</title>\n\
         <style>/*<![CDATA[*/\n{CSS}{colours}/*]]>*/</style></head><body>\
         <svg width=\"0\" height=\"0\" aria-hidden=\"true\" class=\"defs\"><defs><pattern id=\"hatch\" width=\"6\" \
         height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" class=\"hl\"/></pattern></defs></svg>\n\
         <main>{header}{body}</main><div id=\"tip\" hidden=\"hidden\"></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>//<![CDATA[\n{JS}\n//]]></script></body></html>\n"
    )
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
    fn html(&self, tag: &str) -> String {
        let finding =
            if self.finding.is_empty() { String::new() } else { format!("<p class=\"find\">{}</p>", self.finding) };
        let (id, title) = (self.id, &self.title);
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
         {reference} row shows its own microseconds. Small figures: 95\u{a0}% interval. Grey figures: no difference \
         seen. Hatched: a flag casts doubt on the cell. In a closed loop every server runs at its own pace, and at \
         saturation larger batches make a request cheaper. A click opens the row in the table."
    );
    let filter = "<p class=\"filter\" id=\"filterbar\" hidden=\"hidden\"><label for=\"filter\">Filter</label> \
                  <input id=\"filter\" type=\"text\" spellcheck=\"false\" autocomplete=\"off\" \
                  placeholder=\"driver=uring|epoll &amp; workload=get*\"/> \
                  <span id=\"fcount\" aria-live=\"polite\"></span></p>";
    Section {
        id: "matrix",
        link: "matrix",
        title: format!("Cost relative to {reference}"),
        finding: words::matrix_finding(view),
        content: filter.to_owned() + &figure(&(heat::pictures(view) + &letters), &note),
    }
}

fn effects(view: &View<'_>) -> Option<Section> {
    let pictures = effects::pictures(view.summary)?;
    let note = "Each dot: the median paired ratio of server CPU per request over all workloads and blocks when one \
                choice changes, all else equal. Whisker: 95\u{a0}% interval. Log axis, so ×2 and ÷2 are equally far \
                from <i>same</i>. Shaded: the noise floor. Open dot, “~”: no difference seen.";
    Some(Section {
        id: "effects",
        link: "effects",
        title: "What each choice changes".to_owned(),
        finding: words::effects_finding(&effects::drawable(view.summary)),
        content: figure(&pictures, note),
    })
}

/// The workloads with something to draw, the open loops first: theirs is the latency a user sees.
fn columns(view: &View<'_>, has: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..view.workloads().len()).filter(|&column| has(column)).collect();
    columns.sort_by_key(|&column| !view::is_open(&view.workloads()[column]));
    columns
}

fn latency(view: &View<'_>) -> Option<Section> {
    let columns = columns(view, |column| latency::has_curves(view, column));
    let first = *columns.first()?;
    let parts: Vec<_> = columns.iter().map(|&column| latency_part(view, column)).collect();
    let band = "Band: least and greatest visit. Grey: the other servers, for comparison. The axis is 1/(1\u{a0}−\u{a0}q), \
                so each decade of the tail has the same room.";
    let note = if view::is_open(&view.workloads()[first]) {
        format!(
            "Open loop. <b>Solid</b>: response time, counted from the scheduled send. <b>Dashed</b>: service time, \
             counted from the actual send. {band}"
        )
    } else {
        format!("Closed loop: <b>service time, not user latency</b>, dashed. {band}")
    };
    let finding = words::latency_finding(view, first);
    let title = "Latency by percentile".to_owned();
    Some(Section { id: "latency", link: "latency", title, finding, content: per_workload(&parts, &note) })
}

fn latency_part(view: &View<'_>, column: usize) -> (String, String, String) {
    let workload = &view.workloads()[column];
    let kind = if view::is_open(workload) { "" } else { " · service time, not user latency" };
    let name = format!("{} · {}{kind}", workload.name, workload.title);
    (name, words::latency_finding(view, column), latency::pictures(view, column))
}

fn budget(view: &View<'_>) -> Option<Section> {
    let columns = columns(view, |column| budget::has_bars(view, column));
    let first = *columns.first()?;
    let parts: Vec<_> = columns
        .iter()
        .map(|&column| {
            let workload = &view.workloads()[column];
            let name = format!("{} · {}", workload.name, header::load(workload));
            (name, words::budget_finding(view, column), budget::pictures(view, column))
        })
        .collect();
    let note = "Thick bar: server. Thin bar: generator. Full colour: kernel, pale: user. Left of the dashed line is \
                what any server on this machine pays for these bytes. The total is exact to a nanosecond; its split \
                follows the kernel’s coarser accounting of user and system time.";
    Some(Section {
        id: "cpu",
        link: "CPU",
        title: "CPU budget of one request".to_owned(),
        finding: words::budget_finding(view, first),
        content: per_workload(&parts, note),
    })
}

fn drift(view: &View<'_>) -> Option<Section> {
    let drifts: Vec<_> = view.summary.drift.iter().filter(|d| drift::has_points(d)).collect();
    let first = *drifts.first()?;
    let parts: Vec<_> = drifts
        .iter()
        .enumerate()
        .map(|(i, d)| (d.workload.clone(), words::drift_finding(view, d), drift::pictures(view, i, d)))
        .collect();
    let note = "<b>Null server</b>: the same fixed loop in every block. <b>A/A</b>: the reference against itself, at \
                two random places of each block; its spread <i>is</i> the noise floor. Ratios are taken within a \
                block, so what moves a whole block cancels.";
    Some(Section {
        id: "drift",
        link: "drift",
        title: "Did the machine move?".to_owned(),
        finding: words::drift_finding(view, first),
        content: per_workload(&parts, note),
    })
}

fn figures(view: &View<'_>) -> Section {
    let content = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"all figures\">{}</div>\
         <p class=\"small note\">Medians over blocks, in brackets the 95\u{a0}% interval. “~”: no difference seen. \
         Response time counts from the scheduled send and exists in an open loop only; service time counts from the \
         actual send. Visits: those that counted, and in brackets the retries of invalid ones. Flags: by number of \
         visits.</p>",
        table::html(view)
    );
    Section { id: "table", link: "table", title: "All figures".to_owned(), finding: String::new(), content }
}

fn surroundings(view: &View<'_>) -> Section {
    let content = environment::html(view)
        + "<p class=\"small\">The data behind every picture are in this file, in the element \
           <span class=\"mono\">script#data</span>, with numbers of five digits and latency curves of at most fifty \
           points; <span class=\"mono\">summary.json</span> beside this file has them in full. <span id=\"dl\"></span></p>";
    let title = "Environment and commands".to_owned();
    Section { id: "env", link: "environment", title, finding: String::new(), content }
}
