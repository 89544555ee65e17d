//! `loadgen file`.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::Context as _;
use clap::{ArgGroup, Args, ValueEnum};
use layouts::{Layout as _, LayoutKind};
use loadgen::{
    engine::{Endpoint, EndpointError, Limit, Load, Measured, Pause, Reuse, Turns},
    file::{Catalogue, FileClient, Framed, KeyDistribution, Knowledge, Original, Plan, Speech, Verify},
    null::{FileDialogue, FileReply},
    summary::{Kinds, Subject},
    usage::ServerProbe,
};
use serde_json::json;
use wire::file::FileId;

use super::{
    Failure, Outcome,
    campaign::{self, Campaign, Ceiling},
    complain,
    draw::{DistributionArg, ratio},
    drive::{DriveArgs, interrupt_flag, named, value_name},
    progress::Reading,
    values::{count, milliseconds},
    verify::{Checks, checks, levels},
};

const REQUESTORS_MAX: usize = 1_000_000;
/// Of 1 MiB a generator thread hashes some dozens in the time of a self-check.
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
that are not given: each requestor asks so many times and sleeps after each, for a normally distributed time.

Exit status: 0 every request succeeded and was verified; 3 some failed; 130 interrupted; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, override_usage = "loadgen file [OPTIONS] TARGET CONTENT")]
#[command(group = ArgGroup::new("documents").required(true).args(["content", "content_option"]))]
#[command(group = ArgGroup::new("persons").multiple(true).args(["requestors", "reps", "sleep_avg", "sleep_stddev"])
    .conflicts_with_all(["connections", "duration", "requests", "warmup", "max_warmup", "ramp", "rate", "rate_sweep", "pipeline"]))]
pub(super) struct FileArgs {
    /// HOST:PORT or unix:/SOCKET
    #[arg(value_name = "TARGET")]
    target: String,
    /// A directory with the documents that the server should have
    #[arg(value_name = "CONTENT")]
    content: Option<PathBuf>,
    /// The same, as an option
    #[arg(long = "content", value_name = "DIR")]
    content_option: Option<PathBuf>,
    #[command(flatten)]
    drive: DriveArgs,
    /// How to speak
    #[arg(long, value_enum, default_value = "original")]
    protocol: ProtocolArg,
    /// How the directory is organised
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    layout: LayoutKind,
    /// How often each document is asked for: uniform, zipf:EXPONENT, hot:DOCUMENTS:REQUESTS (as in hot:0.1:0.9), sequential
    /// or replay:FILE (a name on each line, in the order in which somebody asked for them)
    #[arg(long, value_name = "LAW", default_value = "uniform")]
    id_dist: DistributionArg,
    /// Share of the requests for a document that there is not
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = ratio)]
    miss_ratio: f64,
    /// How much of each reply is checked
    #[arg(long, default_value = "sha256", value_parser = checks::<VerifyArg>("sha256"))]
    verify: Checks<VerifyArg>,
    /// As the original client: this many requestors [default: 10]
    #[arg(long, value_name = "N", value_parser = count::<REQUESTORS_MAX>)]
    requestors: Option<usize>,
    /// Requests of each requestor [default: 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    reps: Option<u64>,
    /// Mean time that a requestor sleeps after each request, in milliseconds [default: 100]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    sleep_avg: Option<Duration>,
    /// Standard deviation of that time, in milliseconds [default: 50]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    sleep_stddev: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum ProtocolArg {
    /// Eight characters, the bytes of the document, and the end of the connection
    Original,
    /// Lengths and statuses, on connections that are kept
    Framed,
}

levels! {
    pub(super) enum VerifyArg: Verify {
        /// Only that it is a reply, and not that the server failed or refused
        None,
        /// The document was found, if there is one
        Status,
        /// … and is as long as it should be
        Length,
        /// … and has the digest of the file in the directory
        Sha256,
    }
}

pub(super) fn run(args: &FileArgs) -> Result<Outcome, Failure> {
    let endpoint = Endpoint::parse(&args.target).map_err(|error| match error {
        EndpointError::Malformed(_) => Failure::Usage(error.to_string()),
        EndpointError::Unresolved { .. } => Failure::from(error),
    })?;
    if args.protocol == ProtocolArg::Original && args.drive.pipeline != 1 {
        return Err(Failure::Usage(
            "--pipeline needs --protocol framed: the original has one request per connection".to_owned(),
        ));
    }
    args.drive.check()?;
    args.drive.refuse_used_out()?;
    let run = Run { args, load: load(args), server: args.drive.server()?, endpoint };
    campaign::probe(&args.drive, subject(args, args.drive.config(&run.load), &run.load), &run.endpoint, &run.load)?;
    let plan = plan(args, catalogue(args)?, &args.id_dist.law, args.miss_ratio, run.load.seed)?;
    let (plan, interrupt) = (Arc::new(plan), interrupt_flag()?);
    match args.protocol {
        ProtocolArg::Original => run.measure::<Original>(&plan, &interrupt),
        ProtocolArg::Framed => run.measure::<Framed>(&plan, &interrupt),
    }
}

/// A run that nothing stands in the way of.
struct Run<'a> {
    args: &'a FileArgs,
    load: Load,
    server: Option<ServerProbe>,
    endpoint: Endpoint,
}

impl Run<'_> {
    fn measure<S: Speech>(self, plan: &Arc<Plan>, interrupt: &AtomicBool) -> Result<Outcome, Failure> {
        let Self { args, load, server, endpoint } = self;
        let threads = load.threads;
        let make_client = |thread| FileClient::<S>::new(Arc::clone(plan), thread, threads);
        let subject = |load: &Load| subject(args, config(args, load, plan.catalogue()), load);
        let campaign = Campaign { args: &args.drive, endpoint: &endpoint, load: &load, server, interrupt };
        let ceiling = self_check::<S>(args, plan.catalogue(), &campaign)?;
        campaign.carry_out(make_client, explain, subject, ceiling)
    }
}

/// Replies are checked alike in the run and in its self-check.
fn plan(
    args: &FileArgs,
    catalogue: Catalogue,
    order: &KeyDistribution,
    miss_ratio: f64,
    seed: u64,
) -> Result<Plan, Failure> {
    let plan = Plan::new(catalogue, order, miss_ratio, level(args).into(), seed);
    Ok(plan.map_err(|error| Failure::Usage(error.to_string()))?.sampling(args.verify.sample))
}

fn level(args: &FileArgs) -> VerifyArg {
    args.verify.level(VerifyArg::Sha256)
}

/// What the generator could do at most with documents of the mean length.
fn self_check<S: Speech>(args: &FileArgs, catalogue: &Catalogue, campaign: &Campaign<'_>) -> Result<Ceiling, Failure> {
    let length = catalogue.bytes().div_ceil(u64::from(catalogue.len()).max(1)).max(1);
    let Ok(bytes @ ..=SELF_CHECK_BYTES_MAX) = usize::try_from(length) else {
        return Ok(Ceiling::Unknown("such long documents take longer than the self-check does"));
    };
    let load = campaign.load;
    let plan = plan(args, Catalogue::of_one(length), &KeyDistribution::Uniform, 0.0, load.seed)?;
    let (plan, threads) = (Arc::new(plan), load.threads);
    let make_client = |thread| FileClient::<S>::new(Arc::clone(&plan), thread, threads);
    campaign.ceiling::<_, FileDialogue>(FileReply::new(bytes), make_client)
}

fn subject(args: &FileArgs, mut config: std::collections::BTreeMap<String, serde_json::Value>, load: &Load) -> Subject {
    config.insert("verify".to_owned(), json!(args.verify.name(VerifyArg::Sha256)));
    let (kind, target) = ("file".to_owned(), args.target.clone());
    Subject { kind, target, config, pacing: load.pacing, kinds: Kinds::HitsMisses }
}

fn config(
    args: &FileArgs,
    load: &Load,
    catalogue: &Catalogue,
) -> std::collections::BTreeMap<String, serde_json::Value> {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let mut config = args.drive.config(load);
    config.extend(named([
        ("content", json!(directory(args))),
        ("document_bytes", json!(catalogue.bytes())),
        ("documents", json!(catalogue.len())),
        ("id_dist", json!(args.id_dist.to_string())),
        ("layout", json!(args.layout.to_string())),
        ("miss_ratio", json!(args.miss_ratio)),
        ("protocol", json!(value_name(args.protocol))),
        ("reps", json!(load.turns.map(|turns| turns.each))),
        ("requestors", json!(load.turns.map(|_| load.connections))),
        ("sleep_avg_ms", json!(load.turns.map(|turns| ms(turns.pause.mean)))),
        ("sleep_stddev_ms", json!(load.turns.map(|turns| ms(turns.pause.stddev)))),
    ]));
    config
}

fn load(args: &FileArgs) -> Load {
    let mut load = args.drive.load();
    if args.protocol == ProtocolArg::Original {
        load.reuse = Reuse::Once;
    }
    if args.requestors.is_some() || args.reps.is_some() || args.sleep_avg.is_some() || args.sleep_stddev.is_some() {
        let requestors = args.requestors.unwrap_or(DEFAULT_REQUESTORS);
        let pause = Pause {
            mean: args.sleep_avg.unwrap_or(DEFAULT_SLEEP_AVG),
            stddev: args.sleep_stddev.unwrap_or(DEFAULT_SLEEP_STDDEV),
        };
        let turns = Turns { each: args.reps.unwrap_or(DEFAULT_REPS), pause };
        load.connections = requestors;
        load.threads = load.threads.min(requestors);
        load.limit = Limit::Requests(turns.each.saturating_mul(requestors as u64));
        load.turns = Some(turns);
        (load.warmup, load.warmup_max) = (Duration::ZERO, None);
    }
    load
}

fn directory(args: &FileArgs) -> &Path {
    // Clap has seen to it that one of them is there.
    args.content.as_deref().or(args.content_option.as_deref()).unwrap_or_else(|| Path::new("."))
}

/// Everything there is to know of the documents before the first request.
fn catalogue(args: &FileArgs) -> Result<Catalogue, Failure> {
    let directory = directory(args);
    let problem = || format!("cannot use {} as a {} directory", directory.display(), args.layout);
    let mut files = args.layout.open(directory).and_then(|layout| layout.list(directory)).with_context(problem)?;
    if args.protocol == ProtocolArg::Original {
        leave_out_what_cannot_be_asked_for(&mut files);
    }
    let knowledge = if level(args) == VerifyArg::Sha256 { Knowledge::LengthAndDigest } else { Knowledge::Length };
    let bytes = files.iter().filter_map(|(_, path)| path.metadata().ok()).map(|metadata| metadata.len()).sum();
    let reading = Reading::new(bytes, "hashing the documents");
    Ok(Catalogue::read(&files, knowledge, |bytes| reading.advance(bytes)).with_context(problem)?)
}

fn leave_out_what_cannot_be_asked_for(files: &mut Vec<(FileId, PathBuf)>) {
    let all = files.len();
    let odd = files.iter().map(|(id, _)| id).find(|id| !id.is_original()).cloned();
    files.retain(|(id, _)| id.is_original());
    if let Some(odd) = odd {
        complain(&format!(
            "{} of {all} documents are left out: the original protocol cannot ask for ids like `{odd}`",
            all - files.len()
        ));
    }
}

/// What might help against errors.
fn explain<S>(measured: &mut Measured<FileClient<S>>) {
    let is_about_documents = |name| matches!(name, "miss" | "length" | "content" | "short_body");
    if measured.tally.errors().any(|(class, count)| count > 0 && is_about_documents(class.name())) {
        complain("hint: the directory and --layout must be those of the server");
    }
}
