//! Any socket on a tokio runtime.

use std::{
    io,
    net::TcpStream as StdStream,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    task::{Context, Poll, ready},
};

use tokio::{io::Interest, net::TcpStream};

use crate::tasks::{Readiness, none_if_blocked};

/// A non-blocking socket of any family. tokio's type for any descriptor has an unsafe constructor; its streams are
/// named after address families, but only ever look at the descriptor.
#[derive(Debug)]
pub(crate) struct Pollable(TcpStream);

impl Readiness for Pollable {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self(TcpStream::from_std(StdStream::from(socket))?))
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        room: usize,
        receive: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<Option<usize>>> {
        ready!(self.0.poll_read_ready(cx))?;
        let mut received = None;
        let outcome = self.0.try_io(Interest::READABLE, || {
            let n = receive()?;
            received = Some(n);
            // Only so will tokio forget that the socket was readable; it remembers an end of input by itself.
            if n < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        Poll::Ready(none_if_blocked(outcome).map(|_| received))
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        send: impl FnOnce() -> io::Result<usize>,
    ) -> Poll<io::Result<Option<usize>>> {
        ready!(self.0.poll_write_ready(cx))?;
        Poll::Ready(none_if_blocked(self.0.try_io(Interest::WRITABLE, send)))
    }
}

impl AsFd for Pollable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
