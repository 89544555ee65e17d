//! Moves references to the file's pages by chains of linked splices in an io_uring.
//!
//! The kernel runs splices on threads of its own. A step waits for its chain, and the chain waits for no reader, since the
//! FIFO does not block. There are as many rings as there have been steps at the same time.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use sys::{fifo::Writer, ring::SpliceRing};

use super::{CopyError, FileCopy, Progress, Source, remaining::Remaining};

/// Length of one link of a chain. Eight links hold more than most FIFOs.
const PIECE_BYTES: u32 = 256 << 10;
/// Most unused rings that are kept.
const IDLE_MAX: usize = 64;

pub(super) struct Uring {
    idle: Mutex<Vec<SpliceRing>>,
}

impl Uring {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { idle: Mutex::new(vec![SpliceRing::new()?]) })
    }

    fn with_ring<T>(&self, use_it: impl FnOnce(&mut SpliceRing) -> T) -> io::Result<T> {
        let idle = self.idle.lock().pop();
        let mut ring = idle.map_or_else(SpliceRing::new, Ok)?;
        let outcome = use_it(&mut ring);
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(ring);
        }
        Ok(outcome)
    }
}

impl FileCopy for Uring {
    type Transfer = Remaining;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Remaining, CopyError> {
        Ok(Remaining::new(source, sink)?)
    }

    fn step(&self, remaining: &mut Remaining, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        let step = |ring: &mut SpliceRing| {
            remaining.push(|file, offset, len| ring.splice(file, offset, sink, len, PIECE_BYTES))
        };
        self.with_ring(step)?
    }
}
