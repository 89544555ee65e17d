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
pub mod config;
mod counters;
mod departures;
mod descriptors;
mod generated;
mod health;
mod histogram;
mod hooks;
mod host;
mod json_line;
mod line_writer;
mod logging;
mod machine;
mod manager;
mod metrics;
mod output;
mod paths;
mod refusals;
mod sandbox;
mod shell;
mod stopping;
mod timestamp;
mod tls;
mod upgrade;
mod usage;
mod values;

use std::process::ExitCode;

use ::tls::ConfigError;
use cli::DriverFlags;
use config::{CommandLine, Loaded};

pub use self::tls::{Endpoint, KernelTlsUse, TlsArgs, TlsDialect};
pub use args::{DriverChoice, Format, Log, ServiceArgs, ShellArgs, Timeouts};
pub use backends::{Choice, Dimension, Invalid, choice_name};
pub use budget::{Budget, Reservation};
pub use cli::{Cli, HostProblem, Program};
pub use counters::Counters;
pub use departures::Departures;
pub use descriptors::DescriptorDemand;
pub use drivers::{Counts, DriverKind, DriverSet, Loop, ScratchPipes, Statistics};
pub use generated::Generated;
pub use histogram::Histogram;
pub use host::Host;
pub use json_line::JsonLine;
pub use line_writer::{LineTarget, LineWriter, OpenLinesError};
pub use machine::{Limit, Need};
pub use metrics::{Registry, gauge, total};
pub use output::advise;
pub use paths::{check_directory, check_file_path};
pub use sandbox::{RARE_CALLS, Sandbox};
pub use shell::Shell;
pub use stopping::{OnDrain, Stop};
pub use timestamp::Timestamp;
pub use upgrade::HandOver;
pub use values::{
    at_least_one, count, duration, octal_mode, on_or_off, parse_size, positive_duration, positive_size, size,
};

/// Runs a server from its command line to its exit status: 0 after a drain, 2 for bad usage, 1 for anything else.
pub fn main<C: Cli>(serve: impl FnOnce(C, Host) -> anyhow::Result<()>) -> ExitCode {
    main_on(serve)
}

/// The same for a program that has other drivers than those of this workspace, such as [`drivers::Only`] one.
pub fn main_on<D: DriverSet, C: Cli>(serve: impl FnOnce(C, Host<D>) -> anyhow::Result<()>) -> ExitCode {
    launch(&DriverFlags::of::<D>(), |cli: &C, shell| Host::new(cli, shell), serve)
}

/// The same for a server that listens to no socket.
pub fn main_without_sockets<P: Program>(serve: impl FnOnce(P, Shell) -> anyhow::Result<()>) -> ExitCode {
    launch(&DriverFlags::none(), |_: &P, shell| Ok(shell), serve)
}

fn launch<P: Program, H>(
    flags: &DriverFlags,
    host: impl FnOnce(&P, Shell) -> anyhow::Result<H>,
    serve: impl FnOnce(P, H) -> anyhow::Result<()>,
) -> ExitCode {
    let (line, loaded) = cli::parse::<P>(flags);
    if let Some(status) = answer(flags, &loaded) {
        return status;
    }
    match run(flags, line, loaded, host, serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::to_stderr(format_args!("error: {}", output::chain(&error)));
            // A certificate that cannot be used is a wrong value of its flag.
            if error.is::<ConfigError>() { ExitCode::from(cli::USAGE as u8) } else { ExitCode::FAILURE }
        }
    }
}

/// Answers what the command line asks instead of serving.
fn answer<P: Program>(flags: &DriverFlags, Loaded { program, effective }: &Loaded<P>) -> Option<ExitCode> {
    let shell = program.shell();
    if let Some(generated) = shell.generate {
        let command = (flags.adapt)(cli::command::<P>(|_| false));
        let written = generated.write::<P>(command, &mut std::io::stdout());
        return Some(if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if shell.check_machine {
        let is_enough = machine::check(&program.all_needs());
        return Some(if is_enough { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if shell.check_health {
        let default = program.default_metrics().and_then(|address| address.parse().ok());
        let checked = health::check(shell.metrics.as_ref().or(default.as_ref()));
        return Some(match checked {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                output::to_stderr(format_args!("error: {}", output::chain(&error)));
                ExitCode::FAILURE
            }
        });
    }
    if shell.check_config
        && let Err(error) = program.check_start()
    {
        output::to_stderr(format_args!("error: {}", output::chain(&error)));
        return Some(ExitCode::from(cli::USAGE as u8));
    }
    if shell.print_config {
        output::announce(format_args!("{}", effective.to_toml(P::NAME).trim_end()));
    } else if shell.check_config {
        let checked = effective.file.as_ref().map_or_else(|| "flags".into(), |file| file.to_string_lossy());
        output::announce(format_args!("{checked}: ok"));
    }
    (shell.check_config || shell.print_config).then_some(ExitCode::SUCCESS)
}

fn run<P: Program, H>(
    flags: &DriverFlags,
    line: CommandLine,
    Loaded { program, effective }: Loaded<P>,
    host: impl FnOnce(&P, Shell) -> anyhow::Result<H>,
    serve: impl FnOnce(P, H) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if program.shell().list_backends {
        return backends::print::<P>((flags.dimension)(), program.shell().format);
    }
    logging::start(program.shell().log)?;
    let mut shell = Shell::new(&program)?;
    shell.set_configuration(line, effective);
    let host = host(&program, shell)?;
    serve(program, host)
}
