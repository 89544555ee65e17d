//! Contention for a lock: on each driver two clients take a key with `SET … NX PX 20` from each other for minutes, and give it back by the
//! usual script, too late, or not at all. At no moment both have it.
//!
//! `contend-for-locks DIRECTORY` takes kvcache from there; `cargo xtask verify locks` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

use std::{
    path::PathBuf,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use testkit::{Client, DriverKind, Server};

/// Life of a lock that is not given back.
const LIFE: Duration = Duration::from_millis(20);
const CONTENDERS: usize = 2;
/// Time between two attempts: short beside the millisecond by which a key may be late.
const PAUSE: Duration = Duration::from_micros(100);
/// Script that gives the lock back to nobody else's cost.
const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs
    directory: PathBuf,

    /// Seconds of contention, on all drivers at the same time
    #[arg(long, default_value_t = 120, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Drivers, comma separated
    #[arg(long, value_delimiter = ',', default_value = "epoll,uring,tokio", value_name = "NAMES")]
    drivers: Vec<DriverKind>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let time = Duration::from_secs(cli.seconds);
    let program = cli.directory.join("kvcache");
    let results: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = cli.drivers.iter().map(|driver| scope.spawn(|| run(&program, *driver, time))).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err(anyhow!("panicked")))).collect()
    });
    let mut has_failed = false;
    for (driver, result) in cli.drivers.iter().zip(results) {
        match result {
            Ok(tally) => {
                println!("{driver}: {tally}");
                has_failed |= tally.double_holds > 0;
            }
            Err(error) => {
                println!("{driver}: FAILED: {error:#}");
                has_failed = true;
            }
        }
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Time in which a client is sure of the lock: from the reply until it gives the lock back, and no longer than the lock's life after the request.
/// The server counts that life from a moment between request and reply, so that a lock that is kept as promised never belongs to anyone else meanwhile.
#[derive(Clone, Copy, Debug)]
struct Hold {
    begin: Instant,
    end: Instant,
}

/// Outcomes of all contenders of a server.
#[derive(Debug, Default)]
struct Tally {
    taken: usize,
    refused: usize,
    /// Locks that were given back in time, and those whose life had ended before.
    released: usize,
    outlived: usize,
    double_holds: usize,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { taken, refused, released, outlived, double_holds } = self;
        write!(
            out,
            "{taken} locks taken, {refused} attempts refused, {released} given back, {outlived} given back too late; \
             held by two at once: {double_holds}"
        )
    }
}

fn run(program: &std::path::Path, driver: DriverKind, time: Duration) -> anyhow::Result<Tally> {
    let server = Server::start(program, ["--listen", "127.0.0.1:0", "--threads", "2", "--driver", driver.name()])?;
    let until = Instant::now() + time;
    let outcomes: Vec<anyhow::Result<Contender>> = thread::scope(|scope| {
        let contend = |number| {
            let server = &server;
            scope.spawn(move || Contender::connect(server, number)?.contend(until))
        };
        let contenders: Vec<_> = (0..CONTENDERS).map(contend).collect();
        contenders.into_iter().map(|it| it.join().unwrap_or_else(|_| Err(anyhow!("panicked")))).collect()
    });
    let (mut tally, mut holds) = (Tally::default(), Vec::new());
    for contender in outcomes {
        let contender = contender?;
        ensure!(contender.tally.taken > 0, "a contender never had the lock");
        tally.taken += contender.tally.taken;
        tally.refused += contender.tally.refused;
        tally.released += contender.tally.released;
        tally.outlived += contender.tally.outlived;
        holds.extend(contender.holds);
    }
    tally.double_holds = double_holds(holds);
    Ok(tally)
}

/// Counts the holds that begin while another lasts.
fn double_holds(mut holds: Vec<Hold>) -> usize {
    holds.sort_by_key(|hold| hold.begin);
    let mut last_end = None;
    let mut count = 0;
    for hold in holds {
        count += usize::from(last_end.is_some_and(|end| hold.begin < end));
        last_end = last_end.max(Some(hold.end));
    }
    count
}

struct Contender {
    connection: Client,
    /// Value of its locks.
    token: String,
    /// Number of locks taken, which decides how the next is given back: no two contenders keep the same order.
    step: usize,
    holds: Vec<Hold>,
    tally: Tally,
}

impl Contender {
    fn connect(server: &Server, number: usize) -> anyhow::Result<Self> {
        let token = format!("contender-{number}");
        Ok(Self { connection: server.connect()?, token, step: number, holds: Vec::new(), tally: Tally::default() })
    }

    fn contend(mut self, until: Instant) -> anyhow::Result<Self> {
        while Instant::now() < until {
            let asked = Instant::now();
            let life = LIFE.as_millis().to_string();
            let set = ["SET", "lock", &self.token, "NX", "PX", &life].map(str::to_owned);
            match &*self.ask(&set)? {
                "+OK" => self.hold(asked)?,
                "$-1" => self.tally.refused += 1,
                other => bail!("SET: {other}"),
            }
            thread::sleep(PAUSE);
        }
        Ok(self)
    }

    /// Keeps the lock for a while, at most until after its end, and gives most of them back.
    fn hold(&mut self, asked: Instant) -> anyhow::Result<()> {
        let (begin, end_of_life) = (Instant::now(), asked + LIFE);
        self.tally.taken += 1;
        self.step += 1;
        // In quarters of its life; the fifth is about its end, where the other may have the lock already.
        let quarters = u32::try_from(self.step * 7 % 6).context("a remainder")?;
        let mut end = end_of_life;
        if quarters < 5 {
            thread::sleep((LIFE / 4 * quarters).saturating_sub(asked.elapsed()));
            end = end_of_life.min(Instant::now());
            let release = ["EVAL", RELEASE, "1", "lock", &self.token].map(str::to_owned);
            match &*self.ask(&release)? {
                ":1" => self.tally.released += 1,
                ":0" => self.tally.outlived += 1,
                other => bail!("EVAL: {other}"),
            }
        }
        if begin < end {
            self.holds.push(Hold { begin, end });
        }
        Ok(())
    }

    /// Sends a command and returns the line of its reply.
    fn ask(&mut self, command: &[String]) -> anyhow::Result<String> {
        let mut bytes = format!("*{}\r\n", command.len());
        for argument in command {
            bytes += &format!("${}\r\n{argument}\r\n", argument.len());
        }
        self.connection.send(bytes.as_bytes())?;
        Ok(self.connection.read_line()?.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_that_begins_while_another_lasts_is_counted() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let hold = |begin, end| Hold { begin: at(begin), end: at(end) };
        assert_eq!(double_holds(vec![hold(10, 20), hold(0, 10), hold(20, 21)]), 0);
        assert_eq!(double_holds(vec![hold(0, 10), hold(9, 20), hold(20, 30)]), 1);
        assert_eq!(double_holds(vec![hold(0, 30), hold(5, 10), hold(15, 20)]), 2);
    }
}
