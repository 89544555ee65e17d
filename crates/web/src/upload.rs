//! A request's body, while it arrives.

use std::time::Instant;

use wire::http1::{Connection, Part};

/// Room made for a body before any of it is here; what is announced costs nothing.
const ROOM_AT_FIRST: usize = 16 << 10;

/// The head has been read and the body is wanted.
#[derive(Debug)]
pub(crate) struct Upload<U> {
    /// What the site remembers of the request.
    pub(crate) remembered: U,
    pub(crate) body: Vec<u8>,
    missing: usize,
    pub(crate) started: Instant,
    pub(crate) connection: Connection,
    pub(crate) part: Part,
}

impl<U> Upload<U> {
    pub(crate) fn new(remembered: U, len: usize, started: Instant, connection: Connection, part: Part) -> Self {
        let body = Vec::with_capacity(len.min(ROOM_AT_FIRST));
        Self { remembered, body, missing: len, started, connection, part }
    }

    /// Takes what belongs to the body from the start of `input`; how much that was.
    pub(crate) fn take(&mut self, input: &[u8]) -> usize {
        let taken = self.missing.min(input.len());
        self.body.extend_from_slice(&input[..taken]);
        self.missing -= taken;
        taken
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.missing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An announcement is not believed before its bytes are here.
    #[test]
    fn memory_follows_what_has_arrived() {
        let mut upload = Upload::new((), usize::MAX, Instant::now(), Connection::Implied, Part::Whole);
        assert!(upload.body.capacity() <= ROOM_AT_FIRST);
        assert_eq!(upload.take(&[b'a'; 100_000]), 100_000);
        assert!(upload.body.capacity() < 400_000 && !upload.is_whole());
    }

    #[test]
    fn nothing_behind_the_body_is_taken() {
        let mut upload = Upload::new((), 5, Instant::now(), Connection::Implied, Part::Whole);
        assert_eq!((upload.take(b"abc"), upload.is_whole()), (3, false));
        assert_eq!((upload.take(b"defg"), upload.is_whole()), (2, true));
        assert_eq!((upload.take(b"g"), &upload.body[..]), (0, &b"abcde"[..]));
    }
}
