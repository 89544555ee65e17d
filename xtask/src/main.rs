//! The project's own commands. `cargo xtask` prints them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

mod ci;
mod dist;
mod pages;
mod rebuilds;
mod tidy;
mod units;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use matrix::{UsageError, client_cost};

/// Commands of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the back ends of every server beside a null server and peers, and draw a report
    BenchMatrix(Box<matrix::Args>),
    /// CPU per request of loadgen, wrk, h2load, redis-benchmark and memtier_benchmark side by side
    ClientCost(client_cost::Args),
    /// Check the architecture's fences: unsafe code, pure crates, dependency directions, file sizes
    Tidy,
    /// Checks that a change must pass: fmt, clippy, tidy, rebuilds, docs, models, units of systemd, a small bench-matrix
    Ci(ci::Args),
    /// Checks that take too long for every change: instruction counts, fuzzing, sanitizers, models, failing system calls
    Verify(verify::Args),
    /// Run every command of the READMEs in a copy of the tree, and compare what they print with what is promised
    Pages(pages::Args),
    /// Build the six programs and pack them, stripped, with licences and docs into target/dist: an archive, Debian packages, images of containers, a bill of materials
    Dist(dist::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        None => Cli::command().print_help().map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from),
        Some(Command::BenchMatrix(args)) => matrix::run(*args),
        Some(Command::ClientCost(args)) => client_cost::run(&args),
        Some(Command::Tidy) => tidy::run(),
        Some(Command::Ci(args)) => ci::run(&args),
        Some(Command::Verify(args)) => verify::run(&args),
        Some(Command::Pages(args)) => pages::run(&args),
        Some(Command::Dist(args)) => dist::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        if error.is::<UsageError>() {
            eprintln!("error: {error}");
            ExitCode::from(2)
        } else {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    })
}
