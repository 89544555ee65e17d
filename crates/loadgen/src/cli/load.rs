//! What all commands that drive a server have in common: how hard, for how long, and how the result is told.

use std::{
    collections::BTreeMap,
    fmt::Display,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use clap::{
    ArgGroup, Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _},
};
use loadgen::{
    engine::{
        self, Arrivals, Endpoint, EngineError, EngineKind, Limit, Load, Measured, Pacing, Reuse, Timeouts, WarmUp,
    },
    error::ErrorClass,
    output,
    protocol::ClientProtocol,
    result::RunResult,
    stored, summary,
    usage::ServerProbe,
};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::affinity::Cpus;

use super::{
    Failure, Outcome, complain, print,
    progress::{Progress, Show},
    request_log::RequestLogArgs,
    tcp::SourceArgs,
    values::{Sweep, count, duration, positive_duration, rate},
};

const CONNECTIONS_MAX: usize = 1_000_000;
const THREADS_MAX: usize = 1024;
const PIPELINE_MAX: usize = 65_536;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
const DEFAULT_WARMUP: Duration = Duration::from_secs(1);
const TIMELINE_INTERVAL: Duration = Duration::from_millis(100);
/// From here on `--self-check` is worth its time.
const LONG_RUN: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("open_loop").args(["rate", "rate_sweep"]))]
pub(super) struct DriveArgs {
    /// Connections, all kept open
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = count::<CONNECTIONS_MAX>)]
    pub(super) connections: usize,
    /// Generator threads [default: one per CPU of --pin, or half the cores]
    #[arg(short, long, value_name = "N", value_parser = count::<THREADS_MAX>)]
    threads: Option<usize>,
    /// Measure for this long, a number alone being seconds, or until Ctrl-C [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = positive_duration, conflicts_with = "requests")]
    pub(super) duration: Option<Duration>,
    /// Measure this many requests instead
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) requests: Option<u64>,
    /// Run this long before measuring [default: 1s, with --requests none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) warmup: Option<Duration>,
    /// Go on warming up until the load is steady, at most this long: no trend above 3 % leads through five windows of
    /// 100 ms, or none beyond chance; --warmup is then the least [default: --warmup alone]
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(super) max_warmup: Option<Duration>,
    /// Open the connections evenly over this time, before the warm-up; an open loop's rate grows from 0 meanwhile
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    pub(super) ramp: Duration,
    /// Open loop: this many requests per second (2000, 1.5k, 2M), whatever the server does, and latency from the scheduled
    /// time; several (1000,2000,5000) are run one after the other
    #[arg(short = 'R', long, value_name = "RATE", value_parser = rate, value_delimiter = ',')]
    pub(super) rate: Vec<f64>,
    /// Open loop at shares of what the server can do, which is measured first in a closed loop: 10%..100%, in steps of
    /// 10 % or as in 50%..90%/5%; ends when the server cannot keep up
    #[arg(long, value_name = "SHARES")]
    pub(super) rate_sweep: Option<Sweep>,
    /// Gaps of the open loop
    #[arg(long, value_enum, default_value = "constant", requires = "open_loop")]
    arrivals: ArrivalsArg,
    /// Requests in flight on each connection
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = count::<PIPELINE_MAX>)]
    pub(super) pipeline: usize,
    /// Pin the threads to these CPUs, round robin: 0 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pin: Option<Cpus>,
    /// Limit for each request until the last byte of its reply, and for connecting unless --connect-timeout is given
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = positive_duration)]
    timeout: Duration,
    /// Limit for connecting, TLS included
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    connect_timeout: Option<Duration>,
    /// Limit for the first byte of each reply
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    first_byte_timeout: Option<Duration>,
    /// Open loop: look at the clock for the last 50 µs before a request falls due instead of sleeping
    #[arg(long, requires = "open_loop")]
    spin: bool,
    /// Also count by intervals of 100 ms: in the JSON result, and with --out as timeline.hlog
    #[arg(long)]
    timeline: bool,
    /// How the threads talk to the kernel
    #[arg(long, value_name = "NAME", default_value = "epoll", value_parser = engine_parser())]
    engine: EngineKind,
    /// Measure for 0.2 s what the generator itself can do, and warn of results above 80 % of it [auto: for runs of 5 s or
    /// more]
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    self_check: SelfCheck,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// What to show on standard error meanwhile
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) progress: Show,
    /// Also write result.json, latency.hlog (HdrHistogram log) and latency.hgrm (percentiles, for HdrHistogram's plotter)
    /// into this directory, which must not hold another result
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    request_log: RequestLogArgs,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    /// Report CPU time and memory of this process
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Do not count the instructions of that process: where the processor can count them, each switch of context costs it a
    /// little more
    #[arg(long, requires = "server_pid")]
    no_instructions: bool,
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

/// Whether to find out what the generator can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum SelfCheck {
    Auto,
    On,
    Off,
}

fn engine_parser() -> impl clap::builder::TypedValueParser<Value = EngineKind> {
    let named = |kind: &EngineKind| PossibleValue::new(kind.name()).help(kind.about());
    PossibleValuesParser::new(EngineKind::ALL.iter().map(named)).map(|name| {
        // The parser lets no other name pass.
        EngineKind::ALL.iter().copied().find(|kind| kind.name() == name).unwrap_or(EngineKind::Epoll)
    })
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Format {
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
        // A warm-up that ends by itself needs no least time.
        let default_warmup = if self.max_warmup.is_some() { Duration::ZERO } else { default_warmup };
        Load {
            connections: self.connections,
            threads: self.threads.unwrap_or(default_threads).min(self.connections),
            pin,
            pipeline: self.pipeline,
            batch: 1,
            reuse: Reuse::Keep,
            // Of several rates any; each step has its own.
            pacing: if self.is_open() { self.pace(self.rate.first().copied().unwrap_or(1.0)) } else { Pacing::Closed },
            limit,
            requestor: None,
            ramp: self.ramp,
            warmup: self.warmup.unwrap_or(default_warmup) + self.ramp,
            warmup_max: self.max_warmup.map(|most| most + self.ramp),
            timeouts: Timeouts {
                connect: self.connect_timeout.unwrap_or(self.timeout),
                first_byte: self.first_byte_timeout,
                total: self.timeout,
            },
            spin: self.spin,
            timeline: self.timeline.then_some(TIMELINE_INTERVAL),
            engine: self.engine,
            tls: None,
            sources: self.sources.addresses(),
            is_fast_open: self.sources.fast_open,
            is_linger_zero: self.sources.linger_zero,
            request_log: self.request_log.size(),
            seed: self.seed,
        }
    }

    /// Whether the clock sets the pace.
    pub(super) fn is_open(&self) -> bool {
        !self.rate.is_empty() || self.rate_sweep.is_some()
    }

    pub(super) fn pace(&self, rate: f64) -> Pacing {
        let arrivals = match self.arrivals {
            ArrivalsArg::Constant => Arrivals::Constant,
            ArrivalsArg::Poisson => Arrivals::Poisson,
        };
        Pacing::Open { rate, arrivals }
    }

    /// Whether to find out what the generator can do.
    pub(super) fn wants_ceiling(&self, load: &Load) -> bool {
        match self.self_check {
            SelfCheck::On => true,
            SelfCheck::Off => false,
            SelfCheck::Auto => matches!(load.limit, Limit::Duration(duration) if duration >= LONG_RUN),
        }
    }

    /// Refuses what contradicts itself and the parser cannot see.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Some(most) = self.max_warmup else { return Ok(()) };
        if most < WarmUp::SHORTEST {
            let shortest = WarmUp::SHORTEST.as_millis();
            return Err(Failure::Usage(format!("--max-warmup holds five windows of 100 ms: {shortest}ms or more")));
        }
        if self.warmup.is_some_and(|least| least > most) {
            return Err(Failure::Usage("--max-warmup is less than --warmup, which is the least".to_owned()));
        }
        Ok(())
    }

    /// An option that was given and that only the engine for sockets understands.
    pub(super) fn for_sockets_only(&self) -> Option<&'static str> {
        let given = [
            (self.threads.is_some(), "--threads"),
            (self.pipeline != 1, "--pipeline"),
            (self.max_warmup.is_some(), "--max-warmup"),
            (self.connect_timeout.is_some(), "--connect-timeout"),
            (self.first_byte_timeout.is_some(), "--first-byte-timeout"),
            (self.spin, "--spin"),
            (self.engine != EngineKind::Epoll, "--engine"),
            (self.self_check == SelfCheck::On, "--self-check"),
            (self.sources.is_given(), "--source-address"),
            (self.sources.fast_open, "--fast-open"),
            (self.sources.linger_zero, "--linger-zero"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }

    pub(super) fn out(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    /// The options in force, as a result records them, for `load` as it was run.
    pub(super) fn config(&self, load: &Load) -> BTreeMap<String, Value> {
        let limit = match load.limit {
            Limit::Duration(duration) => ("duration_s", json!(duration.as_secs_f64())),
            Limit::Requests(requests) => ("requests", json!(requests)),
        };
        let rate = match load.pacing {
            Pacing::Closed => None,
            Pacing::Open { rate, .. } => Some(rate),
        };
        named([
            limit,
            ("arrivals", json!(self.is_open().then(|| value_name(self.arrivals)))),
            ("connect_timeout_s", json!(load.timeouts.connect.as_secs_f64())),
            ("connections", json!(load.connections)),
            ("engine", json!(load.engine.name())),
            ("fast_open", json!(load.is_fast_open.then_some(true))),
            ("first_byte_timeout_s", json!(load.timeouts.first_byte.map(|timeout| timeout.as_secs_f64()))),
            ("linger_zero", json!(load.is_linger_zero.then_some(true))),
            ("mode", json!(if self.is_open() { "open" } else { "closed" })),
            ("pin", json!(load.pin.iter().collect::<Vec<_>>())),
            ("pipeline", json!(load.pipeline)),
            ("ramp_s", json!(load.ramp.as_secs_f64())),
            ("rate", json!(rate)),
            ("request_log_size", json!(load.request_log)),
            ("seed", json!(load.seed)),
            ("source_addresses", json!(Some(&load.sources).filter(|sources| !sources.is_empty()))),
            ("spin", json!(load.spin)),
            ("threads", json!(load.threads)),
            ("timeout_s", json!(load.timeouts.total.as_secs_f64())),
            ("tls", json!(load.tls.is_some())),
            ("max_warmup_s", json!(self.max_warmup.map(|most| most.as_secs_f64()))),
            ("warmup_s", json!((load.warmup - load.ramp).as_secs_f64())),
        ])
    }

    /// Refuses a directory in which files of another run would stand beside this one's, and a log that cannot be written.
    pub(super) fn refuse_used_out(&self) -> Result<(), Failure> {
        refuse_used(self.out())?;
        self.request_log.refuse_unusable(self.rate.len())
    }

    /// Refuses a log of which so many clients together keep too much.
    pub(super) fn refuse_large_log(&self, clients: usize) -> Result<(), Failure> {
        self.request_log.refuse_large(clients)
    }

    pub(super) fn server(&self) -> anyhow::Result<Option<ServerProbe>> {
        let probe = self.server_pid.map(ServerProbe::open).transpose().context("--server-pid")?;
        Ok(if self.no_instructions { probe } else { probe.map(ServerProbe::counting_instructions) })
    }

    /// Stores and prints the result, and says on standard error what else is to be known.
    pub(super) fn tell<P>(
        &self,
        result: &RunResult,
        measured: &Measured<P>,
        target: &impl Display,
    ) -> Result<Outcome, Failure> {
        if let Some(directory) = &self.out {
            summary::store(directory, result, measured)
                .with_context(|| format!("cannot write the result into {}", directory.display()))?;
        }
        self.request_log.write(measured.request_log.as_ref())?;
        if result.requests == 0 {
            let nothing = |why: &str| anyhow!("nothing was measured at {target}: {why}");
            return Err(if measured.was_interrupted {
                Failure::Interrupted(nothing("interrupted before any reply"))
            } else {
                Failure::Other(nothing("no request ended in time"))
            });
        }
        self.print(result)?;
        if measured.was_interrupted {
            complain("interrupted: this is what was measured until then");
        }
        if measured.was_abandoned {
            complain("given up early: the server has not answered for long");
        }
        if self.server_pid.is_some() && result.server.is_none() && result.steps.is_empty() {
            complain("the process of --server-pid ended during the run");
        }
        let outcome = outcome(result);
        Ok(if measured.was_interrupted { Outcome::Interrupted } else { outcome })
    }

    /// For programs only: people have the line on standard error.
    pub(super) fn tell_unreachable(&self, result: &RunResult) -> anyhow::Result<()> {
        if self.format == Format::Text { Ok(()) } else { self.print(result) }
    }

    fn print(&self, result: &RunResult) -> anyhow::Result<()> {
        print(&match self.format {
            Format::Text => output::text(result),
            Format::Json => output::json(result).context("cannot write JSON")? + "\n",
            Format::Csv => output::csv(result),
        })
    }
}

/// Refuses a directory that holds something of a result.
pub(super) fn refuse_used(out: Option<&Path>) -> Result<(), Failure> {
    match out.and_then(stored::leftover) {
        None => Ok(()),
        Some(found) => Err(Failure::Usage(format!(
            "--out: {} is there already, of an earlier run; name another directory, or remove that one",
            found.display()
        ))),
    }
}

fn outcome(result: &RunResult) -> Outcome {
    if result.errors.is_empty() {
        return Outcome::Success;
    }
    let classes: Vec<_> = result.errors.iter().map(|(class, count)| format!("{class} {count}")).collect();
    let failed = result.requests - result.ok;
    complain(&format!("{failed} of {} requests failed: {}", result.requests, classes.join(", ")));
    if result.errors.contains_key(ErrorClass::NoPort.name()) {
        complain(
            "hint: local ports ran out; --source-address 127.0.0.1-127.0.0.8 (addresses of this machine) has as many for each \
             address, and --linger-zero leaves none behind in TIME_WAIT",
        );
    }
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

/// Runs the engine, and shows how it goes.
pub(super) fn drive<P: ClientProtocol>(
    endpoint: &Endpoint,
    load: &Load,
    make_client: impl Fn(usize) -> P,
    server: Option<&ServerProbe>,
    interrupt: &AtomicBool,
    show: Show,
) -> Result<Measured<P>, EngineError> {
    let mut progress = Progress::new(show, load.pacing, load.limit, load.warmup_max.unwrap_or(load.warmup));
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
