//! Protocol of one combination: requests in, documents out.

use std::{io, mem, sync::Arc, time::Duration};

use proto::{Flow, Now, Outbox, Promise, Step};
use smallvec::SmallVec;
use wire::file::{Dialect, FileId, Request, Status};

use crate::{
    Combination,
    backend::{AnyBackend, BackendError, LoadError},
    cache::{Cache, CacheLimits},
    cached_backend::{CachedBackend, Outcome, SharedDocument, fulfil, refuse, reply},
    inflight::InflightLoad,
    readers::{Job, ReaderPool},
    requests::{Registration, RequestMap},
    statistics::Tally,
};

/// First bytes of an incomplete request.
type Torn = SmallVec<[u8; 16]>;

/// Options of a [`FileServer`](crate::FileServer): its timeouts, its cache and its readers.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// Time from the first byte of a request to its last, however they trickle in.
    pub request_timeout: Duration,
    /// Time between a reply and the next request.
    pub idle_timeout: Duration,
    /// Time for which a cached document is taken to be unchanged without a check.
    pub revalidate: Duration,
    pub cache: CacheLimits,
    /// Number of threads that load documents. With 0, a miss loads its document itself; a back end that blocks needs more.
    pub readers: usize,
}

/// Reason why a server cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0:?}: {1}")]
    Combination(Combination, &'static str),
    #[error(transparent)]
    Reader(#[from] BackendError),
    #[error("cannot start a thread")]
    Thread(#[from] io::Error),
}

/// Cached back end, and the threads that load from it.
pub(crate) struct DocumentService<C> {
    pub(crate) documents: Arc<CachedBackend<C>>,
    /// `None` where a miss loads its document itself.
    readers: Option<ReaderPool>,
}

impl<C: Cache<SharedDocument>> DocumentService<C> {
    /// # Errors
    /// A reader cannot be opened, or its thread not be started.
    pub(crate) fn new<D: Dialect>(backend: AnyBackend, options: &FileOptions) -> Result<Self, StartError> {
        let readers = (0..options.readers).map(|_| backend.reader()).collect::<Result<Vec<_>, _>>()?;
        let documents = Arc::new(CachedBackend::new(C::new(options.cache), backend, options.revalidate));
        let readers = match readers.is_empty() {
            true => None,
            false => Some(ReaderPool::start::<D, C>(&documents, readers)?),
        };
        Ok(Self { documents, readers })
    }

    /// Replies that a request is malformed.
    pub(crate) fn malformed<D: Dialect>(&self, out: &mut Outbox) {
        let mut tally = Tally::default();
        refuse::<D>(Status::Malformed, out, &mut tally);
        tally.add_to(&self.documents.totals);
    }
}

/// Serves [`proto::Protocol::on_input`]. An incomplete request at the end of the input waits in the request map.
#[inline]
pub(crate) fn on_input<D: Dialect, R: RequestMap, C: Cache<SharedDocument>>(
    service: &DocumentService<C>,
    entry: &Registration<R>,
    input: &[u8],
    now: Now,
    out: &mut Outbox,
) -> Step {
    let mut torn = entry.with(|request| mem::take(&mut request.bytes));
    let was_torn = !torn.is_empty();
    let mut batch = Batch { service, now, out, tally: Tally::default(), flow: Flow::Open };
    let mut consumed = if was_torn { batch.complete_request::<D>(&mut torn, input) } else { 0 };
    let is_same = was_torn && !torn.is_empty();
    while batch.should_continue() && consumed < input.len() {
        let rest = &input[consumed..];
        consumed += batch.handle_request::<D>(D::request(rest)).unwrap_or_else(|| {
            torn.extend_from_slice(rest);
            rest.len()
        });
    }
    let Batch { tally, flow, .. } = batch;
    tally.add_to(&service.documents.totals);
    if !torn.is_empty() {
        entry.with(|request| {
            request.bytes = torn;
            if !is_same {
                request.since = now.instant;
            }
        });
    }
    Step { flow, ..Step::open(consumed) }
}

/// Replies to one batch of requests of one connection.
struct Batch<'a, C> {
    service: &'a DocumentService<C>,
    now: Now,
    out: &'a mut Outbox,
    tally: Tally,
    flow: Flow,
}

impl<C: Cache<SharedDocument>> Batch<'_, C> {
    fn should_continue(&self) -> bool {
        self.flow == Flow::Open && !self.out.is_full()
    }

    /// Completes a request that was begun earlier, and answers it once it is complete. Returns the length that it took.
    #[cold]
    fn complete_request<D: Dialect>(&mut self, torn: &mut Torn, input: &[u8]) -> usize {
        let mut taken = 0;
        loop {
            let request = D::request(torn);
            let Request::Incomplete { need } = request else {
                self.handle_request::<D>(request);
                torn.clear();
                return taken;
            };
            let rest = &input[taken..];
            if rest.is_empty() {
                return taken;
            }
            let piece = &rest[..need.clamp(1, rest.len())];
            torn.extend_from_slice(piece);
            taken += piece.len();
        }
    }

    /// Answers a complete request and returns its length; `None` for an incomplete one.
    #[inline]
    fn handle_request<D: Dialect>(&mut self, request: Request) -> Option<usize> {
        match request {
            Request::Incomplete { .. } => None,
            Request::Get { id, consumed } => {
                match self.service.documents.get_current(&id, self.now, &mut self.tally) {
                    Some(found) => reply::<D>(&Ok(found), self.out, &mut self.tally),
                    None => self.handle_miss::<D>(id),
                }
                if !D::IS_PERSISTENT {
                    // A peer that goes on sending, now or while the document is on its way, must not cause a reset that
                    // overtakes it.
                    self.flow = Flow::CloseAfterAck;
                }
                Some(consumed)
            }
            Request::Malformed { consumed, fatal } => {
                refuse::<D>(Status::Malformed, self.out, &mut self.tally);
                if fatal {
                    // A client of another protocol may be sending more.
                    self.flow = Flow::Linger;
                }
                Some(consumed)
            }
        }
    }

    /// Answers all misses of a document with one load. Where nothing is cached, each miss loads.
    fn handle_miss<D: Dialect>(&mut self, id: FileId) {
        self.tally.miss();
        match &self.service.readers {
            None if C::CAN_HIT => self.load_shared::<D>(&id),
            None => {
                let outcome = self.load(&id);
                reply::<D>(&outcome, self.out, &mut self.tally);
            }
            Some(readers) if C::CAN_HIT => self.submit_shared::<D>(readers, id),
            Some(readers) => {
                let promise = self.out.defer();
                self.submit::<D>(readers, Job { id, now: self.now, promise, load: None });
            }
        }
    }

    fn load_shared<D: Dialect>(&mut self, id: &FileId) {
        let Some(load) = self.join(id) else { return };
        let outcome = self.find_again(id).map_or_else(|| self.load(id), Ok);
        reply::<D>(&outcome, self.out, &mut self.tally);
        fulfil::<D>(load.complete(), &outcome, &self.service.documents.totals);
    }

    fn submit_shared<D: Dialect>(&mut self, readers: &ReaderPool, id: FileId) {
        let Some(load) = self.join(&id) else { return };
        if let Some(found) = self.find_again(&id) {
            let outcome = Ok(found);
            reply::<D>(&outcome, self.out, &mut self.tally);
            return fulfil::<D>(load.complete(), &outcome, &self.service.documents.totals);
        }
        let promise = self.out.defer();
        self.submit::<D>(readers, Job { id, now: self.now, promise, load: Some(load) });
    }

    /// Joins the loads in flight; `None` if the load of another miss will answer.
    fn join(&mut self, id: &FileId) -> Option<InflightLoad<Promise>> {
        let load = self.service.documents.inflight.join(id, || self.out.defer());
        if load.is_none() {
            self.tally.coalesced();
        }
        load
    }

    /// Looks into the cache again: the load before ours may have completed between our miss and our joining.
    fn find_again(&mut self, id: &FileId) -> Option<SharedDocument> {
        self.service.documents.get_current(id, self.now, &mut self.tally)
    }

    fn load(&mut self, id: &FileId) -> Outcome {
        let documents = &self.service.documents;
        let mut reader = documents.backend.reader().map_err(|_| LoadError::Unavailable)?;
        documents.load(&mut reader, id, self.now, &mut self.tally)
    }

    fn submit<D: Dialect>(&mut self, readers: &ReaderPool, job: Job) {
        if let Err(job) = readers.submit(job) {
            job.finish::<D>(&Err(LoadError::Unavailable), &self.service.documents.totals);
        }
    }
}
