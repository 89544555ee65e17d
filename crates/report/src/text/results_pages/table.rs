//! The part between the markers of a server.

use std::fmt::Write as _;

use results::{Arrivals, Cell, Figures, Interval, Role, Summary, Workload, ranks::interval_name};

use super::selection::{Selection, cost};
use crate::{
    format::{compact_digits, rate, short, significant},
    text::names::version_number,
};

/// Picture, conditions, table. `picture`: where the picture is, from the page.
pub(super) fn part(selection: &Selection, picture: &str) -> String {
    let summary = &selection.summary;
    let setup = &summary.setup;
    let reference = cell(summary, &setup.reference).map_or(setup.reference.as_str(), |cell| &cell.label);
    let null = setup.cells.iter().find(|cell| cell.role == Role::Null);
    let null = null.map_or(String::new(), |null| format!("; *{}* is {}", null.label, null.description));
    let mut out = format!(
        "![{}: server CPU per request relative to {reference}, a row per back end, a column per workload]({picture})\n\n",
        setup.server
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "Server CPU per request in µs, ± half of its {}; below it verified requests per second, or where the \
         load is fixed p99 of the response time. Cheapest first, by the mean over the columns. “~”: no difference from \
         `{reference}` seen. *In italics*: others, for comparison{null}.\n",
        interval_name(setup.blocks)
    );
    out += &format!("{}{}\n", head(summary), rows(summary).concat());
    let left_out = selection.left_out();
    let left_out = if left_out.is_empty() { String::new() } else { format!(" {left_out}") };
    let _ = writeln!(out, "{}{left_out}", conditions(summary));
    out
}

/// Machine, run and command, without which a figure is worth nothing.
fn conditions(summary: &Summary) -> String {
    let (setup, host) = (&summary.setup, &summary.setup.host);
    let guest = if host.virtual_machine { ", virtual machine" } else { "" };
    let release = host.kernel.split_whitespace().next().unwrap_or(&host.kernel);
    let release = if release == "Linux" { host.kernel.clone() } else { format!("Linux {release}") };
    let place =
        setup.remote.as_ref().map_or_else(|| "loopback".to_owned(), |remote| format!("server at {}", remote.host));
    let date = setup.created_utc.split('T').next().unwrap_or(&setup.created_utc);
    format!(
        "{} ({} cores{guest}), {release}, {place}, server on CPU {}, generator on CPU {}. Medians of {} blocks of {} s \
         slices, {date}, commit {}: `{}`.",
        host.cpu_model,
        host.cores,
        setup.pinning.server_cpus,
        setup.pinning.client_cpus,
        setup.blocks,
        short(setup.slice_s),
        setup.git.sha,
        setup.command
    )
}

/// Head of each column: its workload, the load, and the noise floor.
fn head(summary: &Summary) -> String {
    let workloads = &summary.setup.workloads;
    let head = |workload: &Workload| {
        let load = match workload.arrivals {
            Arrivals::Open { rate_rps, .. } => format!("at {}/s", rate(rate_rps)),
            Arrivals::Closed | Arrivals::LoadSweep => String::new(),
        };
        let noise = summary.noise.iter().find(|noise| noise.workload == workload.name && noise.cpu_aa.is_some());
        let noise = noise.map_or(String::new(), |noise| format!("noise ±{:.1}\u{a0}%", noise.cpu_floor_percent));
        let lines = [format!("{} {}", workload.short[0], workload.short[1]), load, noise];
        format!(" {} |", lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("<br>"))
    };
    let heads: String = workloads.iter().map(head).collect();
    format!("| |{heads}\n|:---|{}\n", "---:|".repeat(workloads.len()))
}

/// Lines of the cells that were measured under some workload, without the control, by cost.
fn rows(summary: &Summary) -> Vec<String> {
    let setup = &summary.setup;
    let mut cells: Vec<&Cell> = setup.cells.iter().filter(|cell| cell.role != Role::Control).collect();
    cells.sort_by(|a, b| cost(summary, a).total_cmp(&cost(summary, b)));
    let row = |cell: &Cell| {
        let is_reference = cell.id == setup.reference;
        let entry = |workload: &Workload| {
            let figures = summary.figures(&cell.id, &workload.name);
            figures.and_then(|figures| entry(is_reference, workload, figures))
        };
        let entries: Vec<Option<String>> = setup.workloads.iter().map(entry).collect();
        let is_empty = entries.iter().all(Option::is_none);
        let entries = entries.into_iter().map(|entry| format!(" {} |", entry.unwrap_or_default()));
        (!is_empty).then(|| format!("| {} |{}\n", name(cell, is_reference), entries.collect::<String>()))
    };
    cells.into_iter().filter_map(row).collect()
}

fn entry(is_reference: bool, workload: &Workload, figures: &Figures) -> Option<String> {
    let cpu = figures.cpu_us.filter(|cpu| cpu.median.is_finite())?;
    let mark = if is_reference || figures.cpu_ratio.is_none_or(|ratio| ratio.differs) { "" } else { "~\u{a0}" };
    let p99 = figures.response.as_ref().map(|response| format!("p99 {}\u{a0}µs", significant(response.p99.median)));
    let beside = match workload.arrivals {
        Arrivals::Closed | Arrivals::LoadSweep => Some(format!("{}/s", compact_digits(figures.throughput_rps.median))),
        Arrivals::Open { .. } => p99,
    };
    let beside = beside.map_or(String::new(), |beside| format!("<br>{}", beside.replace(' ', "\u{a0}")));
    Some(format!("{mark}**{}**\u{a0}±{}{beside}", significant(cpu.median), half_width(&cpu)))
}

/// The interval's longer half, in per cent of the median.
fn half_width(value: &Interval) -> String {
    let percent = (value.hi - value.median).max(value.median - value.lo) / value.median * 100.0;
    let digits = if percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") };
    format!("{digits}\u{a0}%")
}

fn cell<'a>(summary: &'a Summary, id: &str) -> Option<&'a Cell> {
    summary.setup.cells.iter().find(|cell| cell.id == id)
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
        assert!(own.contains("**4.00** ±") && own.contains("<br>250 k/s") && own.contains("<br>p99 "), "{text}");
        // Large bodies hide the driver.
        assert!(row("| `uring`").contains(" ~ **"), "{text}");
        assert!(row("| *nginx, sendfile on 1.2.3*").contains("±"), "{text}");
        assert!(row("| *null server*").contains("**"), "{text}");
        assert!(row("| | ").contains("<br>noise ±1.3 %") && row("| | ").contains("<br>at "), "{text}");
        assert!(!text.contains("A/A control"), "{text}");
    }

    #[test]
    fn rows_rise_in_cost_whoever_they_belong_to() {
        let summary = Selection::of(&sample::summary(), &[]).summary;
        let text = text(&summary);
        let mut cells: Vec<&Cell> = summary.setup.cells.iter().filter(|cell| cell.role != Role::Control).collect();
        cells.sort_by(|a, b| cost(&summary, a).total_cmp(&cost(&summary, b)));
        let places: Vec<usize> = cells.iter().map(|cell| text.find(&cell.label.replace('|', "\\|")).unwrap()).collect();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        assert_eq!(rows.len(), places.len());
        for (row, cell) in rows.iter().zip(&cells) {
            assert!(row.contains(&cell.label), "{row}: {}", cell.label);
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
