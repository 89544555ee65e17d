//! One request of a connection of HTTP/2.

use std::time::Instant;

use proto::{Now, Outbox};

use crate::{
    Site, WebServer,
    server::{Conn, Mode},
    writer::Http2,
};

/// A request, and the response to it.
#[derive(Debug)]
pub(super) struct Stream<S: Site> {
    pub(super) conn: Conn<S>,
    /// Part of the request that has not been read.
    pub(super) input: Vec<u8>,
    /// Body of the response, and promises.
    pub(super) out: Outbox,
    /// The length of the body is unknown, so it is handed on in chunks.
    pub(super) is_chunked: bool,
    /// The response has been written, or is held.
    pub(super) is_answered: bool,
    /// Head of a response that waits for the end of a short body, which nobody wants: only then is it known that the request
    /// is well-formed.
    pub(super) held: Vec<u8>,
}

impl<S: Site> Stream<S> {
    pub(super) fn new(conn: Conn<S>) -> Self {
        Self {
            conn,
            input: Vec::new(),
            out: Outbox::default(),
            is_chunked: false,
            is_answered: false,
            held: Vec::new(),
        }
    }

    /// Answers the request as far as it is there.
    pub(super) fn answer(&mut self, server: &WebServer<S>, now: Now, writer: &mut Http2) {
        if self.out.has_pending_replies() {
            return;
        }
        let waited = self.conn.take_waited();
        let step = server.answer_requests(&mut self.conn, waited, &self.input, now, &mut self.out, writer);
        self.input.drain(..step.consumed);
    }

    /// Adds a piece of the body to what has not been read.
    pub(super) fn take_body(&mut self, data: &[u8], is_last: bool) {
        if !self.is_chunked {
            return self.input.extend_from_slice(data);
        }
        if !data.is_empty() {
            self.input.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            self.input.extend_from_slice(data);
            self.input.extend_from_slice(b"\r\n");
        }
        if is_last {
            self.input.extend_from_slice(b"0\r\n\r\n");
        }
    }

    /// True if nothing will ever answer it.
    pub(super) fn is_broken(&self) -> bool {
        let is_waiting = self.conn.pending.is_some() || matches!(self.conn.mode, Mode::Awaited(_));
        !is_waiting || self.out.is_broken()
    }

    /// Returns the time at which its head arrived, where its body is still arriving.
    pub(super) fn started(&self) -> Option<Instant> {
        self.conn.pending.as_ref().and_then(|pending| pending.started())
    }
}
