//! A connection on an executor of glommio's.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    task::Context,
};

use proto::Protocol;

use super::{raw::Stream, watcher::Entry};
use crate::tasks::{
    Eager, Progress, Readiness, Side, Transport, drain_arrived, none_if_blocked, receive_ready, with_scratch,
    write_ready,
};

/// The crate's stream receives; the epoll says when the socket is writable.
pub(super) struct Connection(Eager<Entry<Stream>>);

impl Transport for Connection {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Eager::new(socket).map(Self)
    }

    fn read<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<bool> {
        let stream = self.0.watch_mut().descriptor_mut();
        receive_ready(side, |space| stream.poll_receive(cx, space).map(none_if_blocked))
    }

    fn write<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<Progress> {
        with_scratch(|scratch| write_ready(&self.0, side, scratch, cx))
    }

    fn drain<P: Protocol>(&mut self, side: &mut Side<'_, P>) -> io::Result<bool> {
        drain_arrived(self.as_fd(), side)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
