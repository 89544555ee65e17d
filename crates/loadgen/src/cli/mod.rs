//! Subcommands, and what their outcome means for the shell.

mod campaign;
mod draw;
mod drive;
mod file;
mod http;
mod kv;
mod null;
mod progress;
mod tls;
mod values;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Some requests failed.
const EXIT_FAILED_REQUESTS: u8 = 3;
/// Bad usage, as clap has it.
const EXIT_USAGE: u8 = 2;

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
    /// Be the floor: a bare epoll loop that answers every request with one fixed reply
    Null(null::NullArgs),
}

const EXIT_HELP: &str = "Exit status: 0 every request succeeded and was verified; 3 some failed (counted by class on \
standard error); 2 bad usage; 1 anything else.";

/// How a command ended, if not with an error.
enum Outcome {
    Success,
    /// Counted on standard error already.
    FailedRequests,
}

/// Why a command could not be carried out.
enum Failure {
    Usage(String),
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    raise_descriptor_limit();
    let outcome = match cli.command {
        Command::Http(args) => http::run(&args),
        Command::Kv(args) => kv::run(&args),
        Command::File(args) => file::run(&args),
        Command::Null(args) => null::run(&args),
    };
    match outcome {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::FailedRequests) => ExitCode::from(EXIT_FAILED_REQUESTS),
        Err(Failure::Usage(what)) => {
            complain(&format!("error: {what}"));
            ExitCode::from(EXIT_USAGE)
        }
        Err(Failure::Other(error)) => {
            complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Thousands of connections need more descriptors than the soft limit usually has.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Best effort: if it is refused, running out shows as the error class `fd_limit`.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// One line on standard error. If that is closed there is nobody to tell.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Text on standard output, flushed.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever reads has seen enough, as in `loadgen … | head`.
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
