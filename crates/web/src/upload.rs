//! A request's body, while it arrives.

use std::time::Instant;

use wire::http1::{
    Body, Connection, Part, Status,
    chunked::{Chunked, Malformed, Piece},
};

/// Room made for a body before any of it is here; what is announced costs nothing.
const ROOM_AT_FIRST: usize = 16 << 10;

/// The head has been read and the body is wanted.
#[derive(Debug)]
pub(crate) struct Upload<U> {
    /// What the site remembers of the request.
    pub(crate) remembered: U,
    pub(crate) body: Vec<u8>,
    bytes_max: usize,
    rest: Rest,
    pub(crate) started: Instant,
    pub(crate) connection: Connection,
    pub(crate) part: Part,
}

/// What is still to come of it.
#[derive(Debug)]
enum Rest {
    /// So many bytes.
    Length(usize),
    /// Until the coding says that it has ended.
    Chunked(Chunked),
}

/// Why a body is not read on. Where it ends is then unknown.
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

/// The request that a body belongs to.
#[derive(Debug)]
pub(crate) struct Asked<U> {
    pub(crate) remembered: U,
    pub(crate) started: Instant,
    pub(crate) connection: Connection,
    pub(crate) part: Part,
}

impl<U> Upload<U> {
    /// Expects a body that is framed like this, and of at most `bytes_max`.
    ///
    /// # Errors
    /// `TooLarge` when its head says that it is.
    pub(crate) fn new(asked: Asked<U>, framing: Body, bytes_max: usize) -> Result<Self, BodyError> {
        let rest = match framing {
            Body::Empty => Rest::Length(0),
            Body::Length(len) => match usize::try_from(len) {
                Ok(len) if len <= bytes_max => Rest::Length(len),
                Ok(_) | Err(_) => return Err(BodyError::TooLarge),
            },
            Body::Chunked => Rest::Chunked(Chunked::default()),
        };
        let body = match rest {
            Rest::Length(len) => Vec::with_capacity(len.min(ROOM_AT_FIRST)),
            Rest::Chunked(_) => Vec::new(),
        };
        let Asked { remembered, started, connection, part } = asked;
        Ok(Self { remembered, body, bytes_max, rest, started, connection, part })
    }

    /// Takes what belongs to the body from the start of `input`; how much that was.
    ///
    /// # Errors
    /// The rest is not to be read.
    #[inline(never)]
    pub(crate) fn take(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        match &mut self.rest {
            Rest::Length(missing) => {
                let taken = input.len().min(*missing);
                self.body.extend_from_slice(&input[..taken]);
                *missing -= taken;
                Ok(taken)
            }
            Rest::Chunked(chunked) => {
                let mut rest = input;
                loop {
                    match chunked.next(&mut rest)? {
                        Piece::Data(data) if data.len() > self.bytes_max - self.body.len() => {
                            return Err(BodyError::TooLarge);
                        }
                        Piece::Data(data) => self.body.extend_from_slice(data),
                        Piece::NeedMore => return Ok(input.len()),
                        Piece::End => {
                            self.rest = Rest::Length(0);
                            return Ok(input.len() - rest.len());
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.rest, Rest::Length(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(framing: Body, bytes_max: usize) -> Result<Upload<()>, BodyError> {
        let (connection, part) = (Connection::Implied, Part::Whole);
        Upload::new(Asked { remembered: (), started: Instant::now(), connection, part }, framing, bytes_max)
    }

    /// An announcement is not believed before its bytes are here.
    #[test]
    fn memory_follows_what_has_arrived() {
        let announced = [(Body::Length(1 << 40), &b""[..]), (Body::Chunked, b"fffffffffff\r\n")];
        for (framing, announcement) in announced {
            let mut upload = upload(framing, usize::MAX).unwrap();
            assert_eq!(upload.take(announcement), Ok(announcement.len()));
            assert!(upload.body.capacity() <= ROOM_AT_FIRST);
            assert_eq!(upload.take(&[b'a'; 100_000]), Ok(100_000));
            assert!(upload.body.capacity() < 400_000 && !upload.is_whole());
        }
    }

    #[test]
    fn nothing_behind_the_body_is_taken() {
        let mut counted = upload(Body::Length(5), 5).unwrap();
        assert_eq!((counted.take(b"abc"), counted.is_whole()), (Ok(3), false));
        assert_eq!((counted.take(b"defg"), counted.is_whole()), (Ok(2), true));
        assert_eq!((counted.take(b"g"), &counted.body[..]), (Ok(0), &b"abcde"[..]));
        let mut chunked = upload(Body::Chunked, 5).unwrap();
        assert_eq!((chunked.take(b"3\r\nab"), chunked.is_whole()), (Ok(5), false));
        assert_eq!((chunked.take(b"c\r\n2\r\nde\r\n0\r\n\r\ng"), chunked.is_whole()), (Ok(15), true));
        assert_eq!((chunked.take(b"g"), &chunked.body[..]), (Ok(0), &b"abcde"[..]));
    }

    #[test]
    fn no_byte_above_the_limit_is_kept() {
        assert_eq!(upload(Body::Length(6), 5).unwrap_err(), BodyError::TooLarge);
        assert_eq!(upload(Body::Length(u64::MAX), usize::MAX - 1).unwrap_err(), BodyError::TooLarge);
        let mut chunked = upload(Body::Chunked, 5).unwrap();
        assert_eq!(chunked.take(b"5\r\nabcde\r\n1\r\n"), Ok(13));
        assert_eq!((chunked.take(b"f"), chunked.body.len()), (Err(BodyError::TooLarge), 5));
    }
}
