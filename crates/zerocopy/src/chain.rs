//! File in a chain of pipes. The first begins with the head of a response, so that a small response is one tee and one
//! splice.
//!
//! The head has a date. A chain in use therefore gets a new first pipe once a second, for each kind of head that is
//! asked for; the other pipes stay for as long as the file does.

use std::{mem, os::fd::OwnedFd, sync::Arc};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use parking_lot::Mutex;
use proto::CachedPipe;
use sys::beneath::Metadata;
use wire::http1::Connection;

use crate::{
    detached::{InFlight, Reservations},
    fallback::{PrepareError, Reason},
    resources::{Link, PAGE, Resources},
    strategy::Strategy,
};

/// Number of links at which a file is better sent otherwise: a response must leave room for others in its outbox.
const LINKS_MAX: usize = 32;
/// Number of kinds of heads, one for each [`Connection`].
const HEADS: usize = 3;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Chain {
    first_pipes: [FirstPipe; HEADS],
    /// Bytes of the file in each first pipe.
    first_bytes: u64,
    rest: Box<[Arc<CachedPipe>]>,
    reserved: Reservations,
}

/// First pipe for one kind of head.
#[derive(Debug, Default)]
struct FirstPipe {
    current: ArcSwapOption<DatedPipe>,
    lease: Mutex<Lease>,
}

#[derive(Debug)]
struct DatedPipe {
    /// Date in its head, in seconds since the epoch.
    second: u64,
    pipe: Arc<CachedPipe>,
}

/// State that belongs to the thread that renews the pipe.
#[derive(Debug, Default)]
struct Lease {
    reserved: Reservations,
    /// Second in which no pipe could be made; in the next one it is tried again.
    failed: Option<u64>,
}

/// File that a chain is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Arc<OwnedFd>,
    pub(crate) metadata: &'a Metadata,
    pub(crate) resources: &'a Resources,
}

impl Chain {
    /// Puts a file into pipes. `head_len` is the length of the longest head. The first pipes come with the first requests,
    /// or by [`Chain::prepare`].
    pub(crate) fn new(source: Source<'_>, head_len: usize) -> Result<Self, PrepareError> {
        let Source { file, metadata, resources } = source;
        let link = resources.link_bytes_max / PAGE * PAGE;
        let room = link.saturating_sub((head_len as u64).next_multiple_of(PAGE));
        let first_bytes = metadata.size.min(room);
        let links = (metadata.size - first_bytes).checked_div(link).map_or(usize::MAX, |links| links as usize);
        if links >= LINKS_MAX {
            return Err(Reason::PipeBudget.into());
        }
        let (mut rest, mut reserved, mut offset) = (Vec::new(), Reservations::new(), first_bytes);
        while offset < metadata.size {
            let len = link.min(metadata.size - offset);
            let made = resources.link(file, Bytes::new(), offset, len)?;
            rest.push(made.pipe);
            reserved.extend(made.reserved);
            offset += len;
        }
        // A change meanwhile is found once the first pipe has been filled, which is the last.
        Ok(Self { first_pipes: Default::default(), first_bytes, rest: rest.into(), reserved })
    }

    /// Pipes behind the first.
    pub(crate) fn rest(&self) -> &[Arc<CachedPipe>] {
        &self.rest
    }

    /// Returns the first pipe for a response of this second, whose head `head` writes. `None` when there is none to be had,
    /// which has been counted.
    #[inline]
    pub(crate) fn first_pipe(
        &self,
        source: Source<'_>,
        connection: Connection,
        second: u64,
        head: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Arc<CachedPipe>> {
        let first = &self.first_pipes[connection as usize];
        if let Some(current) = &*first.current.load()
            && current.second == second
        {
            return Some(Arc::clone(&current.pipe));
        }
        self.renew(first, source, second, head).unwrap_or_else(|error| {
            source.resources.statistics.record_error(Strategy::Pipe, error);
            None
        })
    }

    /// Makes the first pipe of this second ahead of its first request.
    pub(crate) fn prepare(
        &self,
        source: Source<'_>,
        second: u64,
        head: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), PrepareError> {
        self.renew(&self.first_pipes[Connection::Implied as usize], source, second, head).map(drop)
    }

    #[cold]
    #[inline(never)]
    fn renew(
        &self,
        first: &FirstPipe,
        source: Source<'_>,
        second: u64,
        head: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Option<Arc<CachedPipe>>, PrepareError> {
        let current = || first.current.load().as_ref().map(|current| (current.second, Arc::clone(&current.pipe)));
        // While one thread renews, the others send what was right a moment ago.
        let Some(mut lease) = first.lease.try_lock() else { return Ok(current().map(|(_, pipe)| pipe)) };
        match current() {
            Some((of, pipe)) if of == second => return Ok(Some(pipe)),
            _ if lease.failed == Some(second) => return Ok(None),
            _ => {}
        }
        let mut bytes = Vec::with_capacity(512);
        head(&mut bytes);
        match self.replace(first, &mut lease, source, second, bytes.into()) {
            Ok(pipe) => Ok(Some(pipe)),
            Err(error) => {
                retire(first, mem::take(&mut *lease).reserved, None, source.resources);
                lease.failed = Some(second);
                Err(error)
            }
        }
    }

    /// Makes a new first pipe. The old one is in use meanwhile, unless the new one needs its share of the budgets.
    fn replace(
        &self,
        first: &FirstPipe,
        lease: &mut Lease,
        source: Source<'_>,
        second: u64,
        head: Bytes,
    ) -> Result<Arc<CachedPipe>, PrepareError> {
        let mut filled = self.fill(source, head.clone());
        if matches!(filled, Err(PrepareError::Fallback(_))) && first.current.load().is_some() {
            retire(first, mem::take(lease).reserved, None, source.resources);
            filled = self.fill(source, head);
        }
        let Link { pipe, reserved } = filled?;
        let current = Arc::new(DatedPipe { second, pipe: Arc::clone(&pipe) });
        let old = mem::replace(lease, Lease { reserved, failed: None });
        retire(first, old.reserved, Some(current), source.resources);
        Ok(pipe)
    }

    fn fill(&self, source: Source<'_>, head: Bytes) -> Result<Link, PrepareError> {
        let link = source.resources.link(source.file, head, 0, self.first_bytes)?;
        // The pages are those of the file as it was when it entered the cache, or the next check will tell.
        if Metadata::of(source.file).is_ok_and(|after| after == *source.metadata) {
            Ok(link)
        } else {
            Err(PrepareError::Changed)
        }
    }

    /// Releases first pipes that no request has used since `second`.
    pub(crate) fn release_idle(&self, second: u64, resources: &Resources) {
        for first in &self.first_pipes {
            let is_old = first.current.load().as_ref().is_some_and(|current| current.second < second);
            if is_old && let Some(mut lease) = first.lease.try_lock() {
                retire(first, mem::take(&mut lease.reserved), None, resources);
            }
        }
    }

    /// Returns the chain's share of the budgets, as it leaves the cache.
    pub(crate) fn into_reservations(mut self) -> Reservations {
        let mut reserved = mem::take(&mut self.reserved);
        for first in &mut self.first_pipes {
            reserved.append(&mut first.lease.get_mut().reserved);
        }
        reserved
    }
}

/// Takes the first pipe out of use, and another into it. Responses that are still to be sent keep the old one alive, and
/// its share of the budgets reserved.
fn retire(first: &FirstPipe, reserved: Reservations, new: Option<Arc<DatedPipe>>, resources: &Resources) {
    let Some(old) = first.current.swap(new) else { return };
    let pipe = Arc::downgrade(&old.pipe);
    drop(old);
    if pipe.strong_count() > 0 {
        resources.detached.add(InFlight::Pipe(pipe), reserved);
    }
}
