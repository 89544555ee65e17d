//! Instructions of a server's program per request, counted under valgrind in a pass of its own: a second witness beside CPU time,
//! which other programs, the hypervisor and the clock rate do not move. The kernel's are not among them.
//!
//! As with system calls each cell serves two loads of different length, and the difference of the counts is divided by that of
//! the requests.

use std::{ffi::OsString, fs, path::Path};

use anyhow::{Context, Result, bail};
use results::{Cell, Outcome, Report, Role, Workload};
use serde::{Deserialize, Serialize};

use crate::{
    plan::cells::Cells,
    run::{syscalls, visit::Bench},
    workspace::first_line,
};

const RING: &str = "valgrind lets no other thread run while one waits in io_uring_enter(2)";
const FOREIGN: &str = "counted for our own servers only";

/// A line of `instructions.jsonl`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct InstructionCount {
    pub matrix: String,
    pub cell: String,
    pub workload: String,
    /// Instructions of the program per request; absent where they could not be counted.
    pub per_request: Option<f64>,
    pub failure: Option<String>,
}

/// True if there is a valgrind.
pub(crate) fn is_possible() -> bool {
    first_line("valgrind", &["--version"]).is_some_and(|line| line.starts_with("valgrind"))
}

/// Counts; what cannot be counted is said, and `None` is an interrupt.
pub(crate) fn count(bench: &Bench, cells: &Cells, cell: &Cell, workload: &Workload) -> Option<InstructionCount> {
    let (per_request, failure) = syscalls::counted(bench, per_request(bench, cells, cell, workload))?;
    let (cell, workload) = (cell.id.clone(), workload.name.clone());
    Some(InstructionCount { matrix: cells.subject.server().to_owned(), cell, workload, per_request, failure })
}

/// Returns the number of instructions per request.
///
/// # Errors
/// The server does not run under valgrind, or does not answer.
pub(crate) fn per_request(bench: &Bench, cells: &Cells, cell: &Cell, workload: &Workload) -> Result<f64> {
    if cell.role != Role::Ours {
        bail!(FOREIGN);
    }
    if cells.waits_in_ring(cell) {
        bail!(RING);
    }
    let (short, more) = syscalls::requests(workload);
    let few = total(bench, cells, cell, workload, short)?;
    let many = total(bench, cells, cell, workload, short + more)?;
    Ok((many as f64 - few as f64) / more as f64)
}

/// All instructions of a server that answers so many requests, from its start to its end.
fn total(bench: &Bench, cells: &Cells, cell: &Cell, workload: &Workload, requests: u64) -> Result<u64> {
    let directory = bench.scratch.path().join("valgrind");
    fs::create_dir_all(&directory).context("valgrind's directory")?;
    // cachegrind without its caches counts as callgrind does, and faster. A log for each process, as a fork writes one, too; a
    // script that becomes the server leaves its log to it.
    let mut wrapper: Vec<OsString> =
        ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--fair-sched=try", "--trace-children=yes"]
            .map(OsString::from)
            .to_vec();
    let option = |name: &str, value: &Path| OsString::from(format!("{name}={}", value.display()));
    wrapper.push(option("--cachegrind-out-file", Path::new("/dev/null")));
    wrapper.push(option("--log-file", &directory.join("%p.log")));
    let (server, address) = bench.start_server(cells, cell, workload, &wrapper)?;
    let log = directory.join(format!("{}.log", server.pid()));
    syscalls::answer(bench, cells, cell, workload, &server, &address, requests)?;
    server.stop()?;
    let text = fs::read_to_string(&log).context("valgrind's log")?;
    parse(&text).with_context(|| format!("valgrind counted nothing: {}", text.trim()))
}

/// The number in `==7== I   refs:      1,234,567`.
fn parse(log: &str) -> Option<u64> {
    let line = log.lines().find(|line| line.contains(" I ") && line.contains("refs:"))?;
    let (_, number) = line.rsplit_once("refs:")?;
    number.trim().replace(',', "").parse().ok()
}

/// Puts counts beside the figures they belong to, and what could not be counted among the warnings.
pub(crate) fn add_to(report: &mut Report, counts: &[InstructionCount]) {
    for InstructionCount { matrix, cell, workload, per_request, failure } in counts {
        let Some(summary) = report.matrices.iter_mut().find(|summary| summary.setup.server == *matrix) else {
            continue;
        };
        if let Some(why) = failure {
            summary.warnings.push(format!("{cell} {workload}: instructions were not counted: {why}"));
        }
        let results = summary.results.iter_mut();
        for result in results.filter(|result| result.cell == *cell && result.workload == *workload) {
            if let Outcome::Measured(figures) = &mut result.outcome {
                figures.further.instructions_under_valgrind = *per_request;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_instructions_is_read_from_the_log() {
        let log =
            "==7== Cachegrind, a cache and branch-prediction profiler\n==7== \n==7== I   refs:      112,345,678\n";
        assert_eq!(parse(log), Some(112_345_678));
        assert_eq!(parse("==7== Command: kvcache\n"), None);
    }
}
