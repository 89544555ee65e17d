//! Resources that all cached files share: budgets, statistics, and the files that outlive their place in the cache.

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
    detached::{DetachedFiles, Reservations},
    fallback::{PrepareError, Reason},
    statistics::Statistics,
    strategy::Strategy,
};

/// Capacity of a pipe's slot, in bytes; a slot never holds parts of two pages.
pub(crate) const PAGE: u64 = 4096;
/// Number of descriptors of a cached pipe.
const PIPE_DESCRIPTORS: u64 = 2;

/// Limits of what all cached files hold together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Capacity of all cached pipes, in bytes.
    pub pipe_bytes: u64,
    /// Capacity of the largest pipe, in bytes.
    pub pipe_size: u64,
    /// Number of open files and pipe ends.
    pub descriptors: u64,
    /// Size of all mappings, in bytes.
    pub mapped_bytes: u64,
}

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) pipe_bytes: Budget,
    /// Number of pipes, which nothing but bytes and descriptors limits.
    pub(crate) pipes: Budget,
    pub(crate) descriptors: Budget,
    pub(crate) mapped_bytes: Budget,
    /// Memory that copies are lent from.
    pub(crate) registered: Option<Arc<Region>>,
    pub(crate) detached: DetachedFiles,
    pub(crate) statistics: Statistics,
    /// Size of the largest link of a chain in bytes: no larger than a scratch pipe.
    pub(crate) link_bytes_max: u64,
}

/// Pipe that is filled, and its share of the budgets.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) pipe: Arc<CachedPipe>,
    pub(crate) reserved: Reservations,
}

impl Resources {
    pub(crate) fn new(limits: &Limits, registered: Option<Arc<Region>>) -> Self {
        Self {
            pipe_bytes: Budget::new(limits.pipe_bytes),
            pipes: Budget::new(u64::MAX),
            descriptors: Budget::new(limits.descriptors),
            mapped_bytes: Budget::new(limits.mapped_bytes),
            registered,
            detached: DetachedFiles::default(),
            statistics: Statistics::default(),
            link_bytes_max: limits.pipe_size,
        }
    }

    /// Takes from a budget. The share of detached files counts until they are released.
    pub(crate) fn reserve(&self, budget: &Budget, amount: u64) -> Option<Reservation> {
        budget
            .reserve(amount)
            .or_else(|| (self.detached.release_finished() > 0).then(|| budget.reserve(amount)).flatten())
    }

    /// Makes a pipe that holds `head` and behind it `len` bytes of the file from `offset`.
    ///
    /// # Errors
    /// There is no room in the budgets, the kernel refuses, or the file has been cut.
    pub(crate) fn link(&self, file: &Arc<OwnedFd>, head: Bytes, offset: u64, len: u64) -> Result<Link, PrepareError> {
        let pages = (head.len() as u64).div_ceil(PAGE) + len.div_ceil(PAGE);
        let capacity = (pages * PAGE).next_power_of_two();
        let bytes = self.reserve(&self.pipe_bytes, capacity).ok_or(Reason::PipeBudget)?;
        let descriptors = self.reserve(&self.descriptors, PIPE_DESCRIPTORS).ok_or(Reason::Descriptors)?;
        let one = self.pipes.reserve(1);
        let pipe = fill(file, &head, capacity, offset, len).map_err(|error| prepare_error(&error))?;
        let cached = CachedPipe {
            pipe,
            len: head.len() as u64 + len,
            head,
            file: FileRegion { file: Arc::clone(file), offset, len },
            fallbacks: self.statistics.counted_by_drivers(Strategy::Pipe),
        };
        Ok(Link { pipe: Arc::new(cached), reserved: [bytes, descriptors].into_iter().chain(one).collect() })
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

fn prepare_error(error: &io::Error) -> PrepareError {
    // The file has been cut since it was checked.
    if error.kind() == io::ErrorKind::UnexpectedEof { PrepareError::Changed } else { reason(error).into() }
}

/// Classifies an error of the kernel.
pub(crate) fn reason(error: &io::Error) -> Reason {
    // EMFILE and ENFILE.
    if matches!(error.raw_os_error(), Some(23 | 24)) { Reason::Descriptors } else { Reason::Kernel }
}
