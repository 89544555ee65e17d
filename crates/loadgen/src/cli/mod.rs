//! The commands, and the exit status of each outcome.

mod ceiling;
mod distribution;
mod failures;
mod file;
mod http;
mod kv;
mod load;
mod mq;
mod null;
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
mod usage_error;
mod values;
mod verify;

use std::{fmt::Display, io::Write as _, process::ExitCode};

use clap::{Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};

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

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
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
    let outcome = match cli.command {
        Command::Http(args) => http::run(&args),
        Command::Kv(args) => kv::run(&args),
        Command::File(args) => file::run(&args),
        Command::Mq(args) => mq::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::MqClient => loadgen::mq::run_client_process().map(|()| ExitOutcome::Success).map_err(Failure::from),
        Command::Report(args) => report::run(&args),
        Command::Null(args) => null::run(&args),
    };
    match outcome {
        Ok(ExitOutcome::Success) => ExitCode::SUCCESS,
        Ok(ExitOutcome::FailedRequests) => ExitCode::from(EXIT_FAILED_REQUESTS),
        Ok(ExitOutcome::ThresholdExceeded) => ExitCode::from(EXIT_THRESHOLD),
        Ok(ExitOutcome::Interrupted) => ExitCode::from(EXIT_INTERRUPTED),
        Err(Failure::Usage(what)) => {
            eprint_line(&format!("error: {what}"));
            ExitCode::from(EXIT_USAGE)
        }
        Err(Failure::Interrupted(error)) => {
            eprint_line(&format!("error: {error:#}"));
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Err(Failure::Other(error)) => {
            eprint_line(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
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
