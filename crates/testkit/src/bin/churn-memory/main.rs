//! Churn of sizes and times to live under `--maxmemory`: for minutes kvcache is given values whose lengths and times to live change every
//! few seconds. What is resident stays below the limit and a twentieth, the program itself included.
//!
//! `churn-memory DIRECTORY` takes kvcache from there; `cargo xtask verify churn` builds and runs it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

use std::{
    io::Write as _,
    ops::Range,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, ensure};
use clap::Parser;
use testkit::{Client, Server};

const MIB: u64 = 1 << 20;
/// Time for which values are of the same lengths.
const PHASE: Duration = Duration::from_secs(3);
/// Time between two looks at the memory.
const LOOK: Duration = Duration::from_millis(10);
/// Lengths of values, from tiny ones to those that have memory of their own.
const LENGTHS: [Range<usize>; 9] =
    [0..30, 12..13, 50..300, 1000..1100, 1024..1025, 2000..9000, 9000..16_384, 16_384..100_000, 0..20_000];
/// Times to live in milliseconds; 0: for ever.
const LIVES_MS: [Range<u64>; 5] = [0..1, 1..1000, 1000..5000, 5000..60_000, 0..30_000];
/// Keys of strings, more of them than fit.
const KEYS: u32 = 8_000_000;
const COLLECTIONS: u32 = 20_000;
/// Limit of the bytes of commands that are sent before their replies are read.
const BATCH_BYTES: usize = 128 << 10;
const BATCH_COMMANDS: usize = 500;
/// Length of the values that fill the memory at first, and their number in a batch.
const FILL_BYTES: usize = 8000;
const FILL_COMMANDS: usize = 16;

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the workspace's programs
    directory: PathBuf,

    /// Seconds of churn, in all cases at the same time
    #[arg(long, default_value_t = 600, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Limit of the memory for entries, in MiB
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..=65_536))]
    maxmemory: u64,

    /// Seed of the random choices [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Flags of the servers: one thread and several, queues and samples.
const CASES: [&[&str]; 2] =
    [&["--threads", "1", "--eviction", "allkeys-s3fifo"], &["--threads", "2", "--eviction", "allkeys-lru"]];

fn main() -> ExitCode {
    let cli = Cli::parse();
    let seed = cli.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let run = |case: &[&str]| run(&cli.directory, case, cli.maxmemory * MIB, Duration::from_secs(cli.seconds), seed);
    let results: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = CASES.iter().map(|case| scope.spawn(|| run(case))).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err(anyhow!("panicked")))).collect()
    });
    let mut has_failed = false;
    for (case, result) in CASES.iter().zip(results) {
        let case = case.join(" ");
        match result.and_then(|outcome| outcome.check().map(|()| outcome)) {
            Ok(outcome) => println!("{case}: {outcome}"),
            Err(error) => {
                println!("{case}: FAILED: {error:#}");
                has_failed = true;
            }
        }
    }
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Outcome of one case.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    limit_bytes: u64,
    /// Most resident bytes of the process that there were.
    resident_bytes_max: u64,
    commands: u64,
    evicted: u64,
    expired: u64,
}

impl Outcome {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.resident_bytes_max <= self.limit_bytes + self.limit_bytes / 20, "{self}");
        ensure!(self.evicted > 0 && self.expired > 0, "the memory was never full, or nothing expired: {self}");
        Ok(())
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let (most, limit) = (mib(self.resident_bytes_max), mib(self.limit_bytes));
        let (share, Self { commands, evicted, expired, .. }) = (100.0 * most / limit, self);
        write!(
            out,
            "at most {most:.1} MiB resident, {share:.1} % of the limit of {limit} MiB; {commands} commands, {evicted} keys \
             evicted, {expired} expired"
        )
    }
}

fn run(directory: &Path, flags: &[&str], limit: u64, time: Duration, seed: u64) -> anyhow::Result<Outcome> {
    let limit_text = limit.to_string();
    let usual = ["--listen", "127.0.0.1:0", "--maxmemory", &limit_text];
    let server = Server::start(&directory.join("kvcache"), usual.iter().chain(flags))?;
    let mut outcome = Outcome { limit_bytes: limit, ..Outcome::default() };
    let mut churn = Churn { connection: server.connect()?, random: fastrand::Rng::with_seed(seed) };
    thread::scope(|scope| {
        let client = scope.spawn(move || churn.run(limit, time).map(|commands| (commands, churn)));
        while !client.is_finished() {
            outcome.resident_bytes_max = outcome.resident_bytes_max.max(server.process().resident_bytes()?);
            thread::sleep(LOOK);
        }
        let (commands, mut churn) = client.join().unwrap_or_else(|_| Err(anyhow!("panicked")))?;
        outcome.commands = commands;
        (outcome.evicted, outcome.expired) = churn.losses()?;
        Ok(outcome)
    })
}

struct Churn {
    connection: Client,
    random: fastrand::Rng,
}

impl Churn {
    /// Sends values that fill the memory, and returns their number.
    fn fill(&mut self, limit: u64) -> anyhow::Result<u64> {
        let value = vec![b'v'; FILL_BYTES];
        let batches = limit / (FILL_BYTES * FILL_COMMANDS) as u64 + 1;
        for batch in 0..batches {
            let mut commands = Vec::new();
            for number in 0..FILL_COMMANDS {
                push_command(&mut commands, &[b"SET", format!("fill:{batch}:{number}").as_bytes(), &value]);
            }
            self.connection.send(&commands)?;
            self.read_lines(FILL_COMMANDS)?;
        }
        Ok(batches * FILL_COMMANDS as u64)
    }

    /// Sends commands, and returns their number.
    fn run(&mut self, limit: u64, time: Duration) -> anyhow::Result<u64> {
        let (began, mut commands) = (Instant::now(), self.fill(limit)?);
        while began.elapsed() < time {
            let lengths = LENGTHS[self.random.usize(..LENGTHS.len())].clone();
            let lives = LIVES_MS[self.random.usize(..LIVES_MS.len())].clone();
            let phase = Instant::now();
            while phase.elapsed() < PHASE && began.elapsed() < time {
                let mut batch = Vec::new();
                let mut count = 0;
                while batch.len() < BATCH_BYTES && count < BATCH_COMMANDS {
                    self.add_command(&mut batch, &lengths, &lives);
                    count += 1;
                }
                self.connection.send(&batch)?;
                self.read_lines(count)?;
                commands += count as u64;
            }
        }
        Ok(commands)
    }

    /// Adds a command whose reply is one line.
    fn add_command(&mut self, batch: &mut Vec<u8>, lengths: &Range<usize>, lives: &Range<u64>) {
        let key = format!("key:{:012}", self.random.u32(..KEYS));
        let value = vec![b'v'; self.random.usize(lengths.clone())];
        let collection = format!("set:{}", self.random.u32(..COLLECTIONS));
        let parts: &[&[u8]] = match self.random.u8(..20) {
            0 => &[b"DEL", key.as_bytes()],
            1 => &[b"EXISTS", key.as_bytes()],
            2 => &[b"SADD", collection.as_bytes(), key.as_bytes()],
            3 => &[b"PEXPIRE", collection.as_bytes(), b"20000"],
            4 => &[b"APPEND", key.as_bytes(), &value],
            _ => match self.random.u64(lives.clone()) {
                0 => &[b"SET", key.as_bytes(), &value],
                life => &[b"SET", key.as_bytes(), &value, b"PX", &life.to_string().into_bytes()],
            },
        };
        push_command(batch, parts);
    }

    /// Reads replies of one line, none of which may be an error.
    fn read_lines(&mut self, count: usize) -> anyhow::Result<()> {
        let (mut lines, mut is_begin) = (0, true);
        let mut buffer = [0; 16 << 10];
        while lines < count {
            let len = self.connection.read(&mut buffer)?;
            ensure!(len > 0, "the server has closed the connection");
            for &byte in &buffer[..len] {
                if is_begin && byte == b'-' {
                    bail!("an error: {}", String::from_utf8_lossy(&buffer[..len]));
                }
                is_begin = byte == b'\n';
                lines += usize::from(is_begin);
            }
        }
        Ok(())
    }

    /// Returns the number of keys that were evicted, and of those that expired.
    fn losses(&mut self) -> anyhow::Result<(u64, u64)> {
        let mut command = Vec::new();
        push_command(&mut command, &[b"INFO", b"stats"]);
        self.connection.send(&command)?;
        let len = self.connection.read_line()?.trim_start_matches('$').trim().parse()?;
        let text = String::from_utf8(self.connection.take(len)?)?;
        let field = |name: &str| -> anyhow::Result<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(line.ok_or_else(|| anyhow!("no {name} in INFO"))?.trim().parse()?)
        };
        Ok((field("evicted_keys")?, field("expired_keys")?))
    }
}

fn push_command(batch: &mut Vec<u8>, parts: &[&[u8]]) {
    // Writing to a vector does not fail.
    let _ = write!(batch, "*{}\r\n", parts.len());
    for part in parts {
        let _ = write!(batch, "${}\r\n", part.len());
        batch.extend_from_slice(part);
        batch.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_beyond_a_twentieth_of_the_limit_is_a_failure() {
        let within =
            Outcome { limit_bytes: 1000, resident_bytes_max: 1050, evicted: 1, expired: 1, ..Outcome::default() };
        assert!(within.check().is_ok());
        assert!(Outcome { resident_bytes_max: 1051, ..within }.check().is_err());
        assert!(Outcome { evicted: 0, ..within }.check().is_err());
        assert!(Outcome { expired: 0, ..within }.check().is_err());
    }
}
