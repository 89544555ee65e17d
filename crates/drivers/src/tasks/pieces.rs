//! Memory on its way out through a ring whose operations own what they send.

#![cfg(any(feature = "compio", feature = "monoio"))]

use proto::{Outbox, Segment, Taken};

use crate::write::WRITE_MAX;

/// A segment that the kernel reads.
pub(crate) struct Piece {
    segment: Segment,
    /// It is cut here, so that one connection does not send more than its share.
    len: usize,
}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        let bytes = self.segment.memory().unwrap_or_default();
        &bytes[..self.len.min(bytes.len())]
    }
}

/// Memory of one operation.
pub(crate) enum Pieces {
    One(Piece),
    Several(Vec<Piece>),
}

impl Pieces {
    /// Takes all memory that there is before a promise, a file or a pipe; `None`: a promise is in front.
    pub(super) fn take(outbox: &mut Outbox) -> Option<Self> {
        let mut room = WRITE_MAX;
        let first = take_piece(outbox, &mut room)?;
        let Some(second) = take_piece(outbox, &mut room) else { return Some(Self::One(first)) };
        let mut pieces = vec![first, second];
        while pieces.len() < Outbox::IOV
            && let Some(piece) = take_piece(outbox, &mut room)
        {
            pieces.push(piece);
        }
        Some(Self::Several(pieces))
    }

    /// Recycles what has been sent to its last byte, and puts back the rest, which is sent next.
    pub(super) fn give_back(self, sent: usize, outbox: &mut Outbox) {
        match self {
            Self::One(piece) => give_back([piece], sent, outbox),
            Self::Several(pieces) => give_back(pieces, sent, outbox),
        }
    }
}

fn take_piece(outbox: &mut Outbox, room: &mut usize) -> Option<Piece> {
    // A promise kept in between may turn out to be a file.
    if *room == 0 || !outbox.is_memory_next() {
        return None;
    }
    let Taken::Segment(segment) = outbox.take() else { return None };
    let len = segment.memory().map_or(0, <[u8]>::len).min(*room);
    *room -= len;
    Some(Piece { segment, len })
}

fn give_back(pieces: impl IntoIterator<Item = Piece>, sent: usize, outbox: &mut Outbox) {
    let mut left = sent;
    let mut rest = Vec::new();
    for Piece { segment, .. } in pieces {
        let len = segment.memory().map_or(0, <[u8]>::len);
        if rest.is_empty() && left >= len {
            left -= len;
            outbox.recycle(segment);
        } else {
            rest.push(segment);
        }
    }
    if !rest.is_empty() {
        rest.into_iter().rev().for_each(|segment| outbox.put_back(segment));
        outbox.advance(left);
    }
}

/// True if the memory in front is sent by the ring. Memory before a file or pipe leaves with it by plain calls, and those
/// themselves do; so does all that the kernel encrypts. A promise in front has nothing to send yet.
pub(super) fn is_sent_by_ring(outbox: &mut Outbox) -> bool {
    !outbox.is_for_kernel_tls() && !outbox.has_more_after_memory() && (outbox.is_memory_next() || outbox.is_waiting())
}
