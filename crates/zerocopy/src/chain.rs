//! A file in a chain of pipes, the first with the head of a response in front, so that a small response is one tee and
//! one splice.
//!
//! The head has a date. A chain in use therefore gets a new first pipe once a second, for each kind of head that is
//! asked for; the other pipes stay for as long as the file does.

use std::{
    mem,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use proto::CachedPipe;
use sys::beneath::Metadata;
use wire::http1::Connection;

use crate::{
    resources::{Link, PAGE, Resources},
    statistics::Reason,
    strategy::Strategy,
    detached::{Held, Life},
};

/// Links of a chain above which a file is better sent otherwise: a response must leave room for others in its outbox.
const LINKS_MAX: usize = 32;
/// Implied, keep-alive, close.
const HEADS: usize = 3;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Chain {
    fronts: [Front; HEADS],
    /// Of the file, bytes in each first pipe.
    front_bytes: u64,
    rest: Box<[Arc<CachedPipe>]>,
    held: Held,
}

/// Why a file is not in pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    Fallback(Reason),
    /// It has changed while the pipes were filled.
    Changed,
}

impl From<Reason> for Setback {
    fn from(reason: Reason) -> Self {
        Self::Fallback(reason)
    }
}

/// The first pipe for one kind of head.
#[derive(Debug, Default)]
struct Front {
    fresh: ArcSwapOption<Fresh>,
    lease: Mutex<Lease>,
}

#[derive(Debug)]
struct Fresh {
    /// Since the epoch: what its head says.
    second: u64,
    pipe: Arc<CachedPipe>,
}

/// What belongs to whoever renews.
#[derive(Debug, Default)]
struct Lease {
    held: Held,
    /// No pipe could be had in this second; in the next one it is tried again.
    failed: Option<u64>,
}

/// The file that a chain is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Arc<OwnedFd>,
    pub(crate) metadata: &'a Metadata,
    pub(crate) resources: &'a Resources,
}

impl Chain {
    /// Puts a file into pipes; `head_len` is that of the longest head. The first pipes come with the first requests, or
    /// by [`Chain::prepare`].
    pub(crate) fn new(source: Source<'_>, head_len: usize) -> Result<Self, Setback> {
        let Source { file, metadata, resources } = source;
        let link = resources.link_bytes_max / PAGE * PAGE;
        let room = link.saturating_sub((head_len as u64).next_multiple_of(PAGE));
        let front_bytes = metadata.size.min(room);
        let links = (metadata.size - front_bytes).checked_div(link).map_or(usize::MAX, |links| links as usize);
        if links >= LINKS_MAX {
            return Err(Reason::PipeBudget.into());
        }
        let (mut rest, mut held, mut offset) = (Vec::new(), Held::new(), front_bytes);
        while offset < metadata.size {
            let len = link.min(metadata.size - offset);
            let made = resources.link(file, Bytes::new(), offset, len)?;
            rest.push(made.pipe);
            held.extend(made.held);
            offset += len;
        }
        // Whether the file has changed meanwhile is asked when the first pipe, which is the last, has been filled.
        Ok(Self { fronts: Default::default(), front_bytes, rest: rest.into(), held })
    }

    /// The pipes behind the first.
    pub(crate) fn rest(&self) -> &[Arc<CachedPipe>] {
        &self.rest
    }

    /// The first pipe for a response of this second; `head` writes its head. `None` when there is none to be had, which
    /// has been counted.
    #[inline]
    pub(crate) fn front(
        &self,
        source: Source<'_>,
        connection: Connection,
        second: u64,
        head: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Arc<CachedPipe>> {
        let front = &self.fronts[connection as usize];
        if let Some(fresh) = &*front.fresh.load()
            && fresh.second == second
        {
            return Some(Arc::clone(&fresh.pipe));
        }
        self.renew(front, source, second, head).unwrap_or_else(|setback| {
            source.resources.statistics.set_back(Strategy::Pipe, setback);
            None
        })
    }

    /// Makes the first pipe of this second ahead of its first request.
    pub(crate) fn prepare(
        &self,
        source: Source<'_>,
        second: u64,
        head: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Setback> {
        self.renew(&self.fronts[Connection::Implied as usize], source, second, head).map(drop)
    }

    #[cold]
    #[inline(never)]
    fn renew(
        &self,
        front: &Front,
        source: Source<'_>,
        second: u64,
        head: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Option<Arc<CachedPipe>>, Setback> {
        let current = || front.fresh.load().as_ref().map(|fresh| (fresh.second, Arc::clone(&fresh.pipe)));
        // While one thread renews, the others send what was right a moment ago.
        let Some(mut lease) = front.try_lease() else { return Ok(current().map(|(_, pipe)| pipe)) };
        match current() {
            Some((of, pipe)) if of == second => return Ok(Some(pipe)),
            _ if lease.failed == Some(second) => return Ok(None),
            _ => {}
        }
        let mut bytes = Vec::with_capacity(512);
        head(&mut bytes);
        match self.replace(front, &mut lease, source, second, bytes.into()) {
            Ok(pipe) => Ok(Some(pipe)),
            Err(setback) => {
                retire(front, mem::take(&mut *lease).held, None, source.resources);
                lease.failed = Some(second);
                Err(setback)
            }
        }
    }

    /// The old pipe is in use until there is a new one, unless it is what the new one lacks.
    fn replace(
        &self,
        front: &Front,
        lease: &mut Lease,
        source: Source<'_>,
        second: u64,
        head: Bytes,
    ) -> Result<Arc<CachedPipe>, Setback> {
        let mut filled = self.fill(source, head.clone());
        if matches!(filled, Err(Setback::Fallback(_))) && front.fresh.load().is_some() {
            retire(front, mem::take(lease).held, None, source.resources);
            filled = self.fill(source, head);
        }
        let Link { pipe, held } = filled?;
        let fresh = Arc::new(Fresh { second, pipe: Arc::clone(&pipe) });
        let old = mem::replace(lease, Lease { held, failed: None });
        retire(front, old.held, Some(fresh), source.resources);
        Ok(pipe)
    }

    fn fill(&self, source: Source<'_>, head: Bytes) -> Result<Link, Setback> {
        let link = source.resources.link(source.file, head, 0, self.front_bytes)?;
        // The pages are those of the file as it was when it entered the cache, or it is for the next look to see.
        if Metadata::of(source.file).is_ok_and(|after| after == *source.metadata) {
            Ok(link)
        } else {
            Err(Setback::Changed)
        }
    }

    /// Gives up first pipes that nobody has asked for since `second`.
    pub(crate) fn shed(&self, second: u64, resources: &Resources) {
        for front in &self.fronts {
            let is_old = front.fresh.load().as_ref().is_some_and(|fresh| fresh.second < second);
            if is_old && let Some(mut lease) = front.try_lease() {
                retire(front, mem::take(&mut lease.held), None, resources);
            }
        }
    }

    /// What the chain holds of the budgets, for when it leaves the cache.
    pub(crate) fn into_held(mut self) -> Held {
        let mut held = mem::take(&mut self.held);
        for front in &mut self.fronts {
            let lease = front.lease.get_mut().unwrap_or_else(PoisonError::into_inner);
            held.append(&mut lease.held);
        }
        held
    }
}

impl Front {
    fn try_lease(&self) -> Option<MutexGuard<'_, Lease>> {
        match self.lease.try_lock() {
            Ok(lease) => Some(lease),
            // A panic has left what was held, or nothing.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Takes the first pipe out of use, and another into it. Responses that are still to be sent keep the old one, and its
/// share of the budgets, alive.
fn retire(front: &Front, held: Held, new: Option<Arc<Fresh>>, resources: &Resources) {
    let Some(old) = front.fresh.swap(new) else { return };
    let life = Arc::downgrade(&old.pipe);
    drop(old);
    if life.strong_count() > 0 {
        resources.zombies.add(Life::Pipe(life), held);
    }
}
