//! What all cached files draw on: budgets, the count of what happens, and whatever outlives its place in the cache.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use bytes::Bytes;
use proto::{CachedPipe, FileRegion, Pipe};
use service::{Budget, Reservation};
use sys::{registered::Region, transfer};

use crate::{
    chain::Setback,
    statistics::{Reason, Statistics},
    strategy::Strategy,
    detached::{Held, Zombies},
};

/// A slot of a pipe holds at most this much, and never parts of two pages.
pub(crate) const PAGE: u64 = 4096;
/// Descriptors of a cached pipe.
const PIPE_DESCRIPTORS: u64 = 2;

/// What cached files may hold together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Capacity of all cached pipes, bytes.
    pub pipe_bytes: u64,
    /// The largest pipe, bytes.
    pub pipe_size: u64,
    /// Open files and pipes.
    pub descriptors: u64,
    /// Bytes of all mappings.
    pub mapped_bytes: u64,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) pipe_bytes: Budget,
    /// Their number, which nothing but bytes and descriptors limits.
    pub(crate) pipes: Budget,
    pub(crate) descriptors: Budget,
    pub(crate) mapped_bytes: Budget,
    /// What copies are lent from.
    pub(crate) registered: Option<Arc<Region>>,
    pub(crate) zombies: Zombies,
    pub(crate) statistics: Statistics,
    /// The largest link of a chain: no larger than a scratch pipe.
    pub(crate) link_bytes_max: u64,
}

/// A pipe that is filled, and what it holds of the budgets.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) pipe: Arc<CachedPipe>,
    pub(crate) held: Held,
}

impl Resources {
    pub(crate) fn new(limits: &Limits, registered: Option<Arc<Region>>) -> Self {
        Self {
            pipe_bytes: Budget::new(limits.pipe_bytes),
            pipes: Budget::new(u64::MAX),
            descriptors: Budget::new(limits.descriptors),
            mapped_bytes: Budget::new(limits.mapped_bytes),
            registered,
            zombies: Zombies::default(),
            statistics: Statistics::default(),
            link_bytes_max: limits.pipe_size,
        }
    }

    /// Takes from a budget; what zombies still hold of it counts until they are gone.
    pub(crate) fn reserve(&self, budget: &Budget, amount: u64) -> Option<Reservation> {
        budget.reserve(amount).or_else(|| (self.zombies.bury() > 0).then(|| budget.reserve(amount)).flatten())
    }

    /// A pipe that holds `head` and behind it `len` bytes of the file from `offset`.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn link(&self, file: &Arc<OwnedFd>, head: Bytes, offset: u64, len: u64) -> Result<Link, Setback> {
        let pages = (head.len() as u64).div_ceil(PAGE) + len.div_ceil(PAGE);
        let capacity = (pages * PAGE).next_power_of_two();
        let bytes = self.reserve(&self.pipe_bytes, capacity).ok_or(Reason::PipeBudget)?;
        let descriptors = self.reserve(&self.descriptors, PIPE_DESCRIPTORS).ok_or(Reason::Descriptors)?;
        let one = self.pipes.reserve(1);
        let pipe = fill(file, &head, capacity, offset, len).map_err(|error| setback(&error))?;
        let cached = CachedPipe {
            pipe,
            len: head.len() as u64 + len,
            head,
            file: FileRegion { file: Arc::clone(file), offset, len },
            fallbacks: self.statistics.scratch(Strategy::Pipe),
        };
        Ok(Link { pipe: Arc::new(cached), held: [bytes, descriptors].into_iter().chain(one).collect() })
    }
}

fn fill(file: &OwnedFd, head: &[u8], capacity: u64, mut offset: u64, mut len: u64) -> io::Result<Pipe> {
    let (reader, writer, got) = transfer::pipe_exactly(usize::try_from(capacity).unwrap_or(usize::MAX))?;
    if (got as u64) < capacity {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if !head.is_empty() {
        transfer::write_in(writer.as_fd(), head)?;
    }
    while len > 0 {
        let n = transfer::splice_in(file, offset, &writer, len)? as u64;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (offset, len) = (offset + n, len - n);
    }
    Ok(Pipe { reader, writer })
}

fn setback(error: &io::Error) -> Setback {
    // It has been cut since it was looked at.
    if error.kind() == io::ErrorKind::UnexpectedEof { Setback::Changed } else { reason(error).into() }
}

/// What an error of the kernel comes to.
pub(crate) fn reason(error: &io::Error) -> Reason {
    // EMFILE and ENFILE.
    if matches!(error.raw_os_error(), Some(23 | 24)) { Reason::Descriptors } else { Reason::Kernel }
}
