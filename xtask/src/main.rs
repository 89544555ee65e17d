//! The project's own commands. `cargo xtask` prints them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

mod ci;
mod cost;
mod dist;
mod matrix;
mod readme;
mod report;
mod tidy;
mod verify;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

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
    /// CPU per request of loadgen, wrk, redis-benchmark and memtier_benchmark side by side, against the null server
    ClientCost(cost::Args),
    /// Check the architecture's fences: unsafe code, pure crates, dependency directions, file sizes
    Tidy,
    /// What a change must pass: fmt, clippy, tidy, docs, models, a small bench-matrix
    Ci,
    /// What takes too long for every change: instruction counts, fuzzing, sanitizers, models, failing system calls
    Verify(verify::Args),
    /// Build the six programs and pack them, stripped, with licences and docs into target/dist
    Dist(dist::Args),
}

/// The command line asked for something that cannot be: one line on standard error, exit status 2.
#[derive(Debug)]
struct UsageError(String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

fn usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(message.into()))
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        None => Cli::command().print_help().map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from),
        Some(Command::BenchMatrix(args)) => matrix::run(&args),
        Some(Command::ClientCost(args)) => cost::run(&args),
        Some(Command::Tidy) => tidy::run(),
        Some(Command::Ci) => ci::run(),
        Some(Command::Verify(args)) => verify::run(&args),
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
