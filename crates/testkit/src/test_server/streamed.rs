//! A reply that is made piece by piece, as there is room for it.

use proto::Outbox;

/// Bytes of a piece, all of them the same letter.
const PIECE_BYTES: usize = 4096;

/// Rest of a streamed reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streamed {
    made: usize,
    len: usize,
}

impl Streamed {
    pub(crate) fn new(len: usize) -> Self {
        Self { made: 0, len }
    }

    pub(crate) fn is_complete(self) -> bool {
        self.made == self.len
    }

    /// Makes as many pieces as there is room for.
    pub(crate) fn proceed(&mut self, out: &mut Outbox) {
        while !self.is_complete() && !out.is_full() {
            let letter = b'a' + (self.made / PIECE_BYTES % 26) as u8;
            let end = self.len.min(self.made + PIECE_BYTES);
            let inline = out.inline();
            inline.resize(inline.len() + end - self.made, letter);
            self.made = end;
        }
    }
}
