//! Outcomes of requests, one word each: for metrics, for the log, and as a status for the client.

use sys::{beneath::OpenError, fifo};
use wire::mserve::{RequestError, Status};

use crate::copy::CopyError;

/// Declares the outcomes once: variant, name, status.
macro_rules! outcomes {
    ($($(#[doc = $about:literal])* $outcome:ident = $name:literal => $status:ident,)+) => {
        /// Outcome of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Outcome { $($(#[doc = $about])* $outcome,)+ }

        impl Outcome {
            pub const ALL: &'static [Self] = &[$(Self::$outcome,)+];

            /// Name in metrics and logs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$outcome => $name,)+ }
            }

            /// Status that the client is told.
            pub fn status(self) -> Status {
                match self { $(Self::$outcome => Status::$status,)+ }
            }
        }
    };
}

outcomes! {
    /// The whole file is in the FIFO.
    Sent = "sent" => Ok,
    /// A message without a byte, or with a NUL at its start. It names no client to tell.
    Empty = "empty" => Failed,
    /// A message that is no request. It names no client to tell.
    Malformed = "malformed" => Failed,
    /// A path or name longer than any file system takes. It names no client to tell.
    Oversized = "oversized" => Failed,
    FifoMissing = "fifo-missing" => FifoRefused,
    FifoLink = "fifo-link" => FifoRefused,
    /// A regular file, directory, socket or device has its name.
    FifoNotAFifo = "fifo-not-a-fifo" => FifoRefused,
    FifoDenied = "fifo-denied" => FifoRefused,
    FifoFailed = "fifo-failed" => FifoRefused,
    /// No client opened the FIFO for reading in time.
    NoReader = "no-reader" => NoReader,
    /// The reader took nothing for as long as --stall-timeout.
    Stalled = "stalled" => TimedOut,
    /// The reader took something now and then, and not all of it within --request-timeout.
    Deadline = "deadline" => TimedOut,
    /// The reader closed the FIFO, or died, before the end.
    ReaderGone = "reader-gone" => ReaderGone,
    FileMissing = "file-missing" => FileMissing,
    /// The path leads out of the root by `..`, or is absolute and not beneath it.
    OutsideRoot = "outside-root" => FileMissing,
    /// A directory, FIFO, socket or device.
    FileNotRegular = "file-not-regular" => FileNotRegular,
    FileDenied = "file-denied" => FileDenied,
    /// The file became shorter while it was sent.
    FileShrunk = "file-shrunk" => FileChanged,
    FileFailed = "file-failed" => Failed,
    CopyFailed = "copy-failed" => Failed,
    /// No descriptor for the FIFO or the file became free in time.
    OutOfDescriptors = "out-of-descriptors" => Overloaded,
    /// As many jobs waited as --max-waiting allows, and this one had waited longest.
    TooManyWaiting = "too-many-waiting" => Overloaded,
    /// Its answer had begun when the server had to stop.
    Stopping = "stopping" => Stopping,
}

impl From<RequestError> for Outcome {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Empty => Self::Empty,
            RequestError::Malformed => Self::Malformed,
            RequestError::Oversized => Self::Oversized,
        }
    }
}

impl From<fifo::OpenError> for Outcome {
    fn from(error: fifo::OpenError) -> Self {
        match error {
            fifo::OpenError::NoReader => Self::NoReader,
            fifo::OpenError::Missing | fifo::OpenError::BadName => Self::FifoMissing,
            fifo::OpenError::Link => Self::FifoLink,
            fifo::OpenError::NotFifo => Self::FifoNotAFifo,
            fifo::OpenError::Denied => Self::FifoDenied,
            fifo::OpenError::Exhausted => Self::OutOfDescriptors,
            fifo::OpenError::Failed(_) => Self::FifoFailed,
        }
    }
}

impl From<OpenError> for Outcome {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Missing => Self::FileMissing,
            OpenError::Directory | OpenError::NotRegular => Self::FileNotRegular,
            OpenError::Denied => Self::FileDenied,
            OpenError::Exhausted => Self::OutOfDescriptors,
            OpenError::Failed(_) => Self::FileFailed,
        }
    }
}

impl From<CopyError> for Outcome {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Shrunk => Self::FileShrunk,
            CopyError::ReaderGone => Self::ReaderGone,
            CopyError::Failed(_) => Self::CopyFailed,
        }
    }
}
