//! `loadgen mq`.

use std::{
    collections::BTreeMap,
    fmt::Display,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::Context as _;
use clap::Args;
use loadgen::{
    body::{self, FileScan, FileVerify, PIECE_BYTES},
    engine::Load,
    mq::{ClientKind, MqLoad, ReplyForm, ReplySink, RequestedFile, Sharing},
    result::ProtocolKind,
    summary::{ReplyKinds, RunDescription},
};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::mqueue::QueueName;

use super::{
    ExitOutcome, Failure,
    ceiling::Ceiling,
    eprint_line,
    load::LoadArgs,
    progress::{Progress, ReadingBar},
    series::Series,
    socket_load::SelfCheck,
    turns::in_turns,
    values::{Digest, count, settings, value_name},
    verify::{VerifyArg, verify_parser},
};

const BUFFER_BYTES_MAX: usize = 1 << 30;

const EXAMPLES: &str = "Examples:
  loadgen mq --fifo-dir /run/mq -n 20 --clients 20 --sink splice /quintet movie.bin
  loadgen mq --fifo-dir /run/mq -n 20 --spawn process --content /srv/files /quintet movie.bin
  loadgen mq --fifo-dir /run/mq -d 5s --content /srv/files --verify sample=1/100 /quintet movie.bin
  loadgen mq --fifo-dir /run/mq -d 5s --content /srv/files --server-pid 4711 /quintet small.txt
  loadgen mq --fifo-dir /run/mq -R 20000 --arrivals poisson -d 30s --framed /quintet a.txt b.txt
  loadgen mq --fifo-dir /run/mq -R 1000,2000,5000 -d 10s /quintet small.txt
  loadgen mq --fifo-dir /run/mq --rate-sweep 10%..100% -d 5s --out results/queue /quintet small.txt

The directory of FIFOs is the one that the server was started with, after `mkdir -m 700`. Each client is a thread or a
process and has one request under way at a time, with a FIFO of its own that is removed afterwards. In an open loop each
has its share of the schedule; what falls due while it is busy waits, and that counts.

What is checked: with --content or --expect-sha256 the SHA-256 of every reply, otherwise that all are as long as the first
good one (or as the server announces, with --framed or --status-fifo). With --sink splice the bytes are not
read, and only lengths are checked.

Exit status: 0 every request succeeded and was verified; 3 some failed; 4 --fail-if; 130 interrupted; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("connections", |arg| arg.long("clients").visible_alias("connections").default_value("20").help("Number of clients, each with one request under way")))]
#[command(mut_arg("timeout", |arg| arg.default_value("60s").help("Limit for each request, from its sending to the end of its reply")))]
#[command(mut_arg("ramp", |arg| arg.help("Clients begin evenly over this time, before the warm-up; in an open loop all begin, and the rate grows from 0 meanwhile")))]
#[command(mut_arg("pin", |arg| arg.help("Pin the clients to these CPUs, round robin: 0 or 0,2-3")))]
pub(super) struct MqArgs {
    /// The server's queue: /NAME or, as the server prints it, mq:/NAME
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Files to ask for, as the server knows them; several are asked for in turn
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// The server's directory of FIFOs: it belongs to this user or to root, and nobody else may use it (mkdir -m 700)
    #[arg(long, value_name = "DIR")]
    fifo_dir: PathBuf,
    /// Use --fifo-dir although others may use it, too. They cannot read FIFOs or guess their names, but they can list them,
    /// and delete or replace them unless the directory is sticky
    #[arg(long)]
    shared_fifo_dir: bool,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    /// Kind of each client
    #[arg(long, value_enum, default_value = "thread")]
    spawn: ClientKind,
    /// Destination of the replies
    #[arg(long, value_enum, default_value = "read")]
    sink: ReplySink,
    /// --sink read asks for this many bytes at once
    #[arg(long, value_name = "BYTES", default_value = "131072", value_parser = count::<BUFFER_BYTES_MAX>)]
    buffer_size: usize,
    /// How much of each reply is checked
    #[arg(long, default_value = "all", value_parser = verify_parser::<FileVerify>("sha256 if digests are known and the sink is read, otherwise length"))]
    verify: VerifyArg<FileVerify>,
    /// A directory with the files that the server should have
    #[arg(long, value_name = "DIR")]
    content: Option<PathBuf>,
    /// The files' digests, one per PATH in their order
    #[arg(long, value_name = "HEX", conflicts_with = "content")]
    expect_sha256: Vec<Digest>,
    /// A header with status and length stands before every reply: the server runs with --framed
    #[arg(long)]
    framed: bool,
    /// Name a second FIFO in every request, through which the server says what became of it
    #[arg(long, conflicts_with = "framed")]
    status_fifo: bool,
    /// Run in turns, for a program that compares two servers: a line `go` on standard input begins one, `hold` ends it and is
    /// answered, when the last reply has come, with a line of JSON on standard output (ok, failed, p50_us, p99_us); the end of
    /// standard input is that of the run, and --duration its limit
    #[arg(long, conflicts_with_all = ["open_loop", "requests", "warmup", "timeline"])]
    turns: bool,
}

pub(super) fn run(args: &MqArgs) -> Result<ExitOutcome, Failure> {
    check_usage(args)?;
    // Checked before large files are read. Each client checks what it has opened once more.
    loadgen::mq::open_directory(&args.fifo_dir, sharing(args)).map_err(Failure::usage)?;
    args.load.check_files()?;
    let server = args.load.server()?;
    let files = requested(args)?;
    // Not before: hashing large files can be ended at once.
    let interrupt = patient_interrupt_flag()?;
    let load = args.load.with_rate_file(args.load.to_load())?;
    let load = if args.turns { in_turns(load)? } else { load };
    let measure = |load: &Load| {
        let mut progress = Progress::new(args.load.output.progress, load);
        let mq_load = mq_load(args, load, files.clone());
        let measured = loadgen::mq::run(&mq_load, server.as_ref(), &interrupt, |live| progress.update(live));
        progress.finish();
        Ok(measured?)
    };
    let ceiling = match SelfCheck::Auto.is_due(&load) {
        true => Ceiling::Unknown("clients of queues are not checked; run `loadgen null --protocol mq` beside"),
        false => Ceiling::NotWanted,
    };
    let series = Series { args: &args.load, load: &load, server: server.as_ref(), interrupt: &interrupt, ceiling };
    let outcome = series.carry_out(&queue(args), measure, |load| description(args, load, &files))?;
    if args.sink == ReplySink::Splice && verify(args) >= FileVerify::Length {
        eprint_line("note: --sink splice reads no bytes: only the lengths of the replies were checked");
    }
    Ok(outcome)
}

fn check_usage(args: &MqArgs) -> Result<(), Failure> {
    let usage = |problem: &dyn Display| Err(Failure::usage(problem));
    args.load.output.check_log_size(args.load.connections)?;
    if let Err(error) = queue(args).parse::<QueueName>() {
        return usage(&error);
    }
    if let Some(path) = args.paths.iter().find(|path| wire::mserve::Request::new(path.as_bytes(), b"x", None).is_err())
    {
        return usage(&format_args!("`{path}` cannot be asked for: a path is not empty, and has no semicolon"));
    }
    if !args.expect_sha256.is_empty() && args.expect_sha256.len() != args.paths.len() {
        return usage(&"--expect-sha256 is needed once for every PATH");
    }
    if args.turns && args.spawn == ClientKind::Process {
        return usage(&"--turns needs clients that are threads, not --spawn process");
    }
    let needs_digests = match args.verify {
        verify if verify.is_sampled() => Some("sample=1/N"),
        verify if verify.is_level(FileVerify::Sha256) => Some("sha256"),
        _ => None,
    };
    match needs_digests {
        Some(what) if args.sink == ReplySink::Splice => {
            usage(&format_args!("--verify {what} does not go with --sink splice, which reads no bytes"))
        }
        Some(what) if args.content.is_none() && args.expect_sha256.is_empty() => {
            usage(&format_args!("--verify {what} needs --content or --expect-sha256"))
        }
        _ => Ok(()),
    }
}

fn sharing(args: &MqArgs) -> Sharing {
    if args.shared_fifo_dir { Sharing::Shared } else { Sharing::Private }
}

fn queue(args: &MqArgs) -> &str {
    args.queue.strip_prefix("mq:").unwrap_or(&args.queue)
}

fn form(args: &MqArgs) -> ReplyForm {
    match (args.framed, args.status_fifo) {
        (true, _) => ReplyForm::Framed,
        (false, true) => ReplyForm::Status,
        (false, false) => ReplyForm::Bare,
    }
}

/// Returns the deepest level that the command can check with what it was given.
fn deepest(args: &MqArgs) -> FileVerify {
    let knows_digests = args.content.is_some() || !args.expect_sha256.is_empty();
    if knows_digests && args.sink == ReplySink::Read { FileVerify::Sha256 } else { FileVerify::Length }
}

fn verify(args: &MqArgs) -> FileVerify {
    args.verify.level(deepest(args))
}

/// Reads all that is to be known of the files before the first request.
fn requested(args: &MqArgs) -> Result<Vec<RequestedFile>, Failure> {
    let knowledge = if verify(args) == FileVerify::Sha256 { FileScan::LengthAndDigest } else { FileScan::Length };
    let local = |path: &str| args.content.as_ref().map(|content| local(content, path));
    let bytes = args.paths.iter().filter_map(|path| local(path)?.metadata().ok()).map(|file| file.len()).sum();
    let reading = ReadingBar::new(bytes, "hashing the files");
    let mut piece = vec![0; PIECE_BYTES];
    let know = |(index, path): (usize, &String)| -> Result<RequestedFile, Failure> {
        let given = args.expect_sha256.get(index).map(|Digest(digest)| *digest);
        let (length, digest) = match local(path) {
            None => (None, given),
            Some(file) => {
                let known = body::scan_file(&file, knowledge, &mut piece, |bytes| reading.advance(bytes));
                let (length, digest) = known.with_context(|| format!("--content: {}", file.display()))?;
                (Some(length), digest)
            }
        };
        Ok(RequestedFile { path: path.clone(), length, digest })
    };
    args.paths.iter().enumerate().map(know).collect()
}

/// Returns the path of a file in the directory. An absolute path may be that already, or begin at the server's root.
fn local(content: &Path, path: &str) -> PathBuf {
    if Path::new(path).starts_with(content) {
        return PathBuf::from(path);
    }
    content.join(path.trim_start_matches('/'))
}

/// Tells the clients what to do under `load`. The prefix of the FIFOs is new each time, so that a late reply to the step before finds
/// no FIFO of its name.
fn mq_load(args: &MqArgs, load: &Load, files: Vec<RequestedFile>) -> MqLoad {
    MqLoad {
        queue: queue(args).to_owned(),
        fifo_directory: args.fifo_dir.clone(),
        sharing: sharing(args),
        prefix: MqLoad::new_prefix(),
        files,
        form: form(args),
        sink: args.sink,
        verify: verify(args),
        sample: args.verify.sample,
        buffer_bytes: args.buffer_size,
        clients: load.connections,
        spawn: args.spawn,
        cpus: Some(load.pin.to_string()).filter(|_| load.pin.iter().len() > 0),
        pacing: load.pacing,
        timetable: load.timetable.as_deref().cloned(),
        limit: load.limit,
        ramp: load.ramp,
        warmup: load.warmup,
        timeline: load.timeline,
        request_log: load.request_log,
        turns: load.turns.clone(),
        timeout: load.timeouts.total,
        seed: load.seed,
    }
}

fn description(args: &MqArgs, load: &Load, files: &[RequestedFile]) -> RunDescription {
    let target: Vec<&str> = std::iter::once(queue(args)).chain(args.paths.iter().map(String::as_str)).collect();
    RunDescription {
        kind: ProtocolKind::Mq,
        target: target.join(" "),
        config: config(args, load, files),
        pacing: load.pacing,
        replies: ReplyKinds::One,
    }
}

fn config(args: &MqArgs, load: &Load, files: &[RequestedFile]) -> BTreeMap<String, Value> {
    let mut config = args.load.config(load);
    let form = match form(args) {
        ReplyForm::Bare => "bare",
        ReplyForm::Framed => "framed",
        ReplyForm::Status => "status-fifo",
    };
    let is_known = |requested: &RequestedFile| requested.digest.is_some();
    config.extend(settings([
        ("buffer_bytes", json!(args.buffer_size)),
        ("clients", json!(load.connections)),
        ("content", json!(args.content)),
        ("digests_known", json!(files.iter().all(is_known))),
        ("fifo_dir", json!(args.fifo_dir)),
        ("protocol", json!(form)),
        ("sink", json!(value_name(args.sink))),
        ("spawn", json!(value_name(args.spawn))),
        ("turns", json!(load.turns.is_some().then_some(true))),
        ("verify", json!(args.verify.name(deepest(args)))),
    ]));
    config
}

/// Registers a flag that SIGINT and SIGTERM set. However often they come, the program ends by itself, in bounded time, because FIFOs
/// are to be removed.
fn patient_interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt)).context("cannot handle signals")?;
    }
    Ok(interrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_and_absolute_paths_find_files_in_the_directory() {
        let content = Path::new("/srv/files");
        for path in ["a/b.bin", "/a/b.bin", "/srv/files/a/b.bin"] {
            assert_eq!(local(content, path), Path::new("/srv/files/a/b.bin"), "{path}");
        }
    }
}
