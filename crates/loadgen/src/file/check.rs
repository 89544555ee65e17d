//! Check of a reply: the document, its length and its digest.

use super::{catalogue::Document, protocols::ReplyKind};
use crate::{
    body::{Body, FileVerify},
    error::ErrorClass,
    protocol::{Replies, RequestOutcome},
};

/// Checks a complete reply to the depth of `verify`. `document` is what was asked for, if there is such a thing.
#[inline]
pub(super) fn check_reply(
    reply: ReplyKind,
    body: Body,
    document: Option<&Document>,
    verify: FileVerify,
) -> (Replies, RequestOutcome) {
    let (hits, misses) = match reply {
        ReplyKind::Found { .. } => (1, 0),
        ReplyKind::Missing => (0, 1),
        // It says nothing of the document, so it is an error however little is checked.
        ReplyKind::Refused(_) => return (Replies::ONE, Err(ErrorClass::Status)),
    };
    let outcome = if verify == FileVerify::None { Ok(()) } else { compare(reply, body, document, verify) };
    (Replies { count: 1, hits, misses }, outcome)
}

/// Compares a reply with the document.
fn compare(reply: ReplyKind, body: Body, document: Option<&Document>, verify: FileVerify) -> RequestOutcome {
    let (if_short, document) = match (reply, document) {
        (ReplyKind::Refused(_), _) => return Err(ErrorClass::Status),
        (ReplyKind::Missing, None) => return Ok(()),
        (ReplyKind::Missing, Some(_)) => return Err(ErrorClass::Miss),
        (ReplyKind::Found { .. }, None) => return Err(ErrorClass::Content),
        (ReplyKind::Found { if_short }, Some(document)) => (if_short, document),
    };
    match verify {
        FileVerify::None | FileVerify::Status => Ok(()),
        _ if body.bytes() < document.length => Err(if_short),
        _ if body.bytes() > document.length => Err(ErrorClass::Length),
        FileVerify::Sha256 if !body.has_digest(document.digest) => Err(ErrorClass::Content),
        FileVerify::Length | FileVerify::Sha256 => Ok(()),
    }
}
