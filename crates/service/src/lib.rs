//! What every server binary shares: flags, the ready line, signals and drain, limits, logging.
//!
//! A server is a [`Cli`] and a closure that makes its protocol and hands it to [`Host::serve`]; nothing else of it
//! touches a socket, a signal or standard output.

#![forbid(unsafe_code)]

mod args;
mod backends;
mod budget;
mod choices;
mod cli;
mod counters;
mod host;
mod logging;
mod metrics;
mod output;
mod stopping;

use std::process::ExitCode;

pub use args::{DriverChoice, Format, Log, ServiceArgs, Timeouts};
pub use backends::{Choice, Dimension, Invalid};
pub use budget::{Budget, Reservation};
pub use choices::UnknownChoice;
pub use cli::Cli;
pub use counters::Counters;
pub use drivers::{Counts, ScratchPipes, Statistics};
pub use host::Host;
pub use metrics::{Registry, gauge, total};
pub use output::advise;
pub use stopping::Stop;

/// Runs a server from its command line to its exit status: 0 after a drain, 2 for bad usage, 1 for anything else.
pub fn main<C: Cli>(serve: impl FnOnce(C, Host) -> anyhow::Result<()>) -> ExitCode {
    let cli = cli::parse::<C>();
    match run(cli, serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::to_stderr(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run<C: Cli>(cli: C, serve: impl FnOnce(C, Host) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if cli.service().list_backends {
        return backends::print::<C>(cli.service().format);
    }
    logging::start(cli.service().log)?;
    let host = Host::new(&cli)?;
    serve(cli, host)
}
