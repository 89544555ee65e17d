//! `summary.md`: tables to paste into a document, one or two per matrix.

use std::fmt::Write as _;

use results::{Arrivals, Figures, Report, Role, Summary, Workload};

use super::{names::name, quoted_figures::quoted_figures};
use crate::format::{compact_digits, short, significant};

/// Writes one or two tables per matrix.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for summary in &report.matrices {
        costs(summary, &mut text);
        keeping(summary, &mut text);
        text.extend(quoted_figures(summary).map(|table| table.markdown() + "\n"));
    }
    text
}

/// Server CPU per request and, in brackets, throughput, or the open loop's p99.
fn costs(summary: &Summary, text: &mut String) {
    let setup = &summary.setup;
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "## {}\n\nServer CPU per request in µs, in brackets verified requests per second (open loop: p99 of the response time). \
         Medians of {} blocks of {} s slices; `{}`, {}.\n",
        setup.server,
        setup.blocks,
        short(setup.slice_s),
        setup.command,
        setup.created_utc
    );
    if setup.quick {
        text.push_str("Quick: no ranking.\n\n");
    }
    table(
        summary,
        &setup.workloads.iter().filter(|workload| !workload.is_load_sweep()).collect::<Vec<_>>(),
        text,
        cost,
    );
    let measured = summary.noise.iter().filter(|noise| noise.cpu_aa.is_some());
    let floors = measured.map(|noise| format!("{} {}", noise.workload, noise.cpu_floor_in_words()));
    let _ = writeln!(text, "\nNoise floor (A/A): {}.\n", floors.collect::<Vec<_>>().join(", "));
}

/// Memory per key and hit ratios, where there are some.
fn keeping(summary: &Summary, text: &mut String) {
    let kept = |workload: &&Workload| {
        let cells = &summary.setup.cells;
        cells.iter().filter_map(|cell| summary.figures(&cell.id, &workload.name)).any(|figures| keep(figures).is_some())
    };
    let workloads: Vec<&Workload> = summary.setup.workloads.iter().filter(kept).collect();
    if workloads.is_empty() {
        return;
    }
    text.push_str(
        "Resident bytes that a key and its value add; where keys are evicted, the share of gets that hit.\n\n",
    );
    table(summary, &workloads, text, |_, figures| keep(figures));
    text.push('\n');
}

type Entry = fn(&Workload, &Figures) -> Option<String>;

fn table(summary: &Summary, workloads: &[&Workload], text: &mut String, entry: Entry) {
    let heads = workloads.iter().map(|workload| format!(" {}, {} |", workload.short[0], workload.short[1]));
    let _ = writeln!(text, "| |{}", heads.collect::<String>());
    let _ = writeln!(text, "|---|{}", "---|".repeat(workloads.len()));
    for cell in summary.setup.cells.iter().filter(|cell| cell.role != Role::Control) {
        let entries: Vec<Option<String>> = (workloads.iter())
            .map(|workload| summary.figures(&cell.id, &workload.name).and_then(|figures| entry(workload, figures)))
            .collect();
        if entries.iter().any(Option::is_some) {
            let entries = entries.into_iter().map(|entry| format!(" {} |", entry.unwrap_or_default()));
            let _ = writeln!(text, "| {} |{}", name(cell), entries.collect::<String>());
        }
    }
}

fn cost(workload: &Workload, figures: &Figures) -> Option<String> {
    let cpu = significant(figures.cpu_us?.median);
    let p99 = figures.response.as_ref().map(|response| format!("p99 {} µs", significant(response.p99.median)));
    let beside = match workload.arrivals {
        Arrivals::Closed | Arrivals::LoadSweep => Some(compact_digits(figures.throughput_rps.median)),
        Arrivals::Open { .. } => p99,
    };
    Some(beside.map_or_else(|| cpu.clone(), |beside| format!("{cpu} ({beside})")))
}

fn keep(figures: &Figures) -> Option<String> {
    let bytes = figures.bytes_per_key.map(|bytes| format!("{:.1}", bytes.median));
    bytes.or_else(|| figures.hit_ratio.map(|hits| format!("{:.1} %", hits.median * 100.0)))
}
