//! Clients that want the same file at the same time share one pass over it.
//!
//! A transfer goes alone, by splice, until there is another of the same unchanged file. Both then join a pass, and so do
//! later transfers while the pass is within their reach. The thread of the pass fills one pipe with a window of the file and
//! duplicates it into the FIFOs of all members by tee(2). That takes a quarter of splice's time, most of all because the
//! reference counts of the pages stay in one processor's cache. Splices of their own bring latecomers up to the window. A
//! member that makes the others wait too long, as [`pass`] judges it, leaves the pass and goes on alone.
//!
//! A pass holds one pipe and a window of references, however long it waits, and there are at most [`PASSES_MAX`].

mod group;
mod pass;
mod registration;
mod runner;

use std::{
    os::fd::AsFd,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use service::Budget;
use sys::{fifo::Writer, transfer};

use self::{
    group::{Groups, MemberHandle},
    pass::CREDIT,
    registration::Registration,
};
use super::{CopyError, CopyOptions, FileCopy, Progress, Readiness, Source, State, remaining::Remaining};

/// Most passes at the same time. Each has a thread, three descriptors and a pipe.
const PASSES_MAX: u64 = 32;
/// Least credit with which a transfer joins a pass again.
const CREDIT_MIN: Duration = Duration::from_millis(5);
/// Credit grows back by this fraction of the time that is spent alone.
const CREDIT_EARNED: u32 = 16;

pub(super) struct Tee {
    groups: Arc<Groups>,
}

/// One of several transfers of a file, or the only one.
pub(super) struct SharedTransfer {
    remaining: Remaining,
    /// `None` for a file that is not worth sharing.
    registration: Option<Registration>,
    /// Present while a pass moves the bytes.
    handle: Option<Arc<MemberHandle>>,
    credit: Duration,
    alone_since: Instant,
}

impl Tee {
    pub(super) fn new(options: &CopyOptions) -> Self {
        Self { groups: Groups::new(options.pipe_budget.clone(), Budget::new(PASSES_MAX)) }
    }
}

impl FileCopy for Tee {
    type Transfer = SharedTransfer;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<SharedTransfer, CopyError> {
        let of = source.metadata;
        let remaining = Remaining::new(source, sink)?;
        let registration =
            remaining.is_worth_sharing().then(|| Registration::new(&self.groups, of, remaining.capacity));
        Ok(SharedTransfer { remaining, registration, handle: None, credit: CREDIT, alone_since: Instant::now() })
    }

    fn step(&self, shared: &mut SharedTransfer, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        let by_pass = shared.update();
        if shared.handle.is_some() || shared.join(sink) {
            return Ok(Progress { moved: by_pass, state: State::Blocked });
        }
        let Progress { moved, state } =
            shared.remaining.push(|file, offset, len| transfer::splice_in(file, offset, sink, len))?;
        self.groups.counts.alone.fetch_add(moved, Ordering::Relaxed);
        Ok(Progress { moved: by_pass + moved, state })
    }

    fn readiness<'a>(&self, shared: &'a SharedTransfer, sink: &'a Arc<Writer>) -> Readiness<'a> {
        match &shared.handle {
            Some(handle) => Readiness::Readable(handle.released.as_fd()),
            None => Readiness::Writable(sink.as_fd()),
        }
    }
}

impl Remaining {
    /// True unless the rest fits into two fillings of the FIFO, and arrives before a pass could begin.
    fn is_worth_sharing(&self) -> bool {
        self.len() > 2 * self.capacity
    }
}

impl SharedTransfer {
    /// Returns the bytes that the pass has moved since the last call, and notes if it has released the transfer.
    fn update(&mut self) -> u64 {
        let Some(handle) = &self.handle else { return 0 };
        let before = self.remaining.offset;
        let (at, departure) = handle.progress();
        self.remaining.offset = at;
        if let Some(departure) = departure {
            (self.handle, self.credit, self.alone_since) = (None, departure.credit, Instant::now());
        }
        at - before
    }

    /// Joins a pass if that is worth it. True if a pass moves the bytes from now on.
    fn join(&mut self, sink: &Arc<Writer>) -> bool {
        let Some(registration) = self.registration.as_ref().filter(|registration| registration.has_others()) else {
            return false;
        };
        let credit = CREDIT.min(self.credit + self.alone_since.elapsed() / CREDIT_EARNED);
        if credit >= CREDIT_MIN && self.remaining.is_worth_sharing() {
            self.handle = registration.join(&self.remaining, sink, credit);
        }
        self.handle.is_some()
    }
}

impl Drop for SharedTransfer {
    fn drop(&mut self) {
        if let (Some(handle), Some(registration)) = (&self.handle, &self.registration) {
            handle.withdraw();
            registration.wake();
        }
    }
}

#[cfg(test)]
mod tests;
