//! Twelve ways to move bytes between sockets and a [`proto::Session`].
//!
//! A driver owns sockets and threads and knows no protocol; what differs between two drivers is the I/O architecture
//! and nothing else. Each states the facts about itself in a [`Descriptor`]. `unsafe` is confined to `uring`, `glommio::raw` and
//! `monoio::raw`.
//!
//! The suite that every driver must pass needs servers as processes: it is `testkit::conformance`.

#![deny(unsafe_code)]

mod accept;
mod arrived;
mod blocking;
mod clock;
mod closing;
#[cfg(feature = "compio")]
mod compio;
mod counters;
mod descriptor;
mod epoll;
mod event_loop;
#[cfg(all(feature = "glommio", not(target_env = "musl")))]
mod glommio;
mod listeners;
mod mailbox;
#[cfg(feature = "may")]
mod may;
#[cfg(feature = "monoio")]
mod monoio;
mod peer;
mod pipes;
mod pool;
mod reactor;
mod set;
mod shutdown;
#[cfg(feature = "smol")]
mod smol;
#[cfg_attr(target_env = "musl", path = "system_calls/musl.rs")]
pub mod system_calls;
mod table;
pub mod tasks;
mod tokio;
#[cfg(not(target_env = "musl"))]
mod tokio_uring;
#[allow(unsafe_code, reason = "the one room for it: a raw ring shares memory with the kernel")]
mod uring;
mod wheel;
mod write;

use std::{io, panic::resume_unwind, sync::Arc, thread::ScopedJoinHandle};

pub use counters::{Counts, Statistics};
pub use descriptor::{
    ConnectionModel, DefaultWorkers, Descriptor, FilePath, IoModel, MemoryPath, PipePath, ReadBuffer, Unavailable, Wait,
};
pub use listeners::Listeners;
pub use pipes::ScratchPipes;
use proto::{Limits, Protocol};
pub use set::{DriverSet, Only};
pub use shutdown::{Loop, Registration, Shutdown, Stage};
use sys::{affinity::Cpus, registered::Region};
pub use table::{DriverKind, UnknownDriver, driver_named};

/// Settings of a driver.
#[derive(Clone, Debug)]
pub struct Config {
    /// Event loops, or runtime threads.
    pub threads: usize,
    /// Threads beside the event loops that run the protocol, for drivers with [`Descriptor::default_workers`].
    pub workers: usize,
    /// Connections above this are refused with [`Protocol::refusal`].
    pub connections_max: usize,
    pub limits: Limits,
    /// Threads are dealt out to these processors round robin; all of them share those there are when it is `None`.
    pub pin: Option<Cpus>,
    pub statistics: Statistics,
    /// Pipes that cached pipes and pages are sent through.
    pub scratch_pipes: ScratchPipes,
    /// Memory that drivers which can do so register with the kernel, to send it without copying.
    pub registered: Option<Arc<Region>>,
}

impl Config {
    /// Pins the calling thread, the driver's thread of this number, to its processor, if there are any to pin to.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pin_thread(&self, index: usize) -> io::Result<()> {
        self.pin.as_ref().map_or(Ok(()), |cpus| cpus.pin_to_one(index))
    }
}

/// Parts that drivers share beside the [`tasks`] of runtimes, for drivers of other crates, too. None of them depends on a protocol
/// or on a way of waiting.
pub mod parts {
    pub use crate::{
        accept::{Accepted, Acceptor, ConnectionLimit, ConnectionPermit, EXHAUSTED_PAUSE},
        arrived::read_arrived,
        clock::now,
        closing::end_output,
        counters::{Tally, ThreadCounters},
        peer::{peer, uptake},
        pipes::Pipes,
        write::{WRITE_MAX, write_front, write_front_once},
    };
}

/// One way of moving bytes. Implementors are tags, never values. A program of another crate has its own by [`Only`].
pub trait Driver {
    const DESCRIPTOR: Descriptor;

    /// # Errors
    /// The reason that this machine cannot run it.
    fn probe() -> Result<(), Unavailable> {
        Ok(())
    }

    /// # Errors
    /// The reason that it cannot send memory of this region as [`Descriptor::registers_memory`] says, on so many
    /// threads.
    fn probe_registered(_region: &Arc<Region>, _threads: usize) -> io::Result<()> {
        Ok(())
    }

    /// Returns once `shutdown` drains and the last connection has closed.
    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()>;
}

/// Arguments of [`Driver::serve`].
#[derive(Debug)]
pub struct Serving<'a, P> {
    pub protocol: Arc<P>,
    pub listeners: Listeners,
    pub config: &'a Config,
    pub shutdown: &'a Shutdown,
}

/// Runs one event loop for each part, on a thread of its own, and returns the first failure. A server that has lost a
/// loop would leave its share of the connections waiting: the others drain.
///
/// # Errors
/// The first failure.
pub fn on_threads<T: Send>(
    config: &Config,
    shutdown: &Shutdown,
    parts: Vec<T>,
    body: impl Fn(T) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let run = |index, part| {
        let outcome = config.pin_thread(index).and_then(|()| body(part));
        if outcome.is_err() {
            shutdown.drain();
        }
        outcome
    };
    let run = &run;
    std::thread::scope(|scope| {
        let loops = parts.into_iter().enumerate().map(|(index, part)| scope.spawn(move || run(index, part)));
        join_all(loops.collect())
    })
}

/// Returns the first failure of several threads, once all of them have ended.
fn join_all(threads: Vec<ScopedJoinHandle<'_, io::Result<()>>>) -> io::Result<()> {
    let outcomes: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    outcomes.into_iter().try_for_each(|outcome| outcome.unwrap_or_else(|panic| resume_unwind(panic)))
}
