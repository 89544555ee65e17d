//! `loadgen null`.

use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use loadgen::null::{FileDialogue, FileReply, HttpDialogue, HttpReply, NullServer, RespDialogue, RespReplies};
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::{affinity::Cpus, listen::Address};

use super::{Failure, Outcome, print};

const DEFAULT_BODY_BYTES: usize = 128;
const DEFAULT_VALUE_BYTES: usize = 12;
const DEFAULT_DOCUMENT_BYTES: usize = 10 << 10;

const EXAMPLE: &str = "Examples:
  taskset -c 0 loadgen null --protocol http --listen 127.0.0.1:8080 &
  loadgen http --pin 1 -c 64 -d 5s http://127.0.0.1:8080/

  taskset -c 0 loadgen null --protocol resp --value-size 12 --listen 127.0.0.1:7000 &
  loadgen kv --pin 1 -c 50 -P 100 -d 5s --constant-values --value-size 12 127.0.0.1:7000";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLE)]
pub(super) struct NullArgs {
    /// What to answer in
    #[arg(long, value_enum)]
    protocol: NullProtocol,
    /// Address to listen on: 127.0.0.1:8080 (port 0 picks a free one) or unix:/path
    #[arg(long, value_name = "ADDR")]
    listen: Address,
    /// http, file: bytes of the body of every reply, all of them x [default: 128, for file 10240]
    #[arg(long, value_name = "N", value_parser = size)]
    body_size: Option<usize>,
    /// resp: bytes of the value that every GET gets, all of them x [default: 12]
    #[arg(long, value_name = "N", value_parser = size)]
    value_size: Option<usize>,
    /// Run on these CPUs
    #[arg(long, value_name = "CPUS")]
    pin: Option<Cpus>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NullProtocol {
    /// 200 OK to everything up to an empty line
    Http,
    /// GET gets the value, SET +OK, DEL :1, PING +PONG, everything else an error
    Resp,
    /// The same document for every id, in either protocol of fileserver
    File,
}

fn size(text: &str) -> Result<usize, String> {
    const MAX: usize = 1 << 30;
    text.parse().ok().filter(|size| *size <= MAX).ok_or_else(|| format!("not a number from 0 to {MAX}"))
}

pub(super) fn run(args: &NullArgs) -> Result<Outcome, Failure> {
    let misplaced = match args.protocol {
        NullProtocol::Http | NullProtocol::File => args.value_size.map(|_| "--value-size belongs to --protocol resp"),
        NullProtocol::Resp => args.body_size.map(|_| "--body-size belongs to --protocol http or file"),
    };
    if let Some(problem) = misplaced {
        return Err(Failure::Usage(problem.to_owned()));
    }
    if let Some(cpus) = &args.pin {
        cpus.pin_to_all().with_context(|| format!("cannot pin to CPUs {cpus}"))?;
    }
    let (stop, signalled) = UnixStream::pair().context("cannot make a socket pair")?;
    for signal in [SIGINT, SIGTERM] {
        let writer = signalled.try_clone().context("cannot duplicate a socket")?;
        signal_hook::low_level::pipe::register(signal, writer).context("cannot handle signals")?;
    }
    let server = NullServer::bind(&args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    print(&format!("listening on {}\n", server.address()))?;
    let served = match args.protocol {
        NullProtocol::Http => {
            server.serve::<HttpDialogue>(HttpReply::new(args.body_size.unwrap_or(DEFAULT_BODY_BYTES)), &stop)
        }
        NullProtocol::Resp => {
            server.serve::<RespDialogue>(RespReplies::new(args.value_size.unwrap_or(DEFAULT_VALUE_BYTES)), &stop)
        }
        NullProtocol::File => {
            server.serve::<FileDialogue>(FileReply::new(args.body_size.unwrap_or(DEFAULT_DOCUMENT_BYTES)), &stop)
        }
    };
    served.context("the event loop failed")?;
    Ok(Outcome::Success)
}
