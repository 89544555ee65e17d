//! Texts in the packed form of a collection: strings, and integers in few bytes.
//!
//! ```text
//! text = header (LEB128), bytes
//! header = 2 × length of a string, or 2 × number of bytes of an integer + 1
//! ```
//!
//! An integer is in zigzag form, little endian, without its leading zeros. Whatever can be written as an integer is, so
//! two texts are equal if their packed forms are.

use std::borrow::Cow;

/// Bytes of the longest integer in decimal form.
const DIGITS_MAX: usize = 20;

/// Text of a part of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    Bytes(&'a [u8]),
    /// Decimal form of a number.
    Integer(i64),
}

impl<'a> Text<'a> {
    /// Returns the text as it is packed.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        match parse_integer(bytes) {
            Some(number) => Self::Integer(number),
            None => Self::Bytes(bytes),
        }
    }

    /// Returns the number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(self) -> usize {
        self.to_bytes().len()
    }

    /// Returns the bytes.
    pub fn to_bytes(self) -> Cow<'a, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Integer(number) => Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec()),
        }
    }

    /// Calls a function with the bytes; nothing is allocated.
    #[inline]
    pub fn with_bytes<R>(self, then: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Bytes(bytes) => then(bytes),
            Self::Integer(number) => then(itoa::Buffer::new().format(number).as_bytes()),
        }
    }

    /// Returns the integer that the text is the only decimal form of.
    pub fn integer(self) -> Option<i64> {
        match self {
            Self::Bytes(bytes) => parse_integer(bytes),
            Self::Integer(number) => Some(number),
        }
    }

    /// Appends the packed form. A text that is not from [`Text::new`] is packed as it should be, too.
    pub fn pack(self, packed: &mut Vec<u8>) {
        match self.integer() {
            Some(number) => {
                let zigzag = (number << 1 ^ number >> 63).cast_unsigned();
                let len = (u64::BITS - zigzag.leading_zeros()).div_ceil(8) as usize;
                packed.push((len << 1 | 1) as u8);
                packed.extend_from_slice(&zigzag.to_le_bytes()[..len]);
            }
            None => self.with_bytes(|bytes| {
                let mut header = bytes.len() << 1;
                while header >= 0x80 {
                    packed.push(header as u8 | 0x80);
                    header >>= 7;
                }
                packed.push(header as u8);
                packed.extend_from_slice(bytes);
            }),
        }
    }

    /// Takes a text from the front of packed ones. `None`: there is no whole one, or it is packed in an unusual way.
    #[inline]
    pub fn unpack(packed: &mut &'a [u8]) -> Option<Self> {
        let (&first, mut rest) = packed.split_first()?;
        let mut header = usize::from(first & 0x7f);
        if first >= 0x80 {
            header |= Self::long_header(&mut rest)?;
        }
        let (bytes, rest) = rest.split_at_checked(header >> 1)?;
        *packed = rest;
        if header & 1 == 0 {
            return Some(Self::Bytes(bytes));
        }
        let mut zigzag = [0; 8];
        zigzag.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let zigzag = u64::from_le_bytes(zigzag);
        Some(Self::Integer((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()))
    }

    /// Takes the bytes behind the first one of a header.
    #[cold]
    fn long_header(packed: &mut &[u8]) -> Option<usize> {
        let mut header = 0;
        for shift in (7..usize::BITS - 7).step_by(7) {
            let (&byte, rest) = packed.split_first()?;
            *packed = rest;
            header |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(header);
            }
        }
        None
    }

    /// [`Text::unpack`] of bytes that nobody vouches for: the text must be what [`Text::pack`] makes.
    pub fn parse(packed: &mut &'a [u8]) -> Option<Self> {
        let before = *packed;
        let text = Self::unpack(packed)?;
        let mut again = Vec::new();
        text.pack(&mut again);
        (again == before[..before.len() - packed.len()]).then_some(text)
    }
}

/// Parses a decimal number as Redis takes it: no plus, no leading zeros, no spaces.
#[inline]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', ..] => text.len() <= DIGITS_MAX && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        Text::new(bytes).pack(&mut packed);
        packed
    }

    fn texts() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            (-300_i64..300).prop_map(|number| number.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..300),
            "[-+0-9]{1,22}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn a_packed_text_is_read_again(bytes in texts(), behind in prop::collection::vec(any::<u8>(), 0..9)) {
            let packed = [packed(&bytes), behind.clone()].concat();
            for read in [Text::unpack, Text::parse] {
                let mut rest = &packed[..];
                let text = read(&mut rest).unwrap();
                prop_assert_eq!(&*text.to_bytes(), &bytes[..]);
                prop_assert_eq!(text.len(), bytes.len());
                prop_assert_eq!(rest, &behind[..]);
            }
        }

        #[test]
        fn whatever_is_parsed_has_one_packed_form(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut rest = &bytes[..];
            if let Some(text) = Text::parse(&mut rest) {
                prop_assert_eq!(&packed(&text.to_bytes())[..], &bytes[..bytes.len() - rest.len()]);
            }
        }
    }

    #[test]
    fn integers_take_few_bytes() {
        for (text, len) in [("0", 1), ("-1", 2), ("127", 2), ("128", 3), ("1700000000000", 7), ("01", 3), ("", 1)] {
            assert_eq!(packed(text.as_bytes()).len(), len, "{text}");
        }
    }
}
