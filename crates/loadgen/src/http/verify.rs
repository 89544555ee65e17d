//! Bodies that replies are compared with.

mod tail;

use std::sync::Arc;

use clap::ValueEnum;
use sha2::{Digest, Sha256};
use twox_hash::XxHash3_128;

pub use self::tail::Tail;

/// Bodies are kept up to here, to compare others with them; what lies beyond is hashed.
pub const REFERENCE_BYTES_MAX: usize = 256 << 20;

/// Depth to which a reply is checked. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum HttpVerify {
    /// Only that it is HTTP
    None,
    /// The status is 2xx
    Status,
    /// … and the body is as long as that of the first good reply, in the same content coding
    Length,
    /// … and the body equals that of the first good reply
    Content,
    /// … and the body is the one given by --expect-sha256 or --content-dir
    Sha256,
}

impl HttpVerify {
    #[inline]
    pub(super) fn compares_content(self) -> bool {
        self >= Self::Content
    }
}

/// Knowledge of a body before the first reply.
#[derive(Clone, Debug, Default)]
pub enum Expectation {
    #[default]
    Nothing,
    Digest([u8; 32]),
    Body(Arc<[u8]>),
    /// Not success, but this status, whatever the body is.
    Status(u16),
}

/// Returns the SHA-256 of a body in hexadecimal digits.
#[must_use]
pub fn digest_text(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Body that replies are compared with.
///
/// A body that is not given grows from the replies themselves, so that many connections can be checked from their first
/// byte on: the reply that is ahead extends it, all others are compared with what is there. It is settled, and grows no
/// more, with the first reply that was verified to its end. What lies beyond the bytes that are kept is compared by its
/// hash, which the same reply settles.
#[derive(Debug)]
pub struct Reference {
    /// At most `bytes_max` of it.
    body: Vec<u8>,
    bytes_max: usize,
    extent: Extent,
    /// The length of a good reply, whether or not its body was looked at.
    length: Option<u64>,
    /// The digest the body must have; taken once it has been checked.
    digest: Option<[u8; 32]>,
}

/// Extent to which the body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The part that replies have brought so far.
    Growing,
    /// All of it.
    Whole,
    /// The kept part, and the XXH3-128 of the rest.
    Hashed(u128),
}

impl Reference {
    /// Keeps at most `bytes_max` of a body.
    #[must_use]
    pub fn new(expectation: &Expectation, bytes_max: usize) -> Self {
        let unknown = Self { body: Vec::new(), bytes_max, extent: Extent::Growing, length: None, digest: None };
        match expectation {
            Expectation::Nothing | Expectation::Status(_) => unknown,
            Expectation::Digest(digest) => Self { digest: Some(*digest), ..unknown },
            Expectation::Body(body) => {
                let (kept, beyond) = body.split_at(body.len().min(bytes_max));
                let hash = || Extent::Hashed(XxHash3_128::oneshot(beyond));
                let extent = if beyond.is_empty() { Extent::Whole } else { hash() };
                Self { body: kept.to_vec(), extent, length: Some(body.len() as u64), ..unknown }
            }
        }
    }

    /// Returns true if `piece` at `offset` of a body agrees with what is known; what is not known yet is learned.
    /// `tail` belongs to the reply, and takes what is not kept.
    #[inline]
    pub fn compare(&mut self, offset: u64, piece: &[u8], tail: &mut Tail) -> bool {
        let from = usize::try_from(offset).ok();
        match from.and_then(|from| self.body.get(from..)).and_then(|rest| rest.get(..piece.len())) {
            Some(known) => known == piece,
            None => self.extend(offset, piece, tail),
        }
    }

    #[cold]
    fn extend(&mut self, offset: u64, piece: &[u8], tail: &mut Tail) -> bool {
        let room = (self.bytes_max as u64).saturating_sub(offset);
        let kept = usize::try_from(room).map_or(piece.len(), |room| room.min(piece.len()));
        let (kept, beyond) = piece.split_at(kept);
        if !kept.is_empty() && !usize::try_from(offset).is_ok_and(|offset| self.learn(offset, kept)) {
            return false;
        }
        if beyond.is_empty() {
            return true;
        }
        if self.body.len() < self.bytes_max {
            tail.forget();
            return self.may_have_been_dropped();
        }
        if offset <= self.bytes_max as u64 {
            tail.begin(self.digest.map(|_| self.body.as_slice()));
        }
        tail.take(beyond);
        true
    }

    fn learn(&mut self, offset: usize, piece: &[u8]) -> bool {
        let Some(known) = self.body.get(offset..) else { return self.may_have_been_dropped() };
        let (overlap, news) = piece.split_at(known.len().min(piece.len()));
        if known != overlap {
            return false;
        }
        if self.extent == Extent::Growing {
            self.body.extend_from_slice(news);
        }
        true
    }

    /// Returns true if a body that goes on where the reference does not may be right. The reference was dropped while
    /// it was under way: because of a wrong digest, which it then has as well, or of a reply of another length, which
    /// says nothing about this one. Or it is too long.
    fn may_have_been_dropped(&self) -> bool {
        self.digest.is_none() && self.extent == Extent::Growing
    }

    /// Returns true until a body has been accepted that others can be compared with.
    #[inline]
    #[must_use]
    pub fn awaits_body(&self) -> bool {
        self.extent == Extent::Growing
    }

    /// Returns true if a complete body of this length, equal to the kept part, is right beyond doubt: all of it is
    /// kept.
    #[inline]
    #[must_use]
    pub fn is_settled_at(&self, length: u64) -> bool {
        self.extent == Extent::Whole && self.length == Some(length)
    }

    /// Returns true if a complete body may have this length.
    #[inline]
    #[must_use]
    pub fn has_length(&self, length: u64) -> bool {
        self.length.is_none_or(|known| known == length)
    }

    /// Returns the length of the bodies, once there was a good reply.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns the SHA-256 of the body in hexadecimal digits, if all of it is known and kept.
    #[must_use]
    pub fn digest(&self) -> Option<String> {
        (self.extent == Extent::Whole).then(|| digest_text(&self.body))
    }

    /// Takes note of a good reply of this length, of which nothing else was checked. It says nothing of the body, which
    /// goes on growing.
    #[inline]
    pub fn settle_length(&mut self, length: u64) {
        self.length.get_or_insert(length);
    }

    /// Takes note that a reply that has been compared turned out to be of another length: unless the body is settled it
    /// may be that reply's.
    #[cold]
    pub fn distrust(&mut self) {
        if self.extent == Extent::Growing {
            self.body.clear();
        }
    }

    /// Returns true if a complete body of a `length` that it may have, equal to the reference so far, is the right one.
    /// The first that is right settles what others are compared with.
    #[inline]
    pub fn accept(&mut self, length: u64, tail: &Tail) -> bool {
        match self.extent {
            Extent::Whole => true,
            // Without a hash its beginning was compared with what was dropped, so it cannot be judged.
            Extent::Hashed(hash) => tail.hash().is_none_or(|own| own == hash),
            Extent::Growing => self.settle(length, tail),
        }
    }

    #[cold]
    fn settle(&mut self, length: u64, tail: &Tail) -> bool {
        let kept = usize::try_from(length).unwrap_or(usize::MAX).min(self.bytes_max);
        if !self.has_digest(length, kept, tail) {
            self.body.clear();
            return false;
        }
        self.length = Some(length);
        let extent = match tail.hash() {
            _ if self.body.len() < kept => Extent::Growing,
            _ if length <= self.bytes_max as u64 => Extent::Whole,
            Some(hash) => Extent::Hashed(hash),
            None => Extent::Growing,
        };
        if extent != Extent::Growing {
            self.body.truncate(kept);
            (self.extent, self.digest) = (extent, None);
        }
        true
    }

    fn has_digest(&self, length: u64, kept: usize, tail: &Tail) -> bool {
        match self.digest {
            None => true,
            Some(digest) if length > self.bytes_max as u64 => tail.digest() == Some(digest),
            Some(digest) => self.body.get(..kept).is_some_and(|body| Sha256::digest(body)[..] == digest),
        }
    }

    /// Returns true if two references that were learned separately may be of the same body.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let is_as_long = self.length.zip(other.length).is_none_or(|(ours, theirs)| ours == theirs);
        let is_known = self.extent != Extent::Growing && other.extent != Extent::Growing;
        is_as_long && (!is_known || (self.extent == other.extent && self.body == other.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(body: &[u8]) -> [u8; 32] {
        Sha256::digest(body).into()
    }

    fn keeping(bytes_max: usize, expectation: Expectation) -> Reference {
        Reference::new(&expectation, bytes_max)
    }

    /// Pieces of one reply from its first byte on, and its end.
    fn accepts(reference: &mut Reference, pieces: &[&[u8]]) -> bool {
        let (mut tail, mut offset) = (Tail::default(), 0);
        for piece in pieces {
            if !reference.compare(offset, piece, &mut tail) {
                return false;
            }
            offset += piece.len() as u64;
        }
        reference.has_length(offset) && reference.accept(offset, &tail)
    }

    #[test]
    fn replies_that_overlap_in_time_build_one_reference() {
        let (mut reference, tail) = (keeping(100, Expectation::Nothing), &mut Tail::default());
        assert!(reference.compare(0, b"abc", tail));
        assert!(reference.compare(0, b"abcdef", tail));
        assert!(reference.compare(3, b"de", tail));
        assert!(!reference.compare(3, b"dx", tail));
        assert!(!reference.compare(5, b"xg", tail));
        assert!(reference.accept(6, tail));
        assert!(reference.has_length(6) && !reference.has_length(7));
        assert!(reference.compare(0, b"abcdef", tail) && !reference.compare(0, b"abcdeg", tail));
    }

    #[test]
    fn a_length_alone_does_not_end_the_growth() {
        let mut reference = keeping(100, Expectation::Nothing);
        reference.settle_length(6);
        assert!(!reference.has_length(5));
        assert!(accepts(&mut reference, &[b"abc", b"def"]));
        assert!(!accepts(&mut reference, &[b"abc", b"deg"]) && !accepts(&mut reference, &[b"abcdeg"]));
        assert!(accepts(&mut reference, &[b"abcdef"]));
    }

    #[test]
    fn a_reply_of_another_length_leaves_no_reference_behind() {
        let (mut reference, tail) = (keeping(100, Expectation::Nothing), &mut Tail::default());
        reference.settle_length(6);
        assert!(reference.compare(0, b"abc", tail), "this one goes on below");
        assert!(reference.compare(0, b"abcxxxx", tail) && !reference.has_length(7));
        reference.distrust();
        assert!(reference.compare(3, b"def", tail) && reference.accept(6, tail));
        assert!(accepts(&mut reference, &[b"abcdef"]), "the first that is whole");
        assert!(!accepts(&mut reference, &[b"abcxxx"]));
        reference.distrust();
        assert!(!accepts(&mut reference, &[b"abcxxx"]), "what is settled is settled");
    }

    #[test]
    fn a_digest_is_checked_until_a_body_has_it() {
        // What is kept makes no difference: all of the body, a part, nothing.
        for bytes_max in [100, 5, 3, 0] {
            let mut reference = keeping(bytes_max, Expectation::Digest(digest_of(b"right")));
            assert!(reference.awaits_body());
            assert!(!accepts(&mut reference, &[b"wro", b"ng"]), "{bytes_max}");
            assert!(!accepts(&mut reference, &[b"righ"]) && !accepts(&mut reference, &[b"right!"]), "{bytes_max}");
            assert!(accepts(&mut reference, &[b"rig", b"ht"]), "{bytes_max}");
            assert!(!reference.awaits_body());
            assert!(!accepts(&mut reference, &[b"wrong"]) && !accepts(&mut reference, &[b"righ", b"x"]), "{bytes_max}");
            assert!(accepts(&mut reference, &[b"r", b"ight"]), "{bytes_max}");
        }
    }

    #[test]
    fn a_body_that_began_with_a_wrong_digest_cannot_be_right() {
        for bytes_max in [100, 5] {
            let mut reference = keeping(bytes_max, Expectation::Digest(digest_of(b"right")));
            assert!(!accepts(&mut reference, &[b"wrong"]));
            assert!(!reference.compare(5, b"tail", &mut Tail::default()), "{bytes_max}");
        }
    }

    #[test]
    fn a_given_body_binds_from_the_first_byte() {
        for bytes_max in [100, 5, 2, 0] {
            let mut reference = keeping(bytes_max, Expectation::Body(Arc::from(&b"given"[..])));
            assert!(!accepts(&mut reference, &[b"taken"]) && !accepts(&mut reference, &[b"give"]), "{bytes_max}");
            assert!(!accepts(&mut reference, &[b"givex"]) && accepts(&mut reference, &[b"gi", b"ven"]), "{bytes_max}");
            assert!(reference.has_length(5) && !reference.has_length(6));
        }
    }

    #[test]
    fn only_verified_references_can_disagree() {
        let (mut ours, mut theirs) = (keeping(100, Expectation::Nothing), keeping(100, Expectation::Nothing));
        let tail = &mut Tail::default();
        assert!(ours.compare(0, b"a", tail) && theirs.compare(0, b"b", tail));
        assert!(ours.agrees(&theirs));
        assert!(ours.accept(1, tail) && ours.agrees(&theirs));
        assert!(theirs.accept(1, tail) && !ours.agrees(&theirs));
    }

    #[test]
    fn references_disagree_by_what_lies_beyond_and_by_length_alone() {
        let settled = |body: &[u8]| {
            let mut reference = keeping(2, Expectation::Nothing);
            assert!(accepts(&mut reference, &[body]));
            reference
        };
        assert!(settled(b"abcd").agrees(&settled(b"abcd")));
        assert!(!settled(b"abcd").agrees(&settled(b"abce")) && !settled(b"abc").agrees(&settled(b"abcd")));
        let mut measured = keeping(2, Expectation::Nothing);
        measured.settle_length(4);
        assert!(measured.agrees(&settled(b"abcd")) && !measured.agrees(&settled(b"abc")));
    }
}
