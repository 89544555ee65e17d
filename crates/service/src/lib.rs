//! What every server binary shares: flags, the ready line, signals and drain, limits, logging.
//!
//! A server is a [`Cli`] and a closure that makes its protocol and hands it to [`Host::serve`]; nothing else of it
//! touches a socket, a signal or standard output.

#![forbid(unsafe_code)]

mod args;
mod backends;
mod host;
mod logging;
mod metrics;
mod output;
mod stopping;

use std::process::ExitCode;

pub use args::{DriverChoice, Format, Log, ServiceArgs, Timeouts};
pub use backends::{Choice, Dimension, Invalid};
pub use host::Host;
pub use metrics::{Registry, gauge, total};
pub use output::advise;

/// The command line of a server.
pub trait Cli: clap::Parser {
    /// As in `--list-backends`.
    const NAME: &'static str;
    /// Where it listens when nothing is said.
    const LISTEN: &'static str;

    /// The flags that all servers share.
    fn service(&self) -> &ServiceArgs;

    /// What can be chosen beside the driver.
    fn dimensions() -> Vec<Dimension> {
        Vec::new()
    }

    /// Combinations that do not work, and why not.
    fn invalid() -> Vec<Invalid> {
        Vec::new()
    }

    /// Addresses to listen on instead of [`Cli::LISTEN`] when no `--listen` is given.
    fn default_addresses(&self) -> Vec<String> {
        vec![Self::LISTEN.to_owned()]
    }
}

/// Runs a server from its command line to its exit status: 0 after a drain, 2 for bad usage, 1 for anything else.
pub fn main<C: Cli>(serve: impl FnOnce(C, Host) -> anyhow::Result<()>) -> ExitCode {
    let cli = parse::<C>();
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

/// Parses the command line; every flag also reads an environment variable named after the server and the flag, like
/// `HTTP_SERVER_LISTEN`.
fn parse<C: Cli>() -> C {
    let prefix = C::NAME.replace('-', "_").to_uppercase();
    let command = C::command().mut_args(|arg| {
        let name = arg.get_long().map(|long| format!("{prefix}_{}", long.replace('-', "_").to_uppercase()));
        match name {
            Some(name) if arg.get_env().is_none() => arg.env(name).hide_env(true),
            _ => arg,
        }
    });
    let mut matches = command.get_matches();
    C::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit())
}
