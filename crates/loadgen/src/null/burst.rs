//! One reply, over and over.

/// The reply is repeated up to about this size, so that a pipeline is answered with one `send`.
const BURST_BYTES: usize = 64 << 10;

/// A reply, repeated, so that any stretch of an output that consists of it is a slice.
#[derive(Debug)]
pub(super) struct Burst {
    bytes: Vec<u8>,
    length: usize,
}

impl Burst {
    /// `reply` must not be empty.
    pub(super) fn new(reply: &[u8]) -> Self {
        Self { bytes: reply.repeat((BURST_BYTES / reply.len()).max(1)), length: reply.len() }
    }

    /// Returns the reply once.
    pub(super) fn reply(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Replies that are to be sent on one connection.
#[derive(Debug, Default)]
pub(super) struct PendingReplies {
    /// Number of bytes. They continue a reply that may have begun.
    bytes: usize,
    /// Offset of the output in a reply.
    phase: usize,
}

impl PendingReplies {
    pub(super) fn add(&mut self, replies: usize, burst: &Burst) {
        self.bytes += replies * burst.length;
    }

    /// Returns the next stretch.
    pub(super) fn front<'a>(&self, burst: &'a Burst) -> &'a [u8] {
        &burst.bytes[self.phase..burst.bytes.len().min(self.phase + self.bytes)]
    }

    pub(super) fn advance(&mut self, sent: usize, burst: &Burst) {
        self.bytes -= sent;
        self.phase = (self.phase + sent) % burst.length;
    }
}
