//! Where servers and the generator's agents run, if not all of them run here without a prefix.

use anyhow::Result;
use results::Remote;

use crate::{plan::args::Args, usage};

/// Prefix that leads nowhere else.
const HERE: &str = "env";

/// Reads `--server-exec`, `--server-host` and `--agent`.
pub(super) fn of(args: &Args) -> Result<Option<Remote>> {
    let Some(host) = args.server_host else { return Ok(None) };
    let prefix = match &args.server_exec {
        Some(prefix) => prefix.0.clone(),
        // Agents cannot see a process of this machine, whose CPU time is then read as that of another machine's.
        None if !args.agents.is_empty() => vec![HERE.to_owned()],
        None => return Err(usage("--server-host goes with --server-exec or --agent")),
    };
    Ok(Some(Remote { prefix, host, agents: args.agents.clone() }))
}
