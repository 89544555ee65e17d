//! One reply, over and over.

/// The reply is repeated up to about this size, so that a pipeline is answered with one `send`.
const BURST_BYTES: usize = 64 << 10;

/// A reply, repeated: any stretch of an output that consists of it is a slice.
#[derive(Debug)]
pub(super) struct Burst {
    bytes: Vec<u8>,
    length: usize,
}

impl Burst {
    /// `reply` must not be empty.
    pub(super) fn of(reply: &[u8]) -> Self {
        Self { bytes: reply.repeat((BURST_BYTES / reply.len()).max(1)), length: reply.len() }
    }

    /// Once.
    pub(super) fn reply(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Replies that one connection has coming to it.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Bytes. They continue a reply that may have begun.
    bytes: usize,
    /// How far into a reply the output stands.
    phase: usize,
}

impl Owed {
    pub(super) fn add(&mut self, replies: usize, burst: &Burst) {
        self.bytes += replies * burst.length;
    }

    /// The next stretch.
    pub(super) fn front<'a>(&self, burst: &'a Burst) -> &'a [u8] {
        &burst.bytes[self.phase..burst.bytes.len().min(self.phase + self.bytes)]
    }

    pub(super) fn advance(&mut self, sent: usize, burst: &Burst) {
        self.bytes -= sent;
        self.phase = (self.phase + sent) % burst.length;
    }
}
