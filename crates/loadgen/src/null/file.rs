//! Every request for a document gets the same one, in the protocol it was made in.
//!
//! The first byte of a connection tells the two apart: the length in front of an id is at most 1024, so it begins with
//! less than any character of an id does.

use wire::file::{self, Dialect as _, Status};

use super::{
    Responder, Unparsable,
    burst::{Burst, PendingReplies},
};

/// The first byte of the longest framed request.
const FRAMED_FIRST_MAX: u8 = (file::ID_BYTES_MAX >> 8) as u8;

/// The document, all of it `x`.
#[derive(Debug)]
pub struct FileReply {
    framed: Burst,
}

impl FileReply {
    /// A document of so many bytes.
    #[must_use]
    pub fn new(body_bytes: usize) -> Self {
        let mut reply = Vec::with_capacity(file::HEAD_BYTES + body_bytes);
        file::Framed::head(Status::Found, body_bytes as u64, &mut reply);
        reply.resize(file::HEAD_BYTES + body_bytes, b'x');
        Self { framed: Burst::new(&reply) }
    }

    fn body(&self) -> &[u8] {
        &self.framed.reply()[file::HEAD_BYTES..]
    }
}

/// One connection.
#[derive(Debug, Default)]
pub struct FileResponder(Stage);

#[derive(Debug, Default)]
enum Stage {
    /// No byte has arrived.
    #[default]
    Silent,
    /// So many bytes of the request are missing, and so many of the document have been sent.
    Original {
        missing: usize,
        sent: usize,
    },
    Framed {
        scan: FramedScan,
        pending: PendingReplies,
    },
}

impl Responder for FileResponder {
    type Replies = FileReply;

    fn on_input(&mut self, input: &[u8], replies: &FileReply) -> Result<u64, Unparsable> {
        if let (Stage::Silent, Some(&first)) = (&self.0, input.first()) {
            self.0 = if first <= FRAMED_FIRST_MAX {
                Stage::Framed { scan: FramedScan::default(), pending: PendingReplies::default() }
            } else {
                Stage::Original { missing: file::ORIGINAL_ID_BYTES, sent: 0 }
            };
        }
        Ok(match &mut self.0 {
            Stage::Silent => 0,
            Stage::Original { missing, .. } => {
                let was_whole = *missing == 0;
                *missing = missing.saturating_sub(input.len());
                u64::from(!was_whole && *missing == 0)
            }
            Stage::Framed { scan, pending } => {
                let requests = scan.count(input)?;
                pending.add(requests, &replies.framed);
                requests as u64
            }
        })
    }

    fn front<'a>(&'a mut self, replies: &'a FileReply) -> &'a [u8] {
        match &mut self.0 {
            Stage::Original { missing: 0, sent } => &replies.body()[*sent..],
            Stage::Silent | Stage::Original { .. } => &[],
            Stage::Framed { pending, .. } => pending.front(&replies.framed),
        }
    }

    fn advance(&mut self, sent: usize, replies: &FileReply) {
        match &mut self.0 {
            Stage::Silent => {}
            Stage::Original { sent: before, .. } => *before += sent,
            Stage::Framed { pending, .. } => pending.advance(sent, &replies.framed),
        }
    }

    fn closes_when_sent(&self) -> bool {
        matches!(self.0, Stage::Original { missing: 0, .. })
    }
}

/// Counts framed requests in a stream that arrives in pieces, and looks at nothing but their lengths.
#[derive(Debug, Default)]
struct FramedScan {
    /// The first byte of a torn length.
    high: Option<u8>,
    /// Bytes of an id that have not arrived.
    missing: usize,
}

impl FramedScan {
    fn count(&mut self, mut input: &[u8]) -> Result<usize, Unparsable> {
        let mut count = 0;
        loop {
            if self.missing > 0 {
                let arrived = self.missing.min(input.len());
                self.missing -= arrived;
                input = &input[arrived..];
                if self.missing > 0 {
                    return Ok(count);
                }
                count += 1;
            }
            let Some((&byte, rest)) = input.split_first() else { return Ok(count) };
            input = rest;
            match self.high.take() {
                None => self.high = Some(byte),
                Some(high) => match usize::from(u16::from_be_bytes([high, byte])) {
                    length @ 1..=file::ID_BYTES_MAX => self.missing = length,
                    _ => return Err(Unparsable),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use wire::file::{FileId, client};

    use super::*;

    fn request(id: &[u8], out: &mut Vec<u8>) {
        client::write_framed_request(out, &FileId::new(id).expect("an id"));
    }

    #[test]
    fn a_length_out_of_range_is_an_error() {
        for stream in [b"\0\x01a\0\0".as_slice(), b"\x04\x01aaaa"] {
            assert_eq!(FramedScan::default().count(stream), Err(Unparsable));
        }
    }

    proptest! {
        #[test]
        fn the_count_does_not_depend_on_tearing(lengths in vec(1_usize..300, 0..20), chunk in 1_usize..40) {
            let mut stream = Vec::new();
            lengths.iter().for_each(|&length| request(&vec![b'i'; length], &mut stream));
            let mut scan = FramedScan::default();
            let torn: usize = stream.chunks(chunk).map(|piece| scan.count(piece).expect("requests")).sum();
            prop_assert_eq!(torn, lengths.len());
            prop_assert_eq!(FramedScan::default().count(&stream), Ok(lengths.len()));
        }
    }
}
