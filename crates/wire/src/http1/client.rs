//! The client's direction: a decoder of responses, fed with whatever a socket delivers.
//!
//! It is stricter than a browser. Faults that RFC 9112 lets a recipient repair (bare line feeds, two equal lengths, a
//! length beside a transfer coding) are a [`DecodeError`] here: a load generator has to report them.
//!
//! Two paths lead to the same result. The first head on a connection is parsed by `httparse`; later ones are compared
//! with the last accepted head ([`HeadTemplate`]) byte for byte, `Date` excepted, and parsed only when they differ.

mod head;

use memchr::{memmem, memrchr};

pub use self::head::{BodyLength, ContentCoding, Head, HeadTemplate, Persistence};
use super::chunked::{Chunked, Malformed, Piece};

/// Bytes of the longest head that is accepted.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// Reason why the bytes of a server are not HTTP/1 (RFC 9112). The connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the status line or a header is malformed")]
    Head,
    #[error("the head is longer than {HEAD_BYTES_MAX} bytes or has more than {} headers", head::HEADERS_MAX)]
    HeadTooLarge,
    #[error("the headers that frame the body contradict each other or are not supported")]
    Framing,
    #[error("the chunked coding is malformed")]
    Chunk,
}

impl From<Malformed> for DecodeError {
    fn from(_: Malformed) -> Self {
        Self::Chunk
    }
}

/// One step through a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The final head (interim 1xx heads are skipped), equal to the one before.
    Head(Head),
    /// A final head that had to be parsed: the first one of a connection, or one that differs from the one before.
    NewHead(Head, ContentCoding),
    /// A piece of the body, without its transfer coding.
    Body(&'a [u8]),
    /// The response is complete; the next byte belongs to another one.
    End,
    /// All input has been used.
    NeedMore,
}

/// State of the stream at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eof {
    /// Between two responses.
    Between,
    /// At the end of a body that is delimited by the end of the stream: the response is complete.
    EndsBody,
    InHead,
    InBody,
}

/// Decoder of the responses on one connection.
#[derive(Debug, Default)]
pub struct ResponseDecoder {
    state: State,
    /// The beginning of a head that arrived in pieces.
    torn: Vec<u8>,
    /// True until the first head of the connection: it is parsed, even if the template is known from another
    /// connection.
    is_acquainted: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Exact {
        left: u64,
    },
    Chunked(Chunked),
    UntilEof,
}

impl ResponseDecoder {
    /// Makes a decoder for a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one step, and removes the bytes that it used from `input`. Has to be called again until
    /// [`Event::NeedMore`].
    ///
    /// `template` may be shared by all connections that send the same request.
    #[inline]
    pub fn next<'a>(&mut self, template: &mut HeadTemplate, input: &mut &'a [u8]) -> Result<Event<'a>, DecodeError> {
        match &mut self.state {
            State::Head => self.next_head(template, input),
            State::Exact { left: 0 } => Ok(self.end()),
            State::Exact { left } => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= length as u64;
                Ok(body(input, length))
            }
            State::UntilEof => Ok(body(input, input.len())),
            State::Chunked(chunked) => match chunked.next(input)? {
                Piece::Data(data) => Ok(Event::Body(data)),
                Piece::NeedMore => Ok(Event::NeedMore),
                Piece::End => Ok(self.end()),
            },
        }
    }

    /// Returns the state at the end of the stream.
    #[must_use]
    pub fn eof(&self) -> Eof {
        match self.state {
            State::Head if self.torn.is_empty() => Eof::Between,
            State::Head => Eof::InHead,
            State::UntilEof => Eof::EndsBody,
            State::Exact { .. } | State::Chunked(_) => Eof::InBody,
        }
    }

    fn end<'a>(&mut self) -> Event<'a> {
        self.state = State::Head;
        Event::End
    }

    #[inline]
    fn next_head<'a>(&mut self, template: &mut HeadTemplate, input: &mut &'a [u8]) -> Result<Event<'a>, DecodeError> {
        if self.is_acquainted
            && self.torn.is_empty()
            && let Some((head, length)) = template.accept(input)
        {
            *input = &input[length..];
            self.begin(head);
            return Ok(Event::Head(head));
        }
        self.parse_head(template, input)
    }

    #[cold]
    fn parse_head<'a>(&mut self, template: &mut HeadTemplate, input: &mut &'a [u8]) -> Result<Event<'a>, DecodeError> {
        while !input.is_empty() {
            let Some((head, coding)) = self.gather_head(template, input)? else { return Ok(Event::NeedMore) };
            self.is_acquainted = true;
            if !head.is_interim() {
                self.begin(head);
                return Ok(Event::NewHead(head, coding));
            }
        }
        Ok(Event::NeedMore)
    }

    /// Finds the end of a head that may have begun in earlier input, and parses it.
    fn gather_head(
        &mut self,
        template: &mut HeadTemplate,
        input: &mut &[u8],
    ) -> Result<Option<(Head, ContentCoding)>, DecodeError> {
        let known = self.torn.len();
        let usable = input.len().min(HEAD_BYTES_MAX - known);
        let fresh = &input[..usable];
        self.torn.extend_from_slice(fresh);
        head::check_beginning(&self.torn)?;
        let search_from = known.saturating_sub(HEAD_END.len() - 1);
        let Some(found) = memmem::find(&self.torn[search_from..], HEAD_END) else {
            // Finished lines may already show that this head is invalid. An unfinished line is not judged yet, nor is the
            // size before the finished lines, or the result would depend on how the bytes arrived.
            if let Some(end) = memrchr(b'\n', fresh) {
                head::check_unfinished(&self.torn[..=known + end])?;
            }
            if self.torn.len() == HEAD_BYTES_MAX {
                return Err(DecodeError::HeadTooLarge);
            }
            *input = &input[usable..];
            return Ok(None);
        };
        let length = search_from + found + HEAD_END.len();
        let learned = template.learn(&self.torn[..length])?;
        self.torn.clear();
        *input = &input[length - known..];
        Ok(Some(learned))
    }

    #[inline]
    fn begin(&mut self, head: Head) {
        self.state = match head.body {
            BodyLength::Exact(left) => State::Exact { left },
            BodyLength::Chunked => State::Chunked(Chunked::default()),
            BodyLength::UntilEof => State::UntilEof,
        };
    }
}

#[inline]
fn body<'a>(input: &mut &'a [u8], length: usize) -> Event<'a> {
    if length == 0 {
        return Event::NeedMore;
    }
    let (piece, rest) = input.split_at(length);
    *input = rest;
    Event::Body(piece)
}

#[cfg(test)]
mod tests;
