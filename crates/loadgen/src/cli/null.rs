//! `loadgen null`.

use std::{os::unix::net::UnixStream, path::PathBuf, str::FromStr};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use loadgen::null::{
    Burn, BurnOption, FileReply, FileResponder, HttpReply, HttpResponder, NullQueue, NullServer, RespReplies,
    RespResponder,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::{affinity::Cpus, listen::Address, mqueue::QueueName};

use super::{ExitOutcome, Failure, eprint_line, print};

const DEFAULT_BODY_BYTES: usize = 128;
const DEFAULT_VALUE_BYTES: usize = 12;
const DEFAULT_DOCUMENT_BYTES: usize = 10 << 10;

const EXAMPLE: &str = "Examples:
  taskset -c 0 loadgen null --protocol http --listen 127.0.0.1:8080 &
  loadgen http --pin 1 -c 64 -d 5s http://127.0.0.1:8080/

  taskset -c 0 loadgen null --protocol resp --value-size 12 --listen 127.0.0.1:7000 &
  loadgen kv --pin 1 -c 50 -P 100 -d 5s --constant-values --value-size 12 127.0.0.1:7000

  taskset -c 0 loadgen null --protocol http --burn 3us --listen 127.0.0.1:8080 &
  loadgen http --pin 1 -c 64 -d 5s --server-pid $! http://127.0.0.1:8080/

  taskset -c 0 loadgen null --protocol mq --root /srv/files --fifo-dir /run/mq --listen mq:/floor &
  loadgen mq --pin 1 -n 20 --clients 20 --sink splice --fifo-dir /run/mq /floor movie.bin";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLE)]
pub(super) struct NullArgs {
    /// Protocol of the requests and replies
    #[arg(long, value_enum)]
    protocol: NullProtocol,
    /// Address to listen on: 127.0.0.1:8080 (port 0 picks a free one), unix:/path, or for mq the queue: mq:/name
    #[arg(long, value_name = "ADDR")]
    listen: Listen,
    /// http, file: bytes of the body of every reply, all of them x [default: 128, for file 10240]
    #[arg(long, value_name = "N", value_parser = size)]
    body_size: Option<usize>,
    /// resp: bytes of the value that every GET gets, all of them x [default: 12]
    #[arg(long, value_name = "N", value_parser = size)]
    value_size: Option<usize>,
    /// mq: the directory of the files
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// mq: the directory in which clients make their FIFOs
    #[arg(long, value_name = "DIR")]
    fifo_dir: Option<PathBuf>,
    /// Run on these CPUs
    #[arg(long, value_name = "CPUS")]
    pin: Option<Cpus>,
    /// Spend this much CPU time on each request, or on one of N: 50ns, 200us/1000; repeatable. What it comes to is measured at
    /// the start, and said on standard error
    #[arg(long, value_name = "TIME[/N]")]
    burn: Vec<BurnOption>,
}

/// Protocol of a null server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NullProtocol {
    /// 200 OK to everything up to an empty line
    Http,
    /// GET gets the value, SET +OK, DEL :1, PING +PONG, everything else an error
    Resp,
    /// The same document for every id, in either protocol of fileserver
    File,
    /// Files by message queue: a bare thread per request that splices the file into a FIFO of 1 MiB
    Mq,
}

/// Socket or queue on which requests come in.
#[derive(Clone, Debug)]
enum Listen {
    Socket(Address),
    Queue(QueueName),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("mq:") {
            Some(name) => name.parse().map(Self::Queue).map_err(|error: sys::mqueue::BadQueueName| error.to_string()),
            None => text.parse().map(Self::Socket).map_err(|error: <Address as FromStr>::Err| error.to_string()),
        }
    }
}

/// Parses a number of bytes.
fn size(text: &str) -> Result<usize, String> {
    const MAX: usize = 1 << 30;
    text.parse()
        .ok()
        .filter(|size| *size <= MAX)
        .ok_or_else(|| format!("not a number of bytes from 0 to {MAX}; try 1024"))
}

pub(super) fn run(args: &NullArgs) -> Result<ExitOutcome, Failure> {
    if let Some(problem) = find_misplaced_option(args) {
        return Err(Failure::usage(problem));
    }
    if let Some(cpus) = &args.pin {
        cpus.pin_to_all().with_context(|| format!("cannot pin to CPUs {cpus}"))?;
    }
    let (stop, signalled) = UnixStream::pair().context("cannot make a socket pair")?;
    for signal in [SIGINT, SIGTERM] {
        let writer = signalled.try_clone().context("cannot duplicate a socket")?;
        signal_hook::low_level::pipe::register(signal, writer).context("cannot handle signals")?;
    }
    match &args.listen {
        Listen::Socket(address) => serve_sockets(args, address, &stop),
        Listen::Queue(name) => serve_queue(args, name, &stop),
    }
}

/// Finds an option that does not go with the protocol.
fn find_misplaced_option(args: &NullArgs) -> Option<&'static str> {
    let is_queue = matches!(args.protocol, NullProtocol::Mq);
    match (&args.listen, args.protocol) {
        (Listen::Socket(_), NullProtocol::Mq) => return Some("--protocol mq listens on a queue: --listen mq:/NAME"),
        (Listen::Queue(_), protocol) if !matches!(protocol, NullProtocol::Mq) => {
            return Some("only --protocol mq listens on a queue");
        }
        _ => {}
    }
    if is_queue && (args.root.is_none() || args.fifo_dir.is_none()) {
        return Some("--protocol mq needs --root and --fifo-dir");
    }
    if !is_queue && (args.root.is_some() || args.fifo_dir.is_some()) {
        return Some("--root and --fifo-dir belong to --protocol mq");
    }
    if !matches!(args.protocol, NullProtocol::Resp) && args.value_size.is_some() {
        return Some("--value-size belongs to --protocol resp");
    }
    if matches!(args.protocol, NullProtocol::Resp | NullProtocol::Mq) && args.body_size.is_some() {
        return Some("--body-size belongs to --protocol http or file");
    }
    if is_queue && !args.burn.is_empty() {
        return Some("--burn belongs to the protocols over sockets");
    }
    None
}

fn serve_queue(args: &NullArgs, name: &QueueName, stop: &UnixStream) -> Result<ExitOutcome, Failure> {
    let (root, fifos) = (args.root.clone().unwrap_or_default(), args.fifo_dir.clone().unwrap_or_default());
    let server = NullQueue::bind(name, &root, &fifos).with_context(|| format!("cannot listen on mq:{name}"))?;
    print(format!("listening on mq:{name}\n"))?;
    server.serve(stop).context("the queue failed")?;
    Ok(ExitOutcome::Success)
}

fn serve_sockets(args: &NullArgs, address: &Address, stop: &UnixStream) -> Result<ExitOutcome, Failure> {
    let server = NullServer::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let burns: Vec<Burn> = args.burn.iter().map(|burn| Burn::calibrated(burn.cpu_ns, burn.every)).collect();
    if !burns.is_empty() {
        let each: f64 = burns.iter().map(Burn::measure).sum();
        eprint_line(&format!("burns {each:.1} ns of CPU time for each request"));
    }
    let server = server.with_burns(burns);
    print(format!("listening on {}\n", server.address()))?;
    let served = match args.protocol {
        NullProtocol::Http => {
            server.serve::<HttpResponder>(HttpReply::new(args.body_size.unwrap_or(DEFAULT_BODY_BYTES)), stop)
        }
        NullProtocol::Resp => {
            server.serve::<RespResponder>(RespReplies::new(args.value_size.unwrap_or(DEFAULT_VALUE_BYTES)), stop)
        }
        NullProtocol::File => {
            server.serve::<FileResponder>(FileReply::new(args.body_size.unwrap_or(DEFAULT_DOCUMENT_BYTES)), stop)
        }
        // Refused before: it listens on a queue.
        NullProtocol::Mq => Ok(()),
    };
    served.context("the event loop failed")?;
    Ok(ExitOutcome::Success)
}
