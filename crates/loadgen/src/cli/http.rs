//! `loadgen http`.

mod paths;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use loadgen::{
    engine::{Load, Measured, Reuse},
    error::ErrorClass,
    http::{
        Expectation, Http2Client, Http2Spec, HttpClient, HttpVerify, REFERENCE_BYTES_MAX, RequestParts, RequestSpec,
        SeesBodies, Target, TargetError,
    },
    null::{HttpReply, HttpResponder},
    result::{BodySeen, ProtocolKind},
    sample::Sampler,
    summary::{ReplyKinds, RunDescription},
};
use serde_json::json;

use super::{
    ExitOutcome, Failure,
    socket_load::SocketLoadArgs,
    socket_run::{SocketRun, interrupt_flag},
    tls::TlsArgs,
    values::{Digest, count, settings},
    verify::{VerifyArg, verify_parser},
};

/// As many as a server can allow that keeps them in 16 bits.
pub(super) const STREAMS_MAX: usize = 65_535;
/// Length of the body with which the null server of a self-check answers.
pub(super) const SELF_CHECK_BODY_BYTES: usize = 128;

const EXAMPLES: &str = "Examples:
  loadgen http -c 64 -d 5s http://127.0.0.1:8080/index.html
  loadgen http -c 64 -P 16 -n 1000000 http://127.0.0.1:8080/a http://127.0.0.1:8080/b
  loadgen http -c 64 --paths paths.txt -H 'Accept-Encoding: br;q=1, gzip;q=0.8' http://127.0.0.1:8080/
  loadgen http -R 20000 --arrivals poisson -d 30s --server-pid 4711 http://127.0.0.1:8080/
  loadgen http -R 5000,10000,20000 -d 10s http://127.0.0.1:8080/
  loadgen http --rate-file day.txt --fail-if 'p99>5ms' --fail-if 'failed>0.1%' http://127.0.0.1:8080/
  loadgen http --rate-sweep 10%..100% -d 5s --out results/curve http://127.0.0.1:8080/
  loadgen http -c 1000 --ramp 5s --timeline --format json -d 30s http://127.0.0.1:8080/
  loadgen http --tls-ca ca.pem -c 64 -d 5s https://localhost:8443/
  loadgen http --http2 --streams 32 -c 64 -d 5s https://localhost:8443/ --insecure
  loadgen http --no-keep-alive --tls-resume off --insecure -c 64 -d 5s https://localhost:8443/
  loadgen http --engine uring --self-check -c 64 -d 5s http://127.0.0.1:8080/
  loadgen http --no-keep-alive -c 8 -d 5s http://127.0.0.1:8080/index.html
  loadgen http --body-file order.json -H 'Content-Type: application/json' --verify status http://127.0.0.1:8080/orders
  loadgen http --unix /run/server.sock --verify sha256 --content-dir ./public /index.html
  loadgen http --verify sample=1/1000 -c 64 -d 5s http://127.0.0.1:8080/large.bin
  loadgen http --format json --out results/run-1 -d 10s unix:/run/server.sock:/index.html

Exit status: 0 every request succeeded and was verified; 3 some failed; 4 --fail-if; 130 interrupted; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct HttpArgs {
    /// http://HOST:PORT/PATH (or HOST:PORT/PATH), https://HOST:PORT/PATH, unix:/SOCKET or unix:/SOCKET:/PATH (with --unix also /PATH); several are asked in turn
    #[arg(value_name = "URL", required_unless_present = "paths")]
    urls: Vec<String>,
    /// File of paths (of the one URL's server) or of URLs, one a line, asked in turn; - is standard input. Lines may begin
    /// with GET; empty ones and those that begin with # are skipped
    #[arg(long, value_name = "FILE")]
    paths: Option<PathBuf>,
    /// Connect to this unix socket instead of the URL's host
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    #[command(flatten)]
    pub(super) load: SocketLoadArgs,
    #[command(flatten)]
    tls: TlsArgs,
    /// Speak HTTP/2: by prior knowledge on http://, by ALPN on https://
    #[arg(long)]
    http2: bool,
    /// HTTP/2: streams in flight on each connection, as far as the server allows [default: 1]
    #[arg(long, value_name = "N", requires = "http2", value_parser = count::<STREAMS_MAX>)]
    streams: Option<usize>,
    /// Open a connection for each request and send `Connection: close`; latency counts from the attempt to connect
    #[arg(long)]
    no_keep_alive: bool,
    /// Method of every request [default: GET, with a body POST]
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// Body of every request
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// Body of every request: the bytes of this file
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// How much of each reply is checked
    #[arg(long, default_value = "content", value_parser = verify_parser::<HttpVerify>("sha256 with --expect-sha256 or --content-dir, otherwise content"))]
    verify: VerifyArg<HttpVerify>,
    /// Digest of the body for --verify sha256, all or sample=1/N, one per URL (or line of --paths) in their order
    #[arg(long, value_name = "HEX", conflicts_with = "content_dir")]
    expect_sha256: Vec<Digest>,
    /// Directory whose files the bodies are, by the URL's path, for --verify sha256, all or sample=1/N
    #[arg(long, value_name = "DIR")]
    content_dir: Option<PathBuf>,
    /// Add a request header, 'Name: value'; repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
}

pub(super) fn run(args: &HttpArgs) -> Result<ExitOutcome, Failure> {
    let parse = |url: &String| Target::parse(url, args.unix.as_deref());
    let named = args.urls.iter().map(parse).collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    let targets = match &args.paths {
        Some(file) => paths::read(file, &named, args.unix.as_deref())?,
        None => named,
    };
    let endpoint = Target::endpoint(&targets).map_err(|error| {
        if matches!(error, TargetError::Unresolved(_)) { Failure::from(error) } else { Failure::usage(error) }
    })?;
    let body = request_body(args)?;
    let load = Load { tls: args.tls.for_targets(&targets, args.http2)?, ..load(args)? };
    let load = args.load.common.with_rate_file(load)?;
    let messages = Messages::new(args, &targets, body.as_deref())?;
    let interrupt = interrupt_flag()?;
    let describe = |load: &Load| description(args, body.as_deref(), load);
    let run = SocketRun::prepare(&args.load, endpoint, load, describe)?;
    let verify = args.verify.level(deepest(args));
    let sampler = |thread| Sampler::new(args.verify.sample, args.load.common.seed, thread);
    match messages {
        Messages::Http1(specs) => {
            let make_client = |thread| HttpClient::new(&specs, verify, thread).with_sampler(sampler(thread));
            let reply = HttpReply::new(SELF_CHECK_BODY_BYTES);
            let ceiling = run.ceiling::<_, HttpResponder>(reply, self_check_client, &interrupt)?;
            run.carry_out(make_client, compare_bodies, describe, ceiling, &interrupt)
        }
        Messages::Http2(specs) => {
            let streams = run.load.pipeline;
            let make_client = |thread| Http2Client::new(&specs, verify, thread, streams).with_sampler(sampler(thread));
            let ceiling = run.unknown_ceiling("no null server speaks HTTP/2");
            run.carry_out(make_client, compare_bodies, describe, ceiling, &interrupt)
        }
    }
}

/// Makes the client that asks the null server of a self-check.
pub(super) fn self_check_client(thread: usize) -> HttpClient {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
    HttpClient::new(&[RequestSpec { request, expectation: Expectation::Nothing }], HttpVerify::Content, thread)
}

fn description(args: &HttpArgs, body: Option<&[u8]>, load: &Load) -> RunDescription {
    let mut config = args.load.config(load);
    config.extend(settings([
        ("body_bytes", json!(body.map(<[u8]>::len))),
        ("headers", json!(args.headers)),
        ("http2", json!(args.http2.then_some(true))),
        ("keep_alive", json!(!args.no_keep_alive)),
        ("method", json!(method(args, body))),
        ("paths", json!(args.paths)),
        ("streams", json!(args.http2.then_some(load.pipeline))),
        ("unix", json!(args.unix)),
        ("verify", json!(args.verify.name(deepest(args)))),
    ]));
    RunDescription {
        kind: ProtocolKind::Http,
        target: args.urls.join(" "),
        config,
        pacing: load.pacing,
        replies: ReplyKinds::One,
    }
}

fn load(args: &HttpArgs) -> Result<Load, Failure> {
    let load = args.load.to_load();
    if args.http2 {
        return http2_load(args, load);
    }
    if !args.no_keep_alive {
        return Ok(load);
    }
    if load.pipeline != 1 {
        let problem = "--no-keep-alive has one request per connection: --pipeline does not go with it";
        return Err(Failure::usage(problem));
    }
    Ok(Load { reuse: Reuse::Once, ..load })
}

fn http2_load(args: &HttpArgs, load: Load) -> Result<Load, Failure> {
    if load.pipeline != 1 {
        return Err(Failure::usage("--pipeline is for HTTP/1.1: with --http2, requests in flight are --streams N"));
    }
    if args.no_keep_alive {
        let problem = "--no-keep-alive is for HTTP/1.1: with --http2, connections are for many requests";
        return Err(Failure::usage(problem));
    }
    Ok(Load { pipeline: args.streams.unwrap_or(1), ..load })
}

/// Returns the headers of each request, the one that ends the connection included.
fn headers(args: &HttpArgs) -> Vec<String> {
    let close = args.no_keep_alive.then(|| "Connection: close".to_owned());
    args.headers.iter().cloned().chain(close).collect()
}

/// Takes note of the bodies, and compares those of the threads. Each thread checks its replies against its own, and these must be
/// the same.
pub(super) fn compare_bodies<P: SeesBodies>(measured: &mut Measured<P>) {
    measured.bodies = BodySeen::distinct(measured.protocols.iter().flat_map(P::bodies));
    let Some((first, others)) = measured.protocols.split_first() else { return };
    for _ in 0..others.iter().map(|other| first.disagreements(other)).sum() {
        measured.tally.fail(ErrorClass::Content, 1);
    }
}

fn request_body(args: &HttpArgs) -> Result<Option<Vec<u8>>, Failure> {
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("--body-file: {}", path.display()));
    Ok(match (&args.body, &args.body_file) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(path)) => Some(read(path)?),
        (None, None) => None,
    })
}

fn method<'a>(args: &'a HttpArgs, body: Option<&[u8]>) -> &'a str {
    args.method.as_deref().unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" })
}

/// Returns the deepest level that the command can check with what it was given.
fn deepest(args: &HttpArgs) -> HttpVerify {
    let is_given = args.content_dir.is_some() || !args.expect_sha256.is_empty();
    if is_given { HttpVerify::Sha256 } else { HttpVerify::Content }
}

/// Requests, each with what is expected of its reply.
enum Messages {
    Http1(Vec<RequestSpec>),
    Http2(Vec<Http2Spec>),
}

impl Messages {
    fn new(args: &HttpArgs, targets: &[Target], body: Option<&[u8]>) -> Result<Self, Failure> {
        let headers = headers(args);
        let message = RequestParts { method: method(args, body), headers: &headers, body };
        let expectations = expectations(args, targets)?.into_iter();
        let expected = targets.iter().zip(expectations);
        if args.http2 {
            let spec = |(target, expectation): (&Target, _)| {
                target.http2_message(&message).map(|message| Http2Spec { message, expectation })
            };
            return expected.map(spec).collect::<Result<_, _>>().map(Self::Http2).map_err(Failure::usage);
        }
        let spec = |(target, expectation): (&Target, _)| {
            target.request(&message).map(|request| RequestSpec { request, expectation })
        };
        expected.map(spec).collect::<Result<_, _>>().map(Self::Http1).map_err(Failure::usage)
    }
}

/// Returns what is expected of the reply to each target.
fn expectations(args: &HttpArgs, targets: &[Target]) -> Result<Vec<Expectation>, Failure> {
    let (level, deepest) = (args.verify.level(deepest(args)), deepest(args));
    if (level == HttpVerify::Sha256) != (deepest == HttpVerify::Sha256) {
        let problem = "--verify sha256 and one of --expect-sha256, --content-dir belong together";
        return Err(Failure::usage(problem));
    }
    if level == HttpVerify::Sha256 && args.content_dir.is_none() && args.expect_sha256.len() != targets.len() {
        return Err(Failure::usage("--expect-sha256 is needed once per URL or line of --paths"));
    }
    let expectation = |(index, target): (usize, &Target)| match (&args.content_dir, args.expect_sha256.get(index)) {
        (Some(directory), _) => expected_file(directory, target),
        (None, Some(Digest(digest))) => Ok(Expectation::Digest(*digest)),
        (None, None) => Ok(Expectation::Nothing),
    };
    targets.iter().enumerate().map(expectation).collect()
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
