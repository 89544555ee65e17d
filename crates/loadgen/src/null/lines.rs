//! One reply to everything that ends with a certain byte: commands of the line protocols without data behind them.

use memchr::memchr_iter;

use super::{
    Responder, Unparsable,
    burst::{Burst, PendingReplies},
};

/// End of a request, and the reply to each.
#[derive(Debug)]
pub struct LineReply {
    end: u8,
    reply: Burst,
}

impl LineReply {
    /// `reply` must not be empty.
    #[must_use]
    pub fn new(end: u8, reply: &[u8]) -> Self {
        Self { end, reply: Burst::new(reply) }
    }
}

/// One connection.
#[derive(Debug, Default)]
pub struct LineResponder(PendingReplies);

impl Responder for LineResponder {
    type Replies = LineReply;

    fn on_input(&mut self, input: &[u8], replies: &LineReply) -> Result<u64, Unparsable> {
        let requests = memchr_iter(replies.end, input).count();
        self.0.add(requests, &replies.reply);
        Ok(requests as u64)
    }

    fn front<'a>(&'a mut self, replies: &'a LineReply) -> &'a [u8] {
        self.0.front(&replies.reply)
    }

    fn advance(&mut self, sent: usize, replies: &LineReply) {
        self.0.advance(sent, &replies.reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_gets_one_reply_however_it_is_torn() {
        let replies = LineReply::new(b'\n', b"END\r\n");
        for chunk in 1..20 {
            let mut responder = LineResponder::default();
            for piece in b"get a\r\nget b\r\nget c\r\n".chunks(chunk) {
                responder.on_input(piece, &replies).expect("lines");
            }
            let mut said = Vec::new();
            while !responder.front(&replies).is_empty() {
                said.push(responder.front(&replies)[0]);
                responder.advance(1, &replies);
            }
            assert_eq!(said, b"END\r\n".repeat(3), "{chunk}");
        }
    }
}
