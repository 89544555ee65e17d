//! Memory per key, and the share of gets that find theirs: a row per server, a column per workload that tells.

use maud::{Markup, html};
use results::{Figures, Interval, ranks::interval_name};

use super::section::{Section, scrolling};
use crate::{
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
        finding: finding(view),
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
    let entries = |row: usize| -> Vec<Option<Markup>> {
        columns.iter().map(|&column| view.figures(row, column).and_then(entry)).collect()
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
                @for (row, entries) in rows.filter(|(_, entries)| entries.iter().any(Option::is_some)) {
                    tr {
                        th scope="row" { (view.series[row].label) }
                        @for entry in entries { td.r { @if let Some(entry) = entry { (entry) } @else { "–" } } }
                    }
                    "\n"
                }
            }
        }
    }
}

/// Names the least and the most that a key takes under the first workload that keeps them all.
fn finding(view: &MatrixView<'_>) -> String {
    let kept = |row, column| view.figures(row, column)?.bytes_per_key.filter(Drawable::is_drawable);
    let telling = columns(view).into_iter().find(|&column| view.compared().any(|row| kept(row, column).is_some()));
    let Some(column) = telling else { return String::new() };
    let mut rows: Vec<(f64, usize)> =
        view.compared().filter_map(|row| Some((kept(row, column)?.median, row))).collect();
    rows.sort_by(|left, right| left.0.total_cmp(&right.0));
    let workload = &view.workloads()[column];
    let words =
        |(bytes, row): &(f64, usize)| format!("{}\u{a0}bytes ({})", significant(*bytes), view.series[*row].label);
    let what = format!("A 16-byte key with {}\u{a0}bytes takes", workload.body_bytes);
    match rows.as_slice() {
        [only] => format!("{what} {}.", words(only)),
        [least, .., most] => format!("{what} from {} to {}.", words(least), words(most)),
        [] => String::new(),
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
