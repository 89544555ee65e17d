//! Numbers as C's `strtol` family reads them, and their meaning as times.

/// Expiry of an item, as a request gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    /// A negative time: the item is stored and expires at once.
    Immediately,
    /// Seconds from now, up to thirty days.
    In(u32),
    /// Seconds since 1970.
    At(i64),
}

/// Longest relative time; longer ones are absolute.
const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

impl From<i64> for Expiry {
    /// Reads seconds as memcached does, whose times have 32 bits with a sign: libmemcached writes -1 as 4294967295.
    fn from(seconds: i64) -> Self {
        let seconds = i64::from(seconds as i32);
        match u32::try_from(seconds) {
            Ok(0) => Self::Never,
            Ok(relative) if seconds <= RELATIVE_SECONDS_MAX => Self::In(relative),
            Ok(_) => Self::At(seconds),
            Err(_) => Self::Immediately,
        }
    }
}

impl Expiry {
    /// Reads seconds of the binary protocol, whose times have no sign.
    pub fn from_unsigned(seconds: u32) -> Self {
        match seconds {
            0 => Self::Never,
            relative if i64::from(relative) <= RELATIVE_SECONDS_MAX => Self::In(relative),
            unix => Self::At(unix.into()),
        }
    }
}

/// Parses like `strtoul` into 64 bits: a minus is allowed as long as the result does not look like a negative number.
#[inline]
pub fn unsigned(token: &[u8]) -> Option<u64> {
    let (is_negative, magnitude) = magnitude(token)?;
    if !is_negative {
        return Some(magnitude);
    }
    let value = magnitude.wrapping_neg();
    i64::try_from(value).ok().map(|_| value)
}

/// Parses like `strtoul`, and refuses a number that does not fit.
#[inline]
pub(super) fn unsigned32(token: &[u8]) -> Option<u32> {
    u32::try_from(unsigned(token)?).ok()
}

/// Parses like `strtol` into 64 bits.
#[inline]
pub(super) fn signed(token: &[u8]) -> Option<i64> {
    let (is_negative, magnitude) = magnitude(token)?;
    if is_negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Parses leading blanks, a sign and digits. Then the token ends or a blank follows, behind which anything may stand.
#[inline]
fn magnitude(token: &[u8]) -> Option<(bool, u64)> {
    let blanks = token.iter().take_while(|&&byte| is_blank(byte)).count();
    let (is_negative, digits) = match token[blanks..] {
        [b'-', ref digits @ ..] => (true, digits),
        [b'+', ref digits @ ..] => (false, digits),
        ref digits => (false, digits),
    };
    let mut value = 0_u64;
    for (at, &byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (at > 0 && is_blank(byte)).then_some((is_negative, value));
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (!digits.is_empty()).then_some((is_negative, value))
}

/// True for the bytes of C's `isspace`.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
