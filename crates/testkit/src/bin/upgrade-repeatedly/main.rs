//! Upgrades of kvcache, one after another, while clients count: on each driver every process hands its keys to the next one. No connection is
//! refused, the counters say what their clients were told, and no key is lost.
//!
//! `upgrade-repeatedly DIRECTORY` takes kvcache from there; `cargo xtask verify upgrades` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, ensure};
use clap::Parser;
use testkit::{Client, DriverKind, Server, Successor, eventually};

const CLIENTS: usize = 4;
/// Time between two requests of a client.
const PAUSE: Duration = Duration::from_millis(1);
/// Keys that are there from the start.
const KEYS: usize = 1000;

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs
    directory: PathBuf,

    /// Upgrades on each driver
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    upgrades: u32,

    /// Drivers, comma separated
    #[arg(long, value_delimiter = ',', default_value = "epoll,uring,tokio", value_name = "NAMES")]
    drivers: Vec<DriverKind>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let program = cli.directory.join("kvcache");
    let results: Vec<_> = thread::scope(|scope| {
        let (program, upgrades) = (&program, cli.upgrades);
        let run = |driver| scope.spawn(move || run(program, driver, upgrades));
        let runs: Vec<_> = cli.drivers.iter().map(|&driver| run(driver)).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err(anyhow!("panicked")))).collect()
    });
    let mut has_failed = false;
    for (driver, result) in cli.drivers.iter().zip(results) {
        match result {
            Ok(said) => println!("{driver}: {said}"),
            Err(error) => {
                println!("{driver}: FAILED: {error:#}");
                has_failed = true;
            }
        }
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Requests of one client.
#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    /// Connections that ended between two replies; a request on one of them has not been run.
    ended: u64,
    longest: Duration,
}

fn run(program: &Path, driver: DriverKind, upgrades: u32) -> anyhow::Result<String> {
    let server = Server::start(program, ["--listen", "127.0.0.1:0", "--threads", "2", "--driver", driver.name()])?;
    fill(&server)?;
    let is_over = AtomicBool::new(false);
    let (last, tallies) = thread::scope(|scope| {
        let (server, is_over) = (&server, &is_over);
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || count(server, number, is_over))).collect();
        let last = upgrade(server, upgrades);
        is_over.store(true, Relaxed);
        let tallies = clients.into_iter().map(|client| client.join().unwrap_or_else(|_| Err(anyhow!("panicked"))));
        anyhow::Ok((last?, tallies.collect::<anyhow::Result<Vec<_>>>()?))
    })?;
    for (number, tally) in tallies.iter().enumerate() {
        let value = value(&mut server.connect()?, &format!("counter:{number}"))?;
        ensure!(value == tally.answered.to_string(), "{value} increments were run, and {} answered", tally.answered);
    }
    let mut client = server.connect()?;
    for key in 0..KEYS {
        ensure!(value(&mut client, &format!("key:{key}"))? == key.to_string(), "key {key} is lost");
    }
    drop(client);
    last.process().terminate()?;
    server.wait_for_successors()?;
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let longest = tallies.iter().map(|tally| tally.longest).max().unwrap_or_default();
    Ok(format!(
        "{upgrades} upgrades; {} increments answered, all of them run once; {} connections ended between two replies; longest wait {longest:?}",
        sum(|tally| tally.answered),
        sum(|tally| tally.ended),
    ))
}

fn fill(server: &Server) -> anyhow::Result<()> {
    let mut client = server.connect()?;
    for key in 0..KEYS {
        client.send(format!("SET key:{key} {key}\r\n").as_bytes())?;
        client.expect(b"+OK\r\n")?;
    }
    Ok(())
}

/// Starts one successor after another, each when its predecessor has ended. Returns the last one.
fn upgrade(server: &Server, upgrades: u32) -> anyhow::Result<Successor> {
    let mut last: Option<Successor> = None;
    for number in 0..upgrades {
        let process = last.as_ref().map_or_else(|| server.process(), Successor::process);
        let successor = server.upgrade(process).with_context(|| format!("upgrade {number}"))?;
        eventually("the old process ends", || Ok(process.has_ended()))?;
        last = Some(successor);
    }
    last.context("no upgrade")
}

/// Increments a counter again and again, on one connection after another.
fn count(server: &Server, number: usize, is_over: &AtomicBool) -> anyhow::Result<Tally> {
    let request = format!("INCR counter:{number}\r\n");
    let mut tally = Tally::default();
    while !is_over.load(Relaxed) {
        let mut client = server.connect()?;
        while !is_over.load(Relaxed) {
            let began = Instant::now();
            let reply = client.send(request.as_bytes()).and_then(|()| client.read_line());
            let Ok(reply) = reply else {
                tally.ended += 1;
                break;
            };
            ensure!(reply == format!(":{}\r", tally.answered + 1), "{reply:?} after {}", tally.answered);
            tally.answered += 1;
            tally.longest = tally.longest.max(began.elapsed());
            thread::sleep(PAUSE);
        }
    }
    Ok(tally)
}

fn value(client: &mut Client, key: &str) -> anyhow::Result<String> {
    client.send(format!("GET {key}\r\n").as_bytes())?;
    let length = client.read_line()?;
    ensure!(length != "$-1\r", "no {key}");
    Ok(client.read_line()?.trim_end().to_owned())
}
