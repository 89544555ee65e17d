//! Fails the nth: every server under load while the 1st, 2nd, 3rd, every fifth of each of its system calls fails, and, where
//! that is a shortage, every one.
//!
//! The law: a failure costs at most the requests it happens to. Nothing wrong is ever sent, nothing hangs or spins, the process
//! lives, serves everything right afterwards, gives back what it held, and drains. After SQLite's and curl's tests of the same
//! name.
//!
//! `fail-the-nth DIRECTORY` takes the programs from there; `cargo xtask verify faults` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

mod cases;
mod rounds;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anyhow::{anyhow, bail};
use cases::FAULTS;
use clap::Parser;
use parking_lot::Mutex;
use rounds::{Tally, survive};
use testkit::{strace::strace, subjects::Subject};

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs
    directory: PathBuf,

    /// Servers and back ends, comma separated: those whose names contain one of these, as in "kvcache epoll" [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,

    /// Servers that are tried at the same time: most of the time is spent waiting
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,

    /// Directory for a trace of all system calls of each round [default: none]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if strace().is_none() {
        bail!("strace is needed");
    }
    let mut subjects = Subject::all(&cli.directory)?;
    subjects.retain(|subject| cli.only.is_empty() || cli.only.iter().any(|name| subject.name().contains(name)));
    if subjects.is_empty() {
        bail!("--only {} leaves nothing", cli.only.join(","));
    }
    let (next, failed, total) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Tally::new()));
    thread::scope(|scope| {
        for _ in 0..cli.jobs {
            scope.spawn(|| {
                while let Some(subject) = subjects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    report(subject, cli.traces.as_deref(), &failed, &total);
                }
            });
        }
    });
    let total = total.into_inner();
    println!("{} failures of system calls in all", total.values().sum::<usize>());
    let mut failed = failed.into_inner();
    // A fault that never comes to pass proves nothing: somebody has to make that call.
    for (at, fault) in FAULTS.iter().enumerate() {
        if cli.only.is_empty() && total.get(&at).is_none_or(|count| *count == 0) {
            println!("{} {}: nobody has made this call", fault.calls, fault.error);
            failed += 1;
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(subject: &Subject, traces: Option<&Path>, failed: &AtomicUsize, total: &Mutex<Tally>) {
    let (tally, mut defeats) = survive(subject, traces).unwrap_or_else(|error| (Tally::new(), vec![error]));
    let kinds = tally.values().filter(|count| **count > 0).count();
    if kinds == 0 && defeats.is_empty() {
        defeats.push(anyhow!("none of its calls could be made to fail, so nothing is known"));
    }
    println!("{}: survived {} failures of {kinds} kinds", subject.name(), tally.values().sum::<usize>());
    for error in &defeats {
        println!("{}: NOT SURVIVED: {error:#}", subject.name());
    }
    failed.fetch_add(defeats.len(), Ordering::Relaxed);
    let mut total = total.lock();
    tally.into_iter().for_each(|(at, count)| *total.entry(at).or_default() += count);
}
