//! `loadgen file`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::Context as _;
use clap::{ArgGroup, Args, ValueEnum};
use layouts::{Layout as _, LayoutKind};
use loadgen::{
    engine::{Limit, Load, Pause, Requestor, Reuse},
    file::{Catalogue, FileClient, FilePlan, FileProtocol, FileScan, FileVerify, Framed, KeyDistribution, Original},
    null::{FileReply, FileResponder},
    result::ProtocolKind,
    summary::{ReplyKinds, RunDescription},
};
use serde_json::{Value, json};
use wire::file::FileId;

use super::{
    ExitOutcome, Failure,
    ceiling::Ceiling,
    distribution::{DistributionArg, ratio},
    eprint_line,
    progress::ReadingBar,
    socket_load::SocketLoadArgs,
    socket_run::{SocketRun, interrupt_flag, parse_endpoint},
    values::{count, milliseconds, number, settings, value_name},
    verify::{VerifyArg, verify_parser},
};

const REQUESTORS_MAX: usize = 1_000_000;
/// Length of documents beyond which too few fit the time of a self-check: of 1 MiB a thread hashes some dozens in it.
const SELF_CHECK_BYTES_MAX: usize = 1 << 20;
const DEFAULT_REQUESTORS: usize = 10;
const DEFAULT_REPS: u64 = 30;
const DEFAULT_SLEEP_AVG: Duration = Duration::from_millis(100);
const DEFAULT_SLEEP_STDDEV: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "Examples:
  loadgen file -c 8 -d 5s 127.0.0.1:8080 ~/Zotero/storage
  loadgen file --requestors 10 --reps 30 --sleep-avg 100 --sleep-stddev 50 127.0.0.1:8080 ~/Zotero/storage
  loadgen file --protocol framed --layout flat -c 16 -P 16 --id-dist zipf:1.1 127.0.0.1:8080 ./documents
  loadgen file --verify sample=1/100 -c 8 -d 5s 127.0.0.1:8080 ~/Zotero/storage
  loadgen file --protocol framed --layout tree --miss-ratio 0.1 -R 20000 --server-pid 4711 127.0.0.1:8080 ./public

The directory must hold the same documents as the server's: they are hashed beforehand, and every reply as it arrives.
With --protocol original every request has a connection of its own, and its latency counts from the attempt to connect.

--requestors, --reps, --sleep-avg and --sleep-stddev make the load of the original client, with its defaults for those
that are not given: each requestor sends --reps requests and sleeps after each for a normally distributed time.

Exit status: 0 every request succeeded and was verified; 3 some failed; 4 --fail-if; 130 interrupted; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, override_usage = "loadgen file [OPTIONS] TARGET CONTENT")]
#[command(group = ArgGroup::new("documents").required(true).args(["content", "content_option"]))]
#[command(group = ArgGroup::new("requestor_options").multiple(true).args(["requestors", "reps", "sleep_avg", "sleep_stddev"])
    .conflicts_with_all(["connections", "duration", "requests", "warmup", "max_warmup", "ramp", "rate", "rate_file", "rate_sweep", "pipeline"]))]
pub(super) struct FileArgs {
    /// HOST:PORT or unix:/SOCKET
    #[arg(value_name = "TARGET")]
    target: String,
    /// Directory of the same documents as the server's
    #[arg(value_name = "CONTENT")]
    content: Option<PathBuf>,
    /// CONTENT as an option
    #[arg(long = "content", value_name = "DIR")]
    content_option: Option<PathBuf>,
    #[command(flatten)]
    pub(super) load: SocketLoadArgs,
    /// Protocol of the server
    #[arg(long, value_enum, default_value = "original")]
    protocol: ProtocolArg,
    /// Layout of the directory
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    layout: LayoutKind,
    /// Distribution of the documents: uniform, zipf:EXPONENT, hot:DOCUMENTS:REQUESTS (as in hot:0.1:0.9), sequential
    /// or replay:FILE (a name on each line, in the order of the requests)
    #[arg(long, value_name = "DISTRIBUTION", default_value = "uniform")]
    id_dist: DistributionArg,
    /// Share of the requests that ask for a document that does not exist
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = ratio)]
    miss_ratio: f64,
    /// How much of each reply is checked
    #[arg(long, default_value = "sha256", value_parser = verify_parser::<FileVerify>("sha256"))]
    verify: VerifyArg<FileVerify>,
    /// Clients that sleep between their requests, as those of the original do [default: 10]
    #[arg(long, value_name = "N", value_parser = count::<REQUESTORS_MAX>)]
    requestors: Option<usize>,
    /// Requests of each requestor [default: 30]
    #[arg(long, value_name = "N", value_parser = |text: &str| number(text, 1, 1_000_000_000_u64))]
    reps: Option<u64>,
    /// Mean time that a requestor sleeps after each request; a number alone is milliseconds [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    sleep_avg: Option<Duration>,
    /// Standard deviation of that time [default: 50ms]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    sleep_stddev: Option<Duration>,
}

/// Protocol of a fileserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProtocolArg {
    /// Eight characters, the bytes of the document, and the end of the connection
    Original,
    /// Lengths and statuses, on connections that are kept
    Framed,
}

pub(super) fn run(args: &FileArgs) -> Result<ExitOutcome, Failure> {
    let endpoint = parse_endpoint(&args.target)?;
    if args.protocol == ProtocolArg::Original && args.load.pipeline != 1 {
        return Err(Failure::usage("--pipeline needs --protocol framed: the original has one request per connection"));
    }
    let describe = |load: &Load| description(args, args.load.config(load), load);
    let load = args.load.common.with_rate_file(load(args))?;
    let run = SocketRun::prepare(&args.load, endpoint, load, describe)?;
    let plan = plan(args, catalogue(args)?, &args.id_dist.distribution, args.miss_ratio, run.load.seed)?;
    let plan = Arc::new(plan);
    match args.protocol {
        ProtocolArg::Original => measure::<Original>(args, &run, &plan),
        ProtocolArg::Framed => measure::<Framed>(args, &run, &plan),
    }
}

fn measure<S: FileProtocol>(
    args: &FileArgs,
    run: &SocketRun<'_>,
    plan: &Arc<FilePlan>,
) -> Result<ExitOutcome, Failure> {
    // Not before: hashing the documents can be ended at once.
    let interrupt = interrupt_flag()?;
    let threads = run.load.threads;
    let make_client = |thread| FileClient::<S>::new(Arc::clone(plan), thread, threads);
    let describe = |load: &Load| description(args, config(args, load, plan.catalogue()), load);
    let ceiling = self_check::<S>(args, plan.catalogue(), run, &interrupt)?;
    run.carry_out(make_client, |_| {}, describe, ceiling, &interrupt)
}

/// Makes the plan of a run or of its self-check, which check replies alike.
fn plan(
    args: &FileArgs,
    catalogue: Catalogue,
    order: &KeyDistribution,
    miss_ratio: f64,
    seed: u64,
) -> Result<FilePlan, Failure> {
    let plan = FilePlan::new(catalogue, order, miss_ratio, level(args), seed);
    Ok(plan.map_err(Failure::usage)?.with_sample(args.verify.sample))
}

fn level(args: &FileArgs) -> FileVerify {
    args.verify.level(FileVerify::Sha256)
}

/// Measures the generator's ceiling with documents of the mean length.
fn self_check<S: FileProtocol>(
    args: &FileArgs,
    catalogue: &Catalogue,
    run: &SocketRun<'_>,
    interrupt: &AtomicBool,
) -> Result<Ceiling, Failure> {
    let length = catalogue.bytes().div_ceil(u64::from(catalogue.len()).max(1)).max(1);
    let Ok(bytes @ ..=SELF_CHECK_BYTES_MAX) = usize::try_from(length) else {
        return Ok(Ceiling::Unknown("such long documents take longer than the self-check does"));
    };
    let plan = plan(args, Catalogue::with_one(length), &KeyDistribution::Uniform, 0.0, run.load.seed)?;
    let (plan, threads) = (Arc::new(plan), run.load.threads);
    let make_client = |thread| FileClient::<S>::new(Arc::clone(&plan), thread, threads);
    run.ceiling::<_, FileResponder>(FileReply::new(bytes), make_client, interrupt)
}

fn description(args: &FileArgs, mut config: BTreeMap<String, Value>, load: &Load) -> RunDescription {
    config.insert("verify".to_owned(), json!(args.verify.name(FileVerify::Sha256)));
    let (kind, target) = (ProtocolKind::File, args.target.clone());
    RunDescription { kind, target, config, pacing: load.pacing, replies: ReplyKinds::HitsMisses }
}

fn config(args: &FileArgs, load: &Load, catalogue: &Catalogue) -> BTreeMap<String, Value> {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let mut config = args.load.config(load);
    config.extend(settings([
        ("content", json!(directory(args))),
        ("document_bytes", json!(catalogue.bytes())),
        ("documents", json!(catalogue.len())),
        ("id_dist", json!(args.id_dist.to_string())),
        ("layout", json!(args.layout.to_string())),
        ("miss_ratio", json!(args.miss_ratio)),
        ("protocol", json!(value_name(args.protocol))),
        ("reps", json!(load.requestor.map(|requestor| requestor.reps))),
        ("requestors", json!(load.requestor.map(|_| load.connections))),
        ("sleep_avg_ms", json!(load.requestor.map(|requestor| ms(requestor.pause.mean)))),
        ("sleep_stddev_ms", json!(load.requestor.map(|requestor| ms(requestor.pause.stddev)))),
    ]));
    config
}

fn load(args: &FileArgs) -> Load {
    let mut load = args.load.to_load();
    if args.protocol == ProtocolArg::Original {
        load.reuse = Reuse::Once;
    }
    if args.requestors.is_some() || args.reps.is_some() || args.sleep_avg.is_some() || args.sleep_stddev.is_some() {
        let requestors = args.requestors.unwrap_or(DEFAULT_REQUESTORS);
        let pause = Pause {
            mean: args.sleep_avg.unwrap_or(DEFAULT_SLEEP_AVG),
            stddev: args.sleep_stddev.unwrap_or(DEFAULT_SLEEP_STDDEV),
        };
        let requestor = Requestor { reps: args.reps.unwrap_or(DEFAULT_REPS), pause };
        load.connections = requestors;
        load.threads = load.threads.min(requestors);
        load.limit = Limit::Requests(requestor.reps.saturating_mul(requestors as u64));
        load.requestor = Some(requestor);
        (load.warmup, load.warmup_max) = (Duration::ZERO, None);
    }
    load
}

fn directory(args: &FileArgs) -> &Path {
    // The parser lets nothing pass without one of them.
    args.content.as_deref().or(args.content_option.as_deref()).unwrap_or_else(|| Path::new("."))
}

/// Reads all that is to be known of the documents before the first request.
fn catalogue(args: &FileArgs) -> Result<Catalogue, Failure> {
    let directory = directory(args);
    let problem = || format!("cannot use {} as a {} directory", directory.display(), args.layout);
    let mut files = args.layout.open(directory).and_then(|layout| layout.list(directory)).with_context(problem)?;
    if args.protocol == ProtocolArg::Original {
        leave_out_other_ids(&mut files);
    }
    let knowledge = if level(args) == FileVerify::Sha256 { FileScan::LengthAndDigest } else { FileScan::Length };
    let bytes = files.iter().filter_map(|(_, path)| path.metadata().ok()).map(|metadata| metadata.len()).sum();
    let reading = ReadingBar::new(bytes, "hashing the documents");
    Ok(Catalogue::read(&files, knowledge, |bytes| reading.advance(bytes)).with_context(problem)?)
}

/// Leaves out documents whose ids the original protocol cannot ask for, and says so.
fn leave_out_other_ids(files: &mut Vec<(FileId, PathBuf)>) {
    let all = files.len();
    let odd = files.iter().map(|(id, _)| id).find(|id| !id.is_original()).cloned();
    files.retain(|(id, _)| id.is_original());
    if let Some(odd) = odd {
        eprint_line(&format!(
            "{} of {all} documents are left out: the original protocol cannot ask for ids like `{odd}`",
            all - files.len()
        ));
    }
}
