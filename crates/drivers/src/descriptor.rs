//! Facts about drivers. Each driver states its own, next to its code; code that depends on one asks for the fact and
//! never for a name.

use std::{fmt, io};

use serde::{Serialize, Serializer};
use sys::ring::Refusal;

/// Facts about one driver. `--list-backends` prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Descriptor {
    /// Name on the command line.
    #[serde(skip)]
    pub name: &'static str,
    /// Description in one line.
    #[serde(skip)]
    pub about: &'static str,
    /// Crate that it drives, with its version, and flags of its rings (io_uring_setup(2)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_on: Option<&'static str>,
    pub io: IoModel,
    pub connection: ConnectionModel,
    /// Default of [`crate::Config::workers`].
    pub default_workers: DefaultWorkers,
    /// True if each thread accepts from a listener of its own: the kernel deals connections out to the threads.
    pub listener_per_thread: bool,
    /// True if several connections share one run of the protocol ([`proto::Protocol::on_ready`]).
    pub batches: bool,
    pub waits_in: Wait,
    pub reads_into: ReadBuffer,
    pub sends_memory: MemoryPath,
    pub sends_files: FilePath,
    pub sends_pipes: PipePath,
    /// True if it sends [`crate::Config::registered`] without copying it; others send it as any other memory.
    pub registers_memory: bool,
    /// True if it is a cargo feature of this crate, so that there are builds without it.
    pub is_optional: bool,
    /// Facility of the kernel that not every machine offers.
    pub needs: Option<&'static str>,
    /// System calls that it makes beside those of every driver ([`crate::system_calls`]), for a filter of calls.
    #[serde(skip)]
    pub calls: &'static [&'static str],
}

impl Descriptor {
    /// Facts of drivers that move bytes by plain system calls; each states its name and how it differs.
    pub const PLAIN_CALLS: Self = Self {
        name: "",
        about: "",
        built_on: None,
        io: IoModel::Readiness,
        connection: ConnectionModel::Loop,
        default_workers: DefaultWorkers::None,
        listener_per_thread: false,
        batches: false,
        waits_in: Wait::Epoll,
        reads_into: ReadBuffer::Scratch,
        sends_memory: MemoryPath::Send,
        sends_files: FilePath::Sendfile,
        sends_pipes: PipePath::Splice,
        registers_memory: false,
        is_optional: false,
        needs: None,
        calls: &[],
    };

    /// Facts that the runtimes share which have a ring for each thread, and operations that own their buffers.
    #[cfg(any(feature = "compio", feature = "monoio"))]
    pub(crate) const OWNED_BUFFERS: Self = Self {
        io: IoModel::Completion,
        connection: ConnectionModel::Task,
        listener_per_thread: true,
        waits_in: Wait::Ring,
        reads_into: ReadBuffer::Owned,
        sends_memory: MemoryPath::RingSend,
        is_optional: true,
        needs: Some(IO_URING),
        ..Self::PLAIN_CALLS
    };

    /// Returns the description with what the driver is built on.
    pub fn text(&self) -> String {
        match self.built_on {
            Some(built_on) => format!("{} ({built_on})", self.about),
            None => self.about.to_owned(),
        }
    }

    /// True if the protocol runs on workers while event loops move the bytes.
    pub fn has_workers_beside_loops(&self) -> bool {
        self.connection == ConnectionModel::Loop && self.default_workers != DefaultWorkers::None
    }

    /// True if a connection holds a thread of its own for as long as it is served.
    pub fn holds_a_thread(&self) -> bool {
        matches!(self.connection, ConnectionModel::Thread | ConnectionModel::Worker)
    }
}

/// Side of an operation on which the kernel reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoModel {
    /// System calls move bytes once a descriptor is ready for them.
    Readiness,
    /// A ring performs the operations and reports that they are complete.
    Completion,
}

/// Place of a connection while it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionModel {
    /// A thread of its own.
    Thread,
    /// One of a fixed number of threads; further connections wait in a queue.
    Worker,
    /// An event loop with many others.
    Loop,
    /// A task of its own on a runtime.
    Task,
    /// A task with a stack of its own, as a thread has, on threads of a runtime.
    Coroutine,
}

/// Threads beside the event loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultWorkers {
    None,
    Fixed(usize),
    /// One for each processor that is available.
    PerProcessor,
}

impl DefaultWorkers {
    /// The number on this machine.
    pub fn count(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Fixed(count) => Some(count),
            Self::PerProcessor => Some(sys::affinity::available()),
        }
    }
}

impl Serialize for DefaultWorkers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.count().serialize(serializer)
    }
}

/// System call that a thread sleeps in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// recv(2) with a timeout.
    Recv,
    /// poll(2).
    Poll,
    /// epoll_wait(2).
    Epoll,
    /// epoll_wait(2), with a call of epoll_ctl(2) before each event that is waited for (EPOLLONESHOT).
    EpollOneshot,
    /// io_uring_enter(2).
    Ring,
    /// The same, on a ring that says which descriptors are ready. Its crate ends the process where a submission fails.
    RingPoll,
}

/// Memory that received bytes arrive in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadBuffer {
    /// The session's own.
    Session,
    /// One that the connections of a thread share; an idle connection holds none.
    Scratch,
    /// One for each read in flight, so that an idle connection holds one.
    Owned,
    /// One that the kernel picks from a ring of provided buffers when bytes arrive.
    Provided,
}

/// Way of memory to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryPath {
    /// The system calls send and sendmsg.
    Send,
    /// The same operations on a ring, all those of a turn in one submission. A short one that is alone in its turn may be a system
    /// call.
    RingSend,
    /// Writes of owned buffers on a ring.
    RingWrite,
}

/// Way of a file region to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilePath {
    Sendfile,
    /// Read into memory and written from there.
    ReadWrite,
}

/// Way of cached pipes and pages of mapped files to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PipePath {
    /// tee or vmsplice into a scratch pipe, and splice out of it.
    Splice,
    /// Pipes are teed, read into memory and written from there; pages are written from the mapping.
    ReadWrite,
}

/// Reason that this machine cannot run a driver.
#[derive(Debug)]
pub struct Unavailable {
    /// Facility that was tried, and its error.
    pub why: String,
    /// Change of the machine that helps.
    pub remedy: &'static str,
}

impl Unavailable {
    pub(crate) fn without_io_uring(error: &io::Error) -> Self {
        let refusal = Refusal::find(error);
        Self { why: refusal.to_string(), remedy: refusal.remedy() }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; it takes {}", self.why, self.remedy)
    }
}

impl std::error::Error for Unavailable {}

/// [`Descriptor::needs`] of drivers on a ring.
pub(crate) const IO_URING: &str = "io_uring";
