use std::{
    env,
    io::{self, IsTerminal},
};

use anyhow::anyhow;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::args::Log;

/// Levels where RUST_LOG names none. The runtime `may` tells of every descriptor, and calls a wait that a signal has
/// interrupted an error.
const LEVELS: &str = "info,may=off";

/// Logs to standard error from here on.
pub(crate) fn start(format: Log) -> anyhow::Result<()> {
    let levels = env::var(EnvFilter::DEFAULT_ENV).unwrap_or_else(|_| LEVELS.into());
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).parse_lossy(levels);
    let colours = io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // Where nobody reads standard error any more, saying so there would panic, in the thread that waits for signals,
    // too.
    let subscriber = subscriber.with_ansi(colours).log_internal_errors(false).with_writer(io::stderr);
    let started = match format {
        Log::Text => subscriber.try_init(),
        Log::Json => subscriber.json().try_init(),
    };
    started.map_err(|error| anyhow!(error).context("cannot start logging"))
}
