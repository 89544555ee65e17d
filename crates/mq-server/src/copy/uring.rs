//! References to the file's pages, by chains of linked splices in a ring.
//!
//! The kernel runs splices on threads of its own. A step waits for its chain, which waits for nobody: the FIFO does not
//! block. Rings are as many as there have been steps at the same time.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use sys::{fifo::Writer, ring::SpliceRing};

use super::{CopyError, CopyOptions, FileCopy, Progress, Source, rest::Rest};

/// Of one link of a chain; eight are more than what fills most FIFOs.
const PIECE_BYTES: u32 = 256 << 10;
/// Rings that are kept while nobody uses them.
const IDLE_MAX: usize = 64;

pub(super) struct Uring {
    idle: Mutex<Vec<SpliceRing>>,
}

impl Uring {
    pub(super) fn new(_: &CopyOptions) -> io::Result<Self> {
        Ok(Self { idle: Mutex::new(vec![SpliceRing::new()?]) })
    }

    fn with_ring<T>(&self, use_it: impl FnOnce(&mut SpliceRing) -> T) -> io::Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut ring = idle.map_or_else(SpliceRing::new, Ok)?;
        let outcome = use_it(&mut ring);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(ring);
        }
        Ok(outcome)
    }
}

impl FileCopy for Uring {
    type Transfer = Rest;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Rest, CopyError> {
        Ok(Rest::new(source, sink)?)
    }

    fn step(&self, rest: &mut Rest, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        let step =
            |ring: &mut SpliceRing| rest.push(|file, offset, len| ring.splice(file, offset, sink, len, PIECE_BYTES));
        self.with_ring(step)?
    }
}
