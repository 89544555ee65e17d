//! Body of a request, while it arrives.

use std::time::Instant;

use wire::http1::{
    Body, Connection, Part, Status,
    chunked::{Chunked, Malformed, Piece},
};

use crate::waiting::Waiting;

/// Length of the longest body that is read for nobody, so that the connection goes on behind it, in bytes. A longer one is
/// left unread and costs the connection.
pub(crate) const DISCARDED_BYTES_MAX: usize = 64 << 10;

/// Request that is not done with.
#[derive(Debug)]
pub(crate) enum Pending<U> {
    /// A resource of the site's own wants its body.
    Upload(Upload<U>),
    /// A program wants its body. The state is its head.
    Program(Upload<Box<[u8]>>),
    /// Nobody wants its body, which may turn out to be malformed: it is answered at the end of that.
    Judged(JudgedBody),
    /// It has been answered, and its body is read for nobody.
    Discarded(DiscardedBody),
    /// It waits for another thread.
    Waiting(Waiting),
}

impl<U> Pending<U> {
    /// Returns the time at which its head arrived, where its body is still arriving.
    pub(crate) fn started(&self) -> Option<Instant> {
        match self {
            Self::Upload(upload) => Some(upload.started),
            Self::Program(upload) => Some(upload.started),
            Self::Judged(body) => Some(body.started),
            Self::Discarded(body) => Some(body.started),
            Self::Waiting(_) => None,
        }
    }

    /// Part of the response that is sent.
    pub(crate) fn part(&self) -> Part {
        match self {
            Self::Upload(upload) => upload.part,
            Self::Program(upload) => upload.part,
            Self::Judged(body) => body.part,
            Self::Discarded(_) | Self::Waiting(_) => Part::Head,
        }
    }

    /// Takes what belongs to the body from the start of `input`. Returns the length of that.
    ///
    /// # Errors
    /// The rest must not be read.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Result<(usize, Verdict), BodyError> {
        let (taken, is_complete) = match self {
            Self::Upload(upload) => (upload.feed(input)?, upload.is_complete()),
            Self::Program(upload) => (upload.feed(input)?, upload.is_complete()),
            Self::Judged(body) => return body.feed(input),
            Self::Discarded(body) => (body.feed(input), body.is_complete()),
            // The byte that was left, once there is something to go on with.
            Self::Waiting(waiting) => (1, waiting.slot.is_settled() && !input.is_empty()),
        };
        match (is_complete, &self) {
            (true, _) => Ok((taken, Verdict::Complete)),
            (false, Self::Waiting(_)) => Ok((0, Verdict::Incomplete)),
            (false, _) => Ok((taken, Verdict::Incomplete)),
        }
    }

    /// True if the request has been answered.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self, Self::Discarded(_))
    }
}

/// Body of a known length that is discarded.
#[derive(Debug)]
pub(crate) struct DiscardedBody {
    missing: usize,
    started: Instant,
}

impl DiscardedBody {
    /// Expects a body of `len`; `None` if it is too long to be read for nobody.
    pub(crate) fn new(len: u64, started: Instant) -> Option<Self> {
        let missing = usize::try_from(len).ok().filter(|&len| len <= DISCARDED_BYTES_MAX)?;
        Some(Self { missing, started })
    }

    /// Takes what belongs to the body from the start of `input`. Returns the length of that.
    pub(crate) fn feed(&mut self, input: &[u8]) -> usize {
        let taken = input.len().min(self.missing);
        self.missing -= taken;
        taken
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0
    }
}

/// Chunked body that nobody wants, and the request that waits for the verdict on it.
#[derive(Debug)]
pub(crate) struct JudgedBody {
    /// Head of the request.
    pub(crate) head: Box<[u8]>,
    chunked: Chunked,
    /// Bytes that are still read, framing included, so that where reading ends does not depend on how they arrive.
    budget: usize,
    part: Part,
    started: Instant,
}

/// Verdict on a body, as far as it has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Incomplete,
    Complete,
    /// It is well-formed as far as it has been read, and is not read on.
    TooLong,
}

impl JudgedBody {
    pub(crate) fn new(head: &[u8], part: Part, started: Instant) -> Self {
        Self { head: head.into(), chunked: Chunked::default(), budget: DISCARDED_BYTES_MAX, part, started }
    }

    /// Takes what belongs to the body from the start of `input`. Returns the length of that.
    ///
    /// # Errors
    /// The coding is malformed.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Result<(usize, Verdict), BodyError> {
        let input = &input[..input.len().min(self.budget)];
        let mut rest = input;
        let is_complete = loop {
            match self.chunked.next(&mut rest)? {
                Piece::Data(_) => {}
                Piece::NeedMore => break false,
                Piece::End => break true,
            }
        };
        let taken = input.len() - rest.len();
        self.budget -= taken;
        let verdict = match (is_complete, self.budget) {
            (true, _) => Verdict::Complete,
            (false, 0) => Verdict::TooLong,
            (false, _) => Verdict::Incomplete,
        };
        Ok((taken, verdict))
    }
}

/// Memory for a body before any of it has arrived, in bytes; what is only announced costs nothing.
const CAPACITY_AT_FIRST: usize = 16 << 10;

/// Request whose head has been read and whose body is wanted.
#[derive(Debug)]
pub(crate) struct Upload<U> {
    /// State that the site keeps of the request.
    pub(crate) state: U,
    pub(crate) body: Vec<u8>,
    bytes_max: usize,
    remaining: Remaining,
    pub(crate) started: Instant,
    pub(crate) connection: Connection,
    pub(crate) part: Part,
}

/// Part of a body that has not arrived.
#[derive(Debug)]
enum Remaining {
    /// Number of bytes.
    Length(usize),
    /// Until the coding says that the body has ended.
    Chunked(Chunked),
}

/// Reason why a body is not read on. Its end is unknown then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    Malformed,
    TooLarge,
}

impl BodyError {
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Malformed => Status::BadRequest,
            Self::TooLarge => Status::ContentTooLarge,
        }
    }
}

impl From<Malformed> for BodyError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Request that a body belongs to.
#[derive(Debug)]
pub(crate) struct UploadRequest<U> {
    pub(crate) state: U,
    pub(crate) started: Instant,
    pub(crate) connection: Connection,
    pub(crate) part: Part,
}

impl<U> Upload<U> {
    /// Expects a body with this framing and of at most `bytes_max`.
    ///
    /// # Errors
    /// `TooLarge` for a length above `bytes_max`.
    pub(crate) fn new(request: UploadRequest<U>, framing: Body, bytes_max: usize) -> Result<Self, BodyError> {
        let remaining = match framing {
            Body::Empty => Remaining::Length(0),
            Body::Length(len) => match usize::try_from(len) {
                Ok(len) if len <= bytes_max => Remaining::Length(len),
                Ok(_) | Err(_) => return Err(BodyError::TooLarge),
            },
            Body::Chunked => Remaining::Chunked(Chunked::default()),
        };
        let body = match remaining {
            Remaining::Length(len) => Vec::with_capacity(len.min(CAPACITY_AT_FIRST)),
            Remaining::Chunked(_) => Vec::new(),
        };
        let UploadRequest { state, started, connection, part } = request;
        Ok(Self { state, body, bytes_max, remaining, started, connection, part })
    }

    /// Takes what belongs to the body from the start of `input`. Returns the length of that.
    ///
    /// # Errors
    /// The rest must not be read.
    #[inline(never)]
    pub(crate) fn feed(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        match &mut self.remaining {
            Remaining::Length(missing) => {
                let taken = input.len().min(*missing);
                self.body.extend_from_slice(&input[..taken]);
                *missing -= taken;
                Ok(taken)
            }
            Remaining::Chunked(chunked) => {
                let mut rest = input;
                loop {
                    match chunked.next(&mut rest)? {
                        Piece::Data(data) if data.len() > self.bytes_max - self.body.len() => {
                            return Err(BodyError::TooLarge);
                        }
                        Piece::Data(data) => self.body.extend_from_slice(data),
                        Piece::NeedMore => return Ok(input.len()),
                        Piece::End => {
                            self.remaining = Remaining::Length(0);
                            return Ok(input.len() - rest.len());
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.remaining, Remaining::Length(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(framing: Body, bytes_max: usize) -> Result<Upload<()>, BodyError> {
        let (connection, part) = (Connection::Implied, Part::Whole);
        Upload::new(UploadRequest { state: (), started: Instant::now(), connection, part }, framing, bytes_max)
    }

    #[test]
    fn a_body_for_nobody_is_judged_alike_however_it_arrives() {
        let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
        let (five, three) = (chunk.repeat(5), chunk.repeat(3) + "0\r\n\r\nGET");
        let cases = [
            (&*five, Ok((DISCARDED_BYTES_MAX, Verdict::TooLong))),
            (&three, Ok((three.len() - 3, Verdict::Complete))),
            ("3\r\nabcd\r\n0\r\n\r\n", Err(BodyError::Malformed)),
            ("3\r\nabc\r\n0\r\n\r", Ok((12, Verdict::Incomplete))),
        ];
        for (input, want) in cases {
            for size in [1, 7, 1_000, input.len()] {
                let mut body = JudgedBody::new(b"", Part::Whole, Instant::now());
                let mut used = 0;
                let outcome = loop {
                    let piece = &input.as_bytes()[used..input.len().min(used + size)];
                    match body.feed(piece) {
                        Ok((taken, Verdict::Incomplete)) if !piece.is_empty() => used += taken,
                        Ok((taken, verdict)) => break Ok((used + taken, verdict)),
                        Err(error) => break Err(error),
                    }
                };
                assert_eq!(outcome, want, "{size}");
            }
        }
    }

    /// An announcement is not believed before its bytes have arrived.
    #[test]
    fn memory_follows_what_has_arrived() {
        let announced = [(Body::Length(1 << 40), &b""[..]), (Body::Chunked, b"fffffffffff\r\n")];
        for (framing, announcement) in announced {
            let mut upload = upload(framing, usize::MAX).unwrap();
            assert_eq!(upload.feed(announcement), Ok(announcement.len()));
            assert!(upload.body.capacity() <= CAPACITY_AT_FIRST);
            assert_eq!(upload.feed(&[b'a'; 100_000]), Ok(100_000));
            assert!(upload.body.capacity() < 400_000 && !upload.is_complete());
        }
    }

    #[test]
    fn nothing_behind_the_body_is_taken() {
        let mut counted = upload(Body::Length(5), 5).unwrap();
        assert_eq!((counted.feed(b"abc"), counted.is_complete()), (Ok(3), false));
        assert_eq!((counted.feed(b"defg"), counted.is_complete()), (Ok(2), true));
        assert_eq!((counted.feed(b"g"), &counted.body[..]), (Ok(0), &b"abcde"[..]));
        let mut chunked = upload(Body::Chunked, 5).unwrap();
        assert_eq!((chunked.feed(b"3\r\nab"), chunked.is_complete()), (Ok(5), false));
        assert_eq!((chunked.feed(b"c\r\n2\r\nde\r\n0\r\n\r\ng"), chunked.is_complete()), (Ok(15), true));
        assert_eq!((chunked.feed(b"g"), &chunked.body[..]), (Ok(0), &b"abcde"[..]));
    }

    #[test]
    fn no_byte_above_the_limit_is_kept() {
        assert_eq!(upload(Body::Length(6), 5).unwrap_err(), BodyError::TooLarge);
        assert_eq!(upload(Body::Length(u64::MAX), usize::MAX - 1).unwrap_err(), BodyError::TooLarge);
        let mut chunked = upload(Body::Chunked, 5).unwrap();
        assert_eq!(chunked.feed(b"5\r\nabcde\r\n1\r\n"), Ok(13));
        assert_eq!((chunked.feed(b"f"), chunked.body.len()), (Err(BodyError::TooLarge), 5));
    }
}
