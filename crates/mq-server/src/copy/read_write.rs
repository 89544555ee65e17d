//! What the first design did: read into a buffer, write from it.

use std::{io, os::fd::OwnedFd, sync::Arc};

use rustix::io::Errno;
use sys::fifo::Writer;

use super::{CopyError, CopyOptions, FileCopy, Progress, STEP_BYTES_MAX, Source, State};

#[derive(Debug)]
pub(super) struct ReadWrite {
    buffer_bytes: usize,
}

pub(super) struct Buffered {
    file: OwnedFd,
    buffer: Vec<u8>,
    /// What of the buffer has been written.
    written: usize,
    /// Bytes of the file that have not been read.
    unread: u64,
}

impl ReadWrite {
    pub(super) fn new(options: &CopyOptions) -> io::Result<Self> {
        Ok(Self { buffer_bytes: options.buffer_bytes.max(1) })
    }
}

impl FileCopy for ReadWrite {
    type Transfer = Buffered;

    fn begin(&self, source: Source, _: &Arc<Writer>) -> Result<Buffered, CopyError> {
        let buffer =
            Vec::with_capacity(self.buffer_bytes.min(usize::try_from(source.metadata.size).unwrap_or(usize::MAX)));
        Ok(Buffered { file: source.file, buffer, written: 0, unread: source.metadata.size })
    }

    fn step(&self, transfer: &mut Buffered, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        let mut moved = 0;
        while moved < STEP_BYTES_MAX {
            if transfer.written == transfer.buffer.len() && !transfer.refill()? {
                return Ok(Progress { moved, state: State::Done });
            }
            match rustix::io::write(&**sink, &transfer.buffer[transfer.written..]) {
                Ok(written) => {
                    transfer.written += written;
                    moved += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Progress { moved, state: State::Blocked }),
                Err(Errno::PIPE) => return Err(CopyError::ReaderGone),
                Err(errno) => return Err(CopyError::Failed(errno.into())),
            }
        }
        Ok(Progress { moved, state: State::More })
    }
}

impl Buffered {
    /// Whether there was something left to read.
    fn refill(&mut self) -> Result<bool, CopyError> {
        self.buffer.clear();
        self.written = 0;
        while self.buffer.is_empty() && self.unread > 0 {
            let wanted = self.buffer.capacity().min(usize::try_from(self.unread).unwrap_or(usize::MAX));
            self.buffer.resize(wanted, 0);
            let read = rustix::io::read(&self.file, &mut self.buffer);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(CopyError::Shrunk),
                Ok(read) => self.unread -= read as u64,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(CopyError::Failed(errno.into())),
            }
        }
        Ok(!self.buffer.is_empty())
    }
}
