//! The parts of meta requests: keys that may be base64, and flags.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    Expiry, KEY_BYTES_MAX, Refusal,
    number::{signed, unsigned, unsigned32},
    words::Words,
};

/// The opaque token with its `O`.
const OPAQUE_BYTES_MAX: usize = 32;

/// Padding is required, but bits behind the last byte are not looked at.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

/// Room for a decoded key.
pub type KeyBuffer = [u8; KEY_BYTES_MAX];

/// The key of a meta request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaKey<'a> {
    /// As it stands in the line; not decoded.
    pub raw: &'a [u8],
    /// The `b` flag: `raw` is base64, known to be well formed.
    pub is_base64: bool,
}

impl<'a> MetaKey<'a> {
    /// Returns the key itself, which is in `buffer` if it had to be decoded.
    #[inline]
    pub fn bytes<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.is_base64 {
            return self.raw;
        }
        let length = BASE64.decode_slice(self.raw, buffer).unwrap_or(0);
        &buffer[..length]
    }

    /// Appends the key as a reply returns it. Of several spellings in base64 only one is ever written.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if !self.is_base64 {
            return out.extend_from_slice(self.raw);
        }
        let mut buffer = [0; KEY_BYTES_MAX];
        let start = out.len();
        out.resize(start + KEY_BYTES_MAX, 0);
        let length = BASE64.encode_slice(self.bytes(&mut buffer), &mut out[start..]).unwrap_or(0);
        out.truncate(start + length);
    }

    pub(super) fn is_well_formed(&self) -> bool {
        let mut buffer = [0; KEY_BYTES_MAX];
        !self.is_base64 || !self.bytes(&mut buffer).is_empty()
    }
}

/// Flags of a meta request, known to be well formed. Any flag may be given to any command, and most commands ignore
/// most flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaFlags<'a> {
    words: Words<'a>,
    /// One bit for each letter that was given.
    given: u64,
}

impl<'a> MetaFlags<'a> {
    /// True if the flag was given.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.given & bit(letter) != 0
    }

    /// Returns letter and token of each flag, in the order in which a reply repeats those that it returns.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        self.words.filter_map(|word| word.split_first().map(|(&letter, token)| (letter, token)))
    }

    /// Returns the token of a flag.
    #[inline]
    pub fn token(&self, letter: u8) -> Option<&'a [u8]> {
        if !self.has(letter) {
            return None;
        }
        self.iter().find(|&(given, _)| given == letter).map(|(_, token)| token)
    }

    /// Returns the opaque token (`O`), which the reply repeats.
    pub fn opaque(&self) -> Option<&'a [u8]> {
        self.token(b'O')
    }

    /// Returns the new time to live (`T`), from now on.
    pub fn expiry(&self) -> Option<Expiry> {
        signed(self.token(b'T')?).map(Expiry::from)
    }

    /// Returns the time to live with which a missing item is created (`N`).
    pub fn vivify(&self) -> Option<Expiry> {
        signed(self.token(b'N')?).map(Expiry::from)
    }

    /// Returns the recache time (`R`): the first client that asks when less than this is left wins the right to renew
    /// the item.
    pub fn recache(&self) -> Option<Expiry> {
        signed(self.token(b'R')?).map(Expiry::from)
    }

    /// Returns the unique number that the item must have (`C`).
    pub fn cas(&self) -> Option<u64> {
        unsigned(self.token(b'C')?)
    }

    /// Returns the 32 bits to keep with the item (`F`).
    pub fn client_flags(&self) -> u32 {
        self.token(b'F').and_then(unsigned32).unwrap_or(0)
    }

    /// Returns the value that `ma` creates (`J`).
    pub fn initial(&self) -> u64 {
        self.token(b'J').and_then(unsigned).unwrap_or(0)
    }

    /// Returns the number that `ma` adds or subtracts (`D`).
    pub fn delta(&self) -> u64 {
        self.token(b'D').and_then(unsigned).unwrap_or(1)
    }

    /// Returns the mode (`M`): a letter whose meaning depends on the command.
    pub(super) fn mode(&self) -> Option<u8> {
        self.token(b'M').and_then(|token| token.first().copied())
    }

    /// Parses the words behind the key, or behind the length of `ms`.
    #[inline]
    pub(super) fn parse(words: Words<'a>, key: &'a [u8]) -> Result<(Self, MetaKey<'a>), Refusal> {
        let mut flags = Self { words, given: 0 };
        // A repeated or unknown flag is reported at once, the last of several bad tokens, and an opaque only if all else is valid.
        let (mut fault, mut opaque) = (None, None);
        for (letter, token) in flags.iter() {
            if letter >= 127 || flags.has(letter) {
                return Err(Refusal::DuplicateFlag);
            }
            flags.given |= bit(letter);
            match check(letter, token, key) {
                Ok(()) => {}
                Err(Refusal::InvalidFlag) => return Err(Refusal::InvalidFlag),
                Err(Refusal::OpaqueTooLong) => opaque = Some(Refusal::OpaqueTooLong),
                Err(Refusal::BadCommandLine) => fault = fault.or(Some(Refusal::BadCommandLine)),
                Err(refusal) => fault = Some(refusal),
            }
        }
        match fault.or(opaque) {
            Some(refusal) => Err(refusal),
            None => Ok((flags, MetaKey { raw: key, is_base64: flags.has(b'b') })),
        }
    }
}

/// Returns the bit of a flag; flags are letters.
#[inline]
fn bit(letter: u8) -> u64 {
    if letter & 0xc0 == 0x40 { 1 << (letter & 0x3f) } else { 0 }
}

#[inline]
fn check(letter: u8, token: &[u8], key: &[u8]) -> Result<(), Refusal> {
    let (is_valid, refusal) = match letter {
        b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's' | b't' | b'u' | b'v' | b'I' | b'L' | b'P' => return Ok(()),
        b'T' | b'N' | b'R' => (signed(token).is_some(), Refusal::BadToken),
        b'C' => (unsigned(token).is_some(), Refusal::BadToken),
        b'F' => (unsigned32(token).is_some(), Refusal::BadCommandLine),
        b'J' => (unsigned(token).is_some(), Refusal::BadInitialValue),
        b'D' => (unsigned(token).is_some(), Refusal::BadDeltaValue),
        b'M' => (token.len() == 1, Refusal::BadModeLength),
        b'O' => (token.len() < OPAQUE_BYTES_MAX, Refusal::OpaqueTooLong),
        b'b' => (MetaKey { raw: key, is_base64: true }.is_well_formed(), Refusal::UndecodableKey),
        _ => (false, Refusal::InvalidFlag),
    };
    if is_valid { Ok(()) } else { Err(refusal) }
}
