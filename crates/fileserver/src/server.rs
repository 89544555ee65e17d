//! The protocol of one combination: requests in, documents out.

use std::{io, mem, sync::Arc, time::Duration};

use proto::{Flow, Now, Outbox, Promise, Step};
use smallvec::SmallVec;
use wire::file::{Dialect, FileId, Request, Status};

use crate::{
    Combination,
    backend::{Absence, AnyBackend, BackendError},
    cache::{Cache, CacheLimits},
    flights::Flight,
    library::{Library, Outcome, Shared, fulfil, refuse, reply},
    readers::{Job, Readers},
    requests::{Registration, RequestMap},
    statistics::Tally,
};

/// The first bytes of a request.
type Torn = SmallVec<[u8; 16]>;

/// How documents are kept and how long is waited for whom.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// From the first byte of a request to its last, however they trickle in.
    pub request_timeout: Duration,
    /// Between a reply and the next request.
    pub idle_timeout: Duration,
    /// How long a cached document is taken to be unchanged without a look.
    pub revalidate: Duration,
    pub cache: CacheLimits,
    /// Threads that load documents. 0: whoever needs one loads it, which is not for a back end that blocks.
    pub readers: usize,
}

/// Why a server cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0:?}: {1}")]
    Combination(Combination, &'static str),
    #[error(transparent)]
    Reader(#[from] BackendError),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A cache and what is behind it.
pub(crate) struct Shelf<C> {
    pub(crate) library: Arc<Library<C>>,
    /// `None`: documents are loaded where they are asked for.
    readers: Option<Readers>,
}

impl<C: Cache<Shared>> Shelf<C> {
    /// # Errors
    /// A reader cannot be opened, or its thread not be started.
    pub(crate) fn new<D: Dialect>(backend: AnyBackend, options: &FileOptions) -> Result<Self, StartError> {
        let readers = (0..options.readers).map(|_| backend.reader()).collect::<Result<Vec<_>, _>>()?;
        let library = Arc::new(Library::new(C::new(options.cache), backend, options.revalidate));
        let readers = match readers.is_empty() {
            true => None,
            false => Some(Readers::start::<D, C>(&library, readers)?),
        };
        Ok(Self { library, readers })
    }

    /// Says that a request is none.
    pub(crate) fn malformed<D: Dialect>(&self, out: &mut Outbox) {
        let mut tally = Tally::default();
        refuse::<D>(Status::Malformed, out, &mut tally);
        tally.add_to(&self.library.totals);
    }
}

/// See [`proto::Protocol::on_input`]. What is torn at the end of the input waits in the request map.
#[inline]
pub(crate) fn on_input<D: Dialect, R: RequestMap, C: Cache<Shared>>(
    shelf: &Shelf<C>,
    entry: &Registration<R>,
    input: &[u8],
    now: Now,
    out: &mut Outbox,
) -> Step {
    let mut torn = entry.with(|request| mem::take(&mut request.bytes));
    let was_torn = !torn.is_empty();
    let mut turn = Turn { shelf, now, out, tally: Tally::default(), flow: Flow::Open };
    let mut consumed = if was_torn { turn.complete::<D>(&mut torn, input) } else { 0 };
    let is_same = was_torn && !torn.is_empty();
    while turn.goes_on() && consumed < input.len() {
        let rest = &input[consumed..];
        consumed += turn.answer::<D>(D::request(rest)).unwrap_or_else(|| {
            torn.extend_from_slice(rest);
            rest.len()
        });
    }
    let Turn { tally, flow, .. } = turn;
    tally.add_to(&shelf.library.totals);
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

/// The replies to one batch of requests of one connection.
struct Turn<'a, C> {
    shelf: &'a Shelf<C>,
    now: Now,
    out: &'a mut Outbox,
    tally: Tally,
    flow: Flow,
}

impl<C: Cache<Shared>> Turn<'_, C> {
    fn goes_on(&self) -> bool {
        self.flow == Flow::Open && !self.out.is_full()
    }

    /// Takes what a request begun earlier still misses, and answers it once it is whole; returns how much was taken.
    #[cold]
    fn complete<D: Dialect>(&mut self, torn: &mut Torn, input: &[u8]) -> usize {
        let mut taken = 0;
        loop {
            let request = D::request(torn);
            let Request::Incomplete { need } = request else {
                self.answer::<D>(request);
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

    /// Answers a whole request and returns its length; `None`: it is not whole.
    #[inline]
    fn answer<D: Dialect>(&mut self, request: Request) -> Option<usize> {
        match request {
            Request::Incomplete { .. } => None,
            Request::Get { id, consumed } => {
                match self.shelf.library.look(&id, self.now, &mut self.tally) {
                    Some(kept) => reply::<D>(&Ok(kept), self.out, &mut self.tally),
                    None => self.miss::<D>(id),
                }
                if !D::IS_PERSISTENT {
                    // Whatever the peer goes on to say, now or while the document is on its way, is not worth a reset
                    // that overtakes it.
                    self.flow = Flow::CloseAfterAck;
                }
                Some(consumed)
            }
            Request::Malformed { consumed, fatal } => {
                refuse::<D>(Status::Malformed, self.out, &mut self.tally);
                if fatal {
                    // Whoever speaks something else may have more to say.
                    self.flow = Flow::Linger;
                }
                Some(consumed)
            }
        }
    }

    /// One load answers all who ask for the document before it is there. Where nothing is kept, everybody loads.
    fn miss<D: Dialect>(&mut self, id: FileId) {
        self.tally.miss();
        match &self.shelf.readers {
            None if C::KEEPS => self.load_for_all::<D>(&id),
            None => {
                let outcome = self.load(&id);
                reply::<D>(&outcome, self.out, &mut self.tally);
            }
            Some(readers) if C::KEEPS => self.send_for_all::<D>(readers, id),
            Some(readers) => {
                let promise = self.out.defer();
                self.send::<D>(readers, Job { id, now: self.now, promise, flight: None });
            }
        }
    }

    fn load_for_all<D: Dialect>(&mut self, id: &FileId) {
        let Some(flight) = self.join(id) else { return };
        let outcome = self.landed(id).map_or_else(|| self.load(id), Ok);
        reply::<D>(&outcome, self.out, &mut self.tally);
        fulfil::<D>(flight.land(), &outcome, &mut self.tally);
    }

    fn send_for_all<D: Dialect>(&mut self, readers: &Readers, id: FileId) {
        let Some(flight) = self.join(&id) else { return };
        if let Some(kept) = self.landed(&id) {
            let outcome = Ok(kept);
            reply::<D>(&outcome, self.out, &mut self.tally);
            return fulfil::<D>(flight.land(), &outcome, &mut self.tally);
        }
        let promise = self.out.defer();
        self.send::<D>(readers, Job { id, now: self.now, promise, flight: Some(flight) });
    }

    /// `None`: the load of another will answer.
    fn join(&mut self, id: &FileId) -> Option<Flight<Promise>> {
        let flight = self.shelf.library.flights.join(id, || self.out.defer());
        if flight.is_none() {
            self.tally.coalesced();
        }
        flight
    }

    /// The flight before ours may have landed between the look and the boarding.
    fn landed(&mut self, id: &FileId) -> Option<Shared> {
        self.shelf.library.look(id, self.now, &mut self.tally)
    }

    fn load(&mut self, id: &FileId) -> Outcome {
        let library = &self.shelf.library;
        let mut reader = library.backend.reader().map_err(|_| Absence::Unavailable)?;
        library.load(&mut reader, id, self.now, &mut self.tally)
    }

    fn send<D: Dialect>(&mut self, readers: &Readers, job: Job) {
        if let Err(job) = readers.submit(job) {
            job.finish::<D>(&Err(Absence::Unavailable), &mut self.tally);
        }
    }
}
