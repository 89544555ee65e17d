//! Options of all commands that drive a server: the load, its limits and the server's process.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use clap::{ArgGroup, Args, ValueEnum};
use loadgen::{
    engine::{Arrivals, EngineKind, Limit, Load, Pacing, Reuse, Timeouts, WarmUp},
    usage::ServerProbe,
};
use serde_json::{Value, json};
use sys::affinity::Cpus;

use super::{
    Failure,
    output::OutputArgs,
    tcp::TcpArgs,
    values::{Sweep, count, duration, positive_duration, rate, settings, value_name},
};

const CONNECTIONS_MAX: usize = 1_000_000;
const THREADS_MAX: usize = 1024;
const PIPELINE_MAX: usize = 65_536;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
const DEFAULT_WARMUP: Duration = Duration::from_secs(1);
const TIMELINE_INTERVAL: Duration = Duration::from_millis(100);
/// Length of a run from which `--self-check` is worth its time.
const SELF_CHECK_FROM: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("open_loop").args(["rate", "rate_sweep"]))]
pub(super) struct LoadArgs {
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
    arrivals: Arrivals,
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
    /// Interface of the threads to the kernel
    #[arg(long, value_enum, value_name = "NAME", default_value_t)]
    engine: EngineKind,
    /// Measure for 0.2 s what the generator itself can do, and warn of results above 80 % of it [auto: for runs of 5 s or
    /// more]
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    self_check: SelfCheck,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) tcp: TcpArgs,
    /// Report CPU time and memory of this process
    #[arg(long, value_name = "PID")]
    pub(super) server_pid: Option<u32>,
    /// Do not count the instructions of that process: where the processor can count them, each switch of context costs it a
    /// little more
    #[arg(long, requires = "server_pid")]
    no_instructions: bool,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// When to measure what the generator itself can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SelfCheck {
    Auto,
    On,
    Off,
}

impl LoadArgs {
    /// Makes the load: single requests on connections that are kept. The caller may change that.
    pub(super) fn to_load(&self) -> Load {
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
        // A warm-up that ends by itself needs no minimum.
        let default_warmup = if self.max_warmup.is_some() { Duration::ZERO } else { default_warmup };
        Load {
            connections: self.connections,
            threads: self.threads.unwrap_or(default_threads).min(self.connections),
            pin,
            pipeline: self.pipeline,
            batch: 1,
            reuse: Reuse::Keep,
            // With several rates each step has a pacing of its own, and this is only known to be open.
            pacing: if self.is_open() {
                self.pacing(self.rate.first().copied().unwrap_or(1.0))
            } else {
                Pacing::Closed
            },
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
            sources: self.tcp.addresses(),
            is_fast_open: self.tcp.fast_open,
            is_linger_zero: self.tcp.linger_zero,
            request_log: self.output.request_log_size(),
            seed: self.seed,
        }
    }

    /// True if the clock sets the pace.
    pub(super) fn is_open(&self) -> bool {
        !self.rate.is_empty() || self.rate_sweep.is_some()
    }

    /// Returns the pacing of an open loop at this rate.
    pub(super) fn pacing(&self, rate: f64) -> Pacing {
        Pacing::Open { rate, arrivals: self.arrivals }
    }

    /// True if the run begins with a self-check.
    pub(super) fn wants_ceiling(&self, load: &Load) -> bool {
        match self.self_check {
            SelfCheck::On => true,
            SelfCheck::Off => false,
            SelfCheck::Auto => matches!(load.limit, Limit::Duration(duration) if duration >= SELF_CHECK_FROM),
        }
    }

    /// Refuses contradictions that the parser cannot see, and files that cannot be written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if let Some(most) = self.max_warmup {
            if most < WarmUp::SHORTEST {
                let shortest = WarmUp::SHORTEST.as_millis();
                return Err(Failure::usage(format_args!(
                    "--max-warmup holds five windows of 100 ms: {shortest}ms or more"
                )));
            }
            if self.warmup.is_some_and(|least| least > most) {
                return Err(Failure::usage("--max-warmup is less than --warmup, which is the least"));
            }
        }
        self.output.check_files(self.rate.len())
    }

    /// Finds an option that was given and that only the engine for sockets understands.
    pub(super) fn find_socket_option(&self) -> Option<&'static str> {
        let given = [
            (self.threads.is_some(), "--threads"),
            (self.pipeline != 1, "--pipeline"),
            (self.max_warmup.is_some(), "--max-warmup"),
            (self.connect_timeout.is_some(), "--connect-timeout"),
            (self.first_byte_timeout.is_some(), "--first-byte-timeout"),
            (self.spin, "--spin"),
            (self.engine != EngineKind::Epoll, "--engine"),
            (self.self_check == SelfCheck::On, "--self-check"),
            (self.tcp.is_given(), "--source-address"),
            (self.tcp.fast_open, "--fast-open"),
            (self.tcp.linger_zero, "--linger-zero"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }

    /// Returns the options in force, as a result records them, for `load` as it was run.
    pub(super) fn config(&self, load: &Load) -> BTreeMap<String, Value> {
        let limit = match load.limit {
            Limit::Duration(duration) => ("duration_s", json!(duration.as_secs_f64())),
            Limit::Requests(requests) => ("requests", json!(requests)),
        };
        let rate = match load.pacing {
            Pacing::Closed => None,
            Pacing::Open { rate, .. } => Some(rate),
        };
        settings([
            limit,
            ("arrivals", json!(self.is_open().then(|| value_name(self.arrivals)))),
            ("connect_timeout_s", json!(load.timeouts.connect.as_secs_f64())),
            ("connections", json!(load.connections)),
            ("engine", json!(value_name(load.engine))),
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

    /// Opens the process of `--server-pid`.
    pub(super) fn server(&self) -> anyhow::Result<Option<ServerProbe>> {
        let probe = self.server_pid.map(ServerProbe::open).transpose().context("--server-pid")?;
        Ok(if self.no_instructions { probe } else { probe.map(ServerProbe::with_instructions) })
    }
}
