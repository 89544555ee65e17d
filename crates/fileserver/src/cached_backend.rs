//! What is known of the documents: the cache in front, the back end behind, and the loads under way between them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use proto::{Now, Outbox, Promise};
use wire::file::{Dialect, FileId, Status};

use crate::{
    backend::{Absence, AnyBackend, AnyReader, Body, Document},
    cache::{Cache, Used, Weigh},
    inflight::Flights,
    statistics::{Statistics, Tally, Totals},
};

/// A document in the cache, and when it was last known to be current.
#[derive(Debug)]
pub(crate) struct Kept {
    document: Document,
    /// Nanoseconds since the epoch.
    checked_ns: AtomicU64,
}

/// What the cache holds.
pub(crate) type Shared = Arc<Kept>;

impl Weigh for Shared {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.document.held_bytes()
    }

    fn descriptors(&self) -> usize {
        self.document.descriptors()
    }
}

/// The outcome of asking for a document.
pub(crate) type Outcome = Result<Shared, Absence>;

/// See the module's description.
pub(crate) struct Library<C> {
    pub(crate) cache: C,
    pub(crate) backend: AnyBackend,
    pub(crate) flights: Arc<Flights<Promise>>,
    pub(crate) totals: Totals,
    revalidate_ns: u64,
}

impl<C: Cache<Shared>> Library<C> {
    pub(crate) fn new(cache: C, backend: AnyBackend, revalidate: Duration) -> Self {
        let revalidate_ns = u64::try_from(revalidate.as_nanos()).unwrap_or(u64::MAX);
        Self { cache, backend, flights: Arc::default(), totals: Totals::default(), revalidate_ns }
    }

    /// The cached document, if it is current.
    #[inline]
    pub(crate) fn look(&self, id: &FileId, now: Now, tally: &mut Tally) -> Option<Shared> {
        let kept = self.cache.get(id)?;
        // A clock that was set back wraps around to a large age.
        let age = nanoseconds(now.unix).wrapping_sub(kept.checked_ns.load(Relaxed));
        if age < self.revalidate_ns || self.is_still_current(id, &kept, now, tally) {
            tally.hit();
            return Some(kept);
        }
        None
    }

    #[cold]
    fn is_still_current(&self, id: &FileId, kept: &Shared, now: Now, tally: &mut Tally) -> bool {
        if !self.backend.is_current(&kept.document, id) {
            self.cache.remove_if(id, |other| Arc::ptr_eq(kept, other));
            return false;
        }
        // The time is that before the look, so the next one is early rather than late.
        kept.checked_ns.store(nanoseconds(now.unix), Relaxed);
        tally.revalidation();
        true
    }

    /// Asks the back end, and keeps what it gives if the cache will have it.
    pub(crate) fn load(&self, reader: &mut AnyReader, id: &FileId, now: Now, tally: &mut Tally) -> Outcome {
        tally.load();
        let document = self.backend.load(reader, id)?;
        let kept = Arc::new(Kept { document, checked_ns: AtomicU64::new(nanoseconds(now.unix)) });
        self.cache.insert(id, Arc::clone(&kept));
        Ok(kept)
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.totals.sum().into()
    }

    /// What the cache holds, and how many entries had to make room ever.
    pub(crate) fn used(&self) -> (Used, u64) {
        (self.cache.used(), self.cache.evicted())
    }
}

/// Writes the reply that `outcome` is.
#[inline]
pub(crate) fn reply<D: Dialect>(outcome: &Outcome, out: &mut Outbox, tally: &mut Tally) {
    match outcome {
        Ok(kept) => {
            let len = kept.document.len();
            tally.answer(Status::Found, len);
            D::head(Status::Found, len, out.inline());
            match &kept.document.body {
                Body::Memory(bytes) => out.push_shared(bytes),
                Body::File(region) => out.push_file(region.clone()),
            }
        }
        Err(absence) => refuse::<D>((*absence).into(), out, tally),
    }
}

/// Writes a reply without a document.
pub(crate) fn refuse<D: Dialect>(status: Status, out: &mut Outbox, tally: &mut Tally) {
    tally.answer(status, 0);
    D::head(status, 0, out.inline());
}

/// Gives all who wait the same answer.
pub(crate) fn fulfil<D: Dialect>(waiting: impl IntoIterator<Item = Promise>, outcome: &Outcome, tally: &mut Tally) {
    for promise in waiting {
        let mut answer = Outbox::default();
        reply::<D>(outcome, &mut answer, tally);
        promise.fulfil(answer);
    }
}

#[inline]
fn nanoseconds(unix: Duration) -> u64 {
    // Enough until the year 2554.
    unix.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(unix.subsec_nanos()))
}
