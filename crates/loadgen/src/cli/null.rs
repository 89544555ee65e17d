//! `loadgen null`.

use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use loadgen::null::{NullServer, http_reply};
use signal_hook::consts::{SIGINT, SIGTERM};
use sys::{affinity::Cpus, listen::Address};

use super::{Failure, Outcome, print};

const EXAMPLE: &str = "Example: taskset -c 0 loadgen null --protocol http --listen 127.0.0.1:8080 &
         loadgen http --pin 1 -c 64 -d 5s http://127.0.0.1:8080/";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLE)]
pub(super) struct NullArgs {
    /// What to answer in
    #[arg(long, value_enum)]
    protocol: NullProtocol,
    /// Address to listen on: 127.0.0.1:8080 (port 0 picks a free one) or unix:/path
    #[arg(long, value_name = "ADDR")]
    listen: Address,
    /// Bytes of the body of every reply
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = body_size)]
    body_size: usize,
    /// Run on these CPUs
    #[arg(long, value_name = "CPUS")]
    pin: Option<Cpus>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NullProtocol {
    Http,
}

fn body_size(text: &str) -> Result<usize, String> {
    const MAX: usize = 1 << 30;
    text.parse().ok().filter(|size| *size <= MAX).ok_or_else(|| format!("not a number from 0 to {MAX}"))
}

pub(super) fn run(args: &NullArgs) -> Result<Outcome, Failure> {
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
    let reply = match args.protocol {
        NullProtocol::Http => http_reply(args.body_size),
    };
    server.serve(&reply, &stop).context("the event loop failed")?;
    Ok(Outcome::Success)
}
