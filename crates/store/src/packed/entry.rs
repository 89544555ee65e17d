//! The layout of an entry: a header of 4 bytes, the attributes, the key, the value. In front of it is the access word, which
//! outlives the entry, in stores that keep access words.
//!
//! ```text
//! 0  u32  lengths of key and value as they are stored here, and flags
//! 4  u32  expires_at          if EXPIRES: its lower half; see `ExpiryBase`
//!    u32  expires_at          if FAR, too: its upper half
//!    u64  version, u32 flags  if CLIENT
//!    key, or the number of it in `ExternalStrings` if LONG_KEY
//!    value, or the number of it in `ExternalStrings` if SHARED
//! ```
//!
//! In the header of a free block [`Header::LIVE`] is clear, and the rest is a link.

use super::{classes::BLOCK_MAX, copy};
use crate::{Attributes, SHARED_MIN};

const BODY_AT: usize = 4;
const HALF_BYTES: usize = 4;
/// Bytes of the largest entry: it may have an access word in front.
const ENTRY_MAX: usize = BLOCK_MAX - 4;
const CLIENT_BYTES: usize = 12;
/// Bytes of the number of an external string.
pub(super) const NUMBER_BYTES: usize = 4;

/// Start of the 49 days of which a time of expiry is stored by its lower half alone, in milliseconds. All times that are stored
/// so must be within them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExpiryBase(u64);

impl ExpiryBase {
    /// Returns the base with this time in the middle.
    pub(super) fn around(unix_ms: u64) -> Self {
        Self(unix_ms.saturating_sub(1 << 31))
    }

    pub(super) fn is_before(self, other: Self) -> bool {
        self.0 < other.0
    }

    /// True if a time takes eight bytes.
    #[inline]
    fn is_far(self, expires_at: u64) -> bool {
        expires_at.wrapping_sub(self.0) > u64::from(u32::MAX)
    }

    /// Returns the time that has this lower half.
    #[inline]
    fn near(self, half: u32) -> u64 {
        self.0 + u64::from(half.wrapping_sub(self.0 as u32))
    }
}

/// The first word of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Header(u32);

impl Header {
    const KEY: u32 = 0xff;
    const VALUE_SHIFT: u32 = 8;
    const VALUE: u32 = 0x3fff;
    const EXPIRES: u32 = 1 << 22;
    const CLIENT: u32 = 1 << 23;
    const SHARED: u32 = 1 << 24;
    const LONG_KEY: u32 = 1 << 25;
    const LIVE: u32 = 1 << 26;
    const FAR: u32 = 1 << 27;
    const ENCODING_SHIFT: u32 = 28;

    /// Makes the header of an entry.
    #[inline]
    pub(super) fn new(key_len: usize, value_len: usize, attributes: Attributes, base: ExpiryBase) -> Self {
        let (key, long_key) = match key_len <= Self::KEY as usize {
            true => (key_len as u32, 0),
            false => (NUMBER_BYTES as u32, Self::LONG_KEY),
        };
        let flags = Self::LIVE | long_key | u32::from(attributes.encoding) << Self::ENCODING_SHIFT;
        let expires = match attributes.expires_at {
            0 => 0,
            at if base.is_far(at) => Self::EXPIRES | Self::FAR,
            _ => Self::EXPIRES,
        };
        let client = if attributes.flags != 0 || attributes.version != 0 { Self::CLIENT } else { 0 };
        let empty = Self(key | flags | expires | client);
        match value_len < SHARED_MIN && empty.block_len() + value_len <= ENTRY_MAX {
            true => Self(empty.0 | (value_len as u32) << Self::VALUE_SHIFT),
            false => Self(empty.0 | Self::SHARED | (NUMBER_BYTES as u32) << Self::VALUE_SHIFT),
        }
    }

    /// Makes the header of a free block, with a link of 16 bits.
    pub(super) fn free(link: u16) -> Self {
        Self(u32::from(link))
    }

    /// Returns the link of a free block.
    #[inline]
    pub(super) fn link(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    pub(super) fn read(block: &[u8]) -> Self {
        Self(read_u32(block, 0))
    }

    #[inline]
    pub(super) fn write(self, block: &mut [u8]) {
        block[..4].copy_from_slice(&self.0.to_ne_bytes());
    }

    #[inline]
    pub(super) fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    #[inline]
    pub(super) fn expires(self) -> bool {
        self.0 & Self::EXPIRES != 0
    }

    /// True if the value is external.
    #[inline]
    pub(super) fn is_shared(self) -> bool {
        self.0 & Self::SHARED != 0
    }

    /// True if the key is external.
    #[inline]
    pub(super) fn is_long_key(self) -> bool {
        self.0 & Self::LONG_KEY != 0
    }

    /// True if the key or the value is external.
    #[inline]
    pub(super) fn has_external(self) -> bool {
        self.0 & (Self::SHARED | Self::LONG_KEY) != 0
    }

    /// Makes the header of an entry with the same key.
    #[inline]
    pub(super) fn with(self, value_len: usize, attributes: Attributes, base: ExpiryBase) -> Self {
        let key_len = if self.is_long_key() { usize::MAX } else { self.key_len() };
        Self::new(key_len, value_len, attributes, base)
    }

    #[inline]
    fn has_attributes(self) -> bool {
        self.0 & (Self::EXPIRES | Self::CLIENT) != 0
    }

    #[inline]
    pub(super) fn key_at(self) -> usize {
        let client = if self.0 & Self::CLIENT != 0 { CLIENT_BYTES } else { 0 };
        self.client_at() + client
    }

    #[inline]
    fn client_at(self) -> usize {
        let halves = (self.0 & Self::EXPIRES) / Self::EXPIRES + (self.0 & Self::FAR) / Self::FAR;
        BODY_AT + halves as usize * HALF_BYTES
    }

    #[inline]
    pub(super) fn key_len(self) -> usize {
        (self.0 & Self::KEY) as usize
    }

    #[inline]
    fn value_at(self) -> usize {
        self.key_at() + self.key_len()
    }

    #[inline]
    fn value_len(self) -> usize {
        (self.0 >> Self::VALUE_SHIFT & Self::VALUE) as usize
    }

    /// Returns the bytes from the beginning of the header to the end of the value.
    #[inline]
    pub(super) fn block_len(self) -> usize {
        self.value_at() + self.value_len()
    }

    /// Returns the bytes of the key, or of its number.
    #[inline]
    pub(super) fn key(self, block: &[u8]) -> &[u8] {
        &block[self.key_at()..][..self.key_len()]
    }

    /// Returns the bytes of the value, or of its number.
    #[inline]
    pub(super) fn value(self, block: &[u8]) -> &[u8] {
        &block[self.value_at()..][..self.value_len()]
    }

    /// True if the entry has this key. External keys are left to the caller.
    #[inline(always)]
    pub(super) fn is_key(self, block: &[u8], key: &[u8]) -> bool {
        if self.0 & (Self::KEY | Self::LONG_KEY) != key.len() as u32 || key.len() > Self::KEY as usize {
            return false;
        }
        let at = if self.has_attributes() { self.key_at() } else { BODY_AT };
        copy::is_same(key, &block[at..])
    }

    #[inline]
    pub(super) fn attributes(self, block: &[u8], base: ExpiryBase) -> Attributes {
        let encoding = (self.0 >> Self::ENCODING_SHIFT) as u8;
        match self.has_attributes() {
            true => self.read_attributes(block, encoding, base),
            false => Attributes { encoding, ..Attributes::default() },
        }
    }

    #[inline(always)]
    pub(super) fn expires_at(self, block: &[u8], base: ExpiryBase) -> u64 {
        match self.0 & (Self::EXPIRES | Self::FAR) {
            0 => 0,
            Self::EXPIRES => base.near(read_u32(block, BODY_AT)),
            _ => read_u64(block, BODY_AT),
        }
    }

    /// True if the value is in the block and is not encoded.
    #[inline(always)]
    pub(super) fn is_plain(self) -> bool {
        self.0 & (Self::SHARED | 0xf << Self::ENCODING_SHIFT) == 0
    }

    fn read_attributes(self, block: &[u8], encoding: u8, base: ExpiryBase) -> Attributes {
        let expires_at = self.expires_at(block, base);
        let mut attributes = Attributes { encoding, expires_at, ..Attributes::default() };
        if self.0 & Self::CLIENT != 0 {
            let at = self.client_at();
            attributes.version = read_u64(block, at);
            attributes.flags = read_u32(block, at + 8);
        }
        attributes
    }

    /// Writes the attributes; `self` is the header that goes with them.
    #[inline]
    pub(super) fn write_attributes(self, block: &mut [u8], attributes: Attributes) {
        self.write_expiry(block, attributes.expires_at);
        if self.0 & Self::CLIENT != 0 {
            let at = self.client_at();
            block[at..][..8].copy_from_slice(&attributes.version.to_ne_bytes());
            block[at + 8..][..4].copy_from_slice(&attributes.flags.to_ne_bytes());
        }
    }

    #[inline]
    pub(super) fn write_key(self, block: &mut [u8], key: &[u8]) {
        copy::copy(key, &mut block[self.key_at()..]);
    }

    #[inline]
    pub(super) fn write_value(self, block: &mut [u8], value: &[u8]) {
        copy::copy(value, &mut block[self.value_at()..]);
    }

    /// Makes the header for another encoding of the same value.
    pub(super) fn with_encoding(self, encoding: u8) -> Self {
        Self(self.0 & !(0xf << Self::ENCODING_SHIFT) | u32::from(encoding) << Self::ENCODING_SHIFT)
    }

    /// Overwrites the time of expiry, if the entry has one already that takes as many bytes. False: it has none.
    pub(super) fn set_expiry(self, block: &mut [u8], expires_at: u64, base: ExpiryBase) -> bool {
        let is_far = self.0 & Self::FAR != 0;
        let can = self.is_live() && self.expires() && expires_at != 0 && base.is_far(expires_at) == is_far;
        if can {
            self.write_expiry(block, expires_at);
        }
        can
    }

    #[inline]
    fn write_expiry(self, block: &mut [u8], expires_at: u64) {
        match self.0 & (Self::EXPIRES | Self::FAR) {
            0 => {}
            Self::EXPIRES => block[BODY_AT..][..4].copy_from_slice(&(expires_at as u32).to_ne_bytes()),
            _ => block[BODY_AT..][..8].copy_from_slice(&expires_at.to_ne_bytes()),
        }
    }
}

/// Reads the number of an external string.
pub(super) fn number(bytes: &[u8]) -> u32 {
    read_u32(bytes, 0)
}

#[inline]
fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |&word| u32::from_ne_bytes(word))
}

#[inline]
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |&word| u64::from_ne_bytes(word))
}
