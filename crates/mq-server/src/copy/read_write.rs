//! Reads into a buffer and writes from it, as the original did (`docs/originals.md`).

use std::{io, mem, os::fd::OwnedFd, sync::Arc};

use parking_lot::Mutex;
use rustix::io::retry_on_intr;
use sys::fifo::Writer;

use super::{CopyError, CopyOptions, FileCopy, Progress, STEP_BYTES_MAX, Source, State};

/// Most bytes of unused buffers that are kept.
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

/// A transfer. It holds a buffer only while bytes are in it that the FIFO had no room for.
#[derive(Debug)]
pub(super) struct BufferedTransfer {
    file: OwnedFd,
    buffers: Arc<Buffers>,
    buffer: Box<[u8]>,
    /// Range of the buffer that has been read and not written.
    written: usize,
    filled: usize,
    /// Bytes of the file that have not been read.
    unread: u64,
}

impl ReadWrite {
    pub(super) fn new(options: &CopyOptions) -> Self {
        Self { buffers: Arc::new(Buffers { bytes: options.buffer_bytes.max(1), idle: Mutex::default() }) }
    }
}

impl Buffers {
    fn get(&self) -> Box<[u8]> {
        let idle = self.idle.lock().pop();
        idle.unwrap_or_else(|| vec![0; self.bytes].into_boxed_slice())
    }

    fn put(&self, buffer: Box<[u8]>) {
        let mut idle = self.idle.lock();
        if !buffer.is_empty() && (idle.len() + 1) * self.bytes <= IDLE_BYTES_MAX.max(self.bytes) {
            idle.push(buffer);
        }
    }
}

impl FileCopy for ReadWrite {
    type Transfer = BufferedTransfer;

    fn begin(&self, source: Source, _: &Arc<Writer>) -> Result<BufferedTransfer, CopyError> {
        let (buffers, unread) = (Arc::clone(&self.buffers), source.metadata.size);
        Ok(BufferedTransfer { file: source.file, buffers, buffer: Box::default(), written: 0, filled: 0, unread })
    }

    fn step(&self, transfer: &mut BufferedTransfer, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
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

impl BufferedTransfer {
    /// Reads if nothing is left to write. True if there is something to write then.
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

impl Drop for BufferedTransfer {
    fn drop(&mut self) {
        self.release();
    }
}
