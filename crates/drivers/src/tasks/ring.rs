//! Connections on the rings of runtimes whose operations own their buffers: receives and sends of memory are operations,
//! files and pipes are sent by plain calls once the ring says that the socket is writable.

#![cfg(any(feature = "compio", feature = "monoio"))]

use std::{
    io,
    mem::{replace, take},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    task::{Context, Poll},
};

use proto::Protocol;
use sys::socket;

use super::{
    Eager, Progress, Readiness, Scratch, Side, Transport, Watch,
    pieces::{Pieces, is_sent_by_ring},
    with_scratch,
};
use crate::{
    clock,
    write::{WRITE_MAX, is_lost_page, write_front},
};

/// A socket on such a ring, and its operations; at most one of each kind is in flight.
pub(crate) trait RingSocket: Watch {
    type Receiving;
    type Sending;

    fn receive(&mut self, buffer: Box<[u8]>) -> Self::Receiving;

    fn poll_receive(
        &mut self,
        receiving: &mut Self::Receiving,
        cx: &mut Context<'_>,
    ) -> Poll<(io::Result<usize>, Box<[u8]>)>;

    fn send(&mut self, pieces: Pieces) -> Self::Sending;

    fn poll_send(&mut self, sending: &mut Self::Sending, cx: &mut Context<'_>) -> Poll<(io::Result<usize>, Pieces)>;
}

/// The first receive; one in flight owns its buffer, so this is what an idle connection holds.
const READ_MIN: usize = 512;
/// A connection that fills its buffer gets a larger one, up to this.
const READ_MAX: usize = 16 * 1024;

/// The connection over such a socket.
pub(crate) struct RingTransport<S: RingSocket> {
    /// The socket; also watched, for output that the ring does not send.
    socket: Eager<S>,
    receiving: Option<S::Receiving>,
    /// Memory of the last receive, for the next one.
    buffer: Box<[u8]>,
    read_bytes: usize,
    sending: Option<S::Sending>,
    /// A send has ended since the last attempt to write.
    has_sent: bool,
    /// The ring has given a send up that found the socket full: it is tried again once the socket is writable.
    is_full: bool,
    is_draining: bool,
}

impl<S: RingSocket> Transport for RingTransport<S> {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: Eager::new(socket)?,
            receiving: None,
            buffer: Box::default(),
            read_bytes: READ_MIN,
            sending: None,
            has_sent: false,
            is_full: false,
            is_draining: false,
        })
    }

    fn read<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<bool> {
        // What has been read may be a question about what has been sent.
        self.complete(side, cx)?;
        let receiving = self.receiving.get_or_insert_with(|| {
            let mut buffer = take(&mut self.buffer);
            if buffer.len() < self.read_bytes {
                buffer = vec![0; self.read_bytes].into();
            }
            self.socket.watch_mut().receive(buffer)
        });
        let Poll::Ready((received, buffer)) = self.socket.watch_mut().poll_receive(receiving, cx) else {
            return Ok(false);
        };
        (self.receiving, self.buffer) = (None, buffer);
        let Side { session, protocol, tally, .. } = side;
        match received {
            Ok(0) => session.end_of_input(),
            Ok(n) => {
                tally.0.bytes_in += n as u64;
                with_scratch(|Scratch { buffers, .. }| session.outbox().borrow_buffer(buffers));
                session.feed(protocol, &self.buffer[..n], clock::now());
                if n >= self.read_bytes {
                    self.read_bytes = (self.read_bytes * 2).min(READ_MAX);
                }
            }
            // A stop of the process interrupts a receive in a worker of the kernel's, and an event may have been a false one.
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn write<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<Progress> {
        let mut progress = Progress::default();
        let mut quota = WRITE_MAX;
        loop {
            quota = quota.saturating_sub(self.complete(side, cx)?);
            progress.wrote |= take(&mut self.has_sent);
            if self.sending.is_some() || side.session.outbox().is_empty() || side.session.is_aborted() {
                break;
            }
            progress.paused = quota == 0;
            if progress.paused {
                break;
            }
            if !is_sent_by_ring(side.session.outbox()) {
                match self.write_plainly(side, cx) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(None)) => {}
                    Poll::Ready(sent) => {
                        let sent = note_sent(side, sent.map(Option::unwrap_or_default))?;
                        quota = quota.saturating_sub(sent);
                        progress.wrote = true;
                    }
                }
                continue;
            }
            if self.is_full {
                match self.socket.watch().poll_writable(cx) {
                    Poll::Pending => break,
                    Poll::Ready(ready) => ready?,
                }
                self.is_full = false;
            }
            self.sending = Pieces::take(side.session.outbox()).map(|pieces| self.socket.watch_mut().send(pieces));
            if self.sending.is_none() {
                if side.session.outbox().poll_reply(cx.waker()).is_pending() {
                    break;
                }
                // An answer may be empty, and input may have waited for it.
                progress.wrote = true;
            }
        }
        Ok(progress)
    }

    fn drain<P: Protocol>(&mut self, side: &mut Side<'_, P>) -> io::Result<bool> {
        if replace(&mut self.is_draining, true) {
            return Ok(false);
        }
        if !side.session.drain_streams(side.protocol) {
            // The receive that is in flight sees what has arrived, and then the end of input.
            socket::shutdown_read(self.as_fd());
        }
        Ok(true)
    }
}

impl<S: RingSocket> RingTransport<S> {
    /// Notes the end of a send, and returns how much it has sent.
    fn complete<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<usize> {
        let Some(sending) = &mut self.sending else { return Ok(0) };
        let Poll::Ready((sent, pieces)) = self.socket.watch_mut().poll_send(sending, cx) else { return Ok(0) };
        pieces.give_back(sent.as_ref().map_or(0, |&n| n), side.session.outbox());
        (self.sending, self.has_sent) = (None, true);
        self.is_full = sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        note_sent(side, sent)
    }

    fn write_plainly<P: Protocol>(
        &self,
        Side { session, config, .. }: &mut Side<'_, P>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<usize>>> {
        with_scratch(|scratch| {
            let pipes = scratch.pipes(&config.scratch_pipes);
            self.socket.poll_send(cx, || write_front(self.socket.as_fd(), session.outbox(), pipes))
        })
    }
}

/// Notes the outcome of a write, and returns how much has left.
fn note_sent<P: Protocol>(
    Side { session, protocol, tally, .. }: &mut Side<'_, P>,
    sent: io::Result<usize>,
) -> io::Result<usize> {
    match sent {
        Ok(n) => {
            tally.0.bytes_out += n as u64;
            session.sent(clock::now());
            session.report_sent(protocol, clock::now);
            Ok(n)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(0),
        Err(error) if is_lost_page(&error) && session.outbox().fall_back_from_mappings() => Ok(0),
        Err(error) => Err(error),
    }
}

impl<S: RingSocket> AsFd for RingTransport<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<S: RingSocket> Drop for RingTransport<S> {
    /// An operation in flight holds the descriptor open until it is over, and a full ring takes no cancellation.
    fn drop(&mut self) {
        if self.sending.is_some() {
            socket::shutdown_both(self.as_fd());
        } else if self.receiving.is_some() {
            socket::shutdown_read(self.as_fd());
        }
    }
}
