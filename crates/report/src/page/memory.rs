//! What keeping a key takes, and how many gets find theirs: a row per server, a column per workload that tells.

use std::fmt::Write as _;

use results::{Figures, Interval};

use crate::{
    format::significant,
    matrix_view::{Drawable, View},
    picture::svg::escape,
};

/// The table, or `None` where nothing was kept.
pub(super) fn html(view: &View<'_>) -> Option<String> {
    let columns = columns(view);
    if columns.is_empty() {
        return None;
    }
    let mut out = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"memory and hits\"><table><thead>\
                   <tr><th scope=\"col\">server</th>"
        .to_owned();
    for &column in &columns {
        let workload = &view.workloads()[column];
        let unit = if workload.allows_misses { "hits" } else { "bytes per key" };
        let keys = workload.keys.map_or(String::new(), |keys| format!(", {keys} keys"));
        // Writing to a String cannot fail.
        let _ = write!(out, "<th scope=\"col\" class=\"r\">{}: {unit}{keys}</th>", escape(&workload.name));
    }
    out += "</tr></thead><tbody>\n";
    for row in view.compared() {
        let entries: Vec<Option<String>> =
            columns.iter().map(|&column| view.figures(row, column).and_then(entry)).collect();
        if entries.iter().any(Option::is_some) {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&view.series[row].label));
            for entry in entries {
                let _ = write!(out, "<td class=\"r\">{}</td>", entry.unwrap_or_else(|| "–".to_owned()));
            }
            out += "</tr>\n";
        }
    }
    Some(out + "</tbody></table></div>")
}

/// The least and the most that a key takes under the first workload that keeps them all.
pub(super) fn finding(view: &View<'_>) -> String {
    let kept = |row, column| view.figures(row, column)?.bytes_per_key.filter(Drawable::is_drawable);
    let telling = columns(view).into_iter().find(|&column| view.compared().any(|row| kept(row, column).is_some()));
    let Some(column) = telling else { return String::new() };
    let mut rows: Vec<(f64, usize)> =
        view.compared().filter_map(|row| Some((kept(row, column)?.median, row))).collect();
    rows.sort_by(|left, right| left.0.total_cmp(&right.0));
    let workload = &view.workloads()[column];
    let words = |(bytes, row): &(f64, usize)| {
        format!("{}\u{a0}bytes ({})", significant(*bytes), escape(&view.series[*row].label))
    };
    let what = format!("A 16-byte key with {}\u{a0}bytes takes", workload.body_bytes);
    match rows.as_slice() {
        [only] => format!("{what} {}.", words(only)),
        [least, .., most] => format!("{what} from {} to {}.", words(least), words(most)),
        [] => String::new(),
    }
}

fn columns(view: &View<'_>) -> Vec<usize> {
    let tells = |&column: &usize| view.compared().any(|row| view.figures(row, column).and_then(entry).is_some());
    (0..view.workloads().len()).filter(tells).collect()
}

fn entry(figures: &Figures) -> Option<String> {
    let interval = |value: Interval, scale: f64, unit: &str| {
        let [median, lo, hi] = [value.median, value.lo, value.hi].map(|value| significant(value * scale));
        format!("{median}{unit} <span class=\"ci\">[{lo}, {hi}]</span>")
    };
    let kept = figures.bytes_per_key.filter(Drawable::is_drawable).map(|bytes| interval(bytes, 1.0, ""));
    let found = figures.hit_ratio.filter(Drawable::is_drawable).map(|hits| interval(hits, 100.0, "\u{a0}%"));
    kept.or(found)
}
