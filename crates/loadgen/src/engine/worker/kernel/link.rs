//! Socket of a slot, and the bytes on their way to it.

use rustix::{
    fd::OwnedFd,
    io::Errno,
    net::{RecvFlags, recv, sockopt},
};
use sys::ring::RequestId;

use super::super::super::tls::Session;

/// Name of a socket in what the kernel reports: its slot, and which of the slot's sockets it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct SocketId {
    pub(in super::super) slot: usize,
    generation: u32,
}

impl SocketId {
    pub(super) fn token(self) -> u64 {
        u64::from(self.generation) << 32 | self.slot as u64
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "taken apart as it was put together")]
    pub(in super::super) fn from_token(token: u64) -> Self {
        Self { slot: (token & u64::from(u32::MAX)) as usize, generation: (token >> 32) as u32 }
    }
}

/// Socket, its TLS session, and its unsent bytes.
#[derive(Debug)]
pub(in super::super) struct Link {
    /// Tells this socket's events from those of its predecessors in the slot.
    pub(super) id: SocketId,
    pub(super) socket: Option<OwnedFd>,
    pub(super) tls: Option<Box<Session>>,
    /// Operations of a ring: one that waits for the peer, and one that sends.
    pub(super) receiving: Option<RequestId>,
    pub(super) sending: Option<RequestId>,
    /// Bytes that the socket has not taken.
    pub(super) unsent: Unsent,
    /// The peer takes no more; what it has sent is still to be read.
    pub(super) is_write_broken: bool,
}

impl Link {
    pub(in super::super) fn new(slot: usize) -> Self {
        Self {
            id: SocketId { slot, generation: 0 },
            socket: None,
            tls: None,
            receiving: None,
            sending: None,
            unsent: Unsent::default(),
            is_write_broken: false,
        }
    }

    /// Returns true if `id`, which is of this slot, names the socket that is in it now.
    #[inline]
    pub(in super::super) fn is(&self, id: SocketId) -> bool {
        self.id.generation == id.generation
    }

    pub(in super::super) fn has_socket(&self) -> bool {
        self.socket.is_some()
    }

    pub(in super::super) fn open(&mut self, socket: OwnedFd) {
        self.socket = Some(socket);
    }

    pub(in super::super) fn begin_tls(&mut self, session: Session) {
        self.tls = Some(Box::new(session));
    }

    #[inline]
    pub(in super::super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    #[inline]
    pub(in super::super) fn tls(&mut self) -> Option<&mut Session> {
        self.tls.as_deref_mut()
    }

    #[inline]
    pub(in super::super) fn has_unsent(&self) -> bool {
        !self.unsent.rest().is_empty()
    }

    #[inline]
    pub(in super::super) fn is_write_broken(&self) -> bool {
        self.is_write_broken
    }

    /// Returns the outcome of a pending attempt to connect; `None` without a socket.
    pub(in super::super) fn attempt(&self) -> Option<Result<(), Errno>> {
        let socket = self.socket.as_ref()?;
        Some(sockopt::socket_error(socket).and_then(|outcome| outcome))
    }

    /// Reads what has arrived; `None` without a socket.
    #[inline]
    pub(in super::super) fn receive(&self, buffer: &mut [u8]) -> Option<Result<usize, Errno>> {
        let received = recv(self.socket.as_ref()?, buffer, RecvFlags::empty());
        Some(received.map(|(length, _)| length))
    }

    /// Gives up the socket and all that belongs to it.
    pub(in super::super) fn close(&mut self) -> Option<OwnedFd> {
        self.id.generation = self.id.generation.wrapping_add(1);
        self.unsent.clear();
        self.is_write_broken = false;
        self.tls = None;
        (self.receiving, self.sending) = (None, None);
        self.socket.take()
    }
}

/// Bytes that wait for room in the socket.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    bytes: Vec<u8>,
    /// Number of bytes that have been sent. A large batch leaves in many pieces, and is not moved for each.
    sent: usize,
}

impl Unsent {
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    pub(super) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if self.sent == self.bytes.len() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    /// Puts what was not taken back in front.
    pub(super) fn put_back(&mut self, rest: &[u8]) {
        self.bytes.splice(..self.sent, rest.iter().copied());
        self.sent = 0;
    }

    /// Takes all of it, and leaves `empty` in its place.
    pub(super) fn take(&mut self, empty: Vec<u8>) -> Vec<u8> {
        self.bytes.drain(..self.sent);
        self.sent = 0;
        std::mem::replace(&mut self.bytes, empty)
    }
}
