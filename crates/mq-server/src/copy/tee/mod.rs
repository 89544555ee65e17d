//! Clients that want the same file at the same time share one pass over it.
//!
//! A transfer goes alone, by splice, until there is another of the same unchanged file. Both then join a pass, and so does
//! whoever comes while it is within reach: a thread of the pass's own fills one pipe with a window of the file and
//! duplicates it into everybody's FIFO by tee(2), which takes a quarter of splice's time, most of all because the pages'
//! reference counts stay in one processor's cache. Latecomers are brought up to the window by splices of their own. Who
//! makes the others wait leaves the pass and goes on alone; how long they wait is [`pass`]'s affair.
//!
//! A pass holds one pipe and a window of references, however long it waits, and there are at most [`PASSES_MAX`].

mod group;
mod pass;
mod runner;
#[cfg(test)]
mod tests;

use std::{
    io,
    os::fd::AsFd,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use service::Budget;
use sys::{fifo::Writer, transfer};

use self::{
    group::{Carried, Groups, Ticket},
    pass::CREDIT,
};
use super::{CopyError, CopyOptions, FileCopy, Progress, Readiness, Source, State, remaining::Rest};

/// Passes at the same time; each has a thread, three descriptors and a pipe.
const PASSES_MAX: u64 = 32;
/// Who has less credit left does not join again yet.
const CREDIT_MIN: Duration = Duration::from_millis(5);
/// Credit grows back by this part of the time that is spent alone.
const CREDIT_EARNED: u32 = 16;

pub(super) struct Tee {
    groups: Arc<Groups>,
}

/// One of perhaps several transfers of a file.
pub(super) struct Shared {
    rest: Rest,
    /// `None` of a file that is not worth sharing.
    ticket: Option<Ticket>,
    /// While a pass moves its bytes.
    carried: Option<Arc<Carried>>,
    credit: Duration,
    alone_since: Instant,
}

impl Tee {
    #[expect(clippy::unnecessary_wraps, reason = "as the others of the table")]
    pub(super) fn new(options: &CopyOptions) -> io::Result<Self> {
        Ok(Self { groups: Groups::new(options.pipe_budget.clone(), Budget::new(PASSES_MAX)) })
    }
}

impl FileCopy for Tee {
    type Transfer = Shared;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Shared, CopyError> {
        let of = source.metadata;
        let rest = Rest::new(source, sink)?;
        let ticket = rest.is_worth_sharing().then(|| self.groups.ticket(of, rest.room));
        Ok(Shared { rest, ticket, carried: None, credit: CREDIT, alone_since: Instant::now() })
    }

    fn step(&self, shared: &mut Shared, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        let carried = shared.take_news();
        if shared.carried.is_some() || shared.join(sink) {
            return Ok(Progress { moved: carried, state: State::Blocked });
        }
        let Progress { moved, state } =
            shared.rest.push(|file, offset, len| transfer::splice_in(file, offset, sink, len))?;
        self.groups.counts.alone.fetch_add(moved, Ordering::Relaxed);
        Ok(Progress { moved: carried + moved, state })
    }

    fn readiness<'a>(&self, shared: &'a Shared, sink: &'a Arc<Writer>) -> Readiness<'a> {
        match &shared.carried {
            Some(carried) => Readiness::Readable(carried.notice.as_fd()),
            None => Readiness::Writable(sink.as_fd()),
        }
    }
}

impl Rest {
    /// What fits into two fillings of the FIFO is there before a pass could begin.
    fn is_worth_sharing(&self) -> bool {
        self.len() > 2 * self.room
    }
}

impl Shared {
    /// What the pass has moved since this was asked last. It may have left it to itself.
    fn take_news(&mut self) -> u64 {
        let Some(carried) = &self.carried else { return 0 };
        let before = self.rest.offset;
        let (at, left) = carried.news();
        self.rest.offset = at;
        if let Some(left) = left {
            (self.carried, self.credit, self.alone_since) = (None, left.credit, Instant::now());
        }
        at - before
    }

    /// Whether a pass moves its bytes from now on.
    fn join(&mut self, sink: &Arc<Writer>) -> bool {
        let Some(ticket) = self.ticket.as_ref().filter(|ticket| ticket.has_company()) else { return false };
        let credit = CREDIT.min(self.credit + self.alone_since.elapsed() / CREDIT_EARNED);
        if credit >= CREDIT_MIN && self.rest.is_worth_sharing() {
            self.carried = ticket.join(&self.rest, sink, credit);
        }
        self.carried.is_some()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let (Some(carried), Some(ticket)) = (&self.carried, &self.ticket) {
            carried.abandon();
            ticket.wake();
        }
    }
}
