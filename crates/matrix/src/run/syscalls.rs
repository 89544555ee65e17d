//! System calls per request, counted by `strace -f -c` in a pass of its own: strace makes every call dear, so nothing is
//! timed then.
//!
//! Each cell serves two loads of different length. The difference of the counts, divided by that of the requests, is free
//! of what starting, connecting, storing and stopping take, and hardly moves from run to run.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use results::{Arrivals, Cell, Outcome, Report, Role, Workload};
use serde::{Deserialize, Serialize};

use crate::{
    plan::{cells::Cells, subjects},
    run::{process::Process, visit::Bench},
    workspace::first_line,
};

/// Requests of the short load, and of the long one if bodies are small.
const SHORT: u64 = 2_000;
const LONG: u64 = 8_000;
/// The long load delivers about so many bytes more than the short one, and so many requests more at least.
const MORE_BYTES: u64 = 64 << 20;
const MORE_REQUESTS_MIN: u64 = 200;
/// The tracer writes its table after the last of its processes.
const TABLE_WITHIN: Duration = Duration::from_secs(5);

/// A line of `syscalls.jsonl`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Count {
    pub matrix: String,
    pub cell: String,
    pub workload: String,
    /// Calls per request by name; absent where they could not be counted.
    pub per_request: Option<BTreeMap<String, f64>>,
    pub failure: Option<String>,
}

/// True if there is a strace that can do it.
pub(crate) fn is_possible() -> bool {
    first_line("strace", &["-V"]).is_some_and(|line| line.starts_with("strace"))
}

/// Which cells are counted: an open loop asks the same as the closed one, and the control is the reference.
pub(crate) fn is_counted(cell: &Cell, workload: &Workload) -> bool {
    cell.role != Role::Control && workload.arrivals == Arrivals::Closed && workload.repetitions.is_none()
}

/// Counts; what cannot be counted is said, and `None` is an interrupt.
pub(crate) fn count(bench: &Bench, cells: &Cells, cell: &Cell, workload: &Workload) -> Option<Count> {
    let (per_request, failure) = counted(bench, per_request(bench, cells, cell, workload))?;
    let (cell, workload) = (cell.id.clone(), workload.name.clone());
    Some(Count { matrix: cells.subject.server().to_owned(), cell, workload, per_request, failure })
}

/// Returns what was counted, or why nothing was; `None` is an interrupt.
pub(crate) fn counted<T>(bench: &Bench, outcome: Result<T>) -> Option<(Option<T>, Option<String>)> {
    if bench.interrupts.are_pending() {
        return None;
    }
    Some(match outcome {
        Ok(count) => (Some(count), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    })
}

fn per_request(bench: &Bench, cells: &Cells, cell: &Cell, workload: &Workload) -> Result<BTreeMap<String, f64>> {
    let (short, more) = requests(workload);
    let few = calls(bench, cells, cell, workload, short)?;
    let many = calls(bench, cells, cell, workload, short + more)?;
    let names: std::collections::BTreeSet<&String> = few.keys().chain(many.keys()).collect();
    let slope = |name: &String| {
        let of = |counts: &BTreeMap<String, u64>| counts.get(name).copied().unwrap_or(0) as f64;
        (of(&many) - of(&few)) / more as f64
    };
    // What happens a few times in a load, and not for each request, is none of its cost.
    let worth_telling = names.into_iter().map(|name| (name.clone(), slope(name))).filter(|(_, calls)| *calls >= 0.001);
    Ok(worth_telling.collect())
}

/// Requests of the short load, and how many more the long one has.
pub(super) fn requests(workload: &Workload) -> (u64, u64) {
    let more = (MORE_BYTES / workload.body_bytes.max(1)).clamp(MORE_REQUESTS_MIN, LONG - SHORT);
    (MORE_REQUESTS_MIN.max(SHORT.min(more)), more)
}

/// All calls of a server that answers so many requests, by name.
fn calls(
    bench: &Bench,
    cells: &Cells,
    cell: &Cell,
    workload: &Workload,
    requests: u64,
) -> Result<BTreeMap<String, u64>> {
    let table = bench.scratch.path().join("strace.txt");
    // Fails only when there is none from the load before.
    drop(std::fs::remove_file(&table));
    // -D: the server is our child as ever, and the tracer its grandchild.
    let mut wrapper: Vec<OsString> = ["strace", "-D", "-f", "-qq", "-c", "-o"].map(OsString::from).to_vec();
    wrapper.push(table.clone().into());
    let (server, address) = bench.start_server(cells, cell, workload, &wrapper)?;
    answer(bench, cells, cell, workload, &server, &address, requests)?;
    let ended = if cell.role == Role::Peer { server.terminate().map(drop) } else { server.stop() };
    ended?;
    read_table(&table)
}

/// Fills a server and has it answer so many requests.
pub(super) fn answer(
    bench: &Bench,
    cells: &Cells,
    cell: &Cell,
    workload: &Workload,
    server: &Process,
    address: &str,
    requests: u64,
) -> Result<()> {
    bench.fill(cells, cell, workload, server, address)?.context("interrupted")?;
    let arguments = bench.load_arguments(cells, cell, workload, address, server);
    let load_s = cells.subject.load_s(workload, bench.timing.slice_s, bench.timing.longest_warmup_s());
    let run = bench.generate(&with_requests(&arguments, requests), load_s)?.context("interrupted")?;
    if run.ok != requests {
        bail!("{} of {requests} requests were answered: {:?}", run.ok, run.errors);
    }
    Ok(())
}

/// The generator's arguments for a number of requests instead of a time.
fn with_requests(arguments: &[String], requests: u64) -> Vec<String> {
    let mut words = subjects::without(arguments, &["-d", "--warmup", "--max-warmup", "--server-pid"]);
    // Behind the subcommand.
    words.splice(1..1, ["-n".to_owned(), requests.to_string()]);
    words
}

fn read_table(path: &Path) -> Result<BTreeMap<String, u64>> {
    let deadline = Instant::now() + TABLE_WITHIN;
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if let Some(calls) = parse(&text) {
            return Ok(calls);
        }
        if Instant::now() >= deadline {
            bail!("strace wrote no table: {}", subjects::shortened(&text));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The column `calls` of `strace -c`; `None` before its last line, the total.
fn parse(table: &str) -> Option<BTreeMap<String, u64>> {
    let mut calls = BTreeMap::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // % time, seconds, usecs/call, calls, perhaps errors, name.
        let [_, _, _, count, .., name] = fields[..] else { continue };
        let Ok(count) = count.parse() else { continue };
        if name == "total" {
            return Some(calls);
        }
        calls.insert(name.to_owned(), count);
    }
    None
}

/// Puts counts beside the figures they belong to, and what could not be counted among the warnings.
pub(crate) fn add_to(report: &mut Report, counts: &[Count]) {
    for count in counts {
        let Some(summary) = report.matrices.iter_mut().find(|summary| summary.setup.server == count.matrix) else {
            continue;
        };
        if let Some(why) = &count.failure {
            summary.warnings.push(format!("{} {}: system calls were not counted: {why}", count.cell, count.workload));
        }
        let result = summary.results.iter_mut();
        let result = result.filter(|result| result.cell == count.cell && result.workload == count.workload);
        for result in result {
            if let (Outcome::Measured(figures), Some(per_request)) = (&mut result.outcome, &count.per_request) {
                figures.further.syscalls_per_request = Some(per_request.values().sum());
                figures.further.syscalls.clone_from(per_request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.012345           6      2001         1 recvfrom
 40.00    0.010000           5      2000           sendto
------ ----------- ----------- --------- --------- ----------------
100.00    0.022345           5      4001         1 total
";

    #[test]
    fn the_calls_of_a_whole_table_are_read_and_half_a_table_is_none() {
        let calls = parse(TABLE).unwrap();
        assert_eq!(calls, [("recvfrom".to_owned(), 2001), ("sendto".to_owned(), 2000)].into());
        let (half, _) = TABLE.split_at(TABLE.len() / 2);
        assert_eq!(parse(half), None);
    }

    #[test]
    fn a_load_of_a_time_becomes_one_of_a_number() {
        let words = ["http", "-t", "1", "-c", "64", "-d", "500ms", "--warmup", "300ms", "--max-warmup", "2s", "URL"]
            .map(str::to_owned);
        assert_eq!(with_requests(&words, 7).join(" "), "http -n 7 -t 1 -c 64 URL");
    }
}
