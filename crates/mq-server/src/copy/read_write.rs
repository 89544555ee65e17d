//! What the first design did: read into a buffer, write from it.

use std::{
    io, mem,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::io::retry_on_intr;
use sys::fifo::Writer;

use super::{CopyError, CopyOptions, FileCopy, Progress, STEP_BYTES_MAX, Source, State};

/// Buffers that are kept while nobody uses them, in bytes altogether.
const IDLE_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct ReadWrite {
    buffers: Arc<Buffers>,
}

#[derive(Debug)]
struct Buffers {
    bytes: usize,
    idle: Mutex<Vec<Box<[u8]>>>,
}

/// Holds a buffer only while there is something in it that the FIFO had no room for.
#[derive(Debug)]
pub(super) struct Buffered {
    file: OwnedFd,
    buffers: Arc<Buffers>,
    buffer: Box<[u8]>,
    /// Where what has been read and not written begins in the buffer, and where it ends.
    written: usize,
    filled: usize,
    /// Bytes of the file that have not been read.
    unread: u64,
}

impl ReadWrite {
    #[expect(clippy::unnecessary_wraps, reason = "as the others of the table")]
    pub(super) fn new(options: &CopyOptions) -> io::Result<Self> {
        Ok(Self { buffers: Arc::new(Buffers { bytes: options.buffer_bytes.max(1), idle: Mutex::default() }) })
    }
}

impl Buffers {
    fn get(&self) -> Box<[u8]> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| vec![0; self.bytes].into_boxed_slice())
    }

    fn put(&self, buffer: Box<[u8]>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !buffer.is_empty() && (idle.len() + 1) * self.bytes <= IDLE_BYTES_MAX.max(self.bytes) {
            idle.push(buffer);
        }
    }
}

impl FileCopy for ReadWrite {
    type Transfer = Buffered;

    fn begin(&self, source: Source, _: &Arc<Writer>) -> Result<Buffered, CopyError> {
        let (buffers, unread) = (Arc::clone(&self.buffers), source.metadata.size);
        Ok(Buffered { file: source.file, buffers, buffer: Box::default(), written: 0, filled: 0, unread })
    }

    fn step(&self, transfer: &mut Buffered, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        let mut moved = 0;
        while moved < STEP_BYTES_MAX {
            if !transfer.fill()? {
                transfer.release();
                return Ok(Progress { moved, state: State::Done });
            }
            match sink.write(&transfer.buffer[transfer.written..transfer.filled]) {
                Ok(written) => {
                    transfer.written += written;
                    moved += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress { moved, state: State::Blocked });
                }
                Err(error) => return Err(error.into()),
            }
        }
        if transfer.written == transfer.filled {
            transfer.release();
        }
        Ok(Progress { moved, state: State::More })
    }
}

impl Buffered {
    /// Reads if nothing is left to write; whether there is something to write.
    fn fill(&mut self) -> Result<bool, CopyError> {
        if self.written < self.filled {
            return Ok(true);
        }
        if self.unread == 0 {
            return Ok(false);
        }
        if self.buffer.is_empty() {
            self.buffer = self.buffers.get();
        }
        let wanted = self.buffer.len().min(usize::try_from(self.unread).unwrap_or(usize::MAX));
        self.written = 0;
        self.filled = retry_on_intr(|| rustix::io::read(&self.file, &mut self.buffer[..wanted]))
            .map_err(|errno| CopyError::Failed(errno.into()))?;
        self.unread -= self.filled as u64;
        if self.filled == 0 { Err(CopyError::Shrunk) } else { Ok(true) }
    }

    fn release(&mut self) {
        self.buffers.put(mem::take(&mut self.buffer));
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.release();
    }
}
