//! The client's direction: requests out, replies in. Bodies are passed on piece by piece as they arrive, never kept.

use thiserror::Error;

use super::{FileId, ID_BYTES_MAX, Status, framed::HEAD_BYTES, original::MISSING_REPLY};

/// Appends a request of the original protocol. An id that is not [`FileId::is_original`] asks for another document.
pub fn write_original_request(out: &mut Vec<u8>, id: &FileId) {
    out.extend_from_slice(id.as_bytes());
}

/// Appends a request of the framed protocol.
pub fn write_framed_request(out: &mut Vec<u8>, id: &FileId) {
    const _: () = assert!(ID_BYTES_MAX <= u16::MAX as usize);
    out.extend_from_slice(&(id.as_bytes().len() as u16).to_be_bytes());
    out.extend_from_slice(id.as_bytes());
}

/// One step through a stream of framed replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A reply starts. The body has 0 bytes unless the status is [`Status::Found`].
    Head { status: Status, body_bytes: u64 },
    /// The next bytes of its body; never empty.
    Body(&'a [u8]),
    /// The reply is complete.
    End,
    /// All of the input has been used.
    NeedMore,
}

/// Reason why a stream is not one of framed replies. The connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("{0} is not a status")]
    Status(u8),
    #[error("a reply that says `{}` has a body", .0.name())]
    Body(Status),
}

/// State of the stream at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eof {
    /// Before the first reply, or after a complete one.
    Between,
    InHead,
    InBody,
}

/// Reads the framed replies of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct FramedReplies {
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The first `have` bytes of a head.
    Head { bytes: [u8; HEAD_BYTES], have: usize },
    /// Number of bytes that are missing of the body.
    Body { left: u64 },
}

impl Default for State {
    fn default() -> Self {
        Self::Head { bytes: [0; HEAD_BYTES], have: 0 }
    }
}

impl FramedReplies {
    /// Takes one step, and removes the bytes it was made of from `input`.
    ///
    /// # Errors
    /// The bytes are no replies. Nothing can follow.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, DecodeError> {
        match &mut self.state {
            State::Body { left: 0 } => {
                self.state = State::default();
                Ok(Event::End)
            }
            _ if input.is_empty() => Ok(Event::NeedMore),
            State::Body { left } => {
                let most = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                let (piece, rest) = input.split_at(most);
                *left -= piece.len() as u64;
                *input = rest;
                Ok(Event::Body(piece))
            }
            State::Head { bytes, have } => {
                let (piece, rest) = input.split_at(input.len().min(HEAD_BYTES - *have));
                bytes[*have..*have + piece.len()].copy_from_slice(piece);
                *have += piece.len();
                *input = rest;
                // A byte that is no status is refused at once, however the head is torn.
                let status = Status::from_byte(bytes[0]).ok_or(DecodeError::Status(bytes[0]))?;
                if *have < HEAD_BYTES {
                    return Ok(Event::NeedMore);
                }
                let [_, length @ ..] = *bytes;
                let body_bytes = u64::from_be_bytes(length);
                if status != Status::Found && body_bytes != 0 {
                    return Err(DecodeError::Body(status));
                }
                self.state = State::Body { left: body_bytes };
                Ok(Event::Head { status, body_bytes })
            }
        }
    }

    /// Returns the state in which the stream would end now.
    #[must_use]
    pub fn eof(&self) -> Eof {
        match self.state {
            State::Head { have: 0, .. } => Eof::Between,
            State::Head { .. } => Eof::InHead,
            State::Body { .. } => Eof::InBody,
        }
    }
}

/// Everything that an answer of the original protocol can tell, once the server has closed; see
/// `docs/protocols/file.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginalAnswer {
    /// No byte: an empty document, or a server that failed.
    Empty,
    /// One NUL: there is no such document, or it consists of one NUL.
    Missing,
    /// A document of this many bytes, or the beginning of a longer one.
    Bytes(u64),
}

/// Reads the one reply of an original connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct OriginalReply {
    bytes: u64,
    is_nul: bool,
}

impl OriginalReply {
    /// Takes bytes of the reply: all bytes belong to it, until the connection ends.
    #[inline]
    pub fn feed(&mut self, piece: &[u8]) {
        self.is_nul = self.bytes == 0 && piece == MISSING_REPLY || self.is_nul && piece.is_empty();
        self.bytes += piece.len() as u64;
    }

    /// Returns the answer, if the connection ends here.
    #[must_use]
    pub fn answer(&self) -> OriginalAnswer {
        match self.bytes {
            0 => OriginalAnswer::Empty,
            1 if self.is_nul => OriginalAnswer::Missing,
            bytes => OriginalAnswer::Bytes(bytes),
        }
    }
}
