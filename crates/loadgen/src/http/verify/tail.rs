//! Part of a reply beyond the bytes that are kept.

use std::fmt;

use sha2::{Digest as _, Sha256};
use twox_hash::XxHash3_128;

/// Hashes of one reply's bytes beyond those that are kept. Takes no memory until there are any.
#[derive(Default)]
pub struct Tail(Option<Box<Hashes>>);

struct Hashes {
    /// Hash of what lies beyond.
    tail: XxHash3_128,
    /// Hash of the whole body, if it is to be compared with a digest.
    whole: Option<Sha256>,
}

impl Tail {
    /// Forgets the reply before. `kept` is the body so far, if the digest of the whole is of interest.
    pub(super) fn begin(&mut self, kept: Option<&[u8]>) {
        let whole = kept.map(Sha256::new_with_prefix);
        self.0 = Some(Box::new(Hashes { tail: XxHash3_128::new(), whole }));
    }

    /// This reply's beginning is not known, so its hash would be of no use.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    pub(super) fn take(&mut self, piece: &[u8]) {
        if let Some(hashes) = &mut self.0 {
            hashes.tail.write(piece);
            if let Some(whole) = &mut hashes.whole {
                whole.update(piece);
            }
        }
    }

    /// XXH3-128 of what lies beyond; of an earlier reply, if this one does not go so far.
    pub(super) fn hash(&self) -> Option<u128> {
        self.0.as_ref().map(|hashes| hashes.tail.finish_128())
    }

    /// SHA-256 of the whole body.
    pub(super) fn digest(&self) -> Option<[u8; 32]> {
        let whole = self.0.as_ref()?.whole.clone()?;
        Some(whole.finalize().into())
    }
}

/// Hashers show nothing of themselves.
impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tail").field(&self.hash()).finish()
    }
}
