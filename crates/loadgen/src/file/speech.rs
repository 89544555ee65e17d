//! The two protocols, as far as a client must tell them apart.

use wire::file::{
    FileId, Status,
    client::{Eof, Event, FramedReplies, OriginalAnswer, OriginalReply, write_framed_request, write_original_request},
};

use super::catalogue::Document;
use crate::error::ErrorClass;

/// A protocol: the replies of one connection.
pub trait FileProtocol: Default + Send + 'static {
    /// Appends a request.
    fn ask(id: &FileId, out: &mut Vec<u8>);

    /// Reads up to the end of a reply, and lends the pieces of its body to `body`.
    fn listen(&mut self, input: &mut &[u8], body: impl FnMut(&[u8])) -> Heard;

    /// The connection has ended. `document` is what was asked for, if there is such a thing.
    fn end(&mut self, document: Option<&Document>) -> Ended;
}

/// What [`FileProtocol::listen`] came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    NeedMore,
    Reply(Said),
    Broken(ErrorClass),
}

/// What the end of the connection meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// It completed the reply.
    Reply(Said),
    Early(ErrorClass),
}

/// What a reply said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Said {
    /// Here is the document. What a body that is too short fails of is a matter of the protocol.
    Found { if_short: ErrorClass },
    /// There is none.
    Missing,
    /// There may be one, and it is not to be had.
    Refused,
}

/// Raw bytes up to the end of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Original(OriginalReply);

impl FileProtocol for Original {
    fn ask(id: &FileId, out: &mut Vec<u8>) {
        write_original_request(out, id);
    }

    #[inline]
    fn listen(&mut self, input: &mut &[u8], mut body: impl FnMut(&[u8])) -> Heard {
        self.0.feed(input);
        body(input);
        *input = &[];
        Heard::NeedMore
    }

    /// What the bytes mean can only be told by who knows the document; and a body that ended too soon looks like a
    /// shorter document, but is more likely a body that ended too soon.
    fn end(&mut self, document: Option<&Document>) -> Ended {
        const FOUND: Ended = Ended::Reply(Said::Found { if_short: ErrorClass::ShortBody });
        match self.0.answer() {
            OriginalAnswer::Empty if document.is_some_and(|document| document.length == 0) => FOUND,
            OriginalAnswer::Empty => Ended::Early(ErrorClass::EofEarly),
            OriginalAnswer::Missing if document.is_some_and(|document| document.is_one_nul) => FOUND,
            OriginalAnswer::Missing => Ended::Reply(Said::Missing),
            OriginalAnswer::Bytes(_) => FOUND,
        }
    }
}

/// Replies with a status and a length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framed {
    replies: FramedReplies,
    status: Option<Status>,
}

impl FileProtocol for Framed {
    fn ask(id: &FileId, out: &mut Vec<u8>) {
        write_framed_request(out, id);
    }

    #[inline]
    fn listen(&mut self, input: &mut &[u8], mut body: impl FnMut(&[u8])) -> Heard {
        loop {
            match self.replies.next(input) {
                Ok(Event::Head { status, .. }) => self.status = Some(status),
                Ok(Event::Body(piece)) => body(piece),
                Ok(Event::NeedMore) => return Heard::NeedMore,
                Err(_) => return Heard::Broken(ErrorClass::Protocol),
                Ok(Event::End) => {
                    return Heard::Reply(match self.status {
                        Some(Status::Found) => Said::Found { if_short: ErrorClass::Length },
                        Some(Status::Missing) => Said::Missing,
                        Some(Status::Malformed | Status::Unavailable | Status::Failed) | None => Said::Refused,
                    });
                }
            }
        }
    }

    fn end(&mut self, _document: Option<&Document>) -> Ended {
        Ended::Early(match self.replies.eof() {
            Eof::Between | Eof::InHead => ErrorClass::EofEarly,
            Eof::InBody => ErrorClass::ShortBody,
        })
    }
}
