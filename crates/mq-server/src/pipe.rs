//! A client's FIFO while it is written to, and what all of them together may hold in the kernel.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use sys::fifo::Fifo;

/// What a pipe holds without being asked to (pipe(7)).
const USUAL_BYTES: u64 = 64 << 10;

/// Bytes that FIFOs may hold beyond what they usually do.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    max: u64,
}

/// A part of the budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation(Arc<Budget>, u64);

/// The FIFO of a job.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) fifo: Fifo,
    /// The waiting room's epoll knows it.
    pub(crate) registered: bool,
    /// Behind the FIFO, so that it is given back when the FIFO is closed.
    _reservation: Option<Reservation>,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), max })
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let more = |used: u64| used.checked_add(bytes).filter(|&used| used <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Reservation(Arc::clone(self), bytes))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.used.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Pipe {
    pub(crate) fn new(fifo: Fifo) -> Self {
        Self { fifo, registered: false, _reservation: None }
    }

    /// Makes room for a file of `file_bytes`, up to `pipe_bytes`. Returns whether the FIFO is as large as that now;
    /// otherwise it is what it was, which costs time and nothing else.
    pub(crate) fn enlarge(&mut self, file_bytes: u64, pipe_bytes: u64, budget: &Arc<Budget>) -> bool {
        let wanted = file_bytes.checked_next_power_of_two().map_or(pipe_bytes, |bytes| bytes.min(pipe_bytes));
        if wanted <= USUAL_BYTES {
            return true;
        }
        let (Some(reservation), Ok(bytes)) = (budget.reserve(wanted), usize::try_from(wanted)) else { return false };
        if self.fifo.set_capacity(bytes).is_err() {
            return false;
        }
        self._reservation = Some(reservation);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_and_all_of_it_comes_back() {
        let budget = Budget::new(100);
        let first = budget.reserve(60);
        assert!(first.is_some() && budget.reserve(41).is_none() && budget.reserve(u64::MAX).is_none());
        let second = budget.reserve(40);
        assert_eq!((second.is_some(), budget.used()), (true, 100));
        drop((first, second));
        assert_eq!(budget.used(), 0);
    }
}
