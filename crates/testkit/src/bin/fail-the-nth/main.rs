//! Fails the nth: every server under load while the 1st, 2nd, 3rd … of each of its system calls fails.
//!
//! The law: a failure costs at most the connections it happens to. Nothing wrong is ever sent, nothing hangs, the process
//! lives, serves everything right afterwards and drains. After SQLite's and curl's tests of the same name.
//!
//! `fail-the-nth DIRECTORY` takes the programs from there; `cargo xtask verify faults` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

mod cases;

use std::{path::Path, process::ExitCode};

use anyhow::{Context, bail};
use clap::Parser;
use testkit::{
    DriverKind, Server,
    tracing::{strace, with_faults},
};

use cases::{Ended, FAULTS, Fault, Subject};

/// System calls in a row that are made to fail, one in each round.
const ROUNDS: u32 = 6;

/// What is said on the command line.
#[derive(Parser)]
struct Cli {
    /// Where the workspace's programs are
    directory: std::path::PathBuf,

    /// Drivers, comma separated [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    drivers: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if strace().is_none() {
        bail!("strace is needed");
    }
    let is_wanted =
        |driver: &&DriverKind| cli.drivers.is_empty() || cli.drivers.iter().any(|name| name == driver.name());
    let mut failures = 0;
    for subject in Subject::all(&cli.directory)? {
        for driver in DriverKind::ALL.iter().filter(is_wanted) {
            match rounds(&subject, *driver) {
                Ok(rounds) => println!("{} {driver}: {rounds} failures of system calls survived", subject.name),
                Err(error) => {
                    println!("{} {driver}: {error:#}", subject.name);
                    failures += 1;
                }
            }
        }
    }
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One server, which survives all faults one after the other. Returns how many there were.
fn rounds(subject: &Subject, driver: DriverKind) -> anyhow::Result<u32> {
    let mut server = subject.start(driver)?;
    subject.load(&server).and_then(Ended::without_errors).context("before any fault")?;
    let mut count = 0;
    for fault in FAULTS.iter().filter(|fault| fault.is_for(driver)) {
        for nth in 1..=ROUNDS {
            round(subject, &mut server, fault, nth).with_context(|| {
                format!("{} number {nth} fails with {}: {}", fault.call, fault.error, server.stderr())
            })?;
            count += 1;
        }
    }
    server.drain()?;
    Ok(count)
}

fn round(subject: &Subject, server: &mut Server, fault: &Fault, nth: u32) -> anyhow::Result<()> {
    let inject = format!("{}:error={}:when={nth}", fault.call, fault.error);
    let mut ended = None;
    with_faults(server, &inject, || {
        ended = Some(subject.load(server)?);
        Ok(())
    })?;
    ended.context("no load")?.with_lost_connections_only()?;
    if !server.is_running()? {
        bail!("the server has ended");
    }
    subject.load(server)?.without_errors().context("afterwards")
}

/// A program of the workspace.
fn program(directory: &Path, name: &str) -> anyhow::Result<std::path::PathBuf> {
    let path = directory.join(name);
    if !path.is_file() {
        bail!("{} has not been built", path.display());
    }
    Ok(path)
}
