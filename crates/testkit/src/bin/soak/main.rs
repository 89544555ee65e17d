//! All servers at once for half an hour, with clients that are killed, vanish or are slow, files that change, reloads and upgrades:
//! every answer is right, and memory, descriptors and threads at the end are what they were after the first part.
//!
//! `soak DIRECTORY` takes the programs from there; `cargo xtask verify soak` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

mod clients;
mod figures;

use std::{
    fs,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use figures::{Figures, Samples};
use testkit::{Process, Server, Successor, eventually, subjects::Subject};

/// Parts of the time: upgrades are in the first one, and the second one is compared with the last.
const PARTS: u32 = 6;
/// Upgrades of each server in the first part, and behind the last one.
const UPGRADES: u32 = 3;
/// Samples in each part.
const SAMPLES: u32 = 30;
/// Requests between two looks at the clock.
const REQUESTS: u32 = 400;
/// Time between two loads: what runs beside needs the machine, too.
const REST: Duration = Duration::from_millis(250);
/// Limit for one of them, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Classes of loadgen's errors that a connection can end with when its server is upgraded.
const LOST: [&str; 4] = ["reset", "eof_early", "short_body", "write_error"];

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs
    directory: PathBuf,

    /// Length in seconds
    #[arg(long, default_value_t = 1800, value_name = "N", value_parser = clap::value_parser!(u64).range(30..))]
    seconds: u64,

    /// Servers and their back ends, comma separated
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "http-server epoll,zerocopy uring,fileserver tokio original,kvcache epoll,mq-server dispatch=pool"
    )]
    subjects: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut subjects = Subject::all(&cli.directory)?;
    subjects.retain(|subject| cli.subjects.contains(&subject.name()));
    ensure!(subjects.len() == cli.subjects.len(), "there is no such server and back end among {:?}", cli.subjects);
    let time = Duration::from_secs(cli.seconds);
    let results: Vec<_> = thread::scope(|scope| {
        let run = |subject| scope.spawn(move || soak(subject, time));
        let runs: Vec<_> = subjects.iter().map(run).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err(anyhow!("panicked")))).collect()
    });
    let mut has_failed = false;
    for (subject, result) in subjects.iter().zip(results) {
        match result {
            Ok(said) => println!("{}: {said}", subject.name()),
            Err(error) => {
                println!("{}: FAILED: {error:#}", subject.name());
                has_failed = true;
            }
        }
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Numbers that the threads about one server share.
#[derive(Debug, Default)]
struct Course {
    is_over: AtomicBool,
    /// Upgrades that have begun, and those whose old process has ended.
    upgrades_begun: AtomicU64,
    upgrades_ended: AtomicU64,
    requests: AtomicU64,
    disturbances: AtomicU64,
}

fn soak(subject: &Subject, time: Duration) -> anyhow::Result<String> {
    let server = subject.start()?;
    let course = Course::default();
    // Each is killed when it is dropped, if it has not ended.
    let mut successors = Vec::new();
    let (samples, first, last) = thread::scope(|scope| {
        let (server, course, successors) = (&server, &course, &mut successors);
        let workers = [
            scope.spawn(move || load(subject, server, course)),
            scope.spawn(move || clients::disturb(subject, server, course)),
            scope.spawn(move || change_files(subject, course)),
        ];
        let watched = watch(server, successors, course, time);
        course.is_over.store(true, Relaxed);
        for worker in workers {
            worker.join().unwrap_or_else(|_| Err(anyhow!("panicked")))?;
        }
        watched
    })
    .with_context(|| format!("its log: {}", last_lines(&server.stderr())))?;
    let grown = samples.growth(first, last);
    ensure!(grown.is_empty(), "grown: {}", grown.join(", "));
    ensure!(!server.stderr().contains("panicked"), "{}", last_lines(&server.stderr()));
    Ok(format!(
        "{} requests right, {} clients killed, slow or gone, {} upgrades; {}",
        course.requests.load(Relaxed),
        course.disturbances.load(Relaxed),
        course.upgrades_ended.load(Relaxed),
        samples.describe()
    ))
}

/// Upgrades the server, samples its figures, has it reload meanwhile, and upgrades it again. Returns the samples, and what the
/// process had after the first upgrades and after the last.
fn watch(
    server: &Server,
    successors: &mut Vec<Successor>,
    course: &Course,
    time: Duration,
) -> anyhow::Result<(Samples, Figures, Figures)> {
    let began = Instant::now();
    let first = Figures::of(upgrade(server, successors, course)?)?;
    let process = upgrade(server, successors, course)?;
    let mut samples = Samples::default();
    for part in 1..PARTS {
        let begins = time / PARTS * part;
        for number in 0..SAMPLES {
            let due = begins + time / PARTS * number / SAMPLES;
            thread::sleep(due.saturating_sub(began.elapsed()));
            if course.is_over.load(Relaxed) {
                bail!("its load or a client has failed");
            }
            // Without a configuration file, this reads certificates and lists again, if any.
            if number % 10 == 0 {
                process.hang_up()?;
            }
            samples.add(part as usize, Figures::of(process)?);
        }
    }
    let last = Figures::of(upgrade(server, successors, course)?)?;
    Ok((samples, first, last))
}

/// Upgrades it a few times. Returns the process that serves then.
fn upgrade(server: &Server, successors: &mut Vec<Successor>, course: &Course) -> anyhow::Result<Process> {
    let serving = |successors: &[Successor]| successors.last().map_or_else(|| server.process(), Successor::process);
    for _ in 0..UPGRADES {
        let process = serving(successors);
        course.upgrades_begun.fetch_add(1, Relaxed);
        successors.push(server.upgrade(process)?);
        eventually("the old process ends", || Ok(process.has_ended()))?;
        course.upgrades_ended.fetch_add(1, Relaxed);
    }
    Ok(serving(successors))
}

/// Sends requests and checks the answers, until the time is over or one is wrong.
fn load(subject: &Subject, server: &Server, course: &Course) -> anyhow::Result<()> {
    let done = (|| {
        while !course.is_over.load(Relaxed) {
            let ended_before = course.upgrades_ended.load(Relaxed);
            let failures = subject.load(server, REQUESTS, PATIENCE)?;
            // Protocols that cannot announce an end lose connections between two replies.
            let was_upgraded = course.upgrades_begun.load(Relaxed) > ended_before;
            let is_allowed = |(class, _): &(String, u64)| was_upgraded && LOST.contains(&&**class);
            ensure!(failures.iter().all(is_allowed), "{failures:?}");
            course.requests.fetch_add(u64::from(REQUESTS), Relaxed);
            thread::sleep(REST);
        }
        Ok(())
    })();
    course.is_over.store(true, Relaxed);
    done
}

/// Makes a file anew, changes it where it is, and removes it, again and again, beside those that are compared.
fn change_files(subject: &Subject, course: &Course) -> anyhow::Result<()> {
    let file = subject.content().join(clients::changing(subject.load_kind()));
    let next = file.with_extension("next");
    let mut number = 0;
    while !course.is_over.load(Relaxed) {
        number += 1;
        fs::write(&next, vec![b'n'; 1000 * (number % 200)])?;
        fs::rename(&next, &file)?;
        thread::sleep(Duration::from_millis(200));
        fs::write(&file, vec![b'o'; 700 * (number % 200)])?;
        thread::sleep(Duration::from_millis(200));
        if number % 5 == 0 {
            fs::remove_file(&file)?;
        }
    }
    Ok(())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}
