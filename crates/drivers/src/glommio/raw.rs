//! The descriptor of a stream of glommio's, which the crate tells the number of, but does not lend.

use std::{
    io,
    net::TcpStream,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll},
};

use futures_io::AsyncRead;
use glommio::net;
use socket2_04::Socket;

/// A socket of any family, or another descriptor that can be polled: the crate's streams are named after address families, but
/// only ever look at the descriptor.
pub(super) struct Stream(net::TcpStream);

impl From<OwnedFd> for Stream {
    /// Also begins to wait for the first event.
    fn from(descriptor: OwnedFd) -> Self {
        Self(Socket::from(TcpStream::from(descriptor)).into())
    }
}

impl Stream {
    /// Receives once the ring says that there is something. After a short receive it waits for the next event at once.
    pub(super) fn poll_receive(&mut self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let received = Pin::new(&mut self.0).poll_read(cx, space);
            if !matches!(&received, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted) {
                return received;
            }
        }
    }

    /// Waits for the first event of a descriptor that is no socket.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The receive that follows the event fails.
        self.poll_receive(cx, &mut []).map(drop)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the stream owns the descriptor, closes it when it is dropped and not before, and is borrowed for as long as
        // the descriptor is.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}
