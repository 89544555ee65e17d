//! The commands, and the exit status of each outcome.

mod agent;
mod ceiling;
mod distribution;
mod failures;
mod file;
mod http;
mod kv;
mod load;
mod mq;
mod null;
mod otlp;
mod output;
mod progress;
mod rate_file;
mod replay;
mod report;
mod request_log;
mod series;
mod socket_load;
mod socket_run;
mod tcp;
mod tls;
mod turns;
mod usage_error;
mod values;
mod verify;

use std::{ffi::OsString, fmt::Display, io::Write as _, process::ExitCode};

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};

use self::load::LoadArgs;

/// Exit status of everything that has none of its own.
const EXIT_FAILURE: u8 = 1;
/// Exit status if requests failed, or connections were never opened.
const EXIT_FAILED_REQUESTS: u8 = 3;
/// Exit status if a condition of `--fail-if` holds.
const EXIT_THRESHOLD: u8 = 4;
/// Exit status of bad usage: the same as clap's.
const EXIT_USAGE: u8 = 2;
/// Exit status if SIGINT or SIGTERM ended the run before its time: 128 + SIGINT, as in shells.
const EXIT_INTERRUPTED: u8 = 130;

/// A load generator that verifies every reply
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = EXIT_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Drive an HTTP/1.1 server
    Http(Box<http::HttpArgs>),
    /// Drive a string cache: Redis, memcached, or one that speaks the 0x1F text protocol
    Kv(Box<kv::KvArgs>),
    /// Drive a fileserver: documents by id, in the original protocol or the framed one
    File(Box<file::FileArgs>),
    /// Drive a server of files by POSIX message queue and FIFO
    Mq(Box<mq::MqArgs>),
    /// Make a load for the coordinator of `loadgen … --agent`, which speaks over standard input and output
    Agent(agent::AgentArgs),
    /// A client of `loadgen mq --spawn process`
    #[command(name = loadgen::mq::CLIENT_COMMAND, hide = true)]
    MqClient,
    /// Replay an access log or an HTTP archive against an HTTP/1.1 server
    Replay(Box<replay::ReplayArgs>),
    /// Show, merge or compare stored results
    Report(report::ReportArgs),
    /// Run a null server: a bare epoll loop that gives every request one fixed reply, or for message queues a bare thread
    /// for each request
    Null(null::NullArgs),
}

const EXIT_HELP: &str = "Exit status: 0 every request succeeded and was verified; 3 some failed (counted by class on \
standard error); 4 a condition of --fail-if holds; 130 interrupted (by SIGINT or SIGTERM): the result is of what was measured until then; 2 bad usage; 1 anything \
else.";

/// End of a command without an error.
enum ExitOutcome {
    Success,
    /// The failures have been counted on standard error.
    FailedRequests,
    /// The conditions of `--fail-if` that hold have been named on standard error.
    ThresholdExceeded,
    /// The result of what was measured until then has been printed.
    Interrupted,
}

/// Reason why a command could not be carried out.
enum Failure {
    Usage(String),
    /// A signal came before there was anything to print.
    Interrupted(anyhow::Error),
    Other(anyhow::Error),
}

impl Failure {
    /// Makes a failure of bad usage.
    fn usage(problem: impl Display) -> Self {
        Self::Usage(problem.to_string())
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

impl Command {
    /// Returns the load that the command makes, if it makes one that can be divided.
    fn load(&self) -> Option<&LoadArgs> {
        match self {
            Self::Http(args) => Some(&args.load.common),
            Self::Kv(args) => Some(&args.load.common),
            Self::File(args) => Some(&args.load.common),
            Self::Mq(args) => Some(&args.load),
            Self::Replay(args) => Some(&args.load.common),
            Self::MqClient | Self::Agent(_) | Self::Report(_) | Self::Null(_) => None,
        }
    }

    fn run(self) -> Result<ExitOutcome, Failure> {
        match self {
            Self::Http(args) => http::run(&args),
            Self::Kv(args) => kv::run(&args),
            Self::File(args) => file::run(&args),
            Self::Mq(args) => mq::run(&args),
            Self::Replay(args) => replay::run(&args),
            Self::MqClient => loadgen::mq::run_client_process().map(|()| ExitOutcome::Success).map_err(Failure::from),
            Self::Report(args) => report::run(&args),
            Self::Null(args) => null::run(&args),
            Self::Agent(_) => Err(Failure::usage("an agent has no agents")),
        }
    }
}

pub(crate) fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let parsed = match parse(&words) {
        Ok(parsed) => parsed,
        Err(mut error) => match usage_error::rephrase(&mut error) {
            Some(problem) => {
                eprint_line(&format!("error: {problem}"));
                return ExitCode::from(EXIT_USAGE);
            }
            // It is help or a version, and ends the program, too.
            None => error.exit(),
        },
    };
    raise_descriptor_limit();
    if let Command::Agent(_) = parsed.cli.command {
        return agent::serve(|words| {
            let outcome = match parse(&words) {
                Ok(parsed) => parsed.cli.command.run(),
                Err(error) => Err(Failure::usage(error)),
            };
            end(outcome)
        });
    }
    let (status, error) = end(parsed.run());
    if let Some(error) = error {
        eprint_line(&format!("error: {error}"));
    }
    ExitCode::from(status)
}

/// A command line, and what it was parsed from.
struct Parsed {
    cli: Cli,
    definition: clap::Command,
    matches: ArgMatches,
}

fn parse(words: &[OsString]) -> Result<Parsed, clap::Error> {
    let mut definition = Cli::command();
    let matches = definition.try_get_matches_from_mut(words)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))?;
    Ok(Parsed { cli, definition, matches })
}

impl Parsed {
    /// Carries the command out, here or by agents.
    fn run(self) -> Result<ExitOutcome, Failure> {
        let Self { cli, definition, matches } = self;
        let divided = cli.command.load().filter(|load| !load.agents.agents.is_empty());
        match (divided, matches.subcommand()) {
            (Some(load), Some((name, matches))) => match definition.find_subcommand(name) {
                Some(command) => agent::coordinate(load, command, matches),
                None => cli.command.run(),
            },
            _ => cli.command.run(),
        }
    }
}

/// Returns the exit status of an outcome, and what is to be said about it.
fn end(outcome: Result<ExitOutcome, Failure>) -> (u8, Option<String>) {
    match outcome {
        Ok(ExitOutcome::Success) => (0, None),
        Ok(ExitOutcome::FailedRequests) => (EXIT_FAILED_REQUESTS, None),
        Ok(ExitOutcome::ThresholdExceeded) => (EXIT_THRESHOLD, None),
        Ok(ExitOutcome::Interrupted) => (EXIT_INTERRUPTED, None),
        Err(Failure::Usage(what)) => (EXIT_USAGE, Some(what)),
        Err(Failure::Interrupted(error)) => (EXIT_INTERRUPTED, Some(format!("{error:#}"))),
        Err(Failure::Other(error)) => (EXIT_FAILURE, Some(format!("{error:#}"))),
    }
}

/// Raises the soft limit of descriptors to the hard one: thousands of connections need more than it usually is.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Best effort: if it is refused, running out shows as the error class `fd_limit`.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Prints a line on standard error. If that is closed there is nobody to tell.
fn eprint_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints on standard output, and flushes it.
fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        // The reader has seen enough, as in `loadgen … | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(anyhow::Context::context(other, "cannot write to standard output")?),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
