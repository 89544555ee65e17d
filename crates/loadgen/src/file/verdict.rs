//! Whether a reply is right.

use super::{catalogue::Document, speech::Said};
use crate::{
    body::{Body, FileVerify},
    error::ErrorClass,
    protocol::{Replies, Verdict},
};

/// `document` is what was asked for, if there is such a thing.
#[inline]
pub(super) fn judge(said: Said, body: Body, document: Option<&Document>, verify: FileVerify) -> (Replies, Verdict) {
    let (hits, misses) = match said {
        Said::Found { .. } => (1, 0),
        Said::Missing => (0, 1),
        // It says nothing of the document, so it is an error however little is checked.
        Said::Refused => return (Replies { count: 1, hits: 0, misses: 0 }, Err(ErrorClass::Status)),
    };
    let verdict = if verify == FileVerify::None { Ok(()) } else { check(said, body, document, verify) };
    (Replies { count: 1, hits, misses }, verdict)
}

fn check(said: Said, body: Body, document: Option<&Document>, verify: FileVerify) -> Verdict {
    let (if_short, document) = match (said, document) {
        (Said::Refused, _) => return Err(ErrorClass::Status),
        (Said::Missing, None) => return Ok(()),
        (Said::Missing, Some(_)) => return Err(ErrorClass::Miss),
        (Said::Found { .. }, None) => return Err(ErrorClass::Content),
        (Said::Found { if_short }, Some(document)) => (if_short, document),
    };
    match verify {
        FileVerify::None | FileVerify::Status => Ok(()),
        _ if body.bytes() < document.length => Err(if_short),
        _ if body.bytes() > document.length => Err(ErrorClass::Length),
        FileVerify::Sha256 if !body.has_digest(document.digest) => Err(ErrorClass::Content),
        FileVerify::Length | FileVerify::Sha256 => Ok(()),
    }
}
