//! Check of one reply, whichever version of HTTP has brought it.

use http::StatusCode;
use wire::http1::{client::ContentCoding, coding::Coding};

use super::verify::{Expectation, HttpVerify, Reference, Tail};
use crate::{error::ErrorClass, protocol::RequestOutcome, result::BodySeen, sample::Sampler};

/// Name in results of a coding that has none here.
const OTHER_CODING: &str = "other";

/// Knowledge of the good replies to one request.
#[derive(Debug)]
pub(super) struct KnownReply {
    pub(super) reference: Reference,
    /// Coding of the bodies, once there was a good reply.
    coding: Option<ContentCoding>,
    /// Status of a good reply; `None` if it is any of success.
    status: Option<u16>,
}

impl KnownReply {
    /// Keeps at most `bytes_max` of the body.
    pub(super) fn new(expectation: &Expectation, bytes_max: usize) -> Self {
        let status = match expectation {
            Expectation::Status(status) => Some(*status),
            Expectation::Nothing | Expectation::Digest(_) | Expectation::Body(_) => None,
        };
        Self { reference: Reference::new(expectation, bytes_max), coding: None, status }
    }

    /// Returns true if a good reply may have this status.
    #[inline]
    pub(super) fn accepts(&self, status: u16) -> bool {
        self.status.map_or_else(|| is_success(status), |expected| status == expected)
    }

    /// Returns the depth to which a reply that begins is checked.
    #[inline]
    pub(super) fn level(&self, deepest: HttpVerify, sampler: &mut Sampler) -> HttpVerify {
        if sampler.draw() || self.reference.awaits_body() { deepest } else { deepest.min(HttpVerify::Length) }
    }

    /// Returns true if two that were learned separately may be of the same replies.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        let is_coded_alike = self.coding.zip(other.coding).is_none_or(|(ours, theirs)| ours == theirs);
        is_coded_alike && self.reference.agrees(&other.reference)
    }

    /// Returns the body of the good replies to `request`, if there was one.
    pub(super) fn body(&self, request: String) -> Option<BodySeen> {
        let coding = self.coding?.map_or(OTHER_CODING, Coding::name).to_owned();
        Some(BodySeen { request, coding, bytes: self.reference.length()?, sha256: self.reference.digest() })
    }
}

/// Agreement of the current reply with what is known.
#[derive(Debug)]
pub(super) struct ReplyCheck {
    status: u16,
    /// The status is one of a good reply.
    is_expected: bool,
    /// Depth to which this reply is checked.
    verify: HttpVerify,
    body_bytes: u64,
    /// The body is to be compared, and nothing has been different so far.
    is_same: bool,
    tail: Tail,
    /// Coding of the last new head.
    coding: ContentCoding,
    /// The reply has another coding than the good ones.
    has_other_coding: bool,
    /// Status of a reply that failed because of it.
    failed_status: Option<u16>,
}

impl ReplyCheck {
    pub(super) fn new(verify: HttpVerify) -> Self {
        Self {
            status: 0,
            is_expected: false,
            verify,
            body_bytes: 0,
            is_same: false,
            tail: Tail::default(),
            coding: Some(Coding::Identity),
            has_other_coding: false,
            failed_status: None,
        }
    }

    #[inline]
    pub(super) fn begin(&mut self, status: u16, verify: HttpVerify, known: &KnownReply) {
        self.status = status;
        self.is_expected = known.accepts(status);
        self.verify = verify;
        self.body_bytes = 0;
        self.is_same = verify.compares_content() && self.is_expected;
    }

    /// Takes note of the coding. Returns true if it is another than that of the good replies.
    #[inline]
    pub(super) fn compare_coding(&mut self, coding: ContentCoding, known: &KnownReply) -> bool {
        self.coding = coding;
        let is_other = self.is_expected && known.coding.is_some_and(|known| known != coding);
        if is_other {
            (self.is_same, self.has_other_coding) = (false, true);
        }
        is_other
    }

    #[inline]
    pub(super) fn body(&mut self, piece: &[u8], known: &mut KnownReply) {
        if self.is_same {
            self.is_same = known.reference.compare(self.body_bytes, piece, &mut self.tail);
        }
        self.body_bytes += piece.len() as u64;
    }

    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    #[inline]
    pub(super) fn outcome(&mut self, known: &mut KnownReply) -> RequestOutcome {
        if self.is_same && known.reference.is_settled_at(self.body_bytes) { Ok(()) } else { self.check(known) }
    }

    /// Checks whatever is not simply equal to what is kept.
    #[inline(never)]
    fn check(&mut self, known: &mut KnownReply) -> RequestOutcome {
        let has_other_coding = std::mem::take(&mut self.has_other_coding);
        if self.verify == HttpVerify::None {
            return Ok(());
        }
        if !self.is_expected {
            self.failed_status = Some(self.status);
            return Err(ErrorClass::Status);
        }
        if self.verify == HttpVerify::Status {
            return Ok(());
        }
        if has_other_coding {
            return Err(ErrorClass::Encoding);
        }
        let (length, reference) = (self.body_bytes, &mut known.reference);
        if !reference.has_length(length) {
            if self.verify.compares_content() {
                reference.distrust();
            }
            return Err(ErrorClass::Length);
        }
        if !self.verify.compares_content() {
            reference.settle_length(length);
        } else if !self.is_same || !reference.accept(length, &self.tail) {
            return Err(ErrorClass::Content);
        }
        known.coding.get_or_insert(self.coding);
        Ok(())
    }

    /// Returns the status because of which the reply failed, once.
    pub(super) fn take_failed_status(&mut self) -> Option<u32> {
        self.failed_status.take().map(u32::from)
    }
}

/// Names a status as its RFC does.
pub(super) fn status_text(status: u32) -> String {
    let known = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    match known.and_then(|status| status.canonical_reason()) {
        Some(reason) => format!("{status} {reason}"),
        None => status.to_string(),
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}
