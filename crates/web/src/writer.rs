//! Form in which responses are written: that of HTTP/1, or that of HTTP/2.

use proto::{Now, Outbox};
use wire::{
    cgi::Document,
    hpack,
    http1::{Connection, Part, PreparedResponse},
    http2::push_response_block,
};

use crate::Site;

/// Interim response that makes a client send the body that it holds back (RFC 9110, section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Writer of the responses of one connection, or of one stream. Each function returns the bytes that it has written.
pub(crate) trait Writer {
    const IS_HTTP2: bool;
    /// Version of the requests.
    const VERSION: &'static str;

    /// Writes a response, or its head.
    fn prepared(
        &mut self,
        response: &PreparedResponse,
        part: Part,
        connection: Connection,
        now: Now,
        out: &mut Outbox,
    ) -> u64;

    /// Writes the whole response to a GET of a file.
    fn file<S: Site>(&mut self, site: &S, file: &S::File, connection: Connection, now: Now, out: &mut Outbox) -> u64;

    /// Writes the head of a CGI program's response.
    fn document(&mut self, document: &Document<'_>, connection: Connection, now: Now, out: &mut Outbox) -> u64;

    /// Writes a 100.
    fn proceed(&mut self, out: &mut Outbox) -> u64;
}

/// Writer of HTTP/1: heads go in front of their bodies.
pub(crate) struct Http1;

impl Writer for Http1 {
    const IS_HTTP2: bool = false;
    const VERSION: &'static str = "HTTP/1.1";

    #[inline(always)]
    fn prepared(
        &mut self,
        response: &PreparedResponse,
        part: Part,
        connection: Connection,
        now: Now,
        out: &mut Outbox,
    ) -> u64 {
        response.push(part, connection, now.unix, out.inline()) as u64
    }

    #[inline(always)]
    fn file<S: Site>(&mut self, site: &S, file: &S::File, connection: Connection, now: Now, out: &mut Outbox) -> u64 {
        site.push_ok(file, connection, now, out)
    }

    fn document(&mut self, document: &Document<'_>, connection: Connection, now: Now, out: &mut Outbox) -> u64 {
        let before = out.inline().len();
        document.push_head(connection, now.unix, out.inline());
        (out.inline().len() - before) as u64
    }

    fn proceed(&mut self, out: &mut Outbox) -> u64 {
        out.inline().extend_from_slice(CONTINUE);
        CONTINUE.len() as u64
    }
}

/// Writer of HTTP/2: the head is kept apart, as a header block, and the outbox has the body alone.
#[derive(Debug, Default)]
pub(crate) struct Http2 {
    /// Header block of the response; empty before there is one.
    pub(crate) block: Vec<u8>,
    /// A 100 is to be sent.
    pub(crate) proceeds: bool,
}

impl Http2 {
    pub(crate) fn clear(&mut self) {
        self.block.clear();
        self.proceeds = false;
    }
}

impl Writer for Http2 {
    const IS_HTTP2: bool = true;
    const VERSION: &'static str = "HTTP/2.0";

    fn prepared(&mut self, response: &PreparedResponse, part: Part, _: Connection, now: Now, out: &mut Outbox) -> u64 {
        response.push_block(now.unix, &mut self.block);
        let body = if part == Part::Whole { response.body() } else { b"" };
        out.inline().extend_from_slice(body);
        (self.block.len() + body.len()) as u64
    }

    fn file<S: Site>(&mut self, site: &S, file: &S::File, _: Connection, now: Now, out: &mut Outbox) -> u64 {
        let heads = S::heads(file);
        heads.ok.push_block(now.unix, &mut self.block);
        if heads.size() > 0 {
            site.push_range(file, 0..heads.size(), out);
        }
        self.block.len() as u64 + heads.size()
    }

    fn document(&mut self, document: &Document<'_>, _: Connection, now: Now, _: &mut Outbox) -> u64 {
        let mut head = Vec::new();
        document.push_head(Connection::Implied, now.unix, &mut head);
        // The reason phrase may look like a field.
        let lines = head.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        push_response_block(document.code, &head[lines..], &mut self.block);
        self.block.len() as u64
    }

    fn proceed(&mut self, _: &mut Outbox) -> u64 {
        self.proceeds = true;
        CONTINUE_BLOCK_LEN
    }
}

/// Length of the header block of a 100.
const CONTINUE_BLOCK_LEN: u64 = 5;

/// Appends the header block of a 100.
pub(crate) fn push_continue_block(out: &mut Vec<u8>) {
    hpack::push_field(b":status", b"100", out);
}
