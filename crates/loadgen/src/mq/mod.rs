//! Files by message queue and FIFO: a client puts a request on the server's POSIX message queue, and the reply comes
//! through a FIFO that the client has made for it, in a directory that is private unless the plan says otherwise.
//!
//! Each client is a thread or a process of its own and has one request under way at a time. The FIFO is made and opened
//! before the request falls due, has a name that nobody can guess, answers one request and is then removed: what a
//! server says late, or twice, never becomes part of another reply.

mod client;
mod coordinator;
mod directory;
mod exchange;
mod fifo;
mod load;
mod log;
mod processes;
mod recorder;
mod reply;
mod sink;

use std::{io, sync::atomic::AtomicBool};

use self::{coordinator::coordinate, directory::DirectoryLock, log::Log, processes::Processes};
pub use self::{
    directory::{DirectoryError, Sharing, open as open_directory},
    load::{ClientKind, MqLoad, ReplyForm, ReplySink, RequestedFile},
    processes::{CLIENT_COMMAND, run_client_process},
};
use crate::{
    engine::{LiveStats, Measured},
    usage::ServerProbe,
};

/// Reasons why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum MqError {
    #[error("cannot open the queue {name}: {why}")]
    Queue { name: String, why: String },
    #[error("the queue takes messages of up to {max} bytes, and a request has up to {need}")]
    MessageSize { need: usize, max: usize },
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("cannot open /dev/null: {0}")]
    Null(io::Error),
    #[error("cannot pin a client to one of the CPUs {cpus}: {why}")]
    Pin { cpus: String, why: io::Error },
    #[error("cannot start a client: {0}")]
    Start(io::Error),
    #[error("a client ended without a report: {0}")]
    Lost(String),
    #[error("a client panicked")]
    Panicked,
}

/// Lets the clients of `plan` ask until the limit, or until `interrupt` is set, and reports progress to `observe`. No
/// FIFO is left when it returns, and in a private directory none of a run that was killed either.
///
/// # Errors
/// The queue or the directory cannot be used, or a client could not be started or was lost.
pub fn run(
    plan: &MqLoad,
    server: Option<&ServerProbe>,
    interrupt: &AtomicBool,
    observe: impl FnMut(&LiveStats),
) -> Result<Measured<()>, MqError> {
    let _lock = DirectoryLock::acquire(&plan.fifo_directory, plan.sharing, &plan.prefix)?;
    // Best effort: without it the edges of the window are late by the default slack of 50 µs.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    client::check(plan)?;
    let log = Log::of(plan);
    let mut measured = match plan.spawn {
        ClientKind::Thread => {
            client::with_threads(plan, log.as_ref(), |clients| coordinate(plan, clients, server, interrupt, observe))
        }
        ClientKind::Process => Processes::start(plan, log.as_ref())
            .and_then(|mut clients| coordinate(plan, &mut clients, server, interrupt, observe)),
    }?;
    measured.request_log = log.map(|log| log.read(plan, measured.opened));
    Ok(measured)
}

/// Makes a directory as `mkdir -m 700` does.
#[cfg(test)]
fn private_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a directory")
}
