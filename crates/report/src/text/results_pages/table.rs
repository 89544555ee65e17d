//! The part between the markers of a server, and what tables are made of.

use std::fmt::Write as _;

use results::{Arrivals, Cell, Role, Summary, Workload, ranks::interval_name};

use super::selection::Selection;
use crate::{
    claims,
    format::{count, rate, short},
    matrix_view::MatrixView,
    text::{
        counterparts,
        entries::{Reasons, entry, marks},
        names::version_number,
    },
};

/// Picture, conditions, table. `picture`: where the picture is, from the page.
pub(super) fn part(selection: &Selection, picture: &str) -> String {
    let (summary, view) = (&selection.summary, MatrixView::alone(&selection.summary));
    let setup = &summary.setup;
    let reference = view.reference_label();
    let null = setup.cells.iter().find(|cell| cell.role == Role::Null);
    let null = null.map_or(String::new(), |null| format!("; *{}* is {}", null.label, null.description));
    let mut out = format!(
        "![{}: server CPU per request relative to {reference}, a row per back end, a column per workload]({picture})\n\n",
        setup.server
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{} Server CPU per request as a multiple (×) of `{reference}`'s, with the {}; of `{reference}` itself in µs. Below it \
         verified requests per second, or where the load is fixed p99 of the response time. Cheapest first, by the mean over \
         the columns.{} *In italics*: others, for comparison{null}.\n",
        claims::headline(&view).text(),
        interval_name(setup.blocks),
        marks(&view)
    );
    let mut reasons = Reasons::default();
    let columns: Vec<usize> = (0..view.workloads().len()).collect();
    let rows = rows(&view, &columns, &mut reasons, |_, _, entry| entry);
    out += &format!("{}{}\n", head(&view, &columns), rows.concat());
    let left_out = selection.left_out();
    let left_out = if left_out.is_empty() { String::new() } else { format!(" {left_out}") };
    let _ = writeln!(out, "{}{}{}{left_out}", reasons.words(), wide_floors(&view), conditions(summary));
    out
}

/// Tables of what TLS and HTTP/2 add, and conditions.
pub(super) fn part_of_counterparts(summary: &Summary) -> String {
    let (server, tables) = (&summary.setup.server, counterparts::tables(summary, "###"));
    let floors = wide_floors(&MatrixView::alone(summary));
    format!("## {server}\n\n{}\n\n{floors}{}\n", tables.trim_end(), conditions(summary))
}

/// How long lower noise floors would have taken, where some are high.
pub(super) fn wide_floors(view: &MatrixView<'_>) -> String {
    claims::wide_floors(std::slice::from_ref(view)).map_or(String::new(), |claim| format!("{} ", claim.text()))
}

/// Machine, run and command, without which a figure is worth nothing.
pub(super) fn conditions(summary: &Summary) -> String {
    let (setup, host) = (&summary.setup, &summary.setup.host);
    let guest = if host.virtual_machine { ", virtual machine" } else { "" };
    let release = host.kernel.split_whitespace().next().unwrap_or(&host.kernel);
    let release = if release == "Linux" { host.kernel.clone() } else { format!("Linux {release}") };
    let place =
        setup.remote.as_ref().map_or_else(|| "loopback".to_owned(), |remote| format!("server at {}", remote.host));
    let date = setup.created_utc.split('T').next().unwrap_or(&setup.created_utc);
    format!(
        "{} ({} cores{guest}), {release}, {place}, server on CPU {}, generator on CPU {}. Medians of {}, {} s \
         slices, {date}, commit {}: `{}`.",
        host.cpu_model,
        host.cores,
        setup.pinning.server_cpus,
        setup.pinning.client_cpus,
        count(setup.blocks as usize, "block"),
        short(setup.slice_s),
        setup.git.sha,
        setup.command
    )
}

/// Head of each column: its workload, the load, and the noise floor.
pub(super) fn head(view: &MatrixView<'_>, columns: &[usize]) -> String {
    let head = |workload: &Workload| {
        let load = match workload.arrivals {
            Arrivals::Open { rate_rps, .. } => format!("at {}/s", rate(rate_rps)),
            Arrivals::Closed | Arrivals::LoadSweep => String::new(),
        };
        let noise =
            view.noise(&workload.name).map_or(String::new(), |noise| format!("noise {}", noise.cpu_floor_in_words()));
        let lines = [format!("{} {}", workload.short[0], workload.short[1]), load, noise];
        format!(" {} |", lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("<br>"))
    };
    let heads: String = columns.iter().map(|&column| head(&view.workloads()[column])).collect();
    format!("| |{heads}\n|:---|{}\n", "---:|".repeat(columns.len()))
}

/// Lines of the cells that were measured under some of the workloads, without the control, by cost. `more` may add to an entry
/// of a row and a column.
pub(super) fn rows(
    view: &MatrixView<'_>,
    columns: &[usize],
    reasons: &mut Reasons,
    more: impl Fn(usize, usize, String) -> String,
) -> Vec<String> {
    let mut row = |row: usize| {
        let entries = columns.iter().map(|&column| more(row, column, entry(view, row, column, reasons)));
        let entries: Vec<String> = entries.collect();
        let name = name(&view.cells()[row], Some(row) == view.reference);
        format!("| {name} | {} |\n", entries.join(" | "))
    };
    let is_measured = |row: &usize| columns.iter().any(|&column| view.figures(*row, column).is_some());
    view.compared().filter(is_measured).map(&mut row).collect()
}

/// A name in the table must not end its column.
fn name(cell: &Cell, is_reference: bool) -> String {
    let label = cell.label.replace('|', "\\|");
    match cell.role {
        Role::Ours | Role::Control if is_reference => format!("**`{label}`**, reference"),
        Role::Ours | Role::Control => format!("`{label}`"),
        Role::Null => format!("*{label}*"),
        Role::Peer => {
            let number = cell.version.as_deref().and_then(version_number).unwrap_or_default();
            format!("*{}*", format!("{label} {number}").trim_end())
        }
    }
}

#[cfg(test)]
mod tests {
    use results::{CellResult, Flag, FlagCount, Outcome};

    use super::*;
    use crate::sample;

    fn text(summary: &Summary) -> String {
        part(&Selection::of(summary, &[]), "x.svg").replace('\u{a0}', " ")
    }

    #[test]
    fn a_row_has_median_interval_rate_and_a_verdict() {
        let text = text(&sample::summary());
        let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        let columns = row("| **`epoll`**, reference").matches('|').count();
        assert!(
            text.lines().filter(|line| line.starts_with('|')).all(|line| line.matches('|').count() == columns),
            "{text}"
        );
        let own = row("| **`epoll`**, reference");
        assert!(own.contains("**4.00 µs**<br>[") && own.contains("<br>250 k/s") && own.contains("<br>p99 "), "{text}");
        // Large bodies hide the driver.
        assert!(row("| `uring`").contains(" ~ **0.999×**<br>["), "{text}");
        assert!(row("| *nginx, sendfile on 1.2.3*").contains("**1.400×**<br>["), "{text}");
        assert!(row("| `pool`").contains(" n/a (b) |") && text.contains("(b) 64 workers"), "{text}");
        assert!(row("| *null server*").contains("**"), "{text}");
        assert!(row("| | ").contains("<br>noise 1.013×") && row("| | ").contains("<br>at "), "{text}");
        assert!(!text.contains("A/A control"), "{text}");
    }

    #[test]
    fn nothing_is_compared_with_a_reference_in_doubt_and_each_figure_says_so() {
        let mut summary = sample::summary();
        let reference = summary.setup.reference.clone();
        let (first, flag) = (summary.setup.workloads[0].name.clone(), FlagCount { flag: Flag::Noisy, visits: 4 });
        let of = |result: &&mut CellResult| result.cell == reference && result.workload == first;
        let Outcome::Measured(figures) = &mut summary.results.iter_mut().find(of).unwrap().outcome else { panic!() };
        figures.flags = vec![flag];
        let text = text(&summary);
        let entries = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap();
            line.split(" | ").skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let letter = |why: &str| {
            let (before, _) = text.split_once(&format!(") {why}")).unwrap_or_else(|| panic!("{why}: {text}"));
            format!(" ({})", &before[before.len() - 1..])
        };
        let (own, others) = (letter("in doubt: flagged noisy"), letter("not compared: epoll is in doubt here"));
        assert!(entries("| **`epoll`**, reference")[0].contains(&own), "{text}");
        for row in ["| `uring`", "| *nginx, sendfile on 1.2.3*"] {
            assert!(entries(row)[0].contains(&others) && !entries(row)[0].contains('~'), "{text}");
            assert!(entries(row)[1..].iter().all(|entry| !entry.contains(&others)), "{text}");
        }
    }

    #[test]
    fn rows_rise_in_cost_whoever_they_belong_to() {
        let summary = Selection::of(&sample::summary(), &[]).summary;
        let (text, view) = (text(&summary), MatrixView::alone(&summary));
        let labels: Vec<&str> = view.compared().map(|row| view.cells()[row].label.as_str()).collect();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        assert_eq!(rows.len(), labels.len());
        assert!(rows[0].starts_with("| *null server*") && rows[1].starts_with("| `uring`"), "{rows:?}");
        for (row, label) in rows.iter().zip(&labels) {
            assert!(row.contains(label), "{row}: {label}");
        }
    }

    #[test]
    fn the_table_is_never_wider_than_a_page() {
        for summary in [sample::summary(), sample::cache(), sample::crossed()] {
            let text = text(&summary);
            let widest = |line: &str| {
                let cells =
                    line.split('|').map(|cell| cell.split("<br>").map(|it| it.chars().count()).max().unwrap_or(0));
                cells.sum::<usize>()
            };
            let widest = text.lines().filter(|line| line.starts_with("| ")).map(widest).max().unwrap();
            assert!(widest <= 150, "{widest}: {text}");
        }
    }
}
