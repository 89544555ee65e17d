//! Readiness on runtimes that tell of events only.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    task::{Context, Poll, ready},
};

use super::{Readiness, none_if_blocked};

/// Events of a descriptor, for a runtime that says when one has come since it was asked, and not how things stand.
pub trait Watch: AsFd + Sized {
    fn new(socket: OwnedFd) -> io::Result<Self>;
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// The [`Readiness`] of such a descriptor: calls are tried until one finds the socket drained or full, and only then is an
/// event waited for.
pub struct Eager<W> {
    watch: W,
    is_drained: AtomicBool,
    is_full: AtomicBool,
}

#[cfg(any(feature = "compio", feature = "glommio", feature = "monoio"))]
impl<W> Eager<W> {
    #[cfg(any(feature = "compio", feature = "monoio"))]
    pub(super) fn watch(&self) -> &W {
        &self.watch
    }

    pub(crate) fn watch_mut(&mut self) -> &mut W {
        &mut self.watch
    }
}

impl<W: Watch> Readiness for Eager<W> {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { watch: W::new(socket)?, is_drained: AtomicBool::new(false), is_full: AtomicBool::new(false) })
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        receive: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<Option<usize>>> {
        if self.is_drained.load(Relaxed) {
            ready!(self.watch.poll_readable(cx))?;
        }
        let received = none_if_blocked(receive());
        // The end of the input is an event of its own, so a short read need not be followed by another one.
        self.is_drained.store(received.as_ref().is_ok_and(|n| n.is_none_or(|n| n < room)), Relaxed);
        Poll::Ready(received)
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        send: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<Option<usize>>> {
        if self.is_full.load(Relaxed) {
            ready!(self.watch.poll_writable(cx))?;
        }
        let sent = none_if_blocked(send());
        self.is_full.store(matches!(sent, Ok(None)), Relaxed);
        Poll::Ready(sent)
    }
}

impl<W: AsFd> AsFd for Eager<W> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
