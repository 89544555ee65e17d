//! How the bytes of a file get into a FIFO, in steps that never wait for its reader.

mod read_write;

use std::{io, os::fd::OwnedFd};

use sys::{beneath::Metadata, fifo::Fifo};

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
    /// Bytes that this step has put into the FIFO.
    pub moved: u64,
    pub state: State,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All bytes are in the FIFO; the transfer may be dropped and the FIFO closed.
    Done,
    /// The FIFO is full: to be continued when it polls writable (or its reader is gone, which the next step finds out).
    Blocked,
    /// The FIFO may take more at once.
    More,
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
    Failed(#[from] io::Error),
}

/// One way to copy, shared by all threads.
pub trait FileCopy: Send + Sync + 'static {
    /// One file on its way into one FIFO. It is dropped before the FIFO is closed.
    type Transfer: Send;

    /// # Errors
    /// Something is missing for the transfer: memory, a pipe, a ring.
    fn begin(&self, source: Source, sink: &Fifo) -> Result<Self::Transfer, CopyError>;

    /// Moves what goes without waiting for the FIFO's reader, about [`STEP_BYTES_MAX`] at most. `sink` is the FIFO that
    /// the transfer began with.
    ///
    /// # Errors
    /// The transfer is at its end.
    fn step(&self, transfer: &mut Self::Transfer, sink: &Fifo) -> Result<Progress, CopyError>;
}

/// What the choices have to be told.
#[derive(Clone, Copy, Debug)]
pub struct CopyOptions {
    /// Of the buffer between a read and a write.
    pub buffer_bytes: usize,
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
    ReadWrite;
    /// read into a buffer, write from it
    ReadWrite = "read-write" => read_write::ReadWrite::new,
}
