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
    fn encode_request(id: &FileId, out: &mut Vec<u8>);

    /// Reads up to the end of a reply, and lends the pieces of its body to `body`.
    fn decode(&mut self, input: &mut &[u8], body: impl FnMut(&[u8])) -> DecodeStep;

    /// The connection has ended. `document` is what was asked for, if there is such a thing.
    fn end(&mut self, document: Option<&Document>) -> EofMeaning;
}

/// Result of [`FileProtocol::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeStep {
    NeedMore,
    Reply(ReplyKind),
    Broken(ErrorClass),
}

/// Meaning of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EofMeaning {
    /// It completed the reply.
    Reply(ReplyKind),
    Early(ErrorClass),
}

/// Kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// The document. `if_short` is the class of a body that is too short, which depends on the protocol.
    Found { if_short: ErrorClass },
    /// There is no such document.
    Missing,
    /// There may be one, but the server cannot send it.
    Refused(Status),
}

/// Raw bytes up to the end of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Original(OriginalReply);

impl FileProtocol for Original {
    fn encode_request(id: &FileId, out: &mut Vec<u8>) {
        write_original_request(out, id);
    }

    #[inline]
    fn decode(&mut self, input: &mut &[u8], mut body: impl FnMut(&[u8])) -> DecodeStep {
        self.0.feed(input);
        body(input);
        *input = &[];
        DecodeStep::NeedMore
    }

    /// Interprets the bytes by the document that was asked for. A body that ended too soon looks like a shorter
    /// document, but is more likely a body that ended too soon.
    fn end(&mut self, document: Option<&Document>) -> EofMeaning {
        const FOUND: EofMeaning = EofMeaning::Reply(ReplyKind::Found { if_short: ErrorClass::ShortBody });
        match self.0.answer() {
            OriginalAnswer::Empty if document.is_some_and(|document| document.length == 0) => FOUND,
            OriginalAnswer::Empty => EofMeaning::Early(ErrorClass::EofEarly),
            OriginalAnswer::Missing if document.is_some_and(|document| document.is_one_nul) => FOUND,
            OriginalAnswer::Missing => EofMeaning::Reply(ReplyKind::Missing),
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
    fn encode_request(id: &FileId, out: &mut Vec<u8>) {
        write_framed_request(out, id);
    }

    #[inline]
    fn decode(&mut self, input: &mut &[u8], mut body: impl FnMut(&[u8])) -> DecodeStep {
        loop {
            match self.replies.next(input) {
                Ok(Event::Head { status, .. }) => self.status = Some(status),
                Ok(Event::Body(piece)) => body(piece),
                Ok(Event::NeedMore) => return DecodeStep::NeedMore,
                Err(_) => return DecodeStep::Broken(ErrorClass::Protocol),
                Ok(Event::End) => {
                    return DecodeStep::Reply(match self.status {
                        Some(Status::Found) => ReplyKind::Found { if_short: ErrorClass::Length },
                        Some(Status::Missing) => ReplyKind::Missing,
                        // A reply ends behind its head.
                        None => ReplyKind::Refused(Status::Failed),
                        Some(status @ (Status::Malformed | Status::Unavailable | Status::Failed)) => {
                            ReplyKind::Refused(status)
                        }
                    });
                }
            }
        }
    }

    fn end(&mut self, _document: Option<&Document>) -> EofMeaning {
        EofMeaning::Early(match self.replies.eof() {
            Eof::Between | Eof::InHead => ErrorClass::EofEarly,
            Eof::InBody => ErrorClass::ShortBody,
        })
    }
}
