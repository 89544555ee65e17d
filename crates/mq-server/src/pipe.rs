//! A client's FIFO while it is written to.

use std::sync::Arc;

use service::{Budget, Reservation};
use sys::fifo::{self, Writer};

/// What a pipe holds without being asked to (pipe(7)).
const USUAL_BYTES: u64 = 64 << 10;

/// The FIFO of a job.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) fifo: Arc<Writer>,
    /// The waiting room's epoll knows it.
    pub(crate) is_registered: bool,
    /// Behind the FIFO, so that it is given back when the FIFO is closed.
    reservation: Option<Reservation>,
}

impl Pipe {
    pub(crate) fn new(fifo: Writer) -> Self {
        Self { fifo: Arc::new(fifo), is_registered: false, reservation: None }
    }

    /// Makes room for a file of `file_bytes`, up to `pipe_bytes`. Returns whether the FIFO is as large as that now;
    /// otherwise it is what it was, which costs time and nothing else.
    pub(crate) fn enlarge(&mut self, file_bytes: u64, pipe_bytes: u64, budget: &Budget) -> bool {
        let wanted = file_bytes.checked_next_power_of_two().map_or(pipe_bytes, |bytes| bytes.min(pipe_bytes));
        if wanted <= USUAL_BYTES {
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
