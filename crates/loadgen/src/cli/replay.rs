//! `loadgen replay`: the requests of a recording, at their times.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::Args;
use loadgen::{
    clock::Nanos,
    engine::{Arrivals, Limit, Load, Pacing, Timetable},
    http::{
        Expectation, Http2Client, Http2Spec, HttpClient, HttpVerify, RequestParts, RequestSpec, Target, TargetError,
    },
    null::{HttpReply, HttpResponder},
    recording::{self, RecordedRequest, Recording},
    result::ProtocolKind,
    sample::Sampler,
    summary::{ReplyKinds, RunDescription},
    units,
};
use serde_json::json;

use super::{
    ExitOutcome, Failure, eprint_line,
    http::{SELF_CHECK_BODY_BYTES, STREAMS_MAX, compare_bodies, self_check_client},
    socket_load::SocketLoadArgs,
    socket_run::{SocketRun, interrupt_flag},
    tls::TlsArgs,
    values::{count, positive_duration, settings},
    verify::{VerifyArg, verify_parser},
};

/// Name of the speed that does not look at the times.
const MAX: &str = "max";
/// Limit of a factor, so that no time becomes too long for a clock.
const FACTOR_MIN: f64 = 1e-3;
const FACTOR_MAX: f64 = 1e6;

const EXAMPLES: &str = "Examples:
  loadgen replay access.log http://127.0.0.1:8080                        at the times of the log
  loadgen replay --speed 10 --pause-max 1s access.json http://127.0.0.1:8080
  loadgen replay --speed max -c 16 access.log http://127.0.0.1:8080      as fast as the server answers
  loadgen replay --fail-if 'p99>50ms' --http2 --streams 8 session.har https://localhost:8443 --tls-ca ca.pem
  loadgen replay -n 10000 -H 'Authorization: Basic dTpw' access.log http://127.0.0.1:8080

A recording is an access log in the common or combined format, one with a JSON object on each line (by this workspace's servers,
nginx, Caddy or Traefik), or an HTTP archive (HAR). Requests fall due at their recorded times, so the time between two of them, thinking
included, is the recorded one; each takes any connection that is free, as in every open loop.

Exit status: 0 every request succeeded and was verified; 3 some failed; 4 --fail-if; 130 interrupted; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("rate", |arg| arg.hide(true)))]
#[command(mut_arg("rate_file", |arg| arg.hide(true)))]
#[command(mut_arg("rate_sweep", |arg| arg.hide(true)))]
#[command(mut_arg("arrivals", |arg| arg.hide(true)))]
#[command(mut_arg("duration", |arg| arg.hide(true)))]
#[command(mut_arg("warmup", |arg| arg.hide(true)))]
#[command(mut_arg("max_warmup", |arg| arg.hide(true)))]
#[command(mut_arg("ramp", |arg| arg.hide(true)))]
#[command(mut_arg("requests", |arg| arg.help("Replay the first N requests of the recording alone")))]
pub(super) struct ReplayArgs {
    /// Access log, JSON lines or HTTP archive
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Server to ask: http://HOST:PORT, https://HOST:PORT or unix:/SOCKET
    #[arg(value_name = "URL")]
    url: String,
    /// Speed as a multiple of the recorded one, or `max` for a closed loop that does not look at the times
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed, group = "open_loop")]
    speed: Speed,
    /// Cut pauses of the recording that are longer, before --speed
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pause_max: Option<Duration>,
    #[command(flatten)]
    pub(super) load: SocketLoadArgs,
    /// Use HTTP/2: chosen by ALPN for https://, known beforehand for http://
    #[arg(long)]
    http2: bool,
    /// Requests in flight on each connection, with --http2 [default: 1]
    #[arg(long, value_name = "N", requires = "http2", value_parser = count::<STREAMS_MAX>)]
    streams: Option<usize>,
    #[command(flatten)]
    tls: TlsArgs,
    /// How much of each reply is checked, besides its status
    #[arg(long, default_value = "content", value_parser = verify_parser::<HttpVerify>("content"))]
    verify: VerifyArg<HttpVerify>,
    /// Add a header to every request, 'Name: value'; repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
}

/// Speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Speed {
    Times(f64),
    Max,
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == MAX {
        return Ok(Speed::Max);
    }
    let factor = text.strip_suffix('x').unwrap_or(text).parse().ok();
    let factor = factor.filter(|factor| (FACTOR_MIN..=FACTOR_MAX).contains(factor));
    factor
        .map(Speed::Times)
        .ok_or_else(|| format!("neither {MAX} nor a factor from {FACTOR_MIN} to {FACTOR_MAX}; try 1, 0.5 or 10x"))
}

pub(super) fn run(args: &ReplayArgs) -> Result<ExitOutcome, Failure> {
    check_usage(args)?;
    let server = Target::parse(&args.url, None).map_err(Failure::usage)?;
    let endpoint = Target::endpoint(std::slice::from_ref(&server)).map_err(|error| {
        if matches!(error, TargetError::Unresolved(_)) { Failure::from(error) } else { Failure::usage(error) }
    })?;
    let recording = read(args)?;
    let tls = args.tls.for_targets(std::slice::from_ref(&server), args.http2)?;
    let load = Load { tls, ..load(args, &recording) };
    let interrupt = interrupt_flag()?;
    let describe = |load: &Load| description(args, &recording, load);
    let run = SocketRun::prepare(&args.load, endpoint, load, describe)?;
    let verify = args.verify.level(HttpVerify::Content);
    let sampler = |thread| Sampler::new(args.verify.sample, args.load.common.seed, thread);
    let threads = run.load.threads;
    if args.http2 {
        let Script { specs, order } = Script::new(&recording.requests, |recorded| {
            let (target, expectation) = (server.with_path(&recorded.target)?, expectation(recorded));
            let message = target.http2_message(&parts(recorded, &headers(args, recorded)))?;
            Ok(Http2Spec { message, expectation })
        })?;
        let streams = run.load.pipeline;
        let make_client = |thread| {
            let client = Http2Client::new(&specs, verify, 0, streams).with_sampler(sampler(thread));
            client.with_order(Arc::clone(&order), thread, threads)
        };
        let ceiling = run.unknown_ceiling("no null server speaks HTTP/2");
        return run.carry_out(make_client, compare_bodies, describe, ceiling, &interrupt);
    }
    let Script { specs, order } = Script::new(&recording.requests, |recorded| {
        let (target, expectation) = (server.with_path(&recorded.target)?, expectation(recorded));
        let request = target.request(&parts(recorded, &headers(args, recorded)))?;
        Ok(RequestSpec { request, expectation })
    })?;
    let make_client = |thread| {
        let client = HttpClient::new(&specs, verify, 0).with_sampler(sampler(thread));
        client.with_order(Arc::clone(&order), thread, threads)
    };
    let reply = HttpReply::new(SELF_CHECK_BODY_BYTES);
    let ceiling = run.ceiling::<_, HttpResponder>(reply, self_check_client, &interrupt)?;
    run.carry_out(make_client, compare_bodies, describe, ceiling, &interrupt)
}

fn check_usage(args: &ReplayArgs) -> Result<(), Failure> {
    let common = &args.load.common;
    let is_paced = common.is_open() || common.duration.is_some() || args.load.max_warmup.is_some();
    if is_paced || common.warmup.is_some() || !common.ramp.is_zero() {
        return Err(Failure::usage(
            "the recording sets the pace, from its first request on: neither --rate, --duration, --warmup nor --ramp",
        ));
    }
    if args.http2 && args.load.to_load().pipeline != 1 {
        return Err(Failure::usage("--pipeline is for HTTP/1.1: with --http2, requests in flight are --streams N"));
    }
    if args.pause_max.is_some() && args.speed == Speed::Max {
        return Err(Failure::usage("--speed max does not look at the times: --pause-max does not go with it"));
    }
    Ok(())
}

/// Reads the recording, and says what it has.
fn read(args: &ReplayArgs) -> Result<Recording, Failure> {
    let shown = args.recording.display();
    let bytes = std::fs::read(&args.recording).with_context(|| format!("cannot read {shown}"))?;
    let parsed = Recording::parse(&String::from_utf8_lossy(&bytes));
    let mut recording = parsed.map_err(|error| Failure::usage(format_args!("{shown}: {error}")))?;
    for (why, count) in &recording.skipped {
        eprint_line(&format!("{} {why}: not replayed", units::plural(*count, "request")));
    }
    let most = args.load.common.requests.and_then(|most| usize::try_from(most).ok());
    recording.requests.truncate(most.unwrap_or(usize::MAX));
    Ok(recording)
}

fn load(args: &ReplayArgs, recording: &Recording) -> Load {
    let load = args.load.to_load();
    let count = recording.requests.len();
    let limit = Limit::Requests(count as u64);
    // More threads than requests would have nothing to do.
    let threads = load.threads.min(count);
    let pipeline = args.streams.unwrap_or(load.pipeline);
    // A warm-up would use up the first requests.
    let load = Load { warmup: Duration::ZERO, limit, threads, pipeline, ..load };
    let Speed::Times(factor) = args.speed else { return load };
    let times = recording.times(factor, args.pause_max);
    let pacing = Pacing::Open { rate: mean_rate(&times), arrivals: Arrivals::Constant };
    Load { pacing, timetable: Some(Arc::new(Timetable::Recorded(times))), ..load }
}

/// Returns the mean rate of a recording: all requests but the first in the time from the first.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn mean_rate(times: &[Nanos]) -> f64 {
    let seconds = recording::seconds(times);
    if seconds > 0.0 { (times.len() - 1) as f64 / seconds } else { times.len() as f64 }
}

fn description(args: &ReplayArgs, recording: &Recording, load: &Load) -> RunDescription {
    let mut config = args.load.config(load);
    let is_open = load.pacing != Pacing::Closed;
    config.extend(settings([
        ("arrivals", json!(is_open.then_some("recorded"))),
        ("headers", json!(args.headers)),
        ("http2", json!(args.http2.then_some(true))),
        ("keep_alive", json!(true)),
        ("mode", json!(if is_open { "open" } else { "closed" })),
        ("pause_max_s", json!(args.pause_max.map(|most| most.as_secs_f64()))),
        ("recording", json!(args.recording)),
        ("skipped_requests", json!(recording.skipped.values().sum::<u64>())),
        (
            "speed",
            match args.speed {
                Speed::Times(factor) => json!(factor),
                Speed::Max => json!(MAX),
            },
        ),
        ("streams", json!(args.http2.then_some(load.pipeline))),
        ("verify", json!(args.verify.name(HttpVerify::Content))),
    ]));
    RunDescription {
        kind: ProtocolKind::Http,
        target: args.url.clone(),
        config,
        pacing: load.pacing,
        replies: ReplyKinds::One,
    }
}

/// Different requests, and the order in which they are sent.
struct Script<S> {
    specs: Vec<S>,
    order: Arc<[u32]>,
}

impl<S> Script<S> {
    /// Makes a script of requests, each of which `spec` makes what is sent.
    fn new(
        requests: &[RecordedRequest],
        spec: impl Fn(&RecordedRequest) -> Result<S, TargetError>,
    ) -> Result<Self, Failure> {
        let mut known: HashMap<RecordedRequest, u32> = HashMap::new();
        let (mut specs, mut order) = (Vec::new(), Vec::with_capacity(requests.len()));
        for request in requests {
            let key = request.without_time();
            if let Some(&index) = known.get(&key) {
                order.push(index);
                continue;
            }
            let index = u32::try_from(specs.len()).map_err(|_| Failure::usage("the recording is too long"))?;
            specs.push(spec(request).map_err(Failure::usage)?);
            known.insert(key, index);
            order.push(index);
        }
        Ok(Self { specs, order: order.into() })
    }
}

fn headers(args: &ReplayArgs, recorded: &RecordedRequest) -> Vec<String> {
    recorded.headers.iter().chain(&args.headers).cloned().collect()
}

fn parts<'a>(recorded: &'a RecordedRequest, headers: &'a [String]) -> RequestParts<'a> {
    RequestParts { method: &recorded.method, headers, body: recorded.body.as_deref() }
}

fn expectation(recorded: &RecordedRequest) -> Expectation {
    recorded.status.map_or(Expectation::Nothing, Expectation::Status)
}
