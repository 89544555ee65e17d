//! File in the cache: its heads, its descriptor, and its body in the form that its strategy sends.

use std::{
    fs::File,
    io, mem,
    ops::Range,
    os::{fd::OwnedFd, unix::fs::FileExt},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use file_cache::FileState;
use proto::{FileRegion, MappedFile, MappedRegion, Now, Outbox, PipeRegion};
use sys::{
    beneath::{Metadata, Opened},
    map,
};
use web::Heads;
use wire::http1::{Connection, Part};

use crate::{
    chain::{Chain, Source},
    detached::{InFlight, Reservations},
    fallback::{PrepareError, Reason},
    resources::{self, Resources},
    strategy::Strategy,
};

/// Length that no head exceeds without configured fields, in bytes. Others are followed by a `Connection` field at most.
const HEAD_MAX: usize = 1024;

/// See the module's description.
#[derive(Debug)]
pub struct CachedFile {
    pub(crate) state: FileState,
    heads: Heads,
    file: Arc<OwnedFd>,
    body: Body,
    reserved: Reservations,
    resources: Arc<Resources>,
    /// Time at which its pipes were last known to be intact, in nanoseconds since the epoch.
    checked_ns: AtomicU64,
}

/// Body in the form in which its strategy sends it.
#[derive(Debug)]
enum Body {
    File,
    Mapped(Arc<MappedFile>),
    Pages(Arc<MappedFile>),
    Pipes(Box<Chain>),
    /// Copy in memory that is registered with io_uring.
    Copied(Bytes),
}

impl Body {
    fn strategy(&self) -> Strategy {
        match self {
            Self::File => Strategy::Sendfile,
            Self::Mapped(_) => Strategy::MmapWrite,
            Self::Pages(_) => Strategy::Vmsplice,
            Self::Pipes(_) => Strategy::Pipe,
            Self::Copied(_) => Strategy::Uring,
        }
    }
}

impl CachedFile {
    /// Prepares an open file for being sent by `strategy`, or by `sendfile` where that is impossible, which is counted.
    /// `reserved` is its share of the budgets.
    pub(crate) fn new(
        file: Arc<OwnedFd>,
        metadata: Metadata,
        heads: Heads,
        strategy: Strategy,
        reserved: Reservations,
        resources: &Arc<Resources>,
        unix: Duration,
    ) -> Self {
        let state = FileState::new(metadata, unix);
        Self::with_strategy(file, state, heads, strategy, reserved, resources, unix)
    }

    /// Prepares a file that nobody can change any more.
    pub(crate) fn sealed(
        opened: Opened,
        heads: Heads,
        strategy: Strategy,
        reserved: Reservations,
        resources: &Arc<Resources>,
        unix: Duration,
    ) -> Self {
        let state = FileState { metadata: opened.metadata, is_settled: true };
        Self::with_strategy(Arc::new(opened.file), state, heads, strategy, reserved, resources, unix)
    }

    fn with_strategy(
        file: Arc<OwnedFd>,
        state: FileState,
        heads: Heads,
        strategy: Strategy,
        reserved: Reservations,
        resources: &Arc<Resources>,
        unix: Duration,
    ) -> Self {
        let resources = Arc::clone(resources);
        let mut cached =
            Self { state, heads, file, body: Body::File, reserved, resources, checked_ns: AtomicU64::new(0) };
        match cached.prepare(strategy, unix) {
            Ok(body) => cached.body = body,
            Err(error) => {
                // It is to be loaded again as soon as the interval has passed.
                cached.state.is_settled &= error != PrepareError::Changed;
                cached.resources.statistics.record_error(strategy, error);
            }
        }
        cached
    }

    fn prepare(&mut self, strategy: Strategy, unix: Duration) -> Result<Body, PrepareError> {
        // Pipes and copies are of one moment: they have to wait until the file has come to rest.
        let is_snapshot = matches!(strategy, Strategy::Pipe | Strategy::Uring);
        if self.state.metadata.size == 0 || (is_snapshot && !self.state.is_settled) {
            return Ok(Body::File);
        }
        match strategy {
            Strategy::Sendfile => Ok(Body::File),
            Strategy::MmapWrite => Ok(Body::Mapped(self.map(strategy)?)),
            Strategy::Vmsplice => Ok(Body::Pages(self.map(strategy)?)),
            Strategy::Pipe => {
                let head_len = HEAD_MAX.max(self.heads.ok.head_len() + HEAD_MAX / 8);
                let chain = Chain::new(self.source(), head_len)?;
                let prepared = chain.prepare(self.source(), unix.as_secs(), self.write_head(Connection::Implied, unix));
                match prepared {
                    Ok(()) => Ok(Body::Pipes(Box::new(chain))),
                    Err(error) => Err(error),
                }
            }
            Strategy::Uring => self.copy(),
        }
    }

    fn map(&mut self, strategy: Strategy) -> Result<Arc<MappedFile>, Reason> {
        let Resources { mapped_bytes, .. } = &*self.resources;
        let reserved = self.resources.reserve(mapped_bytes, self.state.metadata.size).ok_or(Reason::Mapping)?;
        let len = usize::try_from(self.state.metadata.size).map_err(|_| Reason::Mapping)?;
        let bytes = map::map_file(&self.file, len).map_err(|_| Reason::Mapping)?;
        self.reserved.push(reserved);
        let fallbacks = self.resources.statistics.counted_by_drivers(strategy);
        Ok(Arc::new(MappedFile { bytes, file: Arc::clone(&self.file), fallbacks }))
    }

    fn copy(&mut self) -> Result<Body, PrepareError> {
        let region = self.resources.registered.as_ref().ok_or(Reason::PipeBudget)?;
        let len = usize::try_from(self.state.metadata.size).map_err(|_| Reason::PipeBudget)?;
        let file = File::from(self.file.try_clone().map_err(|error| resources::reason(&error))?);
        match region.lend(len, |memory| file.read_exact_at(memory, 0)) {
            Ok(Some(bytes)) if Metadata::of(&file).is_ok_and(|after| after == self.state.metadata) => {
                Ok(Body::Copied(bytes))
            }
            Ok(Some(_)) => Err(PrepareError::Changed),
            Ok(None) => Err(Reason::PipeBudget.into()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(PrepareError::Changed),
            Err(_) => Err(Reason::Kernel.into()),
        }
    }

    fn source(&self) -> Source<'_> {
        Source { file: &self.file, metadata: &self.state.metadata, resources: &self.resources }
    }

    #[inline]
    fn write_head(&self, connection: Connection, unix: Duration) -> impl FnOnce(&mut Vec<u8>) {
        move |out| {
            self.heads.ok.push(Part::Head, connection, unix, out);
        }
    }

    /// True if its descriptor counts against the budget of the cache.
    pub(crate) fn is_accounted(&self) -> bool {
        !self.reserved.is_empty()
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.file
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// True unless the file is in pipes or mapped and has changed. Pages in pipes are references: after a truncation they
    /// are zeros, at the full length, and so is the end of the last page of a mapping. So such a file is checked whenever
    /// the clock has moved on since the last check. A check for each response would cost 8 % of it. A body that is sent
    /// in any other way ends, with its connection, where the file ends, and needs no check.
    #[inline]
    pub(crate) fn is_intact(&self, now_ns: u64) -> bool {
        match &self.body {
            Body::File | Body::Copied(_) => true,
            Body::Pipes(_) | Body::Mapped(_) | Body::Pages(_) => {
                self.checked_ns.load(Ordering::Relaxed) == now_ns || self.recheck(now_ns)
            }
        }
    }

    #[inline(never)]
    fn recheck(&self, now_ns: u64) -> bool {
        let is_same = Metadata::of(&self.file).is_ok_and(|now| now == self.state.metadata);
        if is_same {
            self.checked_ns.store(now_ns, Ordering::Relaxed);
        }
        is_same
    }

    /// Strategy by which it is sent, after all fallbacks.
    pub(crate) fn strategy(&self) -> Strategy {
        self.body.strategy()
    }

    /// Queues head and body of a 200. Returns the number of their bytes.
    #[inline]
    pub(crate) fn push_ok(&self, connection: Connection, now: Now, out: &mut Outbox) -> u64 {
        let (strategy, sent) = match &self.body {
            Body::Pipes(chain) => self.push_chain(chain, connection, now, out),
            Body::File | Body::Mapped(_) | Body::Pages(_) | Body::Copied(_) => {
                let head = self.heads.ok.push(Part::Head, connection, now.unix, out.inline()) as u64;
                (self.push(0..self.state.metadata.size, out), head + self.state.metadata.size)
            }
        };
        self.resources.statistics.record_sent(strategy, sent);
        sent
    }

    #[inline]
    fn push_chain(&self, chain: &Chain, connection: Connection, now: Now, out: &mut Outbox) -> (Strategy, u64) {
        let head = self.write_head(connection, now.unix);
        let Some(first) = chain.first_pipe(self.source(), connection, now.unix.as_secs(), head) else {
            let head = self.heads.ok.push(Part::Head, connection, now.unix, out.inline()) as u64;
            return (self.push(0..self.state.metadata.size, out), head + self.state.metadata.size);
        };
        let head = first.head.len() as u64;
        out.push_pipe(PipeRegion::cached(&first));
        for link in chain.rest() {
            out.push_pipe(PipeRegion::cached(link));
        }
        (Strategy::Pipe, head + self.state.metadata.size)
    }

    /// Queues a part of the file without a head.
    pub(crate) fn push_range(&self, range: Range<u64>, out: &mut Outbox) {
        let bytes = range.end.saturating_sub(range.start);
        let strategy = self.push(range, out);
        self.resources.statistics.record_sent(strategy, bytes);
    }

    fn push(&self, range: Range<u64>, out: &mut Outbox) -> Strategy {
        match &self.body {
            Body::Mapped(mapped) => {
                if let Some(region) = MappedRegion::new(mapped, range) {
                    out.push_mapped(region);
                }
            }
            Body::Pages(pages) => out.push_pipe(PipeRegion::pages(pages, range)),
            Body::Copied(bytes) => out.push_shared(&slice(bytes, range)),
            // Pipes are whole or nothing.
            Body::File | Body::Pipes(_) => {
                let (file, offset) = (Arc::clone(&self.file), range.start);
                out.push_file(FileRegion { file, offset, len: range.end.saturating_sub(range.start) });
                return Strategy::Sendfile;
            }
        }
        self.body.strategy()
    }

    /// Releases what no request has used since `second` and can be made again.
    pub(crate) fn release_idle(&self, second: u64) {
        if let Body::Pipes(chain) = &self.body {
            chain.release_idle(second, &self.resources);
        }
    }
}

/// File that has been opened and is cached or in flight.
#[derive(Debug)]
pub(crate) struct KnownFile {
    pub(crate) cached: Weak<CachedFile>,
    pub(crate) open: Weak<OwnedFd>,
}

impl KnownFile {
    pub(crate) fn upgrade(&self) -> (Option<Arc<CachedFile>>, Option<Arc<OwnedFd>>) {
        (self.cached.upgrade(), self.open.upgrade())
    }
}

fn slice(bytes: &Bytes, range: Range<u64>) -> Bytes {
    // What is in memory has its size in a usize.
    bytes.slice(range.start as usize..range.end as usize)
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        let mut reserved = mem::take(&mut self.reserved);
        if let Body::Pipes(chain) = mem::replace(&mut self.body, Body::File) {
            reserved.extend(chain.into_reservations());
        }
        // A response in flight owns the descriptor, too, whatever else it owns.
        if Arc::strong_count(&self.file) > 1 {
            self.resources.detached.add(InFlight::File(Arc::downgrade(&self.file)), reserved);
        }
    }
}

#[cfg(test)]
mod tests;
