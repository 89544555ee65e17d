//! Memory on its way out through a ring.

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use bytes::Bytes;
use io_uring::{opcode, squeue, types::Fd};
use proto::{Outbox, Segment};
use sys::{registered::Region, ring::Ring};

/// One send is cut here, so that a reader that takes something, however slowly, is seen to: MSG_WAITALL hides the
/// progress of a longer one.
const SEND_MAX: usize = 256 * 1024;
/// Pieces that one send takes.
pub(super) const PIECES_MAX: usize = 16;

/// Segments of memory and how far they have been sent.
pub(super) struct SendOp {
    segments: Vec<Segment>,
    /// Segments sent to their last byte, and bytes sent of the one after them.
    whole: usize,
    part: usize,
    /// Pieces, where there are several, as the kernel reads them; they point into `segments`, whose bytes do not move.
    pieces: Vec<libc::iovec>,
    message: libc::msghdr,
}

impl Default for SendOp {
    fn default() -> Self {
        // SAFETY: all zeroes is a valid msghdr: null pointers and no lengths.
        let message = unsafe { std::mem::zeroed() };
        Self { segments: Vec::new(), whole: 0, part: 0, pieces: Vec::new(), message }
    }
}

/// Entry that a ring is told to send by.
pub(super) enum Request {
    /// Points into the [`SendOp`], which must not move until it has been completed.
    Copied(squeue::Entry),
    /// Read by the kernel for as long as the peer may want it: until a notification that follows the completion.
    Registered(squeue::Entry, Bytes),
}

impl SendOp {
    /// Takes on what `load` puts in; true when there is something to send.
    pub(super) fn load(&mut self, load: impl FnOnce(&mut Vec<Segment>)) -> bool {
        (self.whole, self.part) = (0, 0);
        load(&mut self.segments);
        let memory = self.segments.iter().all(|segment| segment.memory().is_some());
        assert!(memory, "files and pipes are not sent from memory");
        !self.segments.is_empty()
    }

    /// Returns the request that sends the rest, or the first of it.
    pub(super) fn request(&mut self, socket: BorrowedFd<'_>, registered: Option<&Region>) -> Request {
        let fd = Fd(socket.as_raw_fd());
        let mut flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let mut end = self.segments.len();
        if let Some(region) = registered {
            if let Some(bytes) = self.registered_front(region) {
                let entry = opcode::SendZc::new(fd, bytes.as_ptr(), bytes.len() as u32);
                return Request::Registered(entry.flags(flags).buf_index(Some(Ring::<()>::REGISTERED)).build(), bytes);
            }
            let is_registered = |segment: &Segment| segment.memory().is_some_and(|bytes| region.contains(bytes));
            if let Some(at) = self.segments[self.whole..].iter().position(is_registered) {
                end = self.whole + at;
                flags |= libc::MSG_MORE;
            }
        }
        if self.whole + 1 == end {
            let bytes = self.rest(end).next().unwrap_or_default();
            let bytes = &bytes[..bytes.len().min(SEND_MAX)];
            return Request::Copied(opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32).flags(flags).build());
        }
        let mut left = SEND_MAX;
        let pieces = self.rest(end).map(|bytes| {
            let len = bytes.len().min(left);
            left -= len;
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: len }
        });
        self.pieces = pieces.collect();
        self.message.msg_iov = self.pieces.as_mut_ptr();
        self.message.msg_iovlen = self.pieces.len() as _;
        Request::Copied(opcode::SendMsg::new(fd, ptr::from_ref(&self.message)).flags(flags as u32).build())
    }

    /// Returns the rest of the first segment, or the beginning of that, where it lies in registered memory.
    fn registered_front(&self, region: &Region) -> Option<Bytes> {
        let Some(Segment::Shared(bytes)) = self.segments.get(self.whole) else { return None };
        let part = self.part..bytes.len().min(self.part + SEND_MAX);
        region.contains(bytes).then(|| bytes.slice(part))
    }

    /// Returns the rest of each segment before `end`.
    fn rest(&self, end: usize) -> impl Iterator<Item = &[u8]> {
        let segments = self.segments[self.whole..end].iter().filter_map(Segment::memory);
        segments.enumerate().map(|(i, bytes)| if i == 0 { &bytes[self.part..] } else { bytes })
    }

    /// `n` more bytes have been sent; true when they were the last.
    pub(super) fn advance(&mut self, n: usize) -> bool {
        self.part += n;
        while let Some(bytes) = self.segments.get(self.whole).and_then(Segment::memory)
            && self.part >= bytes.len()
        {
            self.part -= bytes.len();
            self.whole += 1;
        }
        self.whole == self.segments.len()
    }

    /// Gives the segments back, and with them all that the kernel was told of; `is_over` unless the rest of them is still
    /// to be sent.
    pub(super) fn unload(&mut self, outbox: &mut Outbox, is_over: bool) {
        if !is_over {
            self.segments.drain(self.whole..).rev().for_each(|segment| outbox.put_back(segment));
            outbox.advance(self.part);
        }
        self.segments.drain(..).for_each(|segment| outbox.recycle(segment));
    }
}
