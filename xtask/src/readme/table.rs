//! What stands between the markers of a server.

use std::fmt::Write as _;

use crate::matrix::model::{Arrivals, Cell, Figures, Role, Summary, Workload};
use crate::matrix::ranks::interval_name;
use crate::matrix::version_number;
use crate::report::{compact, significant};

/// More rows than a reader takes in at once are folded.
const ROWS_MAX: usize = 14;

/// Picture, conditions, and the table of all cells. `picture`: where the picture is, from the README.
pub(super) fn part(summary: &Summary, picture: &str) -> String {
    let setup = &summary.setup;
    let reference = cell(summary, &setup.reference).map_or(setup.reference.as_str(), |cell| &cell.label);
    let mut out = format!(
        "![{}: server CPU per request relative to {reference}, a row per back end, a column per workload]({picture})\n\n",
        setup.server
    );
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}\n", conditions(summary));
    let _ = writeln!(
        out,
        "Server CPU per request in µs with its {}, in brackets verified requests per second, or p99 of the \
         response time where the load is fixed. “~”: no difference from `{reference}` seen.\n",
        interval_name(setup.blocks)
    );
    let rows = rows(summary);
    let table = format!("{}{}", head(&setup.workloads), rows.concat());
    if rows.len() > ROWS_MAX {
        let _ = write!(out, "<details><summary>All {} rows</summary>\n\n{table}\n</details>\n", rows.len());
    } else {
        out += &table;
    }
    out
}

/// Machine, run, noise, command: what a figure is worth nothing without.
fn conditions(summary: &Summary) -> String {
    let (setup, host) = (&summary.setup, &summary.setup.host);
    let guest = if host.virtual_machine { ", virtual machine" } else { "" };
    let release = host.kernel.split_whitespace().next().unwrap_or(&host.kernel);
    let release = if release == "Linux" { host.kernel.clone() } else { format!("Linux {release}") };
    let place =
        setup.remote.as_ref().map_or_else(|| "loopback".to_owned(), |remote| format!("server at {}", remote.host));
    let date = setup.created_utc.split('T').next().unwrap_or(&setup.created_utc);
    let floors = summary.noise.iter().filter(|noise| noise.cpu_floor_percent.is_finite());
    let floors: Vec<String> =
        floors.map(|noise| format!("{} {}", noise.workload, noise.cpu_floor_in_words())).collect();
    let noise = if floors.is_empty() { String::new() } else { format!(" Noise floor (A/A): {}.", floors.join(", ")) };
    format!(
        "{} ({} cores{guest}), {release}, {place}, server on CPU {}, generator on CPU {}. Medians of {} blocks of {} s \
         slices, {date}, commit {}: `{}`.{noise}",
        host.cpu_model,
        host.cores,
        setup.pinning.server_cpus,
        setup.pinning.client_cpus,
        setup.blocks,
        setup.slice_s,
        setup.git.sha,
        setup.command
    )
}

fn head(workloads: &[Workload]) -> String {
    let heads = workloads.iter().map(|workload| format!(" {}, {} |", workload.short[0], workload.short[1]));
    format!("| |{}\n|---|{}\n", heads.collect::<String>(), "---|".repeat(workloads.len()))
}

/// A line per cell that was measured under some workload, without the control.
fn rows(summary: &Summary) -> Vec<String> {
    let setup = &summary.setup;
    let row = |cell: &Cell| {
        let entry = |workload: &Workload| {
            let figures = summary.figures(&cell.id, &workload.name);
            figures.and_then(|figures| entry(cell.id == setup.reference, workload, figures))
        };
        let entries: Vec<Option<String>> = setup.workloads.iter().map(entry).collect();
        let is_empty = entries.iter().all(Option::is_none);
        let entries = entries.into_iter().map(|entry| format!(" {} |", entry.unwrap_or_default()));
        (!is_empty).then(|| format!("| {} |{}\n", name(cell), entries.collect::<String>()))
    };
    setup.cells.iter().filter(|cell| cell.role != Role::Control).filter_map(row).collect()
}

fn entry(is_reference: bool, workload: &Workload, figures: &Figures) -> Option<String> {
    let cpu = figures.cpu_us.filter(|cpu| cpu.median.is_finite())?;
    let mark = if is_reference || figures.cpu_ratio.is_none_or(|ratio| ratio.differs) { "" } else { " ~" };
    let p99 = figures.response.as_ref().map(|response| format!("p99 {} µs", significant(response.p99.median)));
    let beside = match workload.arrivals {
        Arrivals::Closed | Arrivals::Climb => Some(compact(figures.throughput_rps.median)),
        Arrivals::Open { .. } => p99,
    };
    let beside = beside.map_or(String::new(), |beside| format!(" ({beside})"));
    let [median, lo, hi] = [cpu.median, cpu.lo, cpu.hi].map(significant);
    Some(format!("{median}{mark} [{lo}, {hi}]{beside}"))
}

fn cell<'a>(summary: &'a Summary, id: &str) -> Option<&'a Cell> {
    summary.setup.cells.iter().find(|cell| cell.id == id)
}

/// A name in the table must not end its column.
fn name(cell: &Cell) -> String {
    let label = cell.label.replace('|', "\\|");
    match cell.role {
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
    use crate::report::sample;

    #[test]
    fn a_row_has_median_interval_rate_and_whether_a_difference_was_seen() {
        let text = part(&sample::summary(), "x.svg").replace('\u{a0}', " ");
        let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        let columns = row("| `epoll`").matches('|').count();
        assert!(
            text.lines().filter(|line| line.starts_with('|')).all(|line| line.matches('|').count() == columns),
            "{text}"
        );
        assert!(row("| `epoll`").starts_with("| `epoll` | 4.00 ["), "{text}");
        assert!(row("| `epoll`").contains("(250 k) |") && row("| `epoll`").contains("(p99 "), "{text}");
        // Large bodies hide the driver.
        assert!(row("| `uring`").contains(" ~ ["), "{text}");
        assert!(row("| *nginx, sendfile on 1.2.3*").contains("["), "{text}");
        assert!(!text.contains("A/A control"), "{text}");
        assert!(!text.contains("<details>"));
    }

    #[test]
    fn many_rows_are_folded() {
        let text = part(&sample::crossed(), "x.svg");
        assert!(
            text.contains("<details><summary>All 21 rows</summary>\n\n| |") && text.trim_end().ends_with("</details>")
        );
    }
}
