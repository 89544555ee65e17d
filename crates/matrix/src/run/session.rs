//! A run under way: the missing visits of its plan, one by one, and what is written when it ends.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use report::{quoted_figures, terminal};
use results::{
    Flag, Report, Role,
    record::{Manifest, Visit},
};

use crate::{
    judge::analysis,
    plan::{
        cells::Cells,
        order::{self, BlockOfMatrix, Due},
    },
    run::{
        instructions::{self, InstructionCount},
        progress::Progress,
        syscalls,
        visit::Bench,
    },
    store::{self, Store},
    workspace,
};

/// Some visits failed, or a gate with `--strict` was inconclusive.
pub(crate) const EXIT_INCOMPLETE: u8 = 3;
/// Exit status that a shell reports of a command that SIGINT ended.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// A run with its plan, the visits it has, and what makes more. `visits` and `servers`: one for each matrix.
pub(crate) struct Session<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) visits: Vec<Vec<Visit>>,
    pub(crate) store: Store,
    pub(crate) servers: &'a [Cells],
    /// The same servers as valgrind can run them; none where nobody asks for their instructions.
    pub(crate) under_valgrind: &'a [Cells],
    pub(crate) bench: &'a Bench,
    /// Counts from here, not from when an interrupted run began.
    pub(crate) ends_within: Option<Duration>,
}

/// Reason that no more visits are made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Complete,
    /// Another block would not end in time.
    OutOfTime,
    Interrupted,
}

impl Session<'_> {
    /// Makes the missing visits, writes the summary, and says how it went.
    pub(crate) fn run(mut self) -> Result<(ExitCode, Report)> {
        let outcome =
            self.make_visits().and_then(|end| self.count_syscalls(end)).and_then(|end| self.count_instructions(end));
        let counts = store::counts(self.store.directory())?;
        let report = analysis::with_counts(self.manifest, &self.visits, &counts);
        let path = self.store.write_summary(self.manifest, &self.visits, &report)?;
        let end = outcome?;
        say(&report);
        println!("report: {}", workspace::shown_path(&path));
        let again = format!("cargo xtask bench-matrix --resume {}", workspace::shown_path(self.store.directory()));
        let has_failed = report.matrices.iter().any(|summary| summary.progress.visits_failed > 0);
        let code = match end {
            End::Interrupted => {
                eprintln!("continue with: {again}");
                ExitCode::from(EXIT_INTERRUPTED)
            }
            End::OutOfTime => {
                eprintln!("stopped in time: another block would take too long; for more: {again}");
                ExitCode::SUCCESS
            }
            End::Complete if has_failed => ExitCode::from(EXIT_INCOMPLETE),
            End::Complete => ExitCode::SUCCESS,
        };
        Ok((code, report))
    }

    fn make_visits(&mut self) -> Result<End> {
        let progress = Progress::new(self.manifest, &self.visits);
        let began = Instant::now();
        let mut turn = BlockOfMatrix::default();
        let mut blocks_made: u32 = 0;
        let mut is_first = true;
        while let Some((next, due)) = order::next_of_run(self.manifest, &self.visits, turn) {
            if next.block > turn.block && !is_first {
                blocks_made += 1;
                if self.ends_within.is_some_and(|limit| !fits(limit, began.elapsed(), blocks_made)) {
                    return Ok(End::OutOfTime);
                }
            }
            (turn, is_first) = (next, false);
            if self.bench.interrupts.are_pending() {
                return Ok(End::Interrupted);
            }
            let Some(visit) = self.make_visit(turn, due, &progress)? else { return Ok(End::Interrupted) };
            self.store.append(&visit)?;
            if let Some(left) = &self.bench.histograms {
                self.store.keep_histograms(left, &visit)?;
            }
            if visit.flags.iter().copied().any(Flag::is_fatal) {
                self.store.keep_log(&self.bench.server_log(), &visit)?;
            }
            progress.end(&visit);
            self.visits[turn.matrix].push(visit);
        }
        Ok(End::Complete)
    }

    /// Counts what is missing, once all visits are made.
    fn count_syscalls(&self, end: End) -> Result<End> {
        if end != End::Complete {
            return Ok(end);
        }
        let known = store::counts(self.store.directory())?.syscalls;
        for (planned, cells) in self.manifest.matrices.iter().zip(self.servers) {
            let setup = &planned.setup;
            let wanted = setup.selected().filter(|(cell, workload)| {
                let is_known = |count: &&syscalls::Count| {
                    (&count.matrix, &count.cell, &count.workload) == (&setup.server, &cell.id, &workload.name)
                };
                setup.syscalls
                    && syscalls::is_counted(cell, workload)
                    && setup.why_not(&cell.id, &workload.name).is_none()
                    && !known.iter().any(|count| is_known(&count))
            });
            for (cell, workload) in wanted {
                let Some(count) = syscalls::count(self.bench, cells, cell, workload) else {
                    return Ok(End::Interrupted);
                };
                let total = count.per_request.as_ref().map(|calls| calls.values().sum::<f64>());
                let told = total.map(|calls| format!("{calls:.3} system calls per request"));
                let told = told.or_else(|| count.failure.clone()).unwrap_or_default();
                eprintln!("{} {}: {told}", cell.id, workload.name);
                self.store.append_count(&count)?;
            }
        }
        Ok(end)
    }

    /// The same of instructions.
    fn count_instructions(&self, end: End) -> Result<End> {
        if end != End::Complete {
            return Ok(end);
        }
        let known = store::counts(self.store.directory())?.instructions;
        for (planned, cells) in self.manifest.matrices.iter().zip(self.under_valgrind) {
            let setup = &planned.setup;
            let wanted = setup.selected().filter(|(cell, workload)| {
                let is_known = |count: &InstructionCount| {
                    (&count.matrix, &count.cell, &count.workload) == (&setup.server, &cell.id, &workload.name)
                };
                setup.instructions
                    && cell.role == Role::Ours
                    && syscalls::is_counted(cell, workload)
                    && setup.why_not(&cell.id, &workload.name).is_none()
                    && !known.iter().any(is_known)
            });
            for (cell, workload) in wanted {
                let Some(count) = instructions::count(self.bench, cells, cell, workload) else {
                    return Ok(End::Interrupted);
                };
                let told = count.per_request.map(|number| format!("{number:.0} instructions per request"));
                let told = told.or_else(|| count.failure.clone()).unwrap_or_default();
                eprintln!("{} {}: {told}", cell.id, workload.name);
                self.store.append_instructions(&count)?;
            }
        }
        Ok(end)
    }

    /// `None` when the user asked to stop at once.
    fn make_visit(&self, turn: BlockOfMatrix, due: Due, progress: &Progress) -> Result<Option<Visit>> {
        let planned = &self.manifest.matrices[turn.matrix];
        let (setup, slot) = (&planned.setup, &planned.plan[turn.block][due.slot as usize]);
        let cell = setup.cells.iter().find(|cell| cell.id == slot.cell);
        let workload = setup.workloads.iter().find(|workload| workload.name == slot.workload);
        let (Some(cell), Some(workload)) = (cell, workload) else {
            bail!("the plan names {} {}, which the setup does not have", slot.cell, slot.workload);
        };
        let block = u32::try_from(turn.block).context("block")?;
        progress.begin(block, cell, workload, due.attempt);
        let started_utc = workspace::now_utc();
        let began = Instant::now();
        let Some(attempt) = self.bench.visit(&self.servers[turn.matrix], cell, workload) else { return Ok(None) };
        Ok(Some(Visit {
            v: 2,
            matrix: setup.server.clone(),
            block,
            slot: due.slot,
            attempt: due.attempt,
            cell: cell.id.clone(),
            workload: workload.name.clone(),
            started_utc,
            elapsed_s: began.elapsed().as_secs_f64(),
            ready_s: attempt.ready_s,
            valid: attempt.measured.is_some() && !attempt.flags.iter().copied().any(Flag::is_invalid),
            flags: attempt.flags,
            failure: attempt.failure,
            measured: attempt.measured,
            host: attempt.host,
        }))
    }
}

/// True if another block ends in time, if it takes as long as those made.
fn fits(budget: Duration, elapsed: Duration, blocks_made: u32) -> bool {
    elapsed + elapsed / blocks_made.max(1) <= budget
}

/// The tables and warnings of a report, on standard output.
pub(crate) fn say(report: &Report) {
    for summary in &report.matrices {
        print!("{}", terminal::table(summary));
        if let Some(table) = quoted_figures(summary) {
            print!("\n{}\n", table.text());
        }
        for warning in &summary.warnings {
            println!("warning: {warning}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_only_if_it_can_end_in_time() {
        let seconds = Duration::from_secs;
        assert!(fits(seconds(40), seconds(30), 3));
        assert!(!fits(seconds(39), seconds(30), 3));
        assert!(!fits(seconds(10), seconds(9), 1));
    }
}
