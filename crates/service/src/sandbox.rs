//! `--sandbox`: what a server gives up before it has a thread.

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use sys::confinement;

use crate::{Program, cli::keep_address, output};

/// Choice of confinement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sandbox {
    /// A kernel that cannot is an error
    On,
    Off,
    /// Where that is possible: if not, the log says why
    Auto,
}

/// Gives up what the program does not need, and returns true if it has done so.
///
/// # Errors
/// The kernel cannot, and the flag says that it has to.
pub(crate) fn confine<P: Program>(program: &P) -> anyhow::Result<bool> {
    let args = program.shell();
    if args.sandbox == Sandbox::Off {
        return Ok(false);
    }
    let mut kept = program.kept();
    if let Some(config) = &args.config {
        kept.read_replaceable(config);
    }
    let default_metrics = program.default_metrics().and_then(|address| address.parse().ok());
    if let Some(address) = args.metrics.as_ref().or(default_metrics.as_ref()) {
        keep_address(&mut kept, address);
    }
    let enforced = match kept.obstacle {
        Some(obstacle) => Err(anyhow!(obstacle)),
        None => kept.enforce().map_err(anyhow::Error::from),
    };
    match enforced {
        Err(error) if args.sandbox == Sandbox::Auto => {
            tracing::warn!("--sandbox auto: not confined: {}", output::chain(&error));
            return Ok(false);
        }
        enforced => enforced.context("--sandbox on")?,
    }
    confinement::hide_memory().context("--sandbox")?;
    Ok(true)
}
