//! Parts that every server binary shares: flags, the ready line, signals and drain, limits, logging.
//!
//! A server on the I/O drivers is a [`Cli`] and a closure that makes its protocol and hands it to [`Host::serve`];
//! nothing else of it touches a socket, a signal or standard output. One that takes its requests from elsewhere is a
//! [`Program`] and a closure for [`Shell::run`].

#![forbid(unsafe_code)]

mod args;
mod backends;
mod budget;
mod cli;
mod counters;
mod host;
mod logging;
mod metrics;
mod output;
mod shell;
mod stopping;
mod usage;
mod values;

use std::process::ExitCode;

pub use args::{DriverChoice, Format, Log, ServiceArgs, ShellArgs, Timeouts};
pub use backends::{Choice, Dimension, Invalid, choice_name};
pub use budget::{Budget, Reservation};
pub use cli::{Cli, Program};
pub use counters::Counters;
pub use drivers::{Counts, ScratchPipes, Statistics};
pub use host::Host;
pub use metrics::{Registry, gauge, total};
pub use output::advise;
pub use shell::Shell;
pub use stopping::{OnDrain, Stop};
pub use values::{duration, on_or_off, positive_size, size};

/// Runs a server from its command line to its exit status: 0 after a drain, 2 for bad usage, 1 for anything else.
pub fn main<C: Cli>(serve: impl FnOnce(C, Host) -> anyhow::Result<()>) -> ExitCode {
    launch(|cli: &C, shell| Host::new(cli, shell), serve)
}

/// The same for a server that listens to no socket.
pub fn main_without_sockets<P: Program>(serve: impl FnOnce(P, Shell) -> anyhow::Result<()>) -> ExitCode {
    launch(|_: &P, shell| Ok(shell), serve)
}

fn launch<P: Program, H>(
    host: impl FnOnce(&P, Shell) -> anyhow::Result<H>,
    serve: impl FnOnce(P, H) -> anyhow::Result<()>,
) -> ExitCode {
    let program = cli::parse::<P>();
    match run(program, host, serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::to_stderr(format_args!("error: {}", output::chain(&error)));
            ExitCode::FAILURE
        }
    }
}

fn run<P: Program, H>(
    program: P,
    host: impl FnOnce(&P, Shell) -> anyhow::Result<H>,
    serve: impl FnOnce(P, H) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if program.shell().list_backends {
        return backends::print::<P>(program.shell().format);
    }
    logging::start(program.shell().log)?;
    let host = host(&program, Shell::new(&program)?)?;
    serve(program, host)
}
