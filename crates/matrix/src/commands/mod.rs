//! Commands on runs that were made: `compare`, `merge`, `report`, `update-readme`, and the gate. And the cost of the load
//! generator itself.

pub(crate) mod baseline;
pub(crate) mod calibrate;
pub mod client_cost;
pub(crate) mod compare;
pub(crate) mod gate;
pub(crate) mod merge;
pub(crate) mod update_readme;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Subcommand};
use results::Report;

use self::compare::{Changes, Gate, Verdict};
use crate::{
    judge::analysis,
    run::session::{EXIT_INCOMPLETE, say},
    store::{self, Store},
    workspace,
};

/// `--fail-on-regression`: something became slower, certainly and by more than was allowed.
const EXIT_REGRESSION: u8 = 4;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Two runs beside each other: what became cheaper or more expensive, in words and as a table
    Compare {
        /// The earlier run: its directory, or a baseline's name
        before: String,
        /// The later one
        after: String,
        #[command(flatten)]
        gate: GateArgs,
    },
    /// Several runs of the same cells as one: the blocks of each follow those of the one before
    Merge {
        /// Directories of runs
        #[arg(required = true, num_args = 2..)]
        runs: Vec<PathBuf>,
        /// Directory of the merged run
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Merge although the sources differed
        #[arg(long)]
        force: bool,
    },
    /// Write summary and report of a run again, from its manifest and visits
    Report {
        /// The run's directory
        run: PathBuf,
        /// Write nothing: compute every figure and sentence anew from the visits, and fail where a file says something else
        #[arg(long)]
        check: bool,
    },
    /// Find out, blind, how small a difference of two servers is seen on this machine, and in what time
    Calibrate(calibrate::CalibrateArgs),
    /// Keeper of the labels of `calibrate`
    #[command(hide = true)]
    KeepLabels(calibrate::KeepArgs),
    /// Write a run's picture and table of each server to docs/results/SERVER.md
    UpdateReadme {
        /// The run's directory [default: the newest in bench-results]
        run: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub(crate) struct GateArgs {
    /// Exit with status 4 where a cell of ours became slower by more than that, certainly, and the noise is smaller: `5%`
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) fail_on_regression: Option<f64>,
    /// With it: exit with status 3 where that cannot be told
    #[arg(long, requires = "fail_on_regression")]
    pub(crate) strict: bool,
}

pub(crate) fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Compare { before, after, gate } => {
            let (before, after) = (load(&baseline::find(before)?)?, load(&baseline::find(after)?)?);
            Ok(gate.of(&said(&before, &after)).unwrap_or(ExitCode::SUCCESS))
        }
        Command::Merge { runs, out, force } => merged(runs, out, *force),
        Command::Calibrate(args) => calibrate::run(args),
        Command::KeepLabels(args) => calibrate::keep(args),
        Command::UpdateReadme { run } => update_readme::run(run.as_deref()),
        Command::Report { run, check: true } => checked(run),
        Command::Report { run, check: false } => {
            let (store, manifest, visits) = Store::open(run)?;
            let visits = manifest.by_matrix(visits);
            let report = analysis::with_counts(&manifest, &visits, &store::counts(run)?);
            say(&report);
            println!("report: {}", workspace::shown_path(&store.write_summary(&manifest, &visits, &report)?));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Compares a run that was just made with a baseline, beside its other files.
pub(crate) fn compare_with(name: &str, report: &Report, directory: &Path, gate: GateArgs) -> Result<Option<ExitCode>> {
    let changes = said(&load(&baseline::find(name)?)?, report);
    store::write_comparison(directory, &changes)?;
    Ok(gate.of(&changes))
}

fn said(before: &Report, after: &Report) -> Changes {
    let changes = compare::changes(before, after);
    print!("{}", compare::text(&changes));
    changes
}

pub(crate) fn load(directory: &Path) -> Result<Report> {
    let (manifest, visits) = store::load(directory)?;
    let visits = manifest.by_matrix(visits);
    Ok(analysis::with_counts(&manifest, &visits, &store::counts(directory)?))
}

/// Compares the files of a run with what its visits say.
fn checked(run: &Path) -> Result<ExitCode> {
    let (manifest, visits) = store::load(run)?;
    let visits = manifest.by_matrix(visits);
    let report = analysis::with_counts(&manifest, &visits, &store::counts(run)?);
    let found = store::differences(run, &manifest, &visits, &report)?;
    found.iter().for_each(|words| println!("{words}"));
    if found.is_empty() {
        let count: usize = visits.iter().map(Vec::len).sum();
        println!("every figure and every sentence is what the {count} visits say");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn merged(runs: &[PathBuf], out: &Path, is_forced: bool) -> Result<ExitCode> {
    store::refuse_used(out)?;
    let loaded = runs.iter().map(|run| store::load(run)).collect::<Result<Vec<_>>>()?;
    let (manifest, visits) = merge::merge(loaded, is_forced)?;
    let mut store = Store::create(out, &manifest)?;
    visits.iter().try_for_each(|visit| store.append(visit)).context("merged visits")?;
    let visits = manifest.by_matrix(visits);
    let counts = runs.iter().map(|run| store::counts(run)).collect::<Result<Vec<_>>>()?;
    let counts = merge::counts(counts);
    counts.syscalls.iter().try_for_each(|count| store.append_count(count))?;
    counts.instructions.iter().try_for_each(|count| store.append_instructions(count))?;
    let report = analysis::with_counts(&manifest, &visits, &counts);
    say(&report);
    println!("report: {}", workspace::shown_path(&store.write_summary(&manifest, &visits, &report)?));
    Ok(ExitCode::SUCCESS)
}

impl GateArgs {
    /// Judges if asked to, and says what was found; `None` is nothing to stop for.
    fn of(self, changes: &Changes) -> Option<ExitCode> {
        let gate = Gate { threshold: self.fail_on_regression? };
        let (verdict, rows) = gate.judge(changes);
        for (verdict, row) in rows {
            let word = if verdict == Verdict::Regressed { "regression" } else { "inconclusive" };
            println!("{word}: {} {} {}: {}", row.cell, row.workload, compare::name(row.metric), compare::change(row));
        }
        let percent = gate.threshold * 100.0;
        match verdict {
            Verdict::Passed => println!("no regression above {percent} %"),
            Verdict::Inconclusive => println!("warning: whether something became slower by {percent} % cannot be told"),
            Verdict::Regressed => println!("slower by more than {percent} %"),
        }
        match verdict {
            Verdict::Regressed => Some(ExitCode::from(EXIT_REGRESSION)),
            Verdict::Inconclusive if self.strict => Some(ExitCode::from(EXIT_INCOMPLETE)),
            Verdict::Passed | Verdict::Inconclusive => None,
        }
    }
}

/// `5%` as 0.05.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if percent > 0.0 && percent <= 1_000.0 => Ok(percent / 100.0),
        _ => Err("expected a percentage, such as 5%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_fractions() {
        assert_eq!(percent("5%"), Ok(0.05));
        assert_eq!(percent("2.5"), Ok(0.025));
        for text in ["", "%", "-1%", "0%", "nan%", "x"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
