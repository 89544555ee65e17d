//! The ways to move the bytes of a file into a FIFO, in steps that never wait for its reader.
//!
//! All but `read-write` put references to the file's pages into the FIFO: the reader sees what is written to the file before
//! it has taken them. A file that has become shorter is an error if that is noticed before the last byte is in the FIFO.
//! Bytes that are no longer there are never made up.

mod read_write;
mod remaining;
mod sendfile;
mod splice;
mod tee;
mod uring;
mod vmsplice;

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use clap::ValueEnum;
use rustix::io::Errno;
use service::{Budget, Dimension, choice_name};
use sys::{beneath::Metadata, fifo::Writer, ring::SpliceRing};

/// Most bytes, about, that one step moves, so that a thread with several transfers serves all of them.
pub const STEP_BYTES_MAX: u64 = 4 << 20;

/// A regular file to be sent from its start.
#[derive(Debug)]
pub struct Source {
    pub file: OwnedFd,
    /// Metadata from when the file was opened. Whatever becomes of the file, `size` bytes are sent or the transfer fails.
    pub metadata: Metadata,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes put into the FIFO since the last step.
    pub moved: u64,
    pub state: State,
}

/// State of a transfer after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All bytes are in the FIFO; the transfer may be dropped and the FIFO closed.
    Done,
    /// The transfer goes on when the descriptor that [`FileCopy::readiness`] names is ready. If that is the FIFO, it was full:
    /// an edge-triggered wait misses nothing.
    Blocked,
    /// The FIFO may take more at once.
    More,
}

/// Descriptor that a blocked transfer waits for.
#[derive(Clone, Copy, Debug)]
pub enum Readiness<'a> {
    /// Room in the FIFO, or the end of its reader, which the next step finds out.
    Writable(BorrowedFd<'a>),
    /// An event from another thread that moves the bytes in the meantime. If the reader stalls, that thread gives the
    /// transfer back within milliseconds, which is then `Writable`.
    Readable(BorrowedFd<'a>),
}

/// Reason why a transfer ends early.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The file is shorter than it was.
    #[error("the file has become shorter")]
    Shrunk,
    #[error("the reader is gone")]
    ReaderGone,
    #[error(transparent)]
    Failed(io::Error),
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        match (error.kind(), Errno::from_io_error(&error)) {
            (io::ErrorKind::BrokenPipe, _) => Self::ReaderGone,
            // A page of a mapping that the file has lost is a bad address.
            (io::ErrorKind::UnexpectedEof, _) | (_, Some(Errno::FAULT)) => Self::Shrunk,
            _ => Self::Failed(error),
        }
    }
}

/// One way to copy, shared by all threads.
pub trait FileCopy: Send + Sync + 'static {
    /// One file on its way into one FIFO. It may be dropped at any time, does not touch the FIFO afterwards, and is dropped
    /// before the FIFO is closed.
    type Transfer: Send;

    /// Begins a transfer into `sink`, which already has its final capacity.
    ///
    /// # Errors
    /// Memory, a pipe or a ring is missing.
    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Self::Transfer, CopyError>;

    /// Moves bytes without waiting for the reader, about [`STEP_BYTES_MAX`] at most. `sink` is the FIFO that the transfer
    /// began with.
    ///
    /// # Errors
    /// The transfer cannot go on.
    fn step(&self, transfer: &mut Self::Transfer, sink: &Arc<Writer>) -> Result<Progress, CopyError>;

    /// Returns the descriptor that a transfer waits for whose last step returned `Blocked`. It changes at steps only.
    fn readiness<'a>(&self, _transfer: &'a Self::Transfer, sink: &'a Arc<Writer>) -> Readiness<'a> {
        Readiness::Writable(sink.as_fd())
    }
}

/// Options of all ways to copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Size of the buffer between a read and a write.
    pub buffer_bytes: usize,
    /// Bytes that enlarged pipes may hold together, those that `tee` shares included.
    pub pipe_budget: Budget,
}

/// An action on a [`FileCopy`] of known type.
pub trait CopyVisitor {
    type Output;

    fn visit<C: FileCopy>(self, copy: C) -> Self::Output;
}

/// A way to copy files, by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum CopyKind {
    /// read into a buffer, write from it
    ReadWrite,
    /// splice: references to the file's pages
    #[default]
    Splice,
    /// sendfile: the same by another call
    Sendfile,
    /// pages of a mapping lent to the FIFO by vmsplice
    Vmsplice,
    /// chains of linked splices by io_uring
    Uring,
    /// clients that want the same file at the same time share one pass over it: tee duplicates the references
    Tee,
}

impl CopyKind {
    /// Makes the [`FileCopy`] of this name and passes it to `visitor`.
    ///
    /// # Errors
    /// The kernel does not offer what it needs.
    pub fn with<V: CopyVisitor>(self, options: &CopyOptions, visitor: V) -> io::Result<V::Output> {
        Ok(match self {
            Self::ReadWrite => visitor.visit(read_write::ReadWrite::new(options)),
            Self::Splice => visitor.visit(splice::Splice),
            Self::Sendfile => visitor.visit(sendfile::Sendfile),
            Self::Vmsplice => visitor.visit(vmsplice::Vmsplice::default()),
            Self::Uring => visitor.visit(uring::Uring::new()?),
            Self::Tee => visitor.visit(tee::Tee::new(options)),
        })
    }

    /// Returns the choices for `--list-backends`; one that this machine cannot run says why.
    pub fn dimension() -> Dimension {
        let mut dimension = Dimension::of("copy", "--copy", &Self::default());
        for choice in dimension.choices.iter_mut().filter(|choice| choice.name == choice_name(&Self::Uring)) {
            choice.unavailable = SpliceRing::new().err().map(|error| error.to_string());
        }
        dimension
    }
}

impl fmt::Display for CopyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&choice_name(self))
    }
}

#[cfg(test)]
mod tests;
