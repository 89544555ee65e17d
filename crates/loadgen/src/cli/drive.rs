//! What all commands that drive a server have in common: how hard, for how long, and how the result is told.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use loadgen::engine::{self, Arrivals, Endpoint, EngineError, Limit, Load, Measured, Pacing, Reuse};
use loadgen::output;
use loadgen::protocol::ClientProtocol;
use loadgen::result::RunResult;
use loadgen::summary::{self, Subject};
use loadgen::usage::ServerProbe;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::affinity::Cpus;

use super::progress::Progress;
use super::values::{count, duration, positive_duration, rate};
use super::{Failure, Outcome, complain, print};

const CONNECTIONS_MAX: usize = 1_000_000;
const THREADS_MAX: usize = 1024;
const PIPELINE_MAX: usize = 65_536;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
const DEFAULT_WARMUP: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(super) struct DriveArgs {
    /// Connections, all kept open
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = count::<CONNECTIONS_MAX>)]
    pub(super) connections: usize,
    /// Generator threads [default: one per CPU of --pin, or half the cores]
    #[arg(short, long, value_name = "N", value_parser = count::<THREADS_MAX>)]
    pub(super) threads: Option<usize>,
    /// Measure for this long [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = positive_duration, conflicts_with = "requests")]
    pub(super) duration: Option<Duration>,
    /// Measure this many requests instead
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) requests: Option<u64>,
    /// Run this long before measuring [default: 1s, with --requests none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) warmup: Option<Duration>,
    /// Open loop: this many requests per second, whatever the server does, and latency from the scheduled time
    #[arg(short = 'R', long, value_name = "RATE", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Gaps of the open loop
    #[arg(long, value_enum, default_value = "constant", requires = "rate")]
    arrivals: ArrivalsArg,
    /// Requests in flight on each connection
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = count::<PIPELINE_MAX>)]
    pub(super) pipeline: usize,
    /// Pin the threads to these CPUs, round robin: 0 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pin: Option<Cpus>,
    /// Limit for connecting, and for each request until the last byte of its reply
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = positive_duration)]
    timeout: Duration,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Also write result.json and latency.hlog (HdrHistogram log) into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Report CPU time and memory of this process
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum ArrivalsArg {
    /// All equal
    Constant,
    /// Random, as of many independent users
    Poisson,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
    Csv,
}

impl DriveArgs {
    /// One request at a time on connections that are kept, unless the caller changes that.
    pub(super) fn load(&self) -> Load {
        let pin = self.pin.clone().unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let default_threads = match pin.iter().len() {
            0 => (cores / 2).max(1),
            pinned => pinned,
        };
        let (limit, default_warmup) = match self.requests {
            Some(requests) => (Limit::Requests(requests), Duration::ZERO),
            None => (Limit::Duration(self.duration.unwrap_or(DEFAULT_DURATION)), DEFAULT_WARMUP),
        };
        let arrivals = match self.arrivals {
            ArrivalsArg::Constant => Arrivals::Constant,
            ArrivalsArg::Poisson => Arrivals::Poisson,
        };
        Load {
            connections: self.connections,
            threads: self.threads.unwrap_or(default_threads).min(self.connections),
            pin,
            pipeline: self.pipeline,
            batch: 1,
            reuse: Reuse::Keep,
            pacing: self.rate.map_or(Pacing::Closed, |rate| Pacing::Open { rate, arrivals }),
            limit,
            turns: None,
            warmup: self.warmup.unwrap_or(default_warmup),
            timeout: self.timeout,
            seed: self.seed,
        }
    }

    /// The options in force, as a result records them, for `load` as it was run.
    pub(super) fn config(&self, load: &Load) -> BTreeMap<String, Value> {
        let limit = match load.limit {
            Limit::Duration(duration) => ("duration_s", json!(duration.as_secs_f64())),
            Limit::Requests(requests) => ("requests", json!(requests)),
        };
        named([
            limit,
            ("arrivals", json!(self.rate.map(|_| value_name(self.arrivals)))),
            ("connections", json!(load.connections)),
            ("mode", json!(if self.rate.is_some() { "open" } else { "closed" })),
            ("pin", json!(load.pin.iter().collect::<Vec<_>>())),
            ("pipeline", json!(load.pipeline)),
            ("rate", json!(self.rate)),
            ("seed", json!(load.seed)),
            ("threads", json!(load.threads)),
            ("timeout_s", json!(load.timeout.as_secs_f64())),
            ("warmup_s", json!(load.warmup.as_secs_f64())),
        ])
    }

    pub(super) fn server(&self) -> anyhow::Result<Option<ServerProbe>> {
        self.server_pid.map(ServerProbe::open).transpose().context("--server-pid")
    }

    /// Stores and prints the result, and says on standard error what else is to be known.
    pub(super) fn report<P>(
        &self,
        subject: Subject,
        measured: &Measured<P>,
        server: Option<&ServerProbe>,
        endpoint: &impl Display,
    ) -> Result<Outcome, Failure> {
        let result = summary::summarize(subject, measured, server);
        if let Some(directory) = &self.out {
            summary::store(directory, &result, measured)
                .with_context(|| format!("cannot write the result into {}", directory.display()))?;
        }
        if result.requests == 0 {
            let why =
                if measured.was_interrupted { "interrupted before any reply" } else { "no request ended in time" };
            return Err(Failure::Other(anyhow!("nothing was measured at {endpoint}: {why}")));
        }
        print(&match self.format {
            Format::Text => output::text(&result),
            Format::Json => output::json(&result).context("cannot write JSON")? + "\n",
            Format::Csv => output::csv(&result),
        })?;
        if measured.was_interrupted {
            complain("interrupted: this is what was measured until then");
        }
        if measured.was_abandoned {
            complain("given up early: the server has not answered for long");
        }
        if self.server_pid.is_some() && result.server.is_none() {
            complain("the process of --server-pid ended during the run");
        }
        Ok(outcome(&result))
    }
}

fn outcome(result: &RunResult) -> Outcome {
    if result.errors.is_empty() {
        return Outcome::Success;
    }
    let classes: Vec<_> = result.errors.iter().map(|(class, count)| format!("{class} {count}")).collect();
    let failed = result.requests - result.ok;
    complain(&format!("{failed} of {} requests failed: {}", result.requests, classes.join(", ")));
    Outcome::FailedRequests
}

/// A flag that the first SIGINT or SIGTERM sets. The second one ends the program at once.
pub(super) fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .context("cannot handle signals")?;
    }
    Ok(interrupt)
}

/// Runs the engine behind a progress bar.
pub(super) fn drive<P: ClientProtocol>(
    endpoint: &Endpoint,
    load: &Load,
    make_client: impl Fn(usize) -> P,
    server: Option<&ServerProbe>,
    interrupt: &AtomicBool,
) -> Result<Measured<P>, EngineError> {
    let mut progress = Progress::new(load.limit, load.warmup);
    let measured = engine::run(endpoint, load, make_client, server, interrupt, |live| progress.update(live));
    progress.finish();
    measured
}

/// Options and their values.
pub(super) fn named<const N: usize>(pairs: [(&str, Value); N]) -> BTreeMap<String, Value> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A value as it is spelled on the command line.
pub(super) fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
