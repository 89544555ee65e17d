//! Any socket on a tokio runtime.

use std::{
    io,
    net::TcpStream as StdStream,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    task::{Context, Poll, ready},
};

use tokio::{io::Interest, net::TcpStream};

/// A non-blocking socket of any family. tokio's type for any descriptor has an unsafe constructor; its streams are
/// named after address families, but only ever look at the descriptor.
#[derive(Debug)]
pub(crate) struct Pollable(TcpStream);

impl Pollable {
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self(TcpStream::from_std(StdStream::from(socket))?))
    }

    /// Tries `receive` once the socket is readable; `Pending`: it is not, and the task will be woken. `Ok(Some(n))`
    /// with fewer bytes than there is `room` for means that it has been drained, unless its end is still to be read.
    pub(crate) fn poll_receive(
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

    /// Tries `send` once the socket is writable; `Ready(Ok(None))`: it was not after all.
    pub(crate) fn poll_send(
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

fn none_if_blocked<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
