//! Completions: an io_uring, on which receives stay armed and all sends of a wake-up are submitted together.

use std::{os::fd::AsFd as _, time::Duration};

use rustix::io::Errno;
use sys::ring::{Completion, Filled, StreamRing};

use super::{super::super::error::EngineError, link::Link};
use crate::clock::Nanos;

/// Number of buffers of finished sends that are kept for the next ones, and the size of the largest.
const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 64 << 10;

pub(super) struct Ring {
    ring: Box<StreamRing>,
    done: Vec<Completion>,
    spare: Vec<Vec<u8>>,
}

impl Ring {
    pub(super) fn new() -> Result<Self, EngineError> {
        let ring = StreamRing::new().map_err(EngineError::Ring)?;
        Ok(Self { ring: Box::new(ring), done: Vec::new(), spare: Vec::new() })
    }

    /// Submits, and sleeps for `timeout` nanoseconds at most. The completions go back by [`Self::put_back`].
    pub(super) fn wait(&mut self, timeout: Nanos) -> Result<Vec<Completion>, EngineError> {
        self.ring.wait(Duration::from_nanos(timeout), &mut self.done).map_err(EngineError::RingWait)?;
        Ok(std::mem::take(&mut self.done))
    }

    /// Takes the vector back, behind which completions of [`Self::submit_now`] may have come: they are dealt with after
    /// the next [`Self::wait`].
    pub(super) fn put_back(&mut self, mut done: Vec<Completion>) {
        done.clear();
        done.append(&mut self.done);
        self.done = done;
    }

    pub(super) fn has_completions(&self) -> bool {
        !self.done.is_empty()
    }

    pub(super) fn submit_now(&mut self) {
        // An error comes again with the next wait.
        let _ = self.ring.wait(Duration::ZERO, &mut self.done);
    }

    pub(super) fn watch(&mut self, link: &mut Link, is_pending: bool) {
        let Some(socket) = &link.socket else { return };
        let (token, socket) = (link.id.token(), socket.as_fd());
        let ticket =
            if is_pending { self.ring.watch_writable(token, socket) } else { self.ring.receive(token, socket) };
        link.receiving = Some(ticket);
    }

    /// Ends what the kernel still does with the socket.
    pub(super) fn unwatch(&mut self, link: &mut Link) {
        let tickets = [link.receiving.take(), link.sending.take()];
        tickets.into_iter().flatten().for_each(|ticket| self.ring.cancel(ticket));
    }

    /// Submits the burst, and leaves an empty one. Behind a send that is under way it waits.
    #[inline]
    pub(super) fn send(&mut self, link: &mut Link, burst: &mut Vec<u8>) {
        let Some(socket) = &link.socket else { return };
        if link.sending.is_some() {
            return link.unsent.push(burst);
        }
        let bytes = std::mem::replace(burst, self.spare.pop().unwrap_or_default());
        link.sending = Some(self.ring.send(link.id.token(), socket.as_fd(), bytes));
    }

    /// Deals with the end of a send, and submits what the socket did not take and what has come since.
    pub(super) fn on_sent(&mut self, link: &mut Link, bytes: &[u8], outcome: Result<usize, Errno>) {
        link.sending = None;
        let sent = match outcome {
            Ok(sent) => sent,
            Err(Errno::INTR | Errno::AGAIN | Errno::INPROGRESS) => 0,
            Err(_) => {
                // A receive is armed: what the peer has said before is read, and decides what the rest failed of.
                link.is_write_broken = true;
                return link.unsent.clear();
            }
        };
        if sent < bytes.len() {
            link.unsent.put_back(&bytes[sent..]);
        }
        if !link.has_unsent() {
            return;
        }
        let Some(socket) = &link.socket else { return };
        let bytes = link.unsent.take(self.spare.pop().unwrap_or_default());
        link.sending = Some(self.ring.send(link.id.token(), socket.as_fd(), bytes));
    }

    pub(super) fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    pub(super) fn give_back(&mut self, filled: Filled) {
        self.ring.give_back(filled);
    }
}
