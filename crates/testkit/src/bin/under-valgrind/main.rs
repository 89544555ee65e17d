//! Every server under valgrind: under load from its start to its drain it accesses no memory that is not its own, depends on
//! no value that was never written, and leaves no memory behind that nothing points to (memcheck). callgrind counts the
//! instructions of the same run.
//!
//! `under-valgrind DIRECTORY` takes the programs from there; `cargo xtask verify memory` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, ensure};
use clap::Parser;
use testkit::{
    DriverKind, Server,
    subjects::{Core, Subject},
};

/// Requests of a run: enough for caches, scratch pipes and queues to be used again.
const REQUESTS: u32 = 400;
/// Limit for one of them.
const PATIENCE: Duration = Duration::from_secs(60);
/// Exit status for what memcheck has found.
const FOUND: i32 = 99;

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs, built with --cfg=rustix_use_libc
    directory: PathBuf,

    /// Servers and back ends, comma separated: those whose names contain one of these, as in "kvcache epoll"
    /// [default: each server on the default driver; mq-server with its first dispatch]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut subjects = Subject::all(&cli.directory)?;
    match cli.only.is_empty() {
        true => subjects = usual(subjects),
        false => subjects.retain(|subject| cli.only.iter().any(|name| subject.name().contains(name))),
    }
    ensure!(!subjects.is_empty(), "--only {} leaves nothing", cli.only.join(","));
    let mut failed = 0;
    for subject in &subjects {
        match memcheck(subject).and_then(|()| callgrind(subject)) {
            Ok(instructions) => println!(
                "{}: no leak and no invalid access; {} instructions for each of {REQUESTS} requests, start and end included",
                subject.name(),
                instructions / u64::from(REQUESTS)
            ),
            Err(error) => {
                println!("{}: FAILED: {error:#}", subject.name());
                failed += 1;
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Each server on the default driver. Not on `uring`: valgrind 3.19 lets no other thread run while one waits in
/// io_uring_enter(2), so that the process never hears of a signal.
fn usual(mut subjects: Vec<Subject>) -> Vec<Subject> {
    let mut queues = 0;
    subjects.retain(|subject| match subject.core {
        Core::Driver(driver) => driver == DriverKind::DEFAULT,
        Core::Queue { .. } => {
            queues += 1;
            queues == 1
        }
    });
    subjects
}

fn memcheck(subject: &Subject) -> anyhow::Result<()> {
    let log = subject.log();
    let tool = [
        "valgrind",
        "--quiet",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        &format!("--error-exitcode={FOUND}"),
        &format!("--log-file={}", log.display()),
    ]
    .map(str::to_owned);
    let outcome = run(subject, &tool);
    let said = fs::read_to_string(&log).unwrap_or_default();
    outcome.with_context(|| format!("memcheck: {}", said.trim()))
}

/// Returns the number of instructions.
fn callgrind(subject: &Subject) -> anyhow::Result<u64> {
    let profile = subject.log().with_extension("callgrind");
    let tool = ["valgrind", "--quiet", "--tool=callgrind", &format!("--callgrind-out-file={}", profile.display())];
    run(subject, &tool.map(str::to_owned)).context("callgrind")?;
    let profile = fs::read_to_string(&profile).context("the profile of callgrind")?;
    let totals =
        profile.lines().find_map(|line| line.strip_prefix("totals: ").or_else(|| line.strip_prefix("summary: ")));
    Ok(totals.context("a profile without totals")?.trim().parse()?)
}

/// Starts it, has every answer verified, and drains it.
fn run(subject: &Subject, tool: &[String]) -> anyhow::Result<()> {
    let mut server = subject.start_under(tool)?;
    let failures = subject.load(&server, REQUESTS, PATIENCE)?;
    let status = server.stop()?;
    ensure!(status.success(), "{status}: {}", last_words(&server));
    ensure!(failures.is_empty(), "{failures:?}: {}", last_words(&server));
    Ok(())
}

fn last_words(server: &Server) -> String {
    server.stderr().lines().rev().find(|line| !line.starts_with("try: ")).unwrap_or_default().to_owned()
}
