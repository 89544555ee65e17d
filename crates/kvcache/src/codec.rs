//! How values are kept: as they are, or compressed.

use std::borrow::Cow;

/// The encoding of a value that is kept as it is.
const RAW: u8 = 0;

/// What is done to values on their way in and out.
#[derive(Clone, Debug, Default)]
pub struct Codec {}

impl Codec {
    /// Values shorter than this are kept as they are.
    #[inline]
    pub fn threshold(&self) -> usize {
        usize::MAX
    }

    /// The bytes to keep, and their encoding.
    pub fn encode<'v>(&self, value: &'v [u8]) -> (Cow<'v, [u8]>, u8) {
        (Cow::Borrowed(value), RAW)
    }

    /// `None`: not something [`Codec::encode`] has made.
    pub fn decode<'v>(&self, kept: &'v [u8], encoding: u8) -> Option<Cow<'v, [u8]>> {
        (encoding == RAW).then_some(Cow::Borrowed(kept))
    }
}
