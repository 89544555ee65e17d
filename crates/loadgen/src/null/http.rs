//! Any HTTP request is anything up to an empty line, and gets the one reply.

use memchr::memmem;

use super::{
    Responder, Unparsable,
    burst::{Burst, PendingReplies},
};

const REQUEST_END: &[u8; 4] = b"\r\n\r\n";
/// The reply.
#[derive(Debug)]
pub struct HttpReply(Burst);

impl HttpReply {
    /// `200 OK` with a body of `body_bytes`, for HTTP/1.1 and for HTTP/1.0 clients that ask for keep-alive.
    #[must_use]
    pub fn new(body_bytes: usize) -> Self {
        let mut reply = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\n\r\n"
        )
        .into_bytes();
        reply.resize(reply.len() + body_bytes, b'x');
        Self(Burst::new(&reply))
    }
}

/// One connection.
#[derive(Debug, Default)]
pub struct HttpResponder {
    scan: RequestScan,
    pending: PendingReplies,
}

impl Responder for HttpResponder {
    type Replies = HttpReply;

    fn on_input(&mut self, input: &[u8], HttpReply(reply): &HttpReply) -> Result<u64, Unparsable> {
        let requests = self.scan.count(input);
        self.pending.add(requests, reply);
        Ok(requests as u64)
    }

    fn front<'a>(&'a mut self, HttpReply(reply): &'a HttpReply) -> &'a [u8] {
        self.pending.front(reply)
    }

    fn advance(&mut self, sent: usize, HttpReply(reply): &HttpReply) {
        self.pending.advance(sent, reply);
    }
}

/// Counts empty lines in a stream that arrives in pieces.
#[derive(Debug, Default)]
struct RequestScan {
    /// Bytes of [`REQUEST_END`] seen at the end of the last piece.
    matched: usize,
}

impl RequestScan {
    fn count(&mut self, mut input: &[u8]) -> usize {
        let mut count = 0;
        while self.matched > 0
            && let Some((&byte, rest)) = input.split_first()
        {
            count += self.step(byte);
            input = rest;
        }
        let mut end = 0;
        for found in memmem::find_iter(input, REQUEST_END) {
            count += 1;
            end = found + REQUEST_END.len();
        }
        let tail = end.max(input.len().saturating_sub(REQUEST_END.len() - 1));
        for &byte in &input[tail..] {
            count += self.step(byte);
        }
        count
    }

    fn step(&mut self, byte: u8) -> usize {
        self.matched = match byte {
            _ if byte == REQUEST_END[self.matched] => self.matched + 1,
            b'\r' => 1,
            _ => 0,
        };
        if self.matched == REQUEST_END.len() {
            self.matched = 0;
            return 1;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_count_does_not_depend_on_tearing(text in "[\r\nx]{0,60}", chunk in 1_usize..8) {
            let whole = text.matches("\r\n\r\n").count();
            let mut scan = RequestScan::default();
            let torn: usize = text.as_bytes().chunks(chunk).map(|piece| scan.count(piece)).sum();
            prop_assert_eq!(torn, whole);
            prop_assert_eq!(RequestScan::default().count(text.as_bytes()), whole);
        }
    }
}
