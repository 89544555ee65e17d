//! Limits of a machine, or of a run: cells that they have no room for.

use results::{Cell, Connection, Workload};

use super::Subject;

/// Descriptors that a server needs besides its connections.
const SPARE_DESCRIPTORS: u64 = 200;
/// Connections beyond which a thread or a worker per connection is not a sensible thing to measure.
const THREADS_MAX: u32 = 1024;

/// Returns why `cell` cannot run `workload` here, if it cannot.
pub(crate) fn cannot_run(
    subject: &Subject,
    cell: &Cell,
    workload: &Workload,
    open_files: u64,
    is_quick: bool,
) -> Option<String> {
    if workload.pipeline > 1 && !subject.pipelines(&workload.name) {
        return Some("one request per connection".to_owned());
    }
    let connections = workload.connections;
    if u64::from(connections) + SPARE_DESCRIPTORS > open_files {
        return Some(format!("{connections} connections need more than the {open_files} open files allowed here"));
    }
    if connections > THREADS_MAX {
        match cell.connection {
            Some(Connection::Thread) => return Some(format!("a thread per connection: {connections} threads")),
            Some(Connection::Worker) => return Some(format!("a worker per connection: {connections} workers")),
            Some(Connection::Loop | Connection::Task | Connection::Coroutine) | None => {}
        }
    }
    subject.why_not(cell, workload, is_quick)
}

/// Returns why several agents cannot share a workload's load, as loadgen would.
pub(crate) fn cannot_be_shared(subject: &Subject, workload: &Workload, agents: usize) -> Option<String> {
    let connections = workload.connections;
    match () {
        () if agents == 0 => None,
        () if !subject.load.has_agents() => Some("its load is made on the server's machine".to_owned()),
        () if workload.is_load_sweep() => Some("a load sweep is made by one generator".to_owned()),
        () if workload.repetitions.is_some() => Some("clients that pause are those of one generator".to_owned()),
        () if (connections as usize) < agents => Some(format!("{connections} connections for {agents} agents")),
        () => None,
    }
}
