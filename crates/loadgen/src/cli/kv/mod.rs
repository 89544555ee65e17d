//! `loadgen kv`.

mod address;
mod options;
mod self_check;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use loadgen::{
    engine::{Lifetime, Limit, Load, Pacing, Reuse},
    kv::{
        Action, Dialect, KeyDistribution, KeySpace, KvClient, KvVerify, Mix, Script, ScriptPlan, Values, VerifyRules,
    },
    result::ProtocolKind,
    summary::{self, ReplyKinds, RunDescription},
};
use serde_json::{Value, json};

use self::{
    address::address,
    options::{LoginArg, MixArg, SizeArg},
};
use super::{
    ExitOutcome, Failure,
    distribution::{DistributionArg, ratio},
    failures,
    socket_load::SocketLoadArgs,
    socket_run::{SocketRun, interrupt_flag, parse_endpoint},
    tls::TlsArgs,
    values::{count, number, settings, value_name},
    verify::{VerifyArg, verify_parser},
};

const KEY_BYTES_MAX: usize = 64 << 10;
const DEFAULT_VALUE_BYTES: usize = 12;
const DEFAULT_JSON_BYTES: usize = 256;
/// Most keys in a batch of a preload.
const PRELOAD_BATCH: usize = 128;
/// About the most bytes in such a batch.
const PRELOAD_BATCH_BYTES: usize = 1 << 20;
const PRELOAD_CONNECTIONS: usize = 16;

const NO_SAMPLE: &str = "kv has no samples: comparing a reply with the prepared one costs less than choosing";

const EXAMPLES: &str = "Examples:
  loadgen kv --preload -P 100 -d 5s 127.0.0.1:6379
  loadgen kv --preload --mix get=9,set=1 --key-dist zipf:0.99 --value-size 8..1024 127.0.0.1:6379
  loadgen kv --protocol memcached-meta --preload -R 50000 --server-pid 4711 127.0.0.1:11211
  loadgen kv --protocol us --workload workflow -P 100 --json-values unix:/run/cache.sock
  loadgen kv --preload --rate-sweep 20%..100%/20% -d 5s 127.0.0.1:6379
  loadgen kv --preload --tls --tls-ca ca.pem -P 16 -d 5s localhost:6380
  loadgen kv --workload preload --keys 5000000 127.0.0.1:6379
  loadgen null --protocol resp --listen 127.0.0.1:7000 &  loadgen kv --constant-values -P 16 127.0.0.1:7000

Closed loop: the P requests of a connection travel together, and the next P when all are answered. The latency of each
is the time from sending them to its reply.

Exit status: 0 every request succeeded and was verified; 3 some failed; 4 --fail-if; 130 interrupted; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct KvArgs {
    /// HOST[:PORT] (6379, memcached's 11211 by default), redis://HOST[:PORT] or unix:/SOCKET
    #[arg(value_name = "TARGET")]
    target: String,
    #[command(flatten)]
    pub(super) load: SocketLoadArgs,
    /// Speak TLS
    #[arg(long = "tls")]
    is_tls: bool,
    #[command(flatten)]
    tls: TlsArgs,
    /// RESP: log in on every connection with this password, or name and password
    #[arg(long, value_name = "[USER:]PASSWORD", env = "LOADGEN_AUTH", hide_env_values = true)]
    auth: Option<LoginArg>,
    /// Protocol of the server
    #[arg(long, value_enum, default_value = "resp")]
    protocol: Dialect,
    /// Commands of the run [default: get, with --mix mix]
    #[arg(long, value_enum)]
    workload: Option<Workload>,
    /// Shares of get, set and del, chosen by chance; for the workloads mix and connection-per-request
    #[arg(long, value_name = "SHARES")]
    mix: Option<MixArg>,
    /// Number of different keys
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = |text: &str| number(text, 1, u32::MAX))]
    keys: u32,
    /// Bytes of each key
    #[arg(long, value_name = "N", default_value = "16", value_parser = count::<KEY_BYTES_MAX>)]
    key_size: usize,
    /// Distribution of the keys: uniform, zipf:EXPONENT, hot:KEYS:REQUESTS (as in hot:0.1:0.9), sequential or
    /// replay:FILE (a key on each line, in the order of the requests; keys are numbered as they come)
    /// [default: uniform; sequential for del]
    #[arg(long, value_name = "DISTRIBUTION")]
    key_dist: Option<DistributionArg>,
    /// Bytes of each value: 12; 8..1024 for lengths from 8 to 1024; 8:70,1024:30 for sizes with their proportions;
    /// lognormal:MEDIAN:SIGMA [default: 12, for JSON 256]
    #[arg(long, value_name = "BYTES")]
    value_size: Option<SizeArg>,
    /// Values are JSON documents
    #[arg(long)]
    json_values: bool,
    /// All values are the letter x: what `loadgen null --protocol resp` answers
    #[arg(long, conflicts_with = "json_values")]
    constant_values: bool,
    /// Share of the gets that ask for a key that was never stored
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = ratio)]
    miss_ratio: f64,
    /// Do not count missing keys as errors: the server evicts, or was not filled
    #[arg(long)]
    allow_misses: bool,
    /// Store all keys first
    #[arg(long)]
    preload: bool,
    /// How much of each reply is checked
    #[arg(long, default_value = "content", value_parser = verify_parser::<KvVerify>("content").without_sample(NO_SAMPLE))]
    verify: VerifyArg<KvVerify>,
}

/// Commands that a run consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Get keys
    Get,
    /// Set keys
    Set,
    /// Delete keys, each once
    Del,
    /// Get, set and delete by chance (--mix, by default get=9,set=1)
    Mix,
    /// Set a key, get it, get a missing one, over and over
    Workflow,
    /// A connection for each request
    ConnectionPerRequest,
    /// Set every key once, and nothing else
    Preload,
    /// Get keys by a script of one command: EVALSHA
    Script,
}

pub(super) fn run(args: &KvArgs) -> Result<ExitOutcome, Failure> {
    let choice = WorkloadChoice::new(args).map_err(Failure::Usage)?;
    let address = address(&args.target, args.protocol).map_err(Failure::Usage)?;
    let endpoint = parse_endpoint(&address)?;
    let load = Load { tls: args.tls.for_address(args.is_tls, &address)?, ..choice.load(args) };
    let load = args.load.common.with_rate_file(load)?;
    let space = key_space(args)?;
    let interrupt = interrupt_flag()?;
    let describe = |load: &Load| description(args, args.load.config(load), load);
    let run = SocketRun::prepare(&args.load, endpoint, load, describe)?;
    if args.preload {
        preload(args, &space, &run, describe, &interrupt)?;
    }

    let load = &run.load;
    let requests = match load.limit {
        Limit::Requests(requests) if load.warmup.is_zero() && load.warmup_max.is_none() => Some(requests),
        Limit::Requests(_) | Limit::Duration(_) => None,
    };
    let script = script(args, &space, &choice.plan, load.batch, requests)?;
    let rules = VerifyRules { verify: args.verify.level(KvVerify::Content), allow_misses: args.allow_misses };
    let make_client = |thread| KvClient::new(Arc::clone(&script), rules, load.seed, thread, load.threads);
    let ceiling = self_check::ceiling(args, &run, &interrupt)?;
    let describe = |load: &Load| description(args, config(args, &choice, &script, load), load);
    run.carry_out(make_client, |_| {}, describe, ceiling, &interrupt)
}

fn description(args: &KvArgs, mut config: BTreeMap<String, Value>, load: &Load) -> RunDescription {
    config.insert("verify".to_owned(), json!(args.verify.name(KvVerify::Content)));
    let (kind, target) = (ProtocolKind::Kv, args.target.clone());
    RunDescription { kind, target, config, pacing: load.pacing, replies: ReplyKinds::HitsMissesStores }
}

fn config(args: &KvArgs, choice: &WorkloadChoice, script: &Script, load: &Load) -> BTreeMap<String, Value> {
    let mut config = args.load.config(load);
    config.extend(settings([
        ("allow_misses", json!(args.allow_misses)),
        ("key_bytes", json!(args.key_size)),
        ("key_dist", json!(choice.keys.to_string())),
        ("keys", json!(args.keys)),
        ("miss_ratio", json!(args.miss_ratio)),
        ("mix", json!(choice.mix.map(|mix| MixArg(mix).to_string()))),
        ("preload", json!(args.preload)),
        ("prepared_requests", json!(script.positions())),
        ("protocol", json!(value_name(args.protocol))),
        ("value_bytes", json!(value_size(args).to_string())),
        ("values", json!(values_name(args))),
        ("workload", json!(value_name(choice.workload))),
    ]));
    config
}

/// Meaning of the options taken together.
struct WorkloadChoice {
    workload: Workload,
    plan: ScriptPlan,
    keys: DistributionArg,
    /// Shares of the commands, in workloads that have them.
    mix: Option<Mix>,
}

impl WorkloadChoice {
    fn new(args: &KvArgs) -> Result<Self, String> {
        let default_workload = if args.mix.is_some() { Workload::Mix } else { Workload::Get };
        let workload = args.workload.unwrap_or(default_workload);
        let takes_mix = matches!(workload, Workload::Mix | Workload::ConnectionPerRequest);
        if args.mix.is_some() && !takes_mix {
            return Err("--mix belongs to --workload mix or connection-per-request".to_owned());
        }
        let mix = match (workload, args.mix) {
            (Workload::Mix | Workload::ConnectionPerRequest, Some(MixArg(mix))) => Some(mix),
            (Workload::Mix, None) => Some(Mix { get: 9, set: 1, del: 0 }),
            (Workload::Get | Workload::ConnectionPerRequest, _) => Some(Mix { get: 1, set: 0, del: 0 }),
            (Workload::Set, _) => Some(Mix { get: 0, set: 1, del: 0 }),
            (Workload::Del, _) => Some(Mix { get: 0, set: 0, del: 1 }),
            (Workload::Workflow | Workload::Preload | Workload::Script, _) => None,
        };
        let is_once = matches!(workload, Workload::Del | Workload::Preload);
        let default_keys = if is_once { DistributionArg::sequential } else { DistributionArg::uniform };
        let keys = args.key_dist.clone().unwrap_or_else(default_keys);
        let choice = Self { workload, plan: plan(workload, mix, &keys.distribution, args.miss_ratio), keys, mix };
        choice.check(args)?;
        Ok(choice)
    }

    /// Refuses contradictions, and options that would make errors of a right server's replies.
    fn check(&self, args: &KvArgs) -> Result<(), String> {
        let load = &args.load;
        let gets = self.mix.map_or(0, |mix| mix.get);
        let deletes = self.mix.map_or(0, |mix| mix.del) > 0;
        let each_once = self.plan == ScriptPlan::Each(Action::Del)
            && load.common.requests.is_some_and(|requests| requests <= u64::from(args.keys))
            && load.common.warmup.is_none_or(|warmup| warmup.is_zero())
            && load.max_warmup.is_none()
            && load.common.ramp.is_zero()
            && load.common.rate.len() < 2
            && !load.common.has_course();
        let preloads = self.workload == Workload::Preload;
        let contradictions = [
            (args.miss_ratio > 0.0 && gets == 0, "--miss-ratio needs a workload with gets by chance"),
            (
                preloads && (load.common.requests.is_some() || load.common.duration.is_some()),
                "--workload preload sets each key once: --keys says how many, not --requests or --duration",
            ),
            (
                preloads && (load.common.warmup.or(load.max_warmup).is_some() || !load.common.ramp.is_zero()),
                "--workload preload has no warm-up: neither --warmup, --max-warmup nor --ramp",
            ),
            (
                preloads && (load.common.rate.len() > 1 || load.common.has_course()),
                "--workload preload sets each key once: it has one --rate at most",
            ),
            (
                preloads && self.keys.distribution != KeyDistribution::Sequential,
                "--workload preload sets the keys in order",
            ),
            (preloads && args.preload, "--workload preload is what --preload does beforehand: use one of them"),
            (
                self.workload == Workload::ConnectionPerRequest && (load.pipeline != 1 || load.common.is_open()),
                "--workload connection-per-request has neither --pipeline nor --rate",
            ),
            (
                deletes && !each_once && !args.allow_misses,
                "a key can be deleted once: limit --workload del by --requests to the number of --keys, or --allow-misses",
            ),
            (
                self.workload == Workload::Script && (args.protocol != Dialect::Resp || args.auth.is_some()),
                "--workload script is for --protocol resp, without --auth",
            ),
            (
                args.auth.is_some() && !matches!(args.protocol, Dialect::Resp | Dialect::Resp3),
                "--auth is for --protocol resp and resp3",
            ),
            (
                args.protocol == Dialect::Us && value_size(args).sizes.min() == 0,
                "the 0x1F text protocol has no empty values: use a --value-size above 0",
            ),
        ];
        let found = contradictions.into_iter().find(|(is_so, _)| *is_so);
        found.map_or(Ok(()), |(_, problem)| Err(problem.to_owned()))
    }

    fn load(&self, args: &KvArgs) -> Load {
        let mut load = args.load.to_load();
        if load.pacing == Pacing::Closed {
            load.batch = load.pipeline;
        }
        match self.workload {
            Workload::ConnectionPerRequest => load.reuse = Reuse::Once,
            Workload::Preload => {
                load.limit = Limit::Requests(u64::from(args.keys));
                (load.warmup, load.warmup_max) = (Duration::ZERO, None);
            }
            Workload::Get | Workload::Set | Workload::Del | Workload::Mix | Workload::Workflow | Workload::Script => {}
        }
        load
    }
}

fn plan(workload: Workload, mix: Option<Mix>, keys: &KeyDistribution, miss_ratio: f64) -> ScriptPlan {
    match (workload, mix) {
        (Workload::Preload, _) => ScriptPlan::Each(Action::Set),
        (Workload::Del, _) if *keys == KeyDistribution::Sequential => ScriptPlan::Each(Action::Del),
        (Workload::Set, _) if *keys == KeyDistribution::Sequential => ScriptPlan::Each(Action::Set),
        (Workload::Script, _) => ScriptPlan::Scripted { keys: keys.clone() },
        (Workload::Workflow, _) | (_, None) => ScriptPlan::Workflow { keys: keys.clone() },
        (_, Some(mix)) => ScriptPlan::Mixed { mix, keys: keys.clone(), miss_ratio },
    }
}

fn value_size(args: &KvArgs) -> SizeArg {
    let default = if args.json_values { DEFAULT_JSON_BYTES } else { DEFAULT_VALUE_BYTES };
    args.value_size.clone().unwrap_or_else(|| SizeArg::fixed(default))
}

fn key_space(args: &KvArgs) -> Result<KeySpace, Failure> {
    let values = match (args.json_values, args.constant_values) {
        (true, _) => Values::Json,
        (false, true) => Values::Constant,
        (false, false) => Values::Letters,
    };
    let most = args.protocol.key_bytes_max();
    if args.key_size > most {
        return Err(Failure::usage(format_args!("--key-size: keys of this protocol have at most {most} bytes")));
    }
    KeySpace::new(args.keys, args.key_size, values, value_size(args).sizes).map_err(Failure::usage)
}

fn values_name(args: &KvArgs) -> &'static str {
    match (args.json_values, args.constant_values) {
        (true, _) => "json",
        (false, true) => "constant",
        (false, false) => "letters",
    }
}

fn script(
    args: &KvArgs,
    space: &KeySpace,
    plan: &ScriptPlan,
    batch: usize,
    requests: Option<u64>,
) -> Result<Arc<Script>, Failure> {
    let batch = u32::try_from(batch).unwrap_or(u32::MAX);
    Script::new(space.clone(), args.protocol, plan, batch, requests, args.load.common.seed)
        .map(|script| match &args.auth {
            Some(LoginArg(login)) => script.with_login(login),
            None => script,
        })
        .map(Arc::new)
        .map_err(Failure::usage)
}

/// Stores every key once, and accepts nothing but success.
fn preload(
    args: &KvArgs,
    space: &KeySpace,
    run: &SocketRun<'_>,
    describe: impl Fn(&Load) -> RunDescription,
    interrupt: &AtomicBool,
) -> Result<(), Failure> {
    let batch = (PRELOAD_BATCH_BYTES / (space.value_bytes_max() + args.key_size)).clamp(1, PRELOAD_BATCH);
    let keys = u64::from(args.keys);
    let load = Load {
        connections: run.load.connections.min(PRELOAD_CONNECTIONS),
        threads: run.load.threads.min(PRELOAD_CONNECTIONS),
        pipeline: batch,
        batch,
        reuse: Reuse::Keep,
        pacing: Pacing::Closed,
        timetable: None,
        lifetime: Lifetime::default(),
        limit: Limit::Requests(keys),
        warmup: Duration::ZERO,
        warmup_max: None,
        ramp: Duration::ZERO,
        timeline: None,
        request_log: None,
        turns: None,
        ..run.load.clone()
    };
    let script = script(args, space, &ScriptPlan::Each(Action::Set), batch, Some(keys))?;
    let rules = VerifyRules { verify: KvVerify::Content, allow_misses: false };
    let make_client = |thread| KvClient::new(Arc::clone(&script), rules, load.seed, thread, load.threads);
    let measured = run.measure(&load, make_client, None, interrupt).context("storing the keys failed")?;
    if measured.tally.ok == keys {
        return Ok(());
    }
    if measured.was_interrupted {
        return Err(Failure::Interrupted(anyhow!("interrupted while the keys were stored")));
    }
    let why = failures::list_causes(&summary::summarize(describe(&load), &measured, None));
    Err(Failure::Other(anyhow!("{} of {keys} keys could not be stored: {why}", keys - measured.tally.ok)))
}
