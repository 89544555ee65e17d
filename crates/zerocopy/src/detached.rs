//! Files and pipes that have left the cache and are still being sent. They count against the budgets until the last
//! request for them ends.

use std::{os::fd::OwnedFd, sync::Weak};

use parking_lot::Mutex;
use proto::CachedPipe;
use service::Reservation;

/// Shares of the budgets that a file or a pipe holds.
pub(crate) type Reservations = Vec<Reservation>;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct DetachedFiles(Mutex<Vec<DetachedFile>>);

#[derive(Debug)]
struct DetachedFile {
    in_flight: InFlight,
    /// Given back when this is dropped.
    _reserved: Reservations,
}

/// Resource that responses in flight own: a file's descriptor, which mappings and pipes of it own as well, or one pipe.
#[derive(Debug)]
pub(crate) enum InFlight {
    File(Weak<OwnedFd>),
    Pipe(Weak<CachedPipe>),
}

impl InFlight {
    fn is_over(&self) -> bool {
        match self {
            Self::File(file) => file.strong_count() == 0,
            Self::Pipe(pipe) => pipe.strong_count() == 0,
        }
    }
}

impl DetachedFiles {
    pub(crate) fn add(&self, in_flight: InFlight, reserved: Reservations) {
        self.0.lock().push(DetachedFile { in_flight, _reserved: reserved });
    }

    /// Releases those whose last request has ended. Returns their number.
    pub(crate) fn release_finished(&self) -> usize {
        let mut all = self.0.lock();
        let before = all.len();
        all.retain(|detached| !detached.in_flight.is_over());
        before - all.len()
    }

    /// Number of those that are still being sent.
    pub(crate) fn count(&self) -> usize {
        self.release_finished();
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use service::Budget;

    use super::*;

    #[test]
    fn a_budget_is_free_after_the_last_request_and_not_before() {
        let (budget, detached) = (Budget::new(10), DetachedFiles::default());
        let file = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        detached.add(InFlight::File(Arc::downgrade(&file)), vec![budget.reserve(7).unwrap()]);
        let in_flight = Arc::clone(&file);
        drop(file);
        assert_eq!((detached.release_finished(), detached.count(), budget.used()), (0, 1, 7));
        drop(in_flight);
        assert_eq!((detached.release_finished(), detached.count(), budget.used()), (1, 0, 0));
    }
}
