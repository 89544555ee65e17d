//! A server of a line protocol that is made for tests. It runs exactly as the real servers do.

mod bodies;
mod delayed;
mod escape;
mod protocol;
mod pushed;
mod streamed;

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use bodies::Bodies;
use clap::Parser;
use protocol::LineProtocol;
use service::{Cli, DriverSet, Host, KernelTlsUse, ScratchPipes, ServiceArgs, TlsArgs, TlsDialect};
use sys::{confinement::Confinement, listen::Address};

/// Answers the lines that protocol.rs describes
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    #[command(flatten)]
    service: ServiceArgs,

    /// File whose beginning every body is
    #[arg(long, value_name = "FILE")]
    content: Option<PathBuf>,

    /// Capacity of a scratch pipe, and length of a link of a chain
    #[arg(long, value_name = "BYTES", default_value_t = ScratchPipes::BYTES)]
    pipe_bytes: usize,

    /// Keep the content in registered memory, too
    #[arg(long, requires = "content")]
    registered: bool,

    /// Limit of scratch pipes
    #[arg(long, value_name = "N", default_value_t = ScratchPipes::COUNT_MAX)]
    pipes_max: usize,

    /// Connections that the protocol handles in one call
    #[arg(long, value_name = "N", default_value = "1", value_parser = ["1", "8"])]
    batch: String,

    /// Understand `stream` and `farewell`, which make the protocol one that streams
    #[arg(long, conflicts_with = "batch")]
    streams: bool,

    #[command(flatten)]
    tls: TlsArgs,

    /// One more address to listen on, for a front end of the server's own; repeatable
    #[arg(long, value_name = "ADDR")]
    more_listen: Vec<Address>,

    /// Address of metrics without --metrics
    #[arg(long = "default-metrics", value_name = "ADDR")]
    default_metrics_address: Option<String>,

    /// File that is written at the end
    #[arg(long, value_name = "FILE")]
    exit_file: Option<PathBuf>,

    /// File that gets one more line at each SIGHUP and SIGUSR1; made beforehand
    #[arg(long, value_name = "FILE")]
    signal_file: Option<PathBuf>,
}

impl Cli for Args {
    const NAME: &'static str = "testkit-server";
    const LISTEN: &'static str = "127.0.0.1:0";
    const CALLS: &'static [&'static str] = &["pread64", "sendfile", "splice", "tee", "vmsplice"];

    const DEFAULTS: &'static [(&'static str, &'static str)] = &[("backlog", "4000")];
    const ENVIRONMENT: &'static [(&'static str, &'static str)] =
        &[("backlog", "ALIAS_QUEUE_LIMIT"), ("socket-buffer", "ALIAS_BUFFER_SIZE")];

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn check(&self) -> Result<(), String> {
        let is_tls = !self.tls.tls_listen.is_empty();
        if self.streams && is_tls { Err("--streams and --tls-listen exclude each other".to_owned()) } else { Ok(()) }
    }

    fn tls(&self) -> Option<(&TlsArgs, TlsDialect)> {
        let dialect = TlsDialect { protocols: &[], scheme: "tls", answer_to_plain: b"", kernel: KernelTlsUse::Auto };
        (!self.streams).then_some((&self.tls, dialect))
    }

    fn more_addresses(&self) -> Vec<Address> {
        self.more_listen.clone()
    }

    fn keep(&self, kept: &mut Confinement) {
        self.content.iter().for_each(|file| kept.read_replaceable(file));
        self.exit_file.iter().chain(&self.signal_file).for_each(|file| kept.write_replaceable(file));
    }

    fn default_metrics(&self) -> Option<String> {
        self.default_metrics_address.clone()
    }
}

/// Runs the server on one of the drivers `D`, from its command line to its exit status.
pub fn main<D: DriverSet>() -> ExitCode {
    service::main_on(|args: Args, mut host: Host<D>| match (args.batch.as_str(), args.streams) {
        (_, true) => {
            let protocol = make::<1, true, _>(&args, &mut host)?;
            host.serve(Arc::new(protocol), |_| ())
        }
        ("8", false) => {
            let protocol = make::<8, false, _>(&args, &mut host)?;
            host.serve_with_tls(Arc::new(protocol), |_| ())
        }
        _ => {
            let protocol = make::<1, false, _>(&args, &mut host)?;
            host.serve_with_tls(Arc::new(protocol), |_| ())
        }
    })
}

fn make<const BATCH: usize, const STREAMS: bool, D: DriverSet>(
    args: &Args,
    host: &mut Host<D>,
) -> anyhow::Result<LineProtocol<BATCH, STREAMS>> {
    let mut bodies = match &args.content {
        Some(path) => Bodies::open(path, args.pipe_bytes).with_context(|| format!("cannot open {}", path.display()))?,
        None => Bodies::default(),
    };
    if args.registered {
        host.set_registered(bodies.register()?)?;
    }
    host.set_scratch_pipes(ScratchPipes::new(args.pipe_bytes, args.pipes_max));
    if let Some(path) = args.exit_file.clone() {
        host.at_end(move || {
            std::fs::write(&path, "the end\n").with_context(|| format!("cannot write {}", path.display()))
        });
    }
    if let Some(path) = &args.signal_file {
        let (reloaded, reopened) = (path.clone(), path.clone());
        host.on_reload(move || append(&reloaded, "reload"));
        host.on_reopen(move || append(&reopened, "reopen"));
    }
    host.allow_upgrade();
    LineProtocol::new(bodies, host)
}

/// # Errors
/// The file is not there.
fn append(path: &Path, line: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().append(true).open(path);
    let mut file = file.with_context(|| format!("cannot open {}", path.display()))?;
    Ok(writeln!(file, "{line}")?)
}
