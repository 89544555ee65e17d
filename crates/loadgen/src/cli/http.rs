//! `loadgen http`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use loadgen::engine::{self, Arrivals, Endpoint, Limit, Load, Measured, Pacing, Reuse};
use loadgen::error::ErrorClass;
use loadgen::http::{Expectation, HttpClient, Question, REFERENCE_BYTES_MAX, Target, TargetError, Verify};
use loadgen::output;
use loadgen::result::RunResult;
use loadgen::summary::{self, Subject};
use loadgen::usage::ServerProbe;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::affinity::Cpus;

use super::progress::Progress;
use super::values::{Digest, count, duration, positive_duration, rate};
use super::{Failure, Outcome, complain, print};

const CONNECTIONS_MAX: usize = 1_000_000;
const THREADS_MAX: usize = 1024;
const PIPELINE_MAX: usize = 65_536;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
const DEFAULT_WARMUP: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "Examples:
  loadgen http -c 64 -d 5s http://127.0.0.1:8080/index.html
  loadgen http -c 64 -P 16 -n 1000000 http://127.0.0.1:8080/a http://127.0.0.1:8080/b
  loadgen http -R 20000 --arrivals poisson -d 30s --server-pid 4711 http://127.0.0.1:8080/
  loadgen http --unix /run/server.sock --verify sha256 --content-dir ./public /index.html
  loadgen http --format json --out results/run-1 -d 10s unix:/run/server.sock:/index.html

Exit status: 0 every request succeeded and was verified; 3 some failed; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct HttpArgs {
    /// http://HOST:PORT/PATH, unix:/SOCKET or unix:/SOCKET:/PATH (with --unix also /PATH); several are asked in turn
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    /// Connect to this unix socket instead of the URL's host
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Connections, all kept open
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = count::<CONNECTIONS_MAX>)]
    connections: usize,
    /// Generator threads [default: one per CPU of --pin, or half the cores]
    #[arg(short, long, value_name = "N", value_parser = count::<THREADS_MAX>)]
    threads: Option<usize>,
    /// Measure for this long [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = positive_duration, conflicts_with = "requests")]
    duration: Option<Duration>,
    /// Measure this many requests instead
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Run this long before measuring [default: 1s, with --requests none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    warmup: Option<Duration>,
    /// Open loop: this many requests per second, whatever the server does, and latency from the scheduled time
    #[arg(short = 'R', long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Gaps of the open loop
    #[arg(long, value_enum, default_value = "constant", requires = "rate")]
    arrivals: ArrivalsArg,
    /// Requests in flight on each connection
    #[arg(short = 'P', long, value_name = "N", default_value = "1", value_parser = count::<PIPELINE_MAX>)]
    pipeline: usize,
    /// Pin the threads to these CPUs, round robin: 0 or 0,2-3
    #[arg(long, value_name = "CPUS")]
    pin: Option<Cpus>,
    /// Limit for connecting, and for each request until the last byte of its reply
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = positive_duration)]
    timeout: Duration,
    /// How much of each reply is checked
    #[arg(long, value_enum, default_value = "content")]
    verify: VerifyArg,
    /// With --verify sha256: the body's digest, one per URL in their order
    #[arg(long, value_name = "HEX", conflicts_with = "content_dir")]
    expect_sha256: Vec<Digest>,
    /// With --verify sha256: the bodies are the files of this directory, found by the URL's path
    #[arg(long, value_name = "DIR")]
    content_dir: Option<PathBuf>,
    /// Add a request header, 'Name: value'; repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Also write result.json and latency.hlog (HdrHistogram log) into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Report CPU time and memory of this process
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Seed of the Poisson schedule
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum ArrivalsArg {
    /// All equal
    Constant,
    /// Random, as of many independent users
    Poisson,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum VerifyArg {
    /// Only that it is HTTP
    None,
    /// The status is 2xx
    Status,
    /// … and the body is as long as that of the first good reply
    Length,
    /// … and the body equals that of the first good reply
    Content,
    /// … and the body is the one given by --expect-sha256 or --content-dir
    Sha256,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Text,
    Json,
    Csv,
}

pub(super) fn run(args: &HttpArgs) -> Result<Outcome, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let parse = |url: &String| Target::parse(url, args.unix.as_deref());
    let targets = args.urls.iter().map(parse).collect::<Result<Vec<_>, _>>().map_err(|error| usage(&error))?;
    let endpoint = Target::endpoint(&targets).map_err(|error| {
        if matches!(error, TargetError::Unresolved { .. }) { Failure::from(error) } else { usage(&error) }
    })?;
    let questions = questions(args, &targets)?;
    let load = load(args);
    let server = args.server_pid.map(ServerProbe::open).transpose().context("--server-pid")?;
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends the program at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .context("cannot handle signals")?;
    }
    endpoint.probe(load.timeout).with_context(|| format!("cannot connect to {endpoint}"))?;

    let mut progress = Progress::new(load.limit, load.warmup);
    let make_client = |thread| HttpClient::new(&questions, args.verify.into(), thread);
    let measured =
        engine::run(&endpoint, &load, make_client, server.as_ref(), &interrupt, |live| progress.update(live));
    progress.finish();
    let mut measured = measured.context("the run failed")?;
    compare_threads(&mut measured);

    let subject = Subject {
        kind: "http".to_owned(),
        target: args.urls.join(" "),
        config: config(args, &load),
        pacing: load.pacing,
    };
    let result = summary::summarize(subject, &measured, server.as_ref());
    report(args, &result, &measured, &endpoint)
}

/// Each thread checks its replies against its own reference; these must be the same.
fn compare_threads(measured: &mut Measured<HttpClient>) {
    let Some((first, others)) = measured.protocols.split_first() else { return };
    for _ in 0..others.iter().map(|other| first.disagreements(other)).sum() {
        measured.tally.fail(ErrorClass::Content, 1);
    }
}

fn report(
    args: &HttpArgs,
    result: &RunResult,
    measured: &Measured<HttpClient>,
    endpoint: &Endpoint,
) -> Result<Outcome, Failure> {
    if let Some(directory) = &args.out {
        summary::store(directory, result, measured)
            .with_context(|| format!("cannot write the result into {}", directory.display()))?;
    }
    if result.requests == 0 {
        let why = if measured.was_interrupted { "interrupted before any reply" } else { "no request ended in time" };
        return Err(Failure::Other(anyhow!("nothing was measured at {endpoint}: {why}")));
    }
    print(&match args.format {
        Format::Text => output::text(result),
        Format::Json => output::json(result).context("cannot write JSON")? + "\n",
        Format::Csv => output::csv(result),
    })?;
    if measured.was_interrupted {
        complain("interrupted: this is what was measured until then");
    }
    if measured.was_abandoned {
        complain("given up early: the server has not answered for long");
    }
    if args.server_pid.is_some() && result.server.is_none() {
        complain("the process of --server-pid ended during the run");
    }
    if result.errors.is_empty() {
        return Ok(Outcome::Success);
    }
    let classes: Vec<_> = result.errors.iter().map(|(class, count)| format!("{class} {count}")).collect();
    complain(&format!(
        "{} of {} requests failed: {}",
        result.requests - result.ok,
        result.requests,
        classes.join(", ")
    ));
    Ok(Outcome::FailedRequests)
}

fn load(args: &HttpArgs) -> Load {
    let pin = args.pin.clone().unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let default_threads = match pin.iter().len() {
        0 => (cores / 2).max(1),
        pinned => pinned,
    };
    let (limit, default_warmup) = match args.requests {
        Some(requests) => (Limit::Requests(requests), Duration::ZERO),
        None => (Limit::Duration(args.duration.unwrap_or(DEFAULT_DURATION)), DEFAULT_WARMUP),
    };
    let arrivals = match args.arrivals {
        ArrivalsArg::Constant => Arrivals::Constant,
        ArrivalsArg::Poisson => Arrivals::Poisson,
    };
    Load {
        connections: args.connections,
        threads: args.threads.unwrap_or(default_threads).min(args.connections),
        pin,
        pipeline: args.pipeline,
        batch: 1,
        reuse: Reuse::Keep,
        pacing: args.rate.map_or(Pacing::Closed, |rate| Pacing::Open { rate, arrivals }),
        limit,
        warmup: args.warmup.unwrap_or(default_warmup),
        timeout: args.timeout,
        seed: args.seed,
    }
}

fn questions(args: &HttpArgs, targets: &[Target]) -> Result<Vec<Question>, Failure> {
    let is_given = args.content_dir.is_some() || !args.expect_sha256.is_empty();
    if is_given != (args.verify == VerifyArg::Sha256) {
        let problem = "--verify sha256 and one of --expect-sha256, --content-dir belong together";
        return Err(Failure::Usage(problem.to_owned()));
    }
    if args.verify == VerifyArg::Sha256 && args.content_dir.is_none() && args.expect_sha256.len() != targets.len() {
        return Err(Failure::Usage("--expect-sha256 is needed once per URL".to_owned()));
    }
    let question = |(index, target): (usize, &Target)| {
        let request = target.request(&args.headers).map_err(|error| Failure::Usage(error.to_string()))?;
        let expectation = match (&args.content_dir, args.expect_sha256.get(index)) {
            (Some(directory), _) => expected_file(directory, target)?,
            (None, Some(Digest(digest))) => Expectation::Digest(*digest),
            (None, None) => Expectation::Nothing,
        };
        Ok(Question { request, expectation })
    };
    targets.iter().enumerate().map(question).collect()
}

fn expected_file(directory: &Path, target: &Target) -> Result<Expectation, Failure> {
    let file = directory.join(target.file_path().trim_start_matches('/'));
    let why = || format!("--content-dir: cannot read {}", file.display());
    let body = std::fs::read(&file).with_context(why)?;
    if body.len() > REFERENCE_BYTES_MAX {
        let what = anyhow!("{} is longer than {REFERENCE_BYTES_MAX} bytes", file.display());
        return Err(Failure::Other(what.context("--content-dir")));
    }
    Ok(Expectation::Body(body.into()))
}

/// The options in force, as the result records them.
fn config(args: &HttpArgs, load: &Load) -> BTreeMap<String, Value> {
    let limit = match load.limit {
        Limit::Duration(duration) => ("duration_s", json!(duration.as_secs_f64())),
        Limit::Requests(requests) => ("requests", json!(requests)),
    };
    let pairs = [
        limit,
        ("arrivals", json!(args.rate.map(|_| value_name(args.arrivals)))),
        ("connections", json!(load.connections)),
        ("headers", json!(args.headers)),
        ("mode", json!(if args.rate.is_some() { "open" } else { "closed" })),
        ("pin", json!(load.pin.iter().collect::<Vec<_>>())),
        ("pipeline", json!(load.pipeline)),
        ("rate", json!(args.rate)),
        ("seed", json!(load.seed)),
        ("threads", json!(load.threads)),
        ("timeout_s", json!(load.timeout.as_secs_f64())),
        ("unix", json!(args.unix)),
        ("verify", json!(value_name(args.verify))),
        ("warmup_s", json!(load.warmup.as_secs_f64())),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl From<VerifyArg> for Verify {
    fn from(arg: VerifyArg) -> Self {
        match arg {
            VerifyArg::None => Self::None,
            VerifyArg::Status => Self::Status,
            VerifyArg::Length => Self::Length,
            VerifyArg::Content => Self::Content,
            VerifyArg::Sha256 => Self::Sha256,
        }
    }
}
