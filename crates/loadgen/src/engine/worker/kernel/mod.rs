//! The kernel as a thread uses it: by readiness (epoll), or by completions (a ring).

mod epoll;
mod link;
mod ring;

use rustix::{event::epoll::Event, fd::OwnedFd, io::Errno};
use sys::ring::{Completion, Filled};

pub(super) use self::link::{Link, SocketId};
use self::{epoll::Epoll, ring::Ring};
use super::{
    super::{error::EngineError, kind::EngineKind},
    recorder::StatsRecorder,
};
use crate::clock::Nanos;

/// One of the two backends, and the buffers through which requests pass.
pub(super) struct Kernel {
    backend: Backend,
    /// Requests on their way into one send.
    burst: Vec<u8>,
    /// The same in TLS records.
    sealed: Vec<u8>,
    /// Sockets to be closed once nothing that refers to them waits to be submitted.
    closing: Vec<OwnedFd>,
}

enum Backend {
    Epoll(Epoll),
    Uring(Ring),
}

/// Reports of one wake-up. The vector goes back by [`Kernel::put_back`].
pub(super) enum Wakeup {
    Ready(Vec<Event>),
    Completed(Vec<Completion>),
}

impl Kernel {
    /// `coalesces_sends` is false where requests must leave at once.
    pub(super) fn new(kind: EngineKind, coalesces_sends: bool) -> Result<Self, EngineError> {
        let backend = match kind {
            EngineKind::Epoll => Backend::Epoll(Epoll::new(coalesces_sends)?),
            EngineKind::Uring => Backend::Uring(Ring::new()?),
        };
        Ok(Self { backend, burst: Vec::new(), sealed: Vec::new(), closing: Vec::new() })
    }

    /// Sleeps until something happens, for `timeout` nanoseconds at most.
    pub(super) fn wait(&mut self, timeout: Nanos) -> Result<Wakeup, EngineError> {
        match &mut self.backend {
            Backend::Epoll(epoll) => {
                self.closing.clear();
                epoll.wait(timeout).map(Wakeup::Ready)
            }
            Backend::Uring(ring) => {
                let done = ring.wait(timeout)?;
                self.closing.clear();
                Ok(Wakeup::Completed(done))
            }
        }
    }

    pub(super) fn put_back(&mut self, wakeup: Wakeup) {
        match (&mut self.backend, wakeup) {
            (Backend::Epoll(epoll), Wakeup::Ready(events)) => epoll.put_back(events),
            (Backend::Uring(ring), Wakeup::Completed(done)) => ring.put_back(done),
            (Backend::Epoll(_), Wakeup::Completed(_)) | (Backend::Uring(_), Wakeup::Ready(_)) => {}
        }
    }

    /// Returns true if there is something to do without waiting.
    pub(super) fn has_work(&self) -> bool {
        match &self.backend {
            Backend::Epoll(epoll) => epoll.has_unread(),
            Backend::Uring(ring) => ring.has_completions(),
        }
    }

    /// Has a fresh socket's events reported: those of an attempt that is pending, or of a connection.
    pub(super) fn watch(&mut self, link: &mut Link, is_pending: bool) -> Result<(), Errno> {
        match &mut self.backend {
            Backend::Epoll(epoll) => epoll.watch(link, is_pending),
            Backend::Uring(ring) => {
                ring.watch(link, is_pending);
                Ok(())
            }
        }
    }

    /// Has only input reported from now on: the attempt has succeeded.
    pub(super) fn watch_connected(&mut self, link: &mut Link) -> Result<(), Errno> {
        match &mut self.backend {
            Backend::Epoll(epoll) => epoll.watch_connected(link),
            Backend::Uring(ring) => {
                ring.watch(link, false);
                Ok(())
            }
        }
    }

    /// Ends what the kernel still does with the socket.
    pub(super) fn unwatch(&mut self, link: &mut Link) {
        if let Backend::Uring(ring) = &mut self.backend {
            ring.unwatch(link);
        }
    }

    /// Closes a socket that the kernel is not to be asked about any more.
    pub(super) fn close(&mut self, sockets: impl IntoIterator<Item = OwnedFd>) {
        self.closing.extend(sockets);
    }

    /// Closes what waits to be closed, so that descriptors become free.
    pub(super) fn close_now(&mut self) {
        if let Backend::Uring(ring) = &mut self.backend {
            ring.submit_now();
        }
        self.closing.clear();
    }

    /// Returns the emptied buffer for what is sent next by [`Self::send_burst`].
    #[inline]
    pub(super) fn new_burst(&mut self) -> &mut Vec<u8> {
        self.burst.clear();
        &mut self.burst
    }

    /// Returns the buffer with what has been put into it since [`Self::new_burst`].
    #[inline]
    pub(super) fn burst(&mut self) -> &mut Vec<u8> {
        &mut self.burst
    }

    /// Sends the burst, with TLS in records and behind what the session itself has to say.
    #[inline]
    pub(super) fn send_burst(&mut self, link: &mut Link, recorder: &mut StatsRecorder<'_>, now: Nanos) {
        if let Some(tls) = &mut link.tls {
            self.sealed.clear();
            tls.seal(&self.burst, &mut self.sealed);
            std::mem::swap(&mut self.burst, &mut self.sealed);
        }
        if self.burst.is_empty() {
            return;
        }
        match &mut self.backend {
            Backend::Epoll(epoll) => epoll.send(link, &self.burst, recorder, now),
            Backend::Uring(ring) => ring.send(link, &mut self.burst),
        }
    }

    /// Sends what has waited for room in the socket.
    pub(super) fn send_unsent(&mut self, link: &mut Link, recorder: &mut StatsRecorder<'_>) {
        if let Backend::Epoll(epoll) = &mut self.backend {
            epoll.send_unsent(link, recorder);
        }
    }

    /// Returns the next socket whose requests were coalesced in this wake-up, and when that began.
    #[inline]
    pub(super) fn next_coalesced(&mut self) -> Option<(SocketId, Nanos)> {
        match &mut self.backend {
            Backend::Epoll(epoll) => epoll.next_coalesced(),
            Backend::Uring(_) => None,
        }
    }

    #[inline]
    pub(super) fn send_coalesced(&mut self, link: &mut Link, recorder: &mut StatsRecorder<'_>, now: Nanos) {
        if let Backend::Epoll(epoll) = &mut self.backend {
            epoll.send_coalesced(link, recorder, now);
        }
    }

    /// Notes that the socket has something left to read that will not be reported again.
    pub(super) fn read_later(&mut self, link: &Link) {
        if let Backend::Epoll(epoll) = &mut self.backend {
            epoll.read_later(link);
        }
    }

    pub(super) fn take_unread(&mut self) -> Vec<SocketId> {
        match &mut self.backend {
            Backend::Epoll(epoll) => epoll.take_unread(),
            Backend::Uring(_) => Vec::new(),
        }
    }

    /// Takes note of a finished send, of which `link` is the socket if that is still there.
    pub(super) fn on_sent(&mut self, link: Option<&mut Link>, bytes: Vec<u8>, outcome: Result<usize, Errno>) {
        let Backend::Uring(ring) = &mut self.backend else { return };
        if let Some(link) = link {
            ring.on_sent(link, &bytes, outcome);
        }
        ring.recycle(bytes);
    }

    /// Takes note that a receive has ended, which has to be begun anew by [`Self::watch`].
    pub(super) fn on_disarmed(&mut self, link: &mut Link) {
        link.receiving = None;
    }

    /// Gives a buffer of the ring back to it.
    pub(super) fn give_back(&mut self, filled: Filled) {
        if let Backend::Uring(ring) = &mut self.backend {
            ring.give_back(filled);
        }
    }
}
