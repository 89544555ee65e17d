//! Whether a reply is right.

use sha2::{Digest as _, Sha256};

use super::catalogue::Document;
use super::speech::Said;
use crate::error::ErrorClass;
use crate::protocol::{Replies, Verdict};

/// How much of a reply is checked. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verify {
    /// That it is a reply, and no refusal.
    None,
    /// It found the document, if there is one.
    Status,
    /// The document is as long as it should be.
    Length,
    /// And has the right digest.
    Sha256,
}

/// What has arrived of a body. It is not kept.
#[derive(Clone, Debug, Default)]
pub struct Body {
    bytes: u64,
    digest: Option<Sha256>,
}

impl Body {
    /// `document` is what the digest will be compared with, if it will be.
    #[inline]
    pub(super) fn take(&mut self, piece: &[u8], document: Option<&Document>) {
        self.bytes += piece.len() as u64;
        // What is too long is wrong already.
        if document.is_some_and(|document| self.bytes <= document.length) {
            self.digest.get_or_insert_default().update(piece);
        }
    }

    fn has_digest(self, digest: Option<[u8; 32]>) -> bool {
        digest == Some(self.digest.unwrap_or_default().finalize().into())
    }
}

/// `document` is what was asked for, if there is such a thing.
#[inline]
pub(super) fn judge(said: Said, body: Body, document: Option<&Document>, verify: Verify) -> (Replies, Verdict) {
    let (hits, misses) = match said {
        Said::Found { .. } => (1, 0),
        Said::Missing => (0, 1),
        // It says nothing of the document, so it is an error however little is checked.
        Said::Refused => return (Replies { count: 1, hits: 0, misses: 0 }, Err(ErrorClass::Status)),
    };
    let verdict = if verify == Verify::None { Ok(()) } else { check(said, body, document, verify) };
    (Replies { count: 1, hits, misses }, verdict)
}

fn check(said: Said, body: Body, document: Option<&Document>, verify: Verify) -> Verdict {
    let (if_short, document) = match (said, document) {
        (Said::Refused, _) => return Err(ErrorClass::Status),
        (Said::Missing, None) => return Ok(()),
        (Said::Missing, Some(_)) => return Err(ErrorClass::Miss),
        (Said::Found { .. }, None) => return Err(ErrorClass::Content),
        (Said::Found { if_short }, Some(document)) => (if_short, document),
    };
    match verify {
        Verify::None | Verify::Status => Ok(()),
        _ if body.bytes < document.length => Err(if_short),
        _ if body.bytes > document.length => Err(ErrorClass::Length),
        Verify::Sha256 if !body.has_digest(document.digest) => Err(ErrorClass::Content),
        Verify::Length | Verify::Sha256 => Ok(()),
    }
}
