//! `--agent`: a load from several machines.
//!
//! An agent is this program, started on the other machine by whatever reaches it (`ssh host`, `ip netns exec name`, `docker exec -i`,
//! `kubectl exec -i`), and spoken with over its standard input and output. The coordinator divides the load, compares the clocks, has
//! all agents begin at one time, and merges their results.

mod clock;
mod coordinate;
mod message;
mod process;
mod serve;
mod share;

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

pub(super) use self::{
    coordinate::coordinate,
    serve::{AgentArgs, Link, LiveMessages, link, serve},
};

#[derive(Args, Debug)]
pub(super) struct AgentOptions {
    /// Make the load on another machine, where COMMAND runs programs: 'ssh host1', 'ip netns exec name', 'docker exec -i name',
    /// 'kubectl exec -i pod --'; repeatable: each agent has its share of connections, rate and requests
    #[arg(long = "agent", value_name = "COMMAND")]
    pub(super) agents: Vec<String>,
    /// Name or path of this program where the agents run
    #[arg(long, value_name = "PROGRAM", default_value = "loadgen", requires = "agents")]
    pub(super) agent_program: String,
}

/// Returns the time since 1970.
fn unix_nanos() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
