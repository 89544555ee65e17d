//! One of the engine's threads, as the parts of its worker see it.

use super::super::{endpoint::Endpoint, live::LiveStats, load::Load, pace::share, window::Window};

/// Load of all threads, state that they share, and which of them this one is.
#[derive(Clone, Copy)]
pub(in super::super) struct Thread<'a> {
    pub(in super::super) endpoint: &'a Endpoint,
    pub(in super::super) load: &'a Load,
    pub(in super::super) window: &'a Window,
    pub(in super::super) live: &'a LiveStats,
    pub(in super::super) index: usize,
    pub(in super::super) threads: usize,
}

impl Thread<'_> {
    /// Returns the number of this thread's connections.
    pub(super) fn connections(&self) -> usize {
        usize::try_from(share(self.load.connections as u64, self.index, self.threads)).unwrap_or(usize::MAX)
    }

    /// Returns the number of batches in flight on one connection.
    pub(super) fn batches(&self) -> usize {
        (self.load.pipeline / self.load.batch).max(1)
    }
}
