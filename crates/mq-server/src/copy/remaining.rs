//! The part of a file that has not been sent, for the ways to copy that move references.

use std::{io, os::fd::OwnedFd};

use sys::{
    beneath::{Metadata, OpenError},
    fifo::{self, Writer},
};

use super::{CopyError, Progress, STEP_BYTES_MAX, Source, State};

/// The part of a file that has not been sent.
#[derive(Debug)]
pub(super) struct Remaining {
    pub(super) file: OwnedFd,
    pub(super) offset: u64,
    end: u64,
    /// Capacity of the FIFO.
    pub(super) capacity: u64,
}

impl Remaining {
    pub(super) fn new(source: Source, sink: &Writer) -> io::Result<Self> {
        let capacity = fifo::capacity(sink)? as u64;
        Ok(Self { file: source.file, offset: 0, end: source.metadata.size, capacity })
    }

    pub(super) fn len(&self) -> u64 {
        self.end - self.offset
    }

    /// Fills the FIFO by `push`, which gets the file, an offset and a length, and returns the number of bytes moved: 0 at the
    /// end of the file.
    pub(super) fn push(
        &mut self,
        mut push: impl FnMut(&OwnedFd, u64, u64) -> io::Result<usize>,
    ) -> Result<Progress, CopyError> {
        let mut moved = 0;
        while self.len() > 0 {
            if moved >= STEP_BYTES_MAX {
                return Ok(Progress { moved, state: State::More });
            }
            match push(&self.file, self.offset, self.len()) {
                Ok(0) => return Err(CopyError::Shrunk),
                Ok(n) => {
                    self.offset += n as u64;
                    moved += n as u64;
                    // A call that has moved a whole capacity leaves the FIFO full: the next would only say so.
                    if n as u64 == self.capacity && self.len() > 0 {
                        return Ok(Progress { moved, state: State::Blocked });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress { moved, state: State::Blocked });
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.check()?;
        Ok(Progress { moved, state: State::Done })
    }

    /// Checks that the bytes sent are still there: a page that a file loses is lost in the FIFO as well.
    pub(super) fn check(&self) -> Result<(), CopyError> {
        let size = Metadata::of(&self.file).map_err(|error: OpenError| CopyError::Failed(error.into()))?.size;
        if size < self.offset { Err(CopyError::Shrunk) } else { Ok(()) }
    }
}
