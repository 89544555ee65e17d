//! Replays one trace on every driver of a server, and compares all that the clients receive.
//!
//! The law: what a client receives depends on what it sends, and on nothing else. The trace is made from a seed: connections that
//! pipeline, tear their requests anywhere, half-close, break off, and ask for what another thread answers. Each connection's bytes
//! are compared with those on the first driver, from its first to its end.
//!
//! `replay-trace DIRECTORY` takes the programs from there; `cargo xtask verify trace` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

mod difference;
mod exchange;
mod script;
mod server;

use std::{
    fs,
    io::IsTerminal as _,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::Parser;
use parking_lot::Mutex;
use sys::listen::Address;
use testkit::DriverKind;

use difference::Difference;
use exchange::{Stream, broken_off, whole};
use script::Script;
use server::Subject;

/// Connections at the same time.
const PARALLEL: usize = 16;
/// Interval between two lines of progress.
const PROGRESS: Duration = Duration::from_millis(500);

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs
    directory: PathBuf,

    /// Requests of each server's trace
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,

    /// Seed of the trace
    #[arg(long, default_value_t = 23, value_name = "N")]
    seed: u64,

    /// Servers, comma separated [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,

    /// Drivers, comma separated, the first of which the others are compared with [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    drivers: Vec<DriverKind>,

    /// Directory for both streams of a connection that differs
    #[arg(long, default_value = ".", value_name = "DIR")]
    out: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let drivers = if cli.drivers.is_empty() { DriverKind::ALL } else { &cli.drivers };
    let subjects = Subject::all(&cli.directory, &cli.only)?;
    let mut has_differed = false;
    for subject in &subjects {
        let differences = replay(&cli, subject, drivers)?;
        for difference in &differences {
            println!("{}: {difference}", subject.name);
        }
        has_differed |= !differences.is_empty();
    }
    Ok(if has_differed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Replays the trace of one server on all drivers and returns the first difference of each to the first one.
fn replay(cli: &Cli, subject: &Subject, drivers: &[DriverKind]) -> anyhow::Result<Vec<Difference>> {
    let connections = script::connections(subject.kind, cli.seed, cli.requests);
    let (mut reference, mut differences) = (Vec::new(), Vec::new());
    for &driver in drivers {
        let began = Instant::now();
        let mut server = subject.start(driver)?;
        let run = Run { cli, subject, driver, connections, reference: &reference };
        let (streams, first) = run.connections(server.address())?;
        let ended = server.stop().with_context(|| format!("{} {driver}", subject.name))?;
        anyhow::ensure!(ended.success(), "{} {driver}: {ended}: {}", subject.name, server.stderr());
        let bytes: u64 = streams.iter().map(|stream| stream.len).sum();
        println!(
            "{} {driver}: {} requests on {connections} connections, {bytes} bytes received, {:.1} s, digest {}",
            subject.name,
            cli.requests,
            began.elapsed().as_secs_f64(),
            exchange::digest_of_all(&streams),
        );
        if let Some(number) = first {
            let first = drivers.first().copied().unwrap_or(driver);
            let script = Script::new(subject.kind, cli.seed, number);
            differences.push(Difference::find(subject, [first, driver], number, &script, &cli.out)?);
        }
        if reference.is_empty() {
            reference = streams;
        }
    }
    Ok(differences)
}

/// One replay on one driver.
struct Run<'a> {
    cli: &'a Cli,
    subject: &'a Subject,
    driver: DriverKind,
    connections: u64,
    /// Streams on the first driver; none while that is being run.
    reference: &'a [Stream],
}

impl Run<'_> {
    /// Returns the streams of all connections, and the number of the first one that differs.
    fn connections(&self, address: &Address) -> anyhow::Result<(Vec<Stream>, Option<u64>)> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let all = Mutex::new(vec![Stream::default(); usize::try_from(self.connections)?]);
        thread::scope(|scope| {
            let work = || {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number as u64 >= self.connections {
                        return anyhow::Ok(());
                    }
                    let stream = self.connection(address, number as u64)?;
                    all.lock()[number] = stream;
                    done.fetch_add(1, Relaxed);
                }
            };
            let workers: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(work)).collect();
            if std::io::stderr().is_terminal() {
                self.show_progress(&done, || workers.iter().all(thread::ScopedJoinHandle::is_finished));
            }
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
        })
        .with_context(|| format!("{} {}", self.subject.name, self.driver))?;
        let all = all.into_inner();
        let first = self.reference.iter().zip(&all).position(|(reference, stream)| reference != stream);
        Ok((all, first.map(|number| number as u64)))
    }

    fn connection(&self, address: &Address, number: u64) -> anyhow::Result<Stream> {
        let script = Script::new(self.subject.kind, self.cli.seed, number);
        let received = whole(address, &script).with_context(|| format!("connection {number}"))?;
        if script.is_broken_off {
            let part = broken_off(address, &script.renamed()).with_context(|| format!("connection {number}"))?;
            if !received.starts_with(&part) {
                bail!("connection {number}: what came before it broke off is no beginning of the whole");
            }
        }
        let stream = Stream::of(&received);
        if usize::try_from(number).ok().and_then(|at| self.reference.get(at)).is_some_and(|other| *other != stream) {
            let path = difference::path(&self.cli.out, self.subject, self.driver, number);
            fs::write(&path, &received).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(stream)
    }

    fn show_progress(&self, done: &AtomicUsize, is_over: impl Fn() -> bool) {
        while !is_over() {
            let done = done.load(Relaxed) as u64;
            eprint!("\r{} {}: {} % ", self.subject.name, self.driver, done * 100 / self.connections);
            thread::sleep(PROGRESS);
        }
        eprint!("\r\x1b[K");
    }
}
