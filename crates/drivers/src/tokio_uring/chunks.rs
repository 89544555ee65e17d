//! Buffers that files and pipes are copied through, which the connections of a loop share.

use std::{cell::RefCell, os::fd::AsRawFd};

use sys::socket;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bytes of a file or pipe that are in memory at a time.
const LARGE_BYTES: usize = 128 * 1024;
/// The same while the peer takes nothing: what a stalled reader costs.
const SMALL_BYTES: usize = 8 * 1024;
/// Large buffers of a loop. Without a limit there would be one for each connection that begins in the same turn, and
/// memory that the allocator cannot give back for as long as small buffers lie between them.
const LARGE_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Chunks {
    /// Large ones that nobody has.
    free: RefCell<Vec<Vec<u8>>>,
    permits: Semaphore,
}

/// Permit for a large buffer, to be given back with that.
pub(super) type Permit<'a> = Option<SemaphorePermit<'a>>;

impl Default for Chunks {
    fn default() -> Self {
        Self { free: RefCell::default(), permits: Semaphore::new(LARGE_MAX) }
    }
}

impl Chunks {
    /// Returns an empty buffer for what a socket takes: a small one if the buffer may have to be held until it takes
    /// something, else a large one, for a single write. Others wait for that meanwhile, which is not for long, since the
    /// socket takes something.
    pub(super) async fn lend(&self, socket: &impl AsRawFd) -> (Vec<u8>, Permit<'_>) {
        if !socket::is_writable(socket) {
            return (Vec::with_capacity(SMALL_BYTES), None);
        }
        let permit = self.permits.acquire().await.ok();
        let mut chunk = self.free.borrow_mut().pop().unwrap_or_default();
        chunk.clear();
        chunk.reserve_exact(LARGE_BYTES);
        (chunk, permit)
    }

    pub(super) fn give_back(&self, chunk: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if chunk.capacity() >= LARGE_BYTES && free.len() < LARGE_MAX {
            free.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::net::UnixStream,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn large_buffers_are_few_and_come_back() {
        let (chunks, (socket, _peer)) = (Chunks::default(), UnixStream::pair().unwrap());
        let lend = || match poll(chunks.lend(&socket)) {
            Poll::Ready((chunk, permit)) => Some((chunk.capacity(), chunk, permit)),
            Poll::Pending => None,
        };
        let lent: Vec<_> = (0..2 * LARGE_MAX).map_while(|_| lend()).collect();
        assert!(lent.len() == LARGE_MAX && lent.iter().all(|&(capacity, ..)| capacity == LARGE_BYTES));
        lent.into_iter().for_each(|(_, chunk, _permit)| chunks.give_back(chunk));
        assert_eq!(chunks.free.borrow().len(), LARGE_MAX);
        assert!(lend().is_some());
        assert_eq!(chunks.free.borrow().len(), LARGE_MAX - 1);
    }

    #[test]
    fn a_socket_that_takes_nothing_gets_a_small_buffer() {
        let (chunks, (socket, _peer)) = (Chunks::default(), UnixStream::pair().unwrap());
        socket.set_nonblocking(true).unwrap();
        while rustix::io::write(&socket, &[0; 4096]).is_ok() {}
        assert!(matches!(poll(chunks.lend(&socket)), Poll::Ready((chunk, None)) if chunk.capacity() == SMALL_BYTES));
    }
}
