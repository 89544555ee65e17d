//! Back end with a cache in front of it, and the loads in flight between them.

use std::{sync::Arc, time::Duration};

use file_cache::{LastCheck, Revalidation, unix_ns};
use proto::{Now, Outbox, Promise};
use wire::file::{Dialect, FileId, Status};

use crate::{
    backend::{AnyBackend, AnyReader, Body, Document, LoadError},
    cache::{Cache, Footprint, Usage},
    inflight::InflightLoads,
    statistics::{Statistics, Tally, Totals},
};

/// Document in the cache, and when it was last known to be current.
#[derive(Debug)]
pub(crate) struct CachedDocument {
    document: Document,
    last_check: LastCheck,
}

/// Value of the cache.
pub(crate) type SharedDocument = Arc<CachedDocument>;

impl Footprint for SharedDocument {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.document.held_bytes()
    }

    fn descriptors(&self) -> usize {
        self.document.descriptors()
    }
}

/// Outcome of a request for a document.
pub(crate) type Outcome = Result<SharedDocument, LoadError>;

/// See the module's description.
pub(crate) struct CachedBackend<C> {
    pub(crate) cache: C,
    pub(crate) backend: AnyBackend,
    pub(crate) inflight: Arc<InflightLoads<Promise>>,
    pub(crate) totals: Totals,
    revalidation: Revalidation,
}

impl<C: Cache<SharedDocument>> CachedBackend<C> {
    pub(crate) fn new(cache: C, backend: AnyBackend, revalidate: Duration) -> Self {
        let revalidation = Revalidation::new(revalidate);
        Self { cache, backend, inflight: Arc::default(), totals: Totals::default(), revalidation }
    }

    /// Returns the cached document, if it is current.
    #[inline]
    pub(crate) fn get_current(&self, id: &FileId, now: Now, tally: &mut Tally) -> Option<SharedDocument> {
        let cached = self.cache.get(id)?;
        if self.revalidation.is_fresh(&cached.last_check, unix_ns(now.unix)) || self.recheck(id, &cached, now, tally) {
            tally.hit();
            return Some(cached);
        }
        None
    }

    #[cold]
    fn recheck(&self, id: &FileId, cached: &SharedDocument, now: Now, tally: &mut Tally) -> bool {
        let is_current = || self.backend.is_current(&cached.document, id);
        if cached.last_check.recheck(unix_ns(now.unix), is_current) {
            tally.revalidation();
            return true;
        }
        self.cache.remove_if(id, |other| Arc::ptr_eq(cached, other));
        false
    }

    /// Loads a document from the back end, and offers it to the cache.
    pub(crate) fn load(&self, reader: &mut AnyReader, id: &FileId, now: Now, tally: &mut Tally) -> Outcome {
        tally.load();
        let document = self.backend.load(reader, id)?;
        let loaded = Arc::new(CachedDocument { document, last_check: LastCheck::new(unix_ns(now.unix)) });
        self.cache.insert(id, Arc::clone(&loaded));
        Ok(loaded)
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.totals.sum().into()
    }

    /// Returns the contents of the cache, and the number of entries that it has ever evicted.
    pub(crate) fn used(&self) -> (Usage, u64) {
        (self.cache.used(), self.cache.evicted())
    }
}

/// Writes the reply for `outcome`.
#[inline]
pub(crate) fn reply<D: Dialect>(outcome: &Outcome, out: &mut Outbox, tally: &mut Tally) {
    match outcome {
        Ok(found) => {
            let len = found.document.len();
            tally.answer(Status::Found, len);
            D::head(Status::Found, len, out.inline());
            match &found.document.body {
                Body::Memory(bytes) => out.push_shared(bytes),
                Body::File(region) => out.push_file(region.clone()),
            }
        }
        Err(error) => refuse::<D>((*error).into(), out, tally),
    }
}

/// Writes a reply without a document.
pub(crate) fn refuse<D: Dialect>(status: Status, out: &mut Outbox, tally: &mut Tally) {
    tally.answer(status, 0);
    D::head(status, 0, out.inline());
}

/// Fulfils all promises with the same reply. It is counted before anybody can have it.
pub(crate) fn fulfil<D: Dialect>(waiting: impl IntoIterator<Item = Promise>, outcome: &Outcome, totals: &Totals) {
    let mut tally = Tally::default();
    let answered = waiting.into_iter().map(|promise| {
        let mut answer = Outbox::default();
        reply::<D>(outcome, &mut answer, &mut tally);
        (promise, answer)
    });
    let answered: Vec<_> = answered.collect();
    tally.add_to(totals);
    answered.into_iter().for_each(|(promise, answer)| promise.fulfil(answer));
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Mutex, OnceLock},
        task::{Wake, Waker},
    };

    use wire::file::Framed;

    use super::*;

    /// Reads the counters when it is woken.
    #[derive(Default)]
    struct Reader {
        totals: OnceLock<Arc<Totals>>,
        seen: Mutex<Option<Statistics>>,
    }

    impl Wake for Reader {
        fn wake(self: Arc<Self>) {
            *self.seen.lock().unwrap() = self.totals.get().map(|totals| totals.sum().into());
        }
    }

    #[test]
    fn an_answer_is_counted_before_anybody_has_it() {
        let (totals, reader, mut out) = (Arc::new(Totals::default()), Arc::new(Reader::default()), Outbox::default());
        reader.totals.set(Arc::clone(&totals)).unwrap();
        let promise = out.defer();
        assert!(out.poll_reply(&Waker::from(Arc::clone(&reader))).is_pending());
        fulfil::<Framed>([promise], &Err(LoadError::Missing), &totals);
        let seen = reader.seen.lock().unwrap().expect("the promise was kept");
        assert_eq!(seen.requests(), 1);
    }
}
