//! Upgrades of servers, one after another, while clients send requests at fixed times: no connection is refused, no request is lost or
//! run twice, and kvcache loses no key. Then each server alone, for latencies: during an upgrade the slowest request of a thousand takes at most
//! three times as long as otherwise, where the machine is steady enough to say so.
//!
//! `upgrade-repeatedly DIRECTORY` takes the servers from there; `cargo xtask verify upgrades` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

mod clients;
mod latencies;

use std::{
    fs, panic,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, ensure};
use clap::Parser;
use clients::{Course, DOCUMENT, Protocol, Tally, ask_at_fixed_times};
use latencies::{Latencies, Verdict};
use testkit::{Client, DriverKind, Server, Successor, eventually};

const CLIENTS: usize = 4;
/// Servers that run at the same time: their requests are some thousands in a second.
const TOGETHER: usize = 24;
/// Time between two upgrades: of all at the same time, and of one alone, whose requests then are compared with those during upgrades.
const REST: Duration = Duration::from_millis(250);
const REST_ALONE: Duration = Duration::from_secs(1);
/// Keys that are in kvcache from the start.
const KEYS: usize = 1000;

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs
    directory: PathBuf,

    /// Upgrades of each server on each driver
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    upgrades: u32,

    /// Upgrades of each of them alone, for latencies; none where it is 0
    #[arg(long, default_value_t = 10, value_name = "N")]
    alone: u32,

    /// Drivers that are upgraded alone, comma separated
    #[arg(long, value_delimiter = ',', default_value = "epoll,uring,tokio", value_name = "NAMES")]
    alone_drivers: Vec<DriverKind>,

    /// Servers, comma separated
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "fileserver,http-server,kvcache,zerocopy",
        value_name = "NAMES"
    )]
    servers: Vec<String>,

    /// Drivers, comma separated [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    drivers: Vec<DriverKind>,
}

/// A server on a driver.
struct Subject<'a> {
    programs: &'a Path,
    server: &'a str,
    driver: DriverKind,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let drivers = if cli.drivers.is_empty() { DriverKind::ALL } else { &cli.drivers };
    let has_failed = AtomicBool::new(false);
    let tell = |subject: &Subject<'_>, said: anyhow::Result<String>| {
        has_failed.fetch_or(said.is_err(), Relaxed);
        let said = said.unwrap_or_else(|error| format!("FAILED: {error:#}"));
        println!("{} {}: {said}", subject.server, subject.driver);
    };
    let subjects = |drivers: &[DriverKind]| -> Vec<_> {
        let on_drivers = |server| drivers.iter().map(move |&driver| (server, driver));
        let subjects = cli.servers.iter().flat_map(on_drivers);
        subjects.map(|(server, driver)| Subject { programs: &cli.directory, server, driver }).collect()
    };
    // Some drivers take seconds for an upgrade, others none: each server makes room for the next one.
    let (waiting, next) = (subjects(drivers), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                while let Some(subject) = waiting.get(next.fetch_add(1, Relaxed)) {
                    let result = panic::catch_unwind(|| run(subject, cli.upgrades, REST));
                    let result = result.unwrap_or_else(|_| Err(anyhow!("panicked")));
                    tell(subject, result.map(|outcome| outcome.said));
                }
            });
        }
    });
    for subject in subjects(&cli.alone_drivers).iter().filter(|_| cli.alone > 0) {
        tell(subject, run(subject, cli.alone, REST_ALONE).and_then(|outcome| judge(&outcome.latencies)));
    }
    Ok(if has_failed.into_inner() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn judge(latencies: &Latencies) -> anyhow::Result<String> {
    let (said, verdict) = latencies.compare();
    match verdict {
        Verdict::Within => Ok(said),
        Verdict::Exceeded => Err(anyhow!("{said}: more than three times as long")),
        Verdict::None(why) => Ok(format!("{said}; not judged: {why}")),
    }
}

struct Outcome {
    said: String,
    latencies: Latencies,
}

fn run(subject: &Subject<'_>, upgrades: u32, rest: Duration) -> anyhow::Result<Outcome> {
    let content = tempfile::tempdir()?;
    fs::write(content.path().join(DOCUMENT.0), DOCUMENT.1)?;
    let mut command = Command::new(subject.programs.join(subject.server));
    command.args(["--listen", "127.0.0.1:0", "--threads", "2", "--driver", subject.driver.name()]);
    let protocol = match subject.server {
        "kvcache" => Protocol::Counter,
        "fileserver" => {
            command.args(["--layout", "flat"]).arg(content.path());
            Protocol::Original
        }
        _ => {
            command.arg(content.path());
            Protocol::Http
        }
    };
    let server = Server::start_command(command, 1)?;
    let is_cache = matches!(protocol, Protocol::Counter);
    if is_cache {
        fill(&server)?;
    }
    let (last, tallies) = upgrade_under_load(&server, protocol, upgrades, rest)?;
    if is_cache {
        check_keys(&server, &tallies)?;
    }
    last.process().terminate()?;
    server.wait_for_successors()?;
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let (answered, ended) = (sum(|tally| tally.answered), sum(|tally| tally.ended));
    ensure!(is_cache || ended == 0, "{ended} connections ended unannounced");
    let mut latencies = Latencies::default();
    tallies.into_iter().for_each(|tally| latencies.append(tally.latencies));
    let said = format!(
        "{upgrades} upgrades; {answered} requests answered, each once; {ended} connections ended between two replies"
    );
    Ok(Outcome { said, latencies })
}

fn upgrade_under_load(
    server: &Server,
    protocol: Protocol,
    upgrades: u32,
    rest: Duration,
) -> anyhow::Result<(Successor, Vec<Tally>)> {
    let course = Course::default();
    thread::scope(|scope| {
        let course = &course;
        let client = |number| scope.spawn(move || ask_at_fixed_times(server, protocol, number, course));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        let last = upgrade(server, upgrades, rest, course);
        course.is_over.store(true, Relaxed);
        let tallies = clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err(anyhow!("panicked"))));
        let tallies = tallies.collect::<anyhow::Result<Vec<_>>>()?;
        Ok((last?, tallies))
    })
}

/// Starts one successor after another, each when its predecessor has ended and a rest has passed. An upgrade counts as long as a
/// rest at least: some drivers end at once, and what they leave behind is seen afterwards. Returns the last one.
fn upgrade(server: &Server, upgrades: u32, rest: Duration, course: &Course) -> anyhow::Result<Successor> {
    let mut last: Option<Successor> = None;
    for number in 0..upgrades {
        course.step.store(2 * u64::from(number) + 1, Relaxed);
        thread::sleep(rest);
        course.step.store(2 * u64::from(number) + 2, Relaxed);
        let began = Instant::now();
        let process = last.as_ref().map_or_else(|| server.process(), Successor::process);
        let successor = server.upgrade(process).with_context(|| format!("upgrade {number}"))?;
        eventually("the old process ends", || Ok(process.has_ended()))?;
        thread::sleep(rest.saturating_sub(began.elapsed()));
        last = Some(successor);
    }
    last.context("no upgrade")
}

fn fill(server: &Server) -> anyhow::Result<()> {
    let mut client = server.connect()?;
    for key in 0..KEYS {
        client.send(format!("SET key:{key} {key}\r\n").as_bytes())?;
        client.expect(b"+OK\r\n")?;
    }
    Ok(())
}

fn check_keys(server: &Server, tallies: &[Tally]) -> anyhow::Result<()> {
    let mut client = server.connect()?;
    for (number, tally) in tallies.iter().enumerate() {
        let value = value(&mut client, &format!("counter:{number}"))?;
        ensure!(value == tally.answered.to_string(), "{value} increments were run, and {} answered", tally.answered);
    }
    for key in 0..KEYS {
        ensure!(value(&mut client, &format!("key:{key}"))? == key.to_string(), "key {key} is lost");
    }
    Ok(())
}

fn value(client: &mut Client, key: &str) -> anyhow::Result<String> {
    client.send(format!("GET {key}\r\n").as_bytes())?;
    let length = client.read_line()?;
    ensure!(length != "$-1\r", "no {key}");
    Ok(client.read_line()?.trim_end().to_owned())
}
