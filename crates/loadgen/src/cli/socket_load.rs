//! Options of the load that only commands over sockets have.

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, ValueEnum};
use loadgen::engine::{EngineKind, Lifetime, Limit, Load, Skew, Timeouts, Tls, WarmUp};
use serde_json::{Value, json};

use super::{
    Failure,
    load::LoadArgs,
    tcp::TcpArgs,
    values::{count, positive, positive_duration, settings, skew, value_name},
};

const THREADS_MAX: usize = 1024;
const PIPELINE_MAX: usize = 65_536;
/// Length of a run from which `--self-check` is worth its time.
const SELF_CHECK_FROM: Duration = Duration::from_secs(5);

/// Options of commands that drive a server over sockets.
#[derive(Args, Debug)]
pub(super) struct SocketLoadArgs {
    #[command(flatten)]
    pub(super) common: LoadArgs,
    /// Generator threads [default: one per CPU of --pin, or half the cores]
    #[arg(short, long, value_name = "N", value_parser = count::<THREADS_MAX>)]
    threads: Option<usize>,
    /// Requests in flight on each connection
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = count::<PIPELINE_MAX>)]
    pub(super) pipeline: usize,
    /// Warm up until the load is steady, at most this long. Steady is a load without a trend above 3 % over five windows of
    /// 100 ms, or above what chance makes of it. --warmup is then the minimum [default: --warmup alone]
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(super) max_warmup: Option<Duration>,
    /// Limit for connecting, TLS included
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    connect_timeout: Option<Duration>,
    /// Limit for the first byte of each reply
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    first_byte_timeout: Option<Duration>,
    /// Close each connection after so many requests, and open another
    #[arg(long, value_name = "N", value_parser = positive)]
    connection_requests: Option<u64>,
    /// Close each connection after this time, when its requests are answered, and open another
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    connection_age: Option<Duration>,
    /// Open loop: this share of the connections carries that share of the requests: 10%:90%. Where all of them are busy, a
    /// request takes another one
    #[arg(long, value_name = "SHARES", value_parser = skew, requires = "open_loop")]
    pub(super) skew: Option<Skew>,
    /// Open loop: poll the clock instead of sleeping for the last 200 µs before a request falls due
    #[arg(long, requires = "open_loop")]
    spin: bool,
    /// Run in turns, for a program that compares two servers: a line `go` on standard input begins one, `hold` ends it and is
    /// answered, when the last reply has come, with a line of JSON on standard output (ok, failed, p50_us, p99_us); the end of
    /// standard input is that of the run, and --duration its limit
    #[arg(long, conflicts_with_all = ["open_loop", "requests", "warmup", "timeline"])]
    pub(super) turns: bool,
    /// Kernel interface of the threads
    #[arg(long, value_enum, value_name = "NAME", default_value_t)]
    engine: EngineKind,
    /// First measure for 0.2 s what the generator itself can do, and warn of results above 80 % of that [auto: for runs of
    /// 5 s or more]
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    pub(super) self_check: SelfCheck,
    #[command(flatten)]
    pub(super) tcp: TcpArgs,
}

/// When to measure what the generator itself can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SelfCheck {
    Auto,
    On,
    Off,
}

impl SelfCheck {
    /// True if a run of `load` begins with a self-check.
    pub(super) fn is_due(self, load: &Load) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            Self::Auto => {
                load.turns.is_none() && matches!(load.limit, Limit::Duration(duration) if duration >= SELF_CHECK_FROM)
            }
        }
    }
}

impl SocketLoadArgs {
    /// Makes the load: single requests on connections that are kept. The caller may change that.
    pub(super) fn to_load(&self) -> Load {
        let load = self.common.to_load();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let default_threads = match load.pin.iter().len() {
            0 => (cores / 2).max(1),
            pinned => pinned,
        };
        // A warm-up that ends by itself needs no minimum.
        let is_warmup_default = self.max_warmup.is_some() && self.common.warmup.is_none();
        Load {
            threads: self.threads.unwrap_or(default_threads).min(load.connections),
            pipeline: self.pipeline,
            warmup: if is_warmup_default { load.ramp } else { load.warmup },
            warmup_max: self.max_warmup.map(|most| most + load.ramp),
            timeouts: Timeouts {
                connect: self.connect_timeout.unwrap_or(load.timeouts.connect),
                first_byte: self.first_byte_timeout,
                total: load.timeouts.total,
            },
            lifetime: Lifetime { requests: self.connection_requests, age: self.connection_age },
            skew: self.skew,
            spin: self.spin,
            engine: self.engine,
            sources: self.tcp.addresses(),
            is_fast_open: self.tcp.fast_open,
            is_linger_zero: self.tcp.linger_zero,
            ..load
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
            if self.common.warmup.is_some_and(|least| least > most) {
                return Err(Failure::usage("--max-warmup is less than --warmup, which is the least"));
            }
        }
        self.common.check_files()
    }

    /// Returns the options in force, as a result records them, for `load` as it was run.
    pub(super) fn config(&self, load: &Load) -> BTreeMap<String, Value> {
        let mut config = self.common.config(load);
        config.extend(settings([
            ("connect_timeout_s", json!(load.timeouts.connect.as_secs_f64())),
            ("connection_age_s", json!(load.lifetime.age.map(|age| age.as_secs_f64()))),
            ("connection_requests", json!(load.lifetime.requests)),
            ("connections", json!(load.connections)),
            ("engine", json!(value_name(load.engine))),
            ("fast_open", json!(load.is_fast_open.then_some(true))),
            ("first_byte_timeout_s", json!(load.timeouts.first_byte.map(|timeout| timeout.as_secs_f64()))),
            ("linger_zero", json!(load.is_linger_zero.then_some(true))),
            ("pipeline", json!(load.pipeline)),
            ("skew", json!(load.skew.map(|Skew { connections, requests }| [connections, requests]))),
            ("source_addresses", json!(Some(&load.sources).filter(|sources| !sources.is_empty()))),
            ("spin", json!(load.spin)),
            ("threads", json!(load.threads)),
            ("tls", json!(load.tls.is_some())),
            ("turns", json!(load.turns.is_some().then_some(true))),
            ("tls_resume", json!(load.tls.as_ref().map(Tls::is_resuming))),
        ]));
        config
    }
}
