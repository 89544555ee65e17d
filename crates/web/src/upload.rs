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
