//! Connections whose bytes are moved by plain system calls once the runtime says that the socket is ready.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    task::{Context, Poll},
};

use proto::Protocol;
use sys::socket;

use super::{Progress, Scratch, Side, Transport, with_scratch};
use crate::{
    arrived::read_arrived,
    clock,
    write::{WRITE_MAX, write_front},
};

/// A non-blocking socket of any family that a runtime watches.
pub trait Readiness: AsFd + Sized {
    fn new(socket: OwnedFd) -> io::Result<Self>;

    /// Tries `receive` once the socket is readable; `Pending`: it is not, and the task will be woken. `Ok(Some(n))`
    /// with fewer bytes than there is `room` for means that it has been drained, unless its end is still to be read.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        receive: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<Option<usize>>>;

    /// Tries `send` once the socket is writable; `Ready(Ok(None))`: it was not after all.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        send: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<Option<usize>>>;
}

pub fn none_if_blocked<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// The connection over a socket that is watched.
pub struct Ready<R>(R);

impl<R: AsFd> AsFd for Ready<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl<R: Readiness> Transport for Ready<R> {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        R::new(socket).map(Self)
    }

    fn read<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<bool> {
        let (readiness, socket) = (&self.0, self.0.as_fd());
        receive_ready(side, |space| readiness.poll_receive(cx, space.len(), || socket::recv(socket, space)))
    }

    fn write<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<Progress> {
        with_scratch(|scratch| write_ready(&self.0, side, scratch, cx))
    }

    fn drain<P: Protocol>(&mut self, side: &mut Side<'_, P>) -> io::Result<bool> {
        drain_arrived(self.as_fd(), side)
    }
}

/// Receives once, and lets the protocol answer. False: there is nothing to receive, and the task will be woken.
pub(crate) fn receive_ready<P: Protocol>(
    Side { session, protocol, tally, .. }: &mut Side<'_, P>,
    receive: impl FnOnce(&mut [u8]) -> Poll<io::Result<Option<usize>>>,
) -> io::Result<bool> {
    with_scratch(|Scratch { read, buffers, .. }| {
        let held = session.has_input();
        let n = match receive(if held { session.recv_space() } else { &mut read[..] }) {
            Poll::Pending => return Ok(false),
            Poll::Ready(received) => received?,
        };
        let now = clock::now();
        session.outbox().borrow_buffer(buffers);
        match n {
            None => {}
            Some(0) => session.end_of_input(),
            Some(n) if held => {
                session.received(n, now);
                session.resume(protocol, now);
            }
            Some(n) => session.feed(protocol, &read[..n], now),
        }
        tally.0.bytes_in += n.unwrap_or_default() as u64;
        Ok(true)
    })
}

/// Reads what has arrived when the server drains. False: that was done before, or nothing is wanted.
pub(crate) fn drain_arrived<P: Protocol>(
    socket: BorrowedFd<'_>,
    Side { session, protocol, tally, .. }: &mut Side<'_, P>,
) -> io::Result<bool> {
    if session.is_draining() || !session.wants_read() {
        return Ok(false);
    }
    // The runtime may not have heard yet of what has arrived.
    read_arrived(socket, session, protocol, clock::now(), tally)?;
    Ok(true)
}

/// Writes while the socket takes something, up to the share of a turn.
pub(crate) fn write_ready<P: Protocol>(
    socket: &impl Readiness,
    Side { session, protocol, config, tally }: &mut Side<'_, P>,
    scratch: &mut Scratch,
    cx: &mut Context<'_>,
) -> io::Result<Progress> {
    let (mut progress, mut quota) = (Progress::default(), WRITE_MAX);
    let pipes = scratch.pipes(&config.scratch_pipes);
    while !session.outbox().is_empty() && !session.is_aborted() && !progress.paused {
        match socket.poll_send(cx, || write_front(socket.as_fd(), session.outbox(), pipes)) {
            Poll::Pending => break,
            Poll::Ready(Err(error)) => return Err(error),
            Poll::Ready(Ok(None)) => {}
            Poll::Ready(Ok(Some(0))) => {
                if session.outbox().poll_reply(cx.waker()).is_pending() {
                    break;
                }
                // An answer may be empty, and input may have waited for it.
                progress.wrote = true;
            }
            Poll::Ready(Ok(Some(n))) => {
                tally.0.bytes_out += n as u64;
                session.sent(clock::now());
                session.report_sent(protocol, clock::now);
                progress.wrote = true;
                quota = quota.saturating_sub(n);
                progress.paused = quota == 0;
            }
        }
    }
    Ok(progress)
}
