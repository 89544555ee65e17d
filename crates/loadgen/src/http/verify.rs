//! What a body is compared with.

use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Bodies are compared up to here; of what lies beyond only the length is checked.
pub const REFERENCE_BYTES_MAX: usize = 256 << 20;

/// How much of a reply is checked. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verify {
    /// That it is a reply.
    None,
    /// Its status is 2xx.
    Status,
    /// Its body is as long as that of the first good reply to the same request.
    Length,
    /// Its body equals that of the first good reply to the same request.
    Content,
    /// Its body is the one known beforehand, by digest or by file.
    Sha256,
}

impl Verify {
    #[inline]
    pub(super) fn compares_content(self) -> bool {
        self >= Self::Content
    }
}

/// What is known of a body before the first reply.
#[derive(Clone, Debug, Default)]
pub enum Expectation {
    #[default]
    Nothing,
    Digest([u8; 32]),
    Body(Arc<[u8]>),
}

/// The body that replies are compared with.
///
/// If it is not given it grows from the replies themselves, so that many connections can be checked from their first
/// byte on: whoever is ahead extends it, everyone else is compared with what is there. It is settled, and grows no
/// more, with the first reply that was verified to its end.
#[derive(Debug)]
pub struct Reference {
    body: Vec<u8>,
    /// The length of a verified reply.
    length: Option<u64>,
    /// The digest the body must have; taken once it has been checked.
    digest: Option<[u8; 32]>,
}

impl Reference {
    #[must_use]
    pub fn new(expectation: &Expectation) -> Self {
        match expectation {
            Expectation::Nothing => Self { body: Vec::new(), length: None, digest: None },
            Expectation::Digest(digest) => Self { body: Vec::new(), length: None, digest: Some(*digest) },
            Expectation::Body(body) => Self { body: body.to_vec(), length: Some(body.len() as u64), digest: None },
        }
    }

    /// Whether `piece` at `offset` of a body agrees with what is known; what is not known yet is learned.
    #[inline]
    pub fn compare(&mut self, offset: u64, piece: &[u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return true };
        match self.body.get(offset..offset + piece.len()) {
            Some(known) => known == piece,
            None => self.extend(offset, piece),
        }
    }

    #[cold]
    fn extend(&mut self, offset: usize, piece: &[u8]) -> bool {
        if offset >= REFERENCE_BYTES_MAX {
            return true;
        }
        // The reference was dropped while this reply was under way: it was wrong, and so is its continuation.
        let Some(known) = self.body.get(offset..) else { return false };
        let (overlap, news) = piece.split_at(known.len().min(piece.len()));
        if known != overlap {
            return false;
        }
        if self.length.is_none() {
            let room = REFERENCE_BYTES_MAX - self.body.len();
            self.body.extend_from_slice(&news[..news.len().min(room)]);
        }
        true
    }

    /// Whether a complete body may have this length.
    #[inline]
    #[must_use]
    pub fn has_length(&self, length: u64) -> bool {
        self.length.is_none_or(|known| known == length)
    }

    /// Whether a complete body of `length`, equal to the reference so far, is the one asked for.
    #[inline]
    pub fn confirm(&mut self, length: u64) -> bool {
        match self.digest {
            None => true,
            Some(digest) => self.confirm_digest(length, digest),
        }
    }

    #[cold]
    fn confirm_digest(&mut self, length: u64, digest: [u8; 32]) -> bool {
        let whole = usize::try_from(length).ok().and_then(|length| self.body.get(..length));
        let is_right = whole.is_some_and(|body| Sha256::digest(body)[..] == digest);
        if is_right {
            self.digest = None;
        } else {
            self.body.clear();
        }
        is_right
    }

    /// A reply of this length has passed every check.
    #[inline]
    pub fn settle(&mut self, length: u64) {
        if self.length.is_none() {
            self.length = Some(length);
            self.body.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
    }

    /// Whether two references that were learned separately are of the same body.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        match (self.length, other.length) {
            (Some(ours), Some(theirs)) => ours == theirs && self.body == other.body,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(body: &[u8]) -> [u8; 32] {
        Sha256::digest(body).into()
    }

    #[test]
    fn replies_that_overlap_in_time_build_one_reference() {
        let mut reference = Reference::new(&Expectation::Nothing);
        assert!(reference.compare(0, b"abc"));
        assert!(reference.compare(0, b"abcdef"));
        assert!(reference.compare(3, b"de"));
        assert!(!reference.compare(3, b"dx"));
        assert!(!reference.compare(5, b"xg"));
        reference.settle(6);
        assert!(reference.has_length(6) && !reference.has_length(7));
        assert!(reference.compare(0, b"abcdef") && !reference.compare(0, b"abcdeg"));
    }

    #[test]
    fn a_digest_is_checked_until_a_body_has_it() {
        let mut reference = Reference::new(&Expectation::Digest(digest_of(b"right")));
        assert!(reference.compare(0, b"wrong"));
        assert!(!reference.confirm(5));
        assert!(!reference.compare(5, b"tail"), "the rest of a body whose beginning was dropped cannot be right");
        assert!(reference.compare(0, b"right"));
        assert!(reference.confirm(5));
        reference.settle(5);
        assert!(!reference.compare(0, b"wrong"));
    }

    #[test]
    fn a_given_body_binds_from_the_first_byte() {
        let mut reference = Reference::new(&Expectation::Body(Arc::from(&b"given"[..])));
        assert!(!reference.compare(0, b"taken"));
        assert!(reference.has_length(5) && !reference.has_length(6));
    }

    #[test]
    fn only_verified_references_can_disagree() {
        let (mut ours, mut theirs) = (Reference::new(&Expectation::Nothing), Reference::new(&Expectation::Nothing));
        assert!(ours.compare(0, b"a") && theirs.compare(0, b"b"));
        assert!(ours.agrees(&theirs));
        ours.settle(1);
        theirs.settle(1);
        assert!(!ours.agrees(&theirs));
    }
}
