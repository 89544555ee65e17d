//! Body of a request, while it arrives.

use std::time::Instant;

use wire::http1::{
    Body, Connection, Part, Status,
    chunked::{Chunked, Malformed, Piece},
};

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
