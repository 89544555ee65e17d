//! The layout of an entry: a header of 2 or 4 bytes, the attributes, the key, the value. In front of it is the access word,
//! which outlives the entry, in stores that keep access words.
//!
//! ```text
//! 0  u16  length of the key, lower bits of the length of the value, and flags
//! 2  u16  upper bits of the length of the value, and more flags, if WIDE
//!    u32  expires_at          if EXPIRES: its lower half; see `ExpiryBase`
//!    u32  expires_at          if FAR, too: its upper half
//!    u64  version, u32 flags  if CLIENT
//!    key, or the number of it in `ExternalStrings` if LONG_KEY
//!    value, or the number of it in `ExternalStrings` if SHARED
//! ```
//!
//! The header of a free block is a u16 of 0, which no entry has, and a link.

use super::{classes::BLOCK_MAX, copy};
use crate::{Attributes, SHARED_MIN};

/// Bytes of a header without its second half.
const NARROW_BYTES: usize = 2;
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

/// The header of an entry. If there is no second half in memory, it is 0 here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Header(u32);

impl Header {
    const KEY: u32 = 0xff;
    /// Longest key that is stored in the block.
    pub(super) const KEY_MAX: usize = Self::KEY as usize;
    const EXPIRES: u32 = 1 << 8;
    const WIDE: u32 = 1 << 9;
    /// The upper bit of the encoding.
    const MARK: u32 = 1 << 10;
    const VALUE_SHIFT: u32 = 11;
    const VALUE: u32 = 0x3fff;
    const CLIENT: u32 = 1 << 25;
    const SHARED: u32 = 1 << 26;
    const LONG_KEY: u32 = 1 << 27;
    const FAR: u32 = 1 << 28;
    /// The lower bits of the encoding.
    const ENCODING_SHIFT: u32 = 29;

    /// Makes the header of an entry.
    #[inline]
    pub(super) fn new(key_len: usize, value_len: usize, attributes: Attributes, base: ExpiryBase) -> Self {
        let (key, long_key) = match key_len <= Self::KEY_MAX {
            true => (key_len as u32, 0),
            false => (NUMBER_BYTES as u32, Self::LONG_KEY),
        };
        let encoding = u32::from(attributes.encoding);
        let flags = long_key | encoding << Self::ENCODING_SHIFT | Self::mark(encoding);
        let expires = match attributes.expires_at {
            0 => 0,
            at if base.is_far(at) => Self::EXPIRES | Self::FAR,
            _ => Self::EXPIRES,
        };
        let client = if attributes.flags != 0 || attributes.version != 0 { Self::CLIENT } else { 0 };
        let empty = key | flags | expires | client;
        let wide_len = Self(empty | Self::WIDE).block_len();
        match value_len < SHARED_MIN && wide_len + value_len <= ENTRY_MAX {
            true => Self(empty | (value_len as u32) << Self::VALUE_SHIFT).widened(),
            false => Self(empty | Self::SHARED | (NUMBER_BYTES as u32) << Self::VALUE_SHIFT).widened(),
        }
    }

    /// Adds the second half if it is needed.
    #[inline]
    fn widened(self) -> Self {
        // Whatever its mark, the first half of an entry is not 0.
        let is_narrow = self.0 <= u32::from(u16::MAX) && self.0 & !Self::MARK != 0;
        Self(self.0 | if is_narrow { 0 } else { Self::WIDE })
    }

    /// Returns the mark of an encoding.
    #[inline]
    fn mark(encoding: u32) -> u32 {
        encoding >> 3 << Self::MARK.trailing_zeros()
    }

    /// Writes the header of a free block, with a link of 16 bits.
    pub(super) fn write_free(block: &mut [u8], link: u16) {
        block[..4].copy_from_slice(&(u32::from(link) << 16).to_le_bytes());
    }

    /// Returns the link of a free block.
    #[inline]
    pub(super) fn link(block: &[u8]) -> u16 {
        (read_u32(block, 0) >> 16) as u16
    }

    #[inline]
    pub(super) fn read(block: &[u8]) -> Self {
        match Self::first_half(block) {
            narrow if narrow.0 & Self::WIDE == 0 => narrow,
            _ => Self(read_u32(block, 0)),
        }
    }

    /// Reads the half of the header that every entry has. It is the whole one of a narrow entry.
    #[inline(always)]
    fn first_half(block: &[u8]) -> Self {
        Self(block.first_chunk().map_or(0, |&half| u16::from_le_bytes(half)).into())
    }

    #[inline]
    pub(super) fn write(self, block: &mut [u8]) {
        let bytes = self.0.to_le_bytes();
        match self.0 & Self::WIDE {
            0 => block[..2].copy_from_slice(&bytes[..2]),
            _ => block[..4].copy_from_slice(&bytes),
        }
    }

    #[inline]
    pub(super) fn is_live(self) -> bool {
        self.0 as u16 != 0
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
        match self.0 & (Self::WIDE | Self::EXPIRES) {
            0 => NARROW_BYTES,
            Self::EXPIRES => NARROW_BYTES + HALF_BYTES,
            _ => self.client_at() + if self.0 & Self::CLIENT != 0 { CLIENT_BYTES } else { 0 },
        }
    }

    #[inline]
    fn client_at(self) -> usize {
        let halves = (self.0 & Self::EXPIRES) / Self::EXPIRES + (self.0 & Self::FAR) / Self::FAR;
        self.body_at() + halves as usize * HALF_BYTES
    }

    /// Returns the bytes of the header itself.
    #[inline]
    fn body_at(self) -> usize {
        NARROW_BYTES + ((self.0 & Self::WIDE) / (Self::WIDE / 2)) as usize
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

    /// True if the entry in a block has this key. External keys are left to the caller.
    #[inline(always)]
    pub(super) fn is_key(block: &[u8], key: &[u8]) -> bool {
        let half = Self::first_half(block);
        let at = match half.0 & (Self::WIDE | Self::EXPIRES) {
            0 => NARROW_BYTES,
            Self::EXPIRES => NARROW_BYTES + HALF_BYTES,
            _ => match Self::read(block) {
                header if header.is_long_key() => return false,
                header => header.key_at(),
            },
        };
        half.key_len() == key.len() && copy::is_same(key, &block[at..])
    }

    /// Returns the value of an entry, if it is in the block and is not encoded.
    #[inline(always)]
    pub(super) fn plain_value(block: &[u8]) -> Option<&[u8]> {
        let half = Self::first_half(block);
        let header = match half.0 & (Self::WIDE | Self::MARK) {
            0 => half,
            _ => Self::read(block),
        };
        header.is_plain().then(|| header.value(block))
    }

    /// True if an entry with the same key has the same header, and nothing beside key and value but a time of expiry.
    #[inline(always)]
    pub(super) fn is_usual(self, value_len: usize, attributes: Attributes, base: ExpiryBase) -> bool {
        const USUAL: u32 = Header::KEY | Header::VALUE << Header::VALUE_SHIFT | Header::WIDE | Header::EXPIRES;
        let Attributes { expires_at, flags, version, encoding } = attributes;
        let has_same_expiry = match expires_at {
            0 => !self.expires(),
            at => self.expires() && !base.is_far(at),
        };
        self.0 & !USUAL == 0
            && self.value_len() == value_len
            && (flags, version, encoding) == (0, 0, 0)
            && has_same_expiry
    }

    /// Returns the time of expiry of the entry in a block; 0: never.
    #[inline(always)]
    pub(super) fn expiry(block: &[u8], base: ExpiryBase) -> u64 {
        match Self::first_half(block).0 & Self::EXPIRES {
            0 => 0,
            _ => Self::read(block).expires_at(block, base),
        }
    }

    #[inline]
    pub(super) fn attributes(self, block: &[u8], base: ExpiryBase) -> Attributes {
        let encoding = self.encoding();
        match self.has_attributes() {
            true => self.read_attributes(block, encoding, base),
            false => Attributes { encoding, ..Attributes::default() },
        }
    }

    #[inline]
    fn encoding(self) -> u8 {
        let mark = (self.0 & Self::MARK) >> (Self::MARK.trailing_zeros() - 3);
        (self.0 >> Self::ENCODING_SHIFT | mark) as u8
    }

    #[inline]
    fn expires_at(self, block: &[u8], base: ExpiryBase) -> u64 {
        match self.0 & (Self::EXPIRES | Self::FAR) {
            0 => 0,
            Self::EXPIRES => base.near(read_u32(block, self.body_at())),
            _ => read_u64(block, self.body_at()),
        }
    }

    /// True if the value is in the block and is not encoded.
    #[inline(always)]
    fn is_plain(self) -> bool {
        self.0 & (Self::SHARED | Self::MARK | 7 << Self::ENCODING_SHIFT) == 0
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
    #[inline(always)]
    pub(super) fn write_attributes(self, block: &mut [u8], attributes: Attributes) {
        self.write_expiry(block, attributes.expires_at);
        if self.0 & Self::CLIENT != 0 {
            self.write_client(block, attributes);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_client(self, block: &mut [u8], attributes: Attributes) {
        let at = self.client_at();
        block[at..][..8].copy_from_slice(&attributes.version.to_le_bytes());
        block[at + 8..][..4].copy_from_slice(&attributes.flags.to_le_bytes());
    }

    #[inline]
    pub(super) fn write_key(self, block: &mut [u8], key: &[u8]) {
        copy::copy(key, &mut block[self.key_at()..]);
    }

    #[inline]
    pub(super) fn write_value(self, block: &mut [u8], value: &[u8]) {
        copy::copy(value, &mut block[self.value_at()..]);
    }

    /// Makes the header for another encoding of the same value, of which only the upper bit may be another.
    pub(super) fn with_encoding(self, encoding: u8) -> Self {
        Self(self.0 & !Self::MARK | Self::mark(encoding.into()))
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

    /// Overwrites the time of expiry that an entry has which [`Header::is_usual`]. True: it expires earlier than before.
    #[inline(always)]
    pub(super) fn replace_expiry(self, block: &mut [u8], expires_at: u64, base: ExpiryBase) -> bool {
        if !self.expires() {
            return false;
        }
        let stored = &mut block[self.body_at()..][..HALF_BYTES];
        let since_base = |half: u32| half.wrapping_sub(base.0 as u32);
        let before = stored.first_chunk().map_or(0, |&half| u32::from_le_bytes(half));
        stored.copy_from_slice(&(expires_at as u32).to_le_bytes());
        since_base(expires_at as u32) < since_base(before)
    }

    #[inline(always)]
    pub(super) fn write_expiry(self, block: &mut [u8], expires_at: u64) {
        match self.0 & (Self::EXPIRES | Self::FAR) {
            0 => {}
            Self::EXPIRES => block[self.body_at()..][..4].copy_from_slice(&(expires_at as u32).to_le_bytes()),
            _ => block[self.body_at()..][..8].copy_from_slice(&expires_at.to_le_bytes()),
        }
    }
}

/// Reads the number of an external string.
pub(super) fn number(bytes: &[u8]) -> u32 {
    read_u32(bytes, 0)
}

#[inline]
fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |&word| u32::from_le_bytes(word))
}

#[inline]
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |&word| u64::from_le_bytes(word))
}
