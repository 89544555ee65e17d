//! How the bytes of a file get into a FIFO, in steps that never wait for its reader.
//!
//! All but `read-write` put references to the file's pages into the FIFO: what happens to the file afterwards, before the
//! reader has taken them, the reader sees. That a file has become shorter is an error as far as it is noticed before the last
//! byte is in the FIFO, and bytes that are no longer there are never made up.

mod read_write;
mod rest;
mod sendfile;
mod splice;
mod tee;
#[cfg(test)]
mod tests;
mod uring;
mod vmsplice;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::io::Errno;
use service::{Budget, Dimension};
use sys::{beneath::Metadata, fifo::Writer, ring::SpliceRing};

/// About how many bytes one step moves at most, so that a thread with several transfers serves all of them.
pub const STEP_BYTES_MAX: u64 = 4 << 20;

/// A regular file to be sent from its start.
#[derive(Debug)]
pub struct Source {
    pub file: OwnedFd,
    /// As it was when the file was opened: `size` bytes are sent, whatever becomes of the file, or the transfer fails.
    pub metadata: Metadata,
}

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that have been put into the FIFO since the last step.
    pub moved: u64,
    pub state: State,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All bytes are in the FIFO; the transfer may be dropped and the FIFO closed.
    Done,
    /// To be continued when what [`FileCopy::readiness`] names is ready. A FIFO that is named was full: who waits for
    /// edges misses none.
    Blocked,
    /// The FIFO may take more at once.
    More,
}

/// What a transfer that is blocked waits for.
#[derive(Clone, Copy, Debug)]
pub enum Readiness<'a> {
    /// Room in the FIFO, or the death of its reader, which the next step finds out.
    Writable(BorrowedFd<'a>),
    /// News from whoever moves the transfer's bytes in the meantime. It sees to it that they move or says so within
    /// milliseconds: a reader that stalls becomes `Writable`.
    Readable(BorrowedFd<'a>),
}

/// Why a transfer ends before its end.
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
    /// One file on its way into one FIFO. It may be dropped at any time, and touches the FIFO no more afterwards; it is
    /// dropped before the FIFO is closed.
    type Transfer: Send;

    /// `sink` has the capacity that it will keep.
    ///
    /// # Errors
    /// Something is missing for the transfer: memory, a pipe, a ring.
    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Self::Transfer, CopyError>;

    /// Moves what goes without waiting for the FIFO's reader, about [`STEP_BYTES_MAX`] at most. `sink` is the FIFO that
    /// the transfer began with.
    ///
    /// # Errors
    /// The transfer is at its end.
    fn step(&self, transfer: &mut Self::Transfer, sink: &Arc<Writer>) -> Result<Progress, CopyError>;

    /// What a transfer whose last step said `Blocked` waits for. It changes at steps only.
    fn readiness<'a>(&self, _transfer: &'a Self::Transfer, sink: &'a Arc<Writer>) -> Readiness<'a> {
        Readiness::Writable(sink.as_fd())
    }
}

/// What the choices have to be told.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Of the buffer between a read and a write.
    pub buffer_bytes: usize,
    /// What pipes may have room for altogether, in bytes. Those that `tee` shares count.
    pub pipe_budget: Budget,
}

/// Something to be done with a [`FileCopy`] whose type is known where it is done.
pub trait CopyVisitor {
    type Output;

    fn visit<C: FileCopy>(self, copy: C) -> Self::Output;
}

/// One table: the choice, its name and description, and what makes it from [`CopyOptions`].
macro_rules! copies {
    ($default:ident; $($(#[doc = $about:literal])+ $kind:ident = $name:literal => $make:expr,)+) => {
        service::choices! {
            /// How files are copied.
            #[derive(Hash)]
            pub enum CopyKind: "copy", "--copy", default $default {
                $($(#[doc = $about])+ $kind = $name,)+
            }
        }

        impl CopyKind {
            /// Makes the one chosen and shows it to `visitor`.
            ///
            /// # Errors
            /// The kernel does not offer what it needs.
            pub fn with<V: CopyVisitor>(self, options: &CopyOptions, visitor: V) -> io::Result<V::Output> {
                match self { $(Self::$kind => Ok(visitor.visit($make(options)?)),)+ }
            }
        }
    };
}

copies! {
    Splice;
    /// read into a buffer, write from it
    ReadWrite = "read-write" => read_write::ReadWrite::new,
    /// splice: references to the file's pages
    Splice = "splice" => splice::Splice::new,
    /// sendfile: the same by another call
    Sendfile = "sendfile" => sendfile::Sendfile::new,
    /// pages of a mapping lent to the FIFO by vmsplice
    Vmsplice = "vmsplice" => vmsplice::Vmsplice::new,
    /// chains of linked splices by io_uring
    Uring = "uring" => uring::Uring::new,
    /// clients that want the same file at the same time share one pass over it: tee duplicates the references
    Tee = "tee" => tee::Tee::new,
}

impl CopyKind {
    /// What `--list-backends` says of it on this machine.
    pub fn dimension_here() -> Dimension {
        let mut dimension = Self::dimension();
        for choice in dimension.choices.iter_mut().filter(|choice| choice.name == Self::Uring.name()) {
            choice.unavailable = SpliceRing::new().err().map(|error| error.to_string());
        }
        dimension
    }
}
