//! The page of a preset: its answers in words, all that it measured in tables that fit, and the conditions.

use std::fmt::Write as _;

use results::{Summary, Workload, ranks::interval_name};

use super::table::{conditions, head, rows, wide_floors};
use crate::{
    claims,
    matrix_view::{MatrixView, is_open},
    page::environment,
    text::{
        counterparts,
        entries::{Reasons, marks},
        quoted_figures::quoted_figures,
    },
};

/// Columns of a table that can be read side by side.
const COLUMNS_MAX: usize = 5;
/// From so many connections on, the memory that they take is an answer, too.
const MANY_CONNECTIONS: u32 = 1_000;

/// Name of the preset that a run's command asks for.
pub(super) fn preset(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    let option = words.find_map(|word| word.strip_prefix("--preset"))?;
    option.strip_prefix('=').or_else(|| words.next())
}

/// True if a picture of costs answers anything: where the load is fixed for all, times do.
pub(super) fn has_picture(summary: &Summary) -> bool {
    summary.setup.workloads.iter().any(|workload| !workload.is_open() && !workload.is_load_sweep())
}

/// Part of a server between the markers of the page. `picture`: where its picture is, from the page.
pub(super) fn part(summary: &Summary, picture: Option<&str>) -> String {
    let (setup, view) = (&summary.setup, MatrixView::alone(summary));
    let reference = view.reference_label();
    let mut out = format!("## {}\n\n", setup.server);
    if let Some(picture) = picture {
        let about = format!("{}: server CPU per request relative to {reference}", setup.server);
        out += &format!("![{about}, a row per back end, a column per workload]({picture})\n\n");
    }
    // Writing to a String cannot fail.
    for claim in claims::stamps(std::slice::from_ref(&view)) {
        let _ = writeln!(out, "{}\n", claim.text());
    }
    for column in columns(&view, |workload| !workload.is_load_sweep()) {
        let _ = write!(out, "{}", answer(&view, column));
    }
    let has_many = setup.workloads.iter().any(|workload| workload.connections >= MANY_CONNECTIONS);
    let memory = if has_many { "; with 1,000 connections and more also the resident set" } else { "" };
    let _ = writeln!(
        out,
        "\nServer CPU per request as a multiple (×) of `{reference}`'s, with the {}; of `{reference}` itself in µs. Below it verified \
         requests per second, or where the load is fixed p99 of the response time{memory}.{} Cheapest first, by the mean over all \
         columns. *In italics*: others, for comparison.\n",
        interval_name(setup.blocks),
        marks(&view)
    );
    let mut reasons = Reasons::default();
    for columns in tables(&view) {
        let entry = |row, column, entry| format!("{entry}{}", resident(&view, row, column));
        let _ = writeln!(out, "{}{}", head(&view, &columns), rows(&view, &columns, &mut reasons, entry).concat());
    }
    let _ = writeln!(out, "{}{}{}\n", reasons.words(), wide_floors(&view), conditions(summary));
    out.push_str(&counterparts::tables(summary, "###"));
    out.extend(quoted_figures(summary).map(|table| table.markdown() + "\n"));
    for (term, facts) in environment::facts(&view) {
        let _ = writeln!(out, "- {term}: {facts}");
    }
    out
}

/// Sentences about a workload: who is cheapest, and what it costs to choose otherwise; in an open loop who answers in time.
fn answer(view: &MatrixView<'_>, column: usize) -> String {
    let said = [claims::cheapest(view, column), claims::dearest(view, column), claims::least_p99(view, column)];
    let said: String = said.into_iter().flatten().map(|claim| format!("  - {}\n", claim.text())).collect();
    let title = &view.workloads()[column].title;
    if said.is_empty() { said } else { format!("- **{title}**\n{said}") }
}

fn columns(view: &MatrixView<'_>, is_wanted: impl Fn(&Workload) -> bool) -> Vec<usize> {
    (0..view.workloads().len()).filter(|&column| is_wanted(&view.workloads()[column])).collect()
}

/// The columns of each table: closed loops, then open ones, as many tables as it takes and each about as wide.
fn tables(view: &MatrixView<'_>) -> Vec<Vec<usize>> {
    let closed = columns(view, |workload| !is_open(workload) && !workload.is_load_sweep());
    let open = columns(view, is_open);
    let parts = [closed, open].into_iter().filter(|columns| !columns.is_empty());
    let split = |columns: Vec<usize>| {
        let tables = columns.len().div_ceil(COLUMNS_MAX);
        columns.chunks(columns.len().div_ceil(tables)).map(<[usize]>::to_vec).collect::<Vec<_>>()
    };
    parts.flat_map(split).collect()
}

/// `<br>12.3 MB`, where there are many connections.
fn resident(view: &MatrixView<'_>, row: usize, column: usize) -> String {
    let bytes = view.figures(row, column).and_then(|figures| figures.rss_bytes);
    let bytes = bytes.filter(|_| view.workloads()[column].connections >= MANY_CONNECTIONS);
    bytes.map_or(String::new(), |bytes| format!("<br>{:.1}\u{a0}MB", bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_preset_is_known_by_the_command() {
        assert_eq!(preset("cargo xtask bench-matrix --preset idle --blocks 5"), Some("idle"));
        assert_eq!(preset("cargo xtask bench-matrix --seed 1 --preset=threads"), Some("threads"));
        assert_eq!(preset("cargo xtask bench-matrix --servers kvcache"), None);
    }

    #[test]
    fn every_workload_has_its_answer_and_its_column_and_the_run_its_conditions() {
        let mut summary = sample::summary();
        summary.setup.workloads[0].connections = 9_000;
        let text = part(&summary, Some("x.svg")).replace('\u{a0}', " ");
        for workload in summary.setup.workloads.iter().filter(|workload| !workload.is_load_sweep()) {
            assert!(text.contains(&format!("- **{}**\n  - ", workload.title)), "{}: {text}", workload.title);
            assert!(text.contains(&format!(" {} {}<br>", workload.short[0], workload.short[1])), "{text}");
        }
        let p99: Vec<&str> =
            text.lines().filter(|line| line.starts_with("  - Least p99 of the response time")).collect();
        assert!(p99.len() == 1 && p99[0].contains(" the greatest, "), "{p99:?}");
        assert!(text.contains("<br>6.3 MB"), "{text}");
        assert!(!text.contains("<br>6.3 MB<br>6.3 MB"), "{text}");
        assert!(text.contains("a column per workload](x.svg)\n"), "{text}");
        for fact in ["- kernel: Linux", "- congestion control: ", "- confinement: ", "- drivers: "] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
    }

    #[test]
    fn tables_are_no_wider_than_a_page() {
        for summary in [sample::summary(), sample::cache(), sample::crossed(), sample::large()] {
            let view = MatrixView::alone(&summary);
            let tables = tables(&view);
            assert!(tables.iter().all(|columns| !columns.is_empty() && columns.len() <= COLUMNS_MAX), "{tables:?}");
            let mut all: Vec<usize> = tables.concat();
            all.sort_unstable();
            assert_eq!(all, columns(&view, |workload| !workload.is_load_sweep()));
        }
    }

    #[test]
    fn the_answers_of_a_run_that_ranks_nothing_are_none() {
        let text = part(&sample::quick(), None);
        assert!(!text.contains("- **") && text.contains("This run ranks nothing"), "{text}");
    }
}
