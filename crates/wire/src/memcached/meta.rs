//! The parts of meta requests: keys that may be base64, and flags.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    Expiry, KEY_BYTES_MAX, Refusal,
    number::{signed, unsigned, unsigned32},
    text::Words,
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
    /// As it stands in the line; this is what the `k` flag returns.
    pub raw: &'a [u8],
    /// The `b` flag: `raw` is base64, known to be well formed.
    pub is_base64: bool,
}

impl<'a> MetaKey<'a> {
    /// The key itself, which is in `buffer` if it had to be decoded.
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

    pub(super) fn is_well_formed(&self) -> bool {
        let mut buffer = [0; KEY_BYTES_MAX];
        !self.is_base64 || !self.bytes(&mut buffer).is_empty()
    }
}

/// What the `M` flag of `ms` and `ma` chose, a letter whose meaning depends on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u8);

/// The flags of a meta request. Any flag may be given to any command, and means nothing to most of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaFlags<'a> {
    words: Words<'a>,
    /// A bit for each letter that was given.
    given: u128,
    /// `T`: the time to live, from now on.
    pub expiry: Option<Expiry>,
    /// `N`: create a missing item with this time to live.
    pub vivify: Option<Expiry>,
    /// `R`: who asks first when less than this is left wins the right to renew the item.
    pub recache: Option<Expiry>,
    /// `C`: only if the item's unique number is this.
    pub cas: Option<u64>,
    /// `F`: 32 bits to keep with the item.
    pub client_flags: u32,
    /// `J`: the value that `ma` creates.
    pub initial: u64,
    /// `D`: what `ma` adds or subtracts.
    pub delta: u64,
    /// `M`.
    pub mode: Option<Mode>,
}

impl<'a> MetaFlags<'a> {
    /// Whether the flag was given.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        letter < 128 && self.given >> letter & 1 != 0
    }

    /// Letter and token of each flag, in the order in which a reply repeats those that it returns.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        self.words.filter_map(|word| word.split_first().map(|(&letter, token)| (letter, token)))
    }

    /// `O`: what the reply repeats.
    pub fn opaque(&self) -> Option<&'a [u8]> {
        self.iter().find(|&(letter, _)| letter == b'O').map(|(_, token)| token)
    }

    /// Reads the words behind the key, or behind the length of `ms`.
    pub(super) fn parse(words: Words<'a>, key: &'a [u8]) -> Result<(Self, MetaKey<'a>), Refusal> {
        let mut flags = Self {
            words,
            given: 0,
            expiry: None,
            vivify: None,
            recache: None,
            cas: None,
            client_flags: 0,
            initial: 0,
            delta: 1,
            mode: None,
        };
        // A repeated or unknown flag is reported at once, of bad tokens the last, and an opaque only if all else is well.
        let (mut fault, mut opaque) = (None, None);
        for (letter, token) in flags.iter() {
            if letter >= 127 || flags.has(letter) {
                return Err(Refusal::DuplicateFlag);
            }
            flags.given |= 1 << letter;
            match flags.take(letter, token, key) {
                Ok(()) => {}
                Err(Refusal::InvalidFlag) => return Err(Refusal::InvalidFlag),
                Err(Refusal::OpaqueTooLong) => opaque = Some(Refusal::OpaqueTooLong),
                Err(Refusal::BadCommandLine) => fault = fault.or(Some(Refusal::BadCommandLine)),
                Err(refusal) => fault = Some(refusal),
            }
        }
        if let Some(refusal) = fault.or(opaque) {
            return Err(refusal);
        }
        Ok((flags, MetaKey { raw: key, is_base64: flags.has(b'b') }))
    }
    fn take(&mut self, letter: u8, token: &'a [u8], key: &'a [u8]) -> Result<(), Refusal> {
        let expiry = || signed(token).map(Expiry::from).ok_or(Refusal::BadToken);
        match letter {
            b'T' => self.expiry = Some(expiry()?),
            b'N' => self.vivify = Some(expiry()?),
            b'R' => self.recache = Some(expiry()?),
            b'C' => self.cas = Some(unsigned(token).ok_or(Refusal::BadToken)?),
            b'F' => self.client_flags = unsigned32(token).ok_or(Refusal::BadCommandLine)?,
            b'J' => self.initial = unsigned(token).ok_or(Refusal::BadInitialValue)?,
            b'D' => self.delta = unsigned(token).ok_or(Refusal::BadDeltaValue)?,
            b'M' => match *token {
                [mode] => self.mode = Some(Mode(mode)),
                _ => return Err(Refusal::BadModeLength),
            },
            b'O' if token.len() >= OPAQUE_BYTES_MAX => return Err(Refusal::OpaqueTooLong),
            b'b' if !(MetaKey { raw: key, is_base64: true }).is_well_formed() => return Err(Refusal::UndecodableKey),
            b'O' | b'b' | b'P' | b'L' | b'I' | b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's' | b't' | b'u' | b'v' => {}
            _ => return Err(Refusal::InvalidFlag),
        }
        Ok(())
    }
}
