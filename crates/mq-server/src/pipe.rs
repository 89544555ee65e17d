//! A client's FIFO while it is written to.

use std::sync::Arc;

use service::{Budget, Reservation};
use sys::fifo::{self, Writer};

/// Default capacity of a pipe (pipe(7)).
const DEFAULT_BYTES: u64 = 64 << 10;

/// The FIFO of a job.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) fifo: Arc<Writer>,
    /// True if the epoll set of the waiters knows it.
    pub(crate) is_registered: bool,
    /// Declared after the FIFO, so that it is given back when the FIFO has been closed.
    reservation: Option<Reservation>,
}

impl Pipe {
    pub(crate) fn new(fifo: Writer) -> Self {
        Self { fifo: Arc::new(fifo), is_registered: false, reservation: None }
    }

    /// Enlarges the FIFO for a file of `file_bytes`, up to `pipe_bytes`. False if it stays as it was, which costs time and
    /// nothing else.
    pub(crate) fn enlarge(&mut self, file_bytes: u64, pipe_bytes: u64, budget: &Budget) -> bool {
        let wanted = file_bytes.checked_next_power_of_two().map_or(pipe_bytes, |bytes| bytes.min(pipe_bytes));
        if wanted <= DEFAULT_BYTES {
            return true;
        }
        let Ok(bytes) = usize::try_from(wanted) else { return false };
        self.reservation = budget.reserve(wanted);
        let is_large = self.reservation.is_some()
            && fifo::raise_capacity(&*self.fifo, bytes).is_ok_and(|capacity| capacity >= bytes);
        if !is_large {
            self.reservation = None;
        }
        is_large
    }
}
