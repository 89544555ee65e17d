//! Scratch pipes: empty ones that cached pipes are teed into and pages are spliced into, on their way to a socket.

use std::{io, os::fd::AsFd, sync::Arc};

use parking_lot::Mutex;
use proto::{CachedPipe, Pages, Pipe, PipeRegion, PipeSource, ScratchPipe};
use sys::transfer;

/// Scratch pipes that a loop keeps for itself: one at a time is all it needs while nobody is slow.
const LOOP_POOLED_MAX: usize = 8;
/// Scratch pipes that are kept for all, and the bytes that those in one place have room for altogether.
const POOLED_MAX: usize = 64;
const POOLED_BYTES_MAX: usize = 4 << 20;

/// Supply of scratch pipes of one size and a limited number. Clones share it.
#[derive(Clone, Debug)]
pub struct ScratchPipes(Arc<Supply>);

#[derive(Debug)]
struct Supply {
    bytes: usize,
    count_max: usize,
    /// Each pipe holds a clone.
    permit: Arc<()>,
    /// Those that belong to no loop.
    pool: Mutex<Pool>,
}

/// Empty pipes.
#[derive(Debug, Default)]
struct Pool(#[expect(clippy::vec_box, reason = "a region holds a pipe by its box")] Vec<Box<ScratchPipe>>);

impl Pool {
    fn get(&mut self) -> Option<Box<ScratchPipe>> {
        self.0.pop()
    }

    /// Keeps the pipe if there is room for it; gives it back if not.
    fn put(&mut self, pipe: Box<ScratchPipe>, count_max: usize) -> Option<Box<ScratchPipe>> {
        let max = (POOLED_BYTES_MAX / pipe.capacity.max(1)).clamp(1, count_max);
        if self.0.len() >= max {
            return Some(pipe);
        }
        self.0.push(pipe);
        None
    }
}

impl ScratchPipes {
    /// Capacity of a new pipe (pipe(7)).
    pub const BYTES: usize = 64 * 1024;
    /// One is with every peer that is slow to take what came out of a cached pipe.
    pub const COUNT_MAX: usize = 256;

    /// Pipes of `bytes`, or of what the kernel grants now and what a new pipe has anyway, at most `count_max` of them:
    /// each costs two descriptors and may be held by a slow reader. Where there is none left, output goes another way.
    pub fn new(bytes: usize, count_max: usize) -> Self {
        let bytes = transfer::pipe_of(bytes).map_or(bytes, |(_, _, granted)| granted);
        Self(Arc::new(Supply { bytes, count_max, permit: Arc::default(), pool: Mutex::default() }))
    }

    /// Bytes that each has room for, if they fill whole pages.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    fn get(&self) -> Option<Box<ScratchPipe>> {
        let Supply { bytes, count_max, permit, .. } = &*self.0;
        if let Some(pipe) = self.0.pool.lock().get() {
            return Some(pipe);
        }
        // Loops that look at the same moment may exceed the limit by one each.
        if Arc::strong_count(permit) > *count_max {
            return None;
        }
        let (reader, writer, capacity) = transfer::pipe_of(*bytes).ok()?;
        Some(Box::new(ScratchPipe { pipe: Pipe { reader, writer }, filled: 0, capacity, permit: Arc::clone(permit) }))
    }

    fn put(&self, pipe: Box<ScratchPipe>) {
        // One too many is closed.
        drop(self.0.pool.lock().put(pipe, POOLED_MAX));
    }
}

impl Default for ScratchPipes {
    fn default() -> Self {
        Self::new(Self::BYTES, Self::COUNT_MAX)
    }
}

/// The scratch pipes of one loop or connection. All of them are empty: a region that is dropped half sent takes its
/// pipe with it.
#[derive(Debug)]
pub struct Pipes {
    /// `None`: gives back at once to the common supply.
    pool: Option<Pool>,
    supply: ScratchPipes,
}

/// Outcome of filling a region into a scratch pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillOutcome {
    Filled,
    /// There is no pipe to be had that takes it. Nothing of it is in one, so it can fall back.
    NoPipe,
}

impl Pipes {
    /// A loop keeps some for its connections.
    pub fn of_loop(supply: &ScratchPipes) -> Self {
        Self { pool: Some(Pool::default()), supply: supply.clone() }
    }

    /// A connection keeps none while it has nothing to send.
    pub fn of_connection(supply: &ScratchPipes) -> Self {
        Self { pool: None, supply: supply.clone() }
    }

    fn get(&mut self) -> Option<Box<ScratchPipe>> {
        self.pool.as_mut().and_then(Pool::get).or_else(|| self.supply.get())
    }

    /// Takes an empty pipe back. One that came out too small, in a shortage of the kernel's, is not for the next
    /// region.
    pub(crate) fn put(&mut self, pipe: Option<Box<ScratchPipe>>) {
        let Some(pipe) = pipe.filter(|pipe| pipe.capacity >= self.supply.bytes()) else { return };
        let left = match &mut self.pool {
            Some(pool) => pool.put(pipe, LOOP_POOLED_MAX),
            None => Some(pipe),
        };
        if let Some(pipe) = left {
            self.supply.put(pipe);
        }
    }

    /// Sees to it that the next bytes of `region` are in a scratch pipe of its own.
    ///
    /// # Errors
    /// The region is not in its mapping.
    pub(crate) fn fill(&mut self, region: &mut PipeRegion) -> io::Result<FillOutcome> {
        match &mut region.source {
            PipeSource::Filled(_) => Ok(FillOutcome::Filled),
            PipeSource::Cached(cached) => match self.tee(cached, region.len) {
                Some(scratch) => {
                    region.source = PipeSource::Filled(scratch);
                    Ok(FillOutcome::Filled)
                }
                None => Ok(FillOutcome::NoPipe),
            },
            PipeSource::Pages(Pages { scratch: Some(scratch), .. }) if scratch.filled > 0 => Ok(FillOutcome::Filled),
            PipeSource::Pages(pages) => self.splice_pages(pages, region.len),
        }
    }

    fn tee(&mut self, CachedPipe { pipe, .. }: &CachedPipe, len: u64) -> Option<Box<ScratchPipe>> {
        let mut scratch = self.get()?;
        if len > scratch.capacity as u64 {
            self.put(Some(scratch));
            return None;
        }
        match transfer::tee(pipe.reader.as_fd(), scratch.pipe.writer.as_fd(), len) {
            Ok(n) if n as u64 == len => {
                scratch.filled = len;
                Some(scratch)
            }
            // No longer empty.
            Ok(1..) => None,
            Ok(0) | Err(_) => {
                self.put(Some(scratch));
                None
            }
        }
    }

    fn splice_pages(&mut self, pages: &mut Pages, len: u64) -> io::Result<FillOutcome> {
        let Some(mut pipe) = pages.scratch.take().or_else(|| self.get()) else { return Ok(FillOutcome::NoPipe) };
        let rest = pages.range(len.min(pipe.capacity as u64)).ok_or(io::ErrorKind::UnexpectedEof)?;
        match transfer::vmsplice(pipe.pipe.writer.as_fd(), &pages.of.bytes[rest]) {
            Ok(n) => {
                pipe.filled = n as u64;
                pages.scratch = Some(pipe);
                Ok(if n > 0 { FillOutcome::Filled } else { FillOutcome::NoPipe })
            }
            // The kernel has no memory for it, or the file has lost the page: what there is of it is sent as a file.
            Err(_) => {
                self.put(Some(pipe));
                Ok(FillOutcome::NoPipe)
            }
        }
    }
}

#[cfg(test)]
mod tests;
