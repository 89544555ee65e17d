//! A file in the cache: its heads, its descriptor, and its body in the shape that its strategy sends.

use std::{
    fs::File,
    io, mem,
    ops::Range,
    os::{fd::OwnedFd, unix::fs::FileExt},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use proto::{FileRegion, MappedFile, Now, Outbox, PipeRegion};
use sys::{
    beneath::{Metadata, Opened},
    map,
};
use web::Heads;
use wire::http1::{Connection, Part};

use crate::{
    chain::{Chain, Setback, Source},
    resources::{self, Resources},
    statistics::Reason,
    strategy::Strategy,
    detached::{Held, Life},
};

/// Longer than any head of ours.
const HEAD_MAX: usize = 1024;

/// See the module's description.
#[derive(Debug)]
pub struct CachedFile {
    pub(crate) metadata: Metadata,
    /// The last change was long enough ago for the next one to have another time.
    pub(crate) settled: bool,
    heads: Heads,
    file: Arc<OwnedFd>,
    body: Body,
    held: Held,
    resources: Arc<Resources>,
    /// When it was last known to be what its pipes refer to, nanoseconds since the epoch.
    looked_ns: AtomicU64,
}

/// Where the bytes are.
#[derive(Debug)]
enum Body {
    File,
    Mapped(Bytes),
    Pages(Arc<MappedFile>),
    Pipes(Box<Chain>),
    /// In memory that is registered with io_uring.
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
    /// Prepares an open file for being sent by `strategy`, or by `sendfile` where that cannot be, which is counted.
    /// `held` is what it has of the budgets.
    pub(crate) fn new(
        opened: Opened,
        media_type: &str,
        strategy: Strategy,
        held: Held,
        resources: &Arc<Resources>,
        unix: Duration,
    ) -> Self {
        let heads = Heads::new(&opened.metadata, media_type, b"", unix);
        let settled = opened.metadata.is_settled(unix);
        Self::shaped(opened, heads, settled, strategy, held, resources, unix)
    }

    /// Prepares a file that nobody can change any more. Its entity tag is that of a file modified at `modified_ns`.
    pub(crate) fn sealed(
        opened: Opened,
        modified_ns: i64,
        media_type: &str,
        strategy: Strategy,
        held: Held,
        resources: &Arc<Resources>,
        unix: Duration,
    ) -> Self {
        let heads = Heads::new(&Metadata { modified_ns, ..opened.metadata }, media_type, b"", unix);
        Self::shaped(opened, heads, true, strategy, held, resources, unix)
    }

    fn shaped(
        Opened { file, metadata }: Opened,
        heads: Heads,
        settled: bool,
        strategy: Strategy,
        held: Held,
        resources: &Arc<Resources>,
        unix: Duration,
    ) -> Self {
        let (file, resources) = (Arc::new(file), Arc::clone(resources));
        let mut cached =
            Self { metadata, settled, heads, file, body: Body::File, held, resources, looked_ns: AtomicU64::new(0) };
        match cached.shape(strategy, unix) {
            Ok(body) => cached.body = body,
            Err(setback) => {
                // Another look is due as soon as the usual time has passed.
                cached.settled &= setback != Setback::Changed;
                cached.resources.statistics.set_back(strategy, setback);
            }
        }
        cached
    }

    fn shape(&mut self, strategy: Strategy, unix: Duration) -> Result<Body, Setback> {
        // Pipes and copies are of one moment: they have to wait until the file has come to rest.
        let is_snapshot = matches!(strategy, Strategy::Pipe | Strategy::Uring);
        if self.metadata.size == 0 || (is_snapshot && !self.settled) {
            return Ok(Body::File);
        }
        match strategy {
            Strategy::Sendfile => Ok(Body::File),
            Strategy::MmapWrite => {
                let kept = Kept { map: self.map()?, _file: Arc::clone(&self.file) };
                Ok(Body::Mapped(Bytes::from_owner(kept)))
            }
            Strategy::Vmsplice => {
                let (bytes, file) = (self.map()?, Arc::clone(&self.file));
                let fallbacks = self.resources.statistics.scratch(Strategy::Vmsplice);
                Ok(Body::Pages(Arc::new(MappedFile { bytes, file, fallbacks })))
            }
            Strategy::Pipe => {
                let chain = Chain::new(self.source(), HEAD_MAX)?;
                let prepared = chain.prepare(self.source(), unix.as_secs(), self.write_head(Connection::Implied, unix));
                match prepared {
                    Ok(()) => Ok(Body::Pipes(Box::new(chain))),
                    Err(setback) => Err(setback),
                }
            }
            Strategy::Uring => self.copy(),
        }
    }

    fn map(&mut self) -> Result<Bytes, Reason> {
        let Resources { mapped_bytes, .. } = &*self.resources;
        let held = self.resources.reserve(mapped_bytes, self.metadata.size).ok_or(Reason::Mapping)?;
        let len = usize::try_from(self.metadata.size).map_err(|_| Reason::Mapping)?;
        let map = map::map_file(&self.file, len).map_err(|_| Reason::Mapping)?;
        self.held.push(held);
        Ok(map)
    }

    fn copy(&mut self) -> Result<Body, Setback> {
        let region = self.resources.registered.as_ref().ok_or(Reason::PipeBudget)?;
        let len = usize::try_from(self.metadata.size).map_err(|_| Reason::PipeBudget)?;
        let file = File::from(self.file.try_clone().map_err(|error| resources::reason(&error))?);
        match region.lend(len, |memory| file.read_exact_at(memory, 0)) {
            Ok(Some(bytes)) if Metadata::of(&file).is_ok_and(|after| after == self.metadata) => Ok(Body::Copied(bytes)),
            Ok(Some(_)) => Err(Setback::Changed),
            Ok(None) => Err(Reason::PipeBudget.into()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Setback::Changed),
            Err(_) => Err(Reason::Kernel.into()),
        }
    }

    fn source(&self) -> Source<'_> {
        Source { file: &self.file, metadata: &self.metadata, resources: &self.resources }
    }

    #[inline]
    fn write_head(&self, connection: Connection, unix: Duration) -> impl FnOnce(&mut Vec<u8>) {
        move |out| {
            self.heads.ok.push(Part::Head, connection, unix, out);
        }
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Pages in pipes are references: after a truncation they are zeros, at the full length. So a file in pipes is looked
    /// at whenever the clock has moved on since the last look. A look for each response would cost 8 % of it. What is
    /// sent in any other way ends with its connection where the file ends, and needs no look.
    #[inline]
    pub(crate) fn is_as_in_its_pipes(&self, now_ns: u64) -> bool {
        match &self.body {
            Body::Pipes(_) if self.looked_ns.load(Ordering::Relaxed) != now_ns => self.look(now_ns),
            Body::Pipes(_) | Body::File | Body::Mapped(_) | Body::Pages(_) | Body::Copied(_) => true,
        }
    }

    #[inline(never)]
    fn look(&self, now_ns: u64) -> bool {
        let is_same = Metadata::of(&self.file).is_ok_and(|now| now == self.metadata);
        if is_same {
            self.looked_ns.store(now_ns, Ordering::Relaxed);
        }
        is_same
    }

    /// How it is sent, after all fallbacks.
    pub(crate) fn strategy(&self) -> Strategy {
        self.body.strategy()
    }

    /// Queues head and body of a 200; returns their bytes.
    #[inline]
    pub(crate) fn push_ok(&self, connection: Connection, now: Now, out: &mut Outbox) -> u64 {
        let (strategy, sent) = match &self.body {
            Body::Pipes(chain) => self.push_chain(chain, connection, now, out),
            Body::File | Body::Mapped(_) | Body::Pages(_) | Body::Copied(_) => {
                let head = self.heads.ok.push(Part::Head, connection, now.unix, out.inline()) as u64;
                (self.push(0..self.metadata.size, out), head + self.metadata.size)
            }
        };
        self.resources.statistics.sent(strategy, sent);
        sent
    }

    #[inline]
    fn push_chain(&self, chain: &Chain, connection: Connection, now: Now, out: &mut Outbox) -> (Strategy, u64) {
        let head = self.write_head(connection, now.unix);
        let Some(front) = chain.front(self.source(), connection, now.unix.as_secs(), head) else {
            let head = self.heads.ok.push(Part::Head, connection, now.unix, out.inline()) as u64;
            return (self.push(0..self.metadata.size, out), head + self.metadata.size);
        };
        let head = front.head.len() as u64;
        out.push_pipe(PipeRegion::cached(&front));
        for link in chain.rest() {
            out.push_pipe(PipeRegion::cached(link));
        }
        (Strategy::Pipe, head + self.metadata.size)
    }

    /// Queues a part of the file without a head.
    pub(crate) fn push_range(&self, range: Range<u64>, out: &mut Outbox) {
        let bytes = range.end.saturating_sub(range.start);
        let strategy = self.push(range, out);
        self.resources.statistics.sent(strategy, bytes);
    }

    fn push(&self, range: Range<u64>, out: &mut Outbox) -> Strategy {
        match &self.body {
            Body::Mapped(map) => out.push_mapped(slice(map, range)),
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

    /// Gives up what nobody has asked for since `second`, and would be made again.
    pub(crate) fn shed(&self, second: u64) {
        if let Body::Pipes(chain) = &self.body {
            chain.shed(second, &self.resources);
        }
    }

    #[cfg(test)]
    pub(crate) fn of_nothing(resources: &Arc<Resources>) -> Self {
        let file = OwnedFd::from(tempfile::tempfile().expect("a temporary file"));
        let metadata = Metadata::of(&file).expect("its metadata");
        Self::new(Opened { file, metadata }, "a/b", Strategy::Sendfile, Held::new(), resources, Duration::ZERO)
    }
}

fn slice(bytes: &Bytes, range: Range<u64>) -> Bytes {
    // What is in memory has its size in a usize.
    bytes.slice(range.start as usize..range.end as usize)
}

/// A mapping and the file it is of: while a response sends the one, the other counts as in use.
#[derive(Debug)]
struct Kept {
    map: Bytes,
    _file: Arc<OwnedFd>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        let mut held = mem::take(&mut self.held);
        if let Body::Pipes(chain) = mem::replace(&mut self.body, Body::File) {
            held.extend(chain.into_held());
        }
        // Whatever is still being sent owns the descriptor, too.
        if Arc::strong_count(&self.file) > 1 {
            self.resources.zombies.add(Life::File(Arc::downgrade(&self.file)), held);
        }
    }
}

#[cfg(test)]
mod tests;
