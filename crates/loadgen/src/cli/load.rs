//! Options of the load that all commands have: its size, its limits and the server's process.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use loadgen::{
    engine::{Arrivals, EngineKind, Lifetime, Limit, Load, Pacing, Reuse, Timeouts, Timetable},
    usage::ServerProbe,
};
use serde_json::{Value, json};
use sys::affinity::Cpus;

use super::{
    Failure,
    agent::AgentOptions,
    output::OutputArgs,
    rate_file,
    values::{Sweep, count, duration, number, positive, positive_duration, rate, settings, value_name},
};

const CONNECTIONS_MAX: usize = 1_000_000;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
const DEFAULT_WARMUP: Duration = Duration::from_secs(1);
const TIMELINE_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the phases of a rate that changes.
fn rate_phases(load: &Load) -> Option<Vec<String>> {
    match load.timetable.as_deref() {
        Some(Timetable::Profile(profile)) => Some(profile.phases().iter().map(ToString::to_string).collect()),
        Some(Timetable::Recorded(_)) | None => None,
    }
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("open_loop").args(["rate", "rate_file", "rate_sweep"]))]
pub(super) struct LoadArgs {
    /// Connections, all kept open
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = count::<CONNECTIONS_MAX>)]
    pub(super) connections: usize,
    /// Length of the measurement, a number alone being seconds; Ctrl-C ends it early [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = positive_duration, conflicts_with = "requests")]
    pub(super) duration: Option<Duration>,
    /// Number of requests to measure instead
    #[arg(short = 'n', long, value_name = "N", value_parser = positive)]
    pub(super) requests: Option<u64>,
    /// Length of the warm-up before the measurement [default: 1s, with --requests none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) warmup: Option<Duration>,
    /// Open the connections evenly over this time, before the warm-up; an open loop's rate grows from 0 meanwhile
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    pub(super) ramp: Duration,
    /// Open loop: send this many requests per second (2000, 1.5k, 2M) whatever the server does, and count latency from the
    /// scheduled time; several rates (1000,2000,5000) are run one after the other
    #[arg(short = 'R', long, value_name = "RATE", value_parser = rate, value_delimiter = ',')]
    pub(super) rate: Vec<f64>,
    /// Open loop at a rate that changes by this file, a phase on each line: `10s 1000`, `30s 1000..5000`, `60s sine 1000..3000 20s`
    /// (with its period); the run is as long as all of them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["duration", "requests"])]
    rate_file: Option<PathBuf>,
    /// Open loop at shares of what the server can do, which is measured first in a closed loop: 10%..100%, in steps of
    /// 10 % or as in 50%..90%/5%; ends when the server cannot keep up
    #[arg(long, value_name = "SHARES")]
    pub(super) rate_sweep: Option<Sweep>,
    /// Spacing of the requests of an open loop
    #[arg(long, value_enum, default_value = "constant", requires = "open_loop")]
    arrivals: Arrivals,
    /// Pin the threads to these CPUs, round robin: 0 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pin: Option<Cpus>,
    /// Limit for each request until the last byte of its reply, and for connecting unless --connect-timeout is given
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = positive_duration)]
    timeout: Duration,
    /// Also report intervals of 100 ms: in the JSON result, and with --out in timeline.hlog
    #[arg(long)]
    timeline: bool,
    #[command(flatten)]
    pub(super) agents: AgentOptions,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    /// Report CPU time and memory of this process
    #[arg(long, value_name = "PID", value_parser = |text: &str| number(text, 1, u32::MAX))]
    pub(super) server_pid: Option<u32>,
    /// Do not count the instructions of that process: where the processor can count them, context switches cost it a little
    /// more
    #[arg(long, requires = "server_pid")]
    no_instructions: bool,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = |text: &str| number(text, 0, u64::MAX))]
    pub(super) seed: u64,
}

impl LoadArgs {
    /// Makes the load: single requests on connections that are kept, each of them with a thread if need be. The caller
    /// may change that.
    pub(super) fn to_load(&self) -> Load {
        let (limit, default_warmup) = match self.requests {
            Some(requests) => (Limit::Requests(requests), Duration::ZERO),
            None => (Limit::Duration(self.duration.unwrap_or(DEFAULT_DURATION)), DEFAULT_WARMUP),
        };
        Load {
            connections: self.connections,
            threads: self.connections,
            pin: self.pin.clone().unwrap_or_default(),
            pipeline: 1,
            batch: 1,
            reuse: Reuse::Keep,
            lifetime: Lifetime::default(),
            skew: None,
            timetable: None,
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
            warmup_max: None,
            timeouts: Timeouts { connect: self.timeout, first_byte: None, total: self.timeout },
            spin: false,
            timeline: self.timeline.then_some(TIMELINE_INTERVAL),
            engine: EngineKind::default(),
            tls: None,
            sources: Vec::new(),
            is_fast_open: false,
            is_linger_zero: false,
            request_log: self.output.request_log_size(),
            turns: None,
            seed: self.seed,
        }
    }

    /// True if the clock sets the pace.
    pub(super) fn is_open(&self) -> bool {
        !self.rate.is_empty() || self.rate_file.is_some() || self.rate_sweep.is_some()
    }

    /// True if the rate changes, by a file or in a sweep.
    pub(super) fn has_course(&self) -> bool {
        self.rate_file.is_some() || self.rate_sweep.is_some()
    }

    /// Lets the load follow the file of `--rate-file`, if there is one. The warm-up has a fixed length then.
    pub(super) fn with_rate_file(&self, load: Load) -> Result<Load, Failure> {
        let Some(path) = &self.rate_file else { return Ok(load) };
        if load.warmup_max.is_some() || !load.ramp.is_zero() || load.requestor.is_some() {
            return Err(Failure::usage(
                "--rate-file goes with --warmup alone, neither with --max-warmup nor with --ramp",
            ));
        }
        let profile = rate_file::read(path)?;
        Ok(Load {
            pacing: self.pacing(profile.requests() / profile.seconds()),
            limit: Limit::Duration(Duration::from_secs_f64(profile.seconds())),
            timetable: Some(Arc::new(Timetable::Profile(profile))),
            ..load
        })
    }

    /// Returns the pacing of an open loop at this rate.
    pub(super) fn pacing(&self, rate: f64) -> Pacing {
        Pacing::Open { rate, arrivals: self.arrivals }
    }

    /// Refuses files that cannot be written.
    pub(super) fn check_files(&self) -> Result<(), Failure> {
        self.output.check_files(self.rate.len())
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
            ("mode", json!(if self.is_open() { "open" } else { "closed" })),
            ("pin", json!(load.pin.iter().collect::<Vec<_>>())),
            ("ramp_s", json!(load.ramp.as_secs_f64())),
            ("rate", json!(rate)),
            ("rate_phases", json!(rate_phases(load))),
            ("request_log_size", json!(load.request_log)),
            ("seed", json!(load.seed)),
            ("timeout_s", json!(load.timeouts.total.as_secs_f64())),
            ("max_warmup_s", json!(load.warmup_max.map(|most| (most - load.ramp).as_secs_f64()))),
            ("warmup_s", json!((load.warmup - load.ramp).as_secs_f64())),
        ])
    }

    /// Opens the process of `--server-pid`.
    pub(super) fn server(&self) -> anyhow::Result<Option<ServerProbe>> {
        let probe = self.server_pid.map(ServerProbe::open).transpose().context("--server-pid")?;
        Ok(if self.no_instructions { probe } else { probe.map(ServerProbe::with_instructions) })
    }
}
