//! Memory per key, and the share of gets that find theirs: a row per server, a column per workload that tells.

use maud::{Markup, html};
use results::{Figures, Interval, Outcome, ranks::interval_name};

use super::section::{Section, scrolling};
use crate::{
    claims,
    format::significant,
    markup::bounds,
    matrix_view::{Drawable, MatrixView},
};

/// `None` where nothing was kept.
pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let columns = columns(view);
    if columns.is_empty() {
        return None;
    }
    let note = html! {
        p.small.note {
            "What storing the keys added to the server’s resident set, divided by their number: key, value and all that "
            "keeping them takes. Where keys are evicted instead the share of gets that hit, and such workloads are left "
            "out of the verdicts: a miss costs less than a hit. In brackets the "
            (interval_name(view.summary.setup.blocks)) "."
        }
    };
    Some(Section {
        id: "memory",
        link: "memory",
        title: "Memory and hits".to_owned(),
        finding: html! { @if let Some(claim) = claims::bytes_per_key(view) { (claim.html()) } },
        content: html! { (scrolling("memory and hits", &table(view, &columns))) (note) },
    })
}

fn table(view: &MatrixView<'_>, columns: &[usize]) -> Markup {
    let head = |column: usize| {
        let workload = &view.workloads()[column];
        let unit = if workload.allows_misses { "hits" } else { "bytes per key" };
        let keys = workload.keys.map_or(String::new(), |keys| format!(", {keys} keys"));
        format!("{}: {unit}{keys}", workload.name)
    };
    let why_not = |row, column| match view.outcome(row, column) {
        None => "not selected".to_owned(),
        Some(Outcome::NotRun { reason }) => format!("n/a: {reason}"),
        Some(Outcome::Measured(_)) => "n/a: not counted".to_owned(),
    };
    let entries = |row: usize| -> Vec<Result<Markup, String>> {
        let entry = |column| view.figures(row, column).and_then(entry).ok_or_else(|| why_not(row, column));
        columns.iter().map(|&column| entry(column)).collect()
    };
    let rows = view.compared().map(|row| (row, entries(row)));
    html! {
        table {
            thead { tr {
                th scope="col" { "server" }
                @for &column in columns { th scope="col" class="r" { (head(column)) } }
            } }
            tbody {
                "\n"
                @for (row, entries) in rows.filter(|(_, entries)| entries.iter().any(Result::is_ok)) {
                    tr {
                        th scope="row" { (view.series[row].label) }
                        @for entry in entries { td.r { @match entry { Ok(entry) => (entry), Err(why) => span.m { (why) } } } }
                    }
                    "\n"
                }
            }
        }
    }
}

fn columns(view: &MatrixView<'_>) -> Vec<usize> {
    let tells = |&column: &usize| view.compared().any(|row| view.figures(row, column).and_then(entry).is_some());
    (0..view.workloads().len()).filter(tells).collect()
}

fn entry(figures: &Figures) -> Option<Markup> {
    let interval = |value: Interval, scale: f64, unit: &str| {
        let [median, lo, hi] = [value.median, value.lo, value.hi].map(|value| significant(value * scale));
        html! { (median) (unit) " " (bounds(&format!("[{lo}, {hi}]"))) }
    };
    let kept = figures.bytes_per_key.filter(Drawable::is_drawable).map(|bytes| interval(bytes, 1.0, ""));
    let found = figures.hit_ratio.filter(Drawable::is_drawable).map(|hits| interval(hits, 100.0, "\u{a0}%"));
    kept.or(found)
}
