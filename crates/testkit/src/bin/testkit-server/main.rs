//! A server of a protocol made for tests, run exactly as a real one.

#![forbid(unsafe_code)]

mod bodies;
mod delayed;
mod protocol;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use bodies::Shelf;
use clap::Parser;
use protocol::Lab;
use service::{Cli, Host, ScratchPipes, ServiceArgs};
use sys::listen::Address;

/// Answers lines: what a line may say is described in protocol.rs.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    #[command(flatten)]
    service: ServiceArgs,

    /// The file that bodies are the beginning of
    #[arg(long, value_name = "FILE")]
    content: Option<PathBuf>,

    /// Room in a scratch pipe, and in a link of a chain
    #[arg(long, value_name = "BYTES", default_value_t = ScratchPipes::BYTES)]
    pipe_bytes: usize,

    /// Keeps the content in registered memory, too
    #[arg(long, requires = "content")]
    registered: bool,

    /// Scratch pipes at most
    #[arg(long, value_name = "N", default_value_t = ScratchPipes::COUNT_MAX)]
    pipes_max: usize,

    /// How many connections the protocol is run for at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = ["1", "8"])]
    batch: String,

    /// One more address to listen on, which the protocol is told of; repeatable
    #[arg(long, value_name = "ADDR")]
    more_listen: Vec<Address>,

    /// Where metrics are served without --metrics
    #[arg(long, value_name = "ADDR")]
    usual_metrics: Option<String>,

    /// A file that is written at the end
    #[arg(long, value_name = "FILE")]
    last_words: Option<PathBuf>,
}

impl Cli for Args {
    const NAME: &'static str = "testkit-server";
    const LISTEN: &'static str = "127.0.0.1:0";

    const DEFAULTS: &'static [(&'static str, &'static str)] = &[("backlog", "4000")];
    const ENVIRONMENT: &'static [(&'static str, &'static str)] =
        &[("backlog", "LAB_QUEUE_LIMIT"), ("socket-buffer", "LAB_BUFFER_SIZE")];

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn more_addresses(&self) -> Vec<Address> {
        self.more_listen.clone()
    }

    fn default_metrics(&self) -> Option<String> {
        self.usual_metrics.clone()
    }
}

fn main() -> ExitCode {
    service::main::<Args>(|args, host| match args.batch.as_str() {
        "8" => serve::<8>(&args, host),
        _ => serve::<1>(&args, host),
    })
}

fn serve<const BATCH: usize>(args: &Args, mut host: Host) -> anyhow::Result<()> {
    let mut shelf = match &args.content {
        Some(path) => Shelf::open(path, args.pipe_bytes).with_context(|| format!("cannot open {}", path.display()))?,
        None => Shelf::default(),
    };
    if args.registered {
        host.set_registered(shelf.register()?)?;
    }
    host.set_scratch_pipes(ScratchPipes::new(args.pipe_bytes, args.pipes_max));
    let lab = Lab::<BATCH>::new(shelf, &host)?;
    if let Some(path) = args.last_words.clone() {
        host.at_end(move || {
            std::fs::write(&path, "the end\n").with_context(|| format!("cannot write {}", path.display()))
        });
    }
    host.serve(Arc::new(lab), |_| ())
}
