//! Bytes of a client's in the text of an error.
//!
//! Errors are texts, but what Redis quotes in them are bytes. A byte that is not part of a UTF-8 character is kept as a
//! character of a private use area, and becomes that byte again when the error is written.

use std::borrow::Cow;

/// The character that stands for byte 0; those of a client's in this area are taken apart as well.
const FIRST: u32 = 0xf700;
const LAST: u32 = FIRST + 0xff;

/// The first `max` bytes, as text. They end at a zero, as they do for C.
pub(crate) fn quote(bytes: &[u8], max: usize) -> String {
    let mut text = String::new();
    for chunk in until_zero(bytes, max).utf8_chunks() {
        for character in chunk.valid().chars() {
            match u32::from(character) {
                FIRST..=LAST => escape(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut text),
                _ => text.push(character),
            }
        }
        escape(chunk.invalid(), &mut text);
    }
    text
}

pub(crate) fn until_zero(bytes: &[u8], max: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(max)];
    bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)
}

fn escape(bytes: &[u8], text: &mut String) {
    text.extend(bytes.iter().filter_map(|&byte| char::from_u32(FIRST + u32::from(byte))));
}

/// The bytes that a text with quotes in it stands for.
pub(crate) fn unquote(text: &str) -> Cow<'_, [u8]> {
    let is_escaped = |character: char| (FIRST..=LAST).contains(&u32::from(character));
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match is_escaped(character) {
            true => bytes.push((u32::from(character) - FIRST) as u8),
            false => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_bytes_but_zeros_come_back(bytes in prop::collection::vec(1_u8..=255, 0..60)) {
            let text = quote(&bytes, 100);
            prop_assert_eq!(&*unquote(&text), &*bytes);
        }
    }

    #[test]
    fn quotes_end_at_a_zero_or_at_their_limit() {
        assert_eq!(&*unquote(&quote(b"ab\0c", 100)), b"ab");
        assert_eq!(&*unquote(&quote("a\u{e9}".as_bytes(), 2)), b"a\xc3");
        assert_eq!(&*unquote(&quote("\u{f741}\u{f6ff}".as_bytes(), 100)), "\u{f741}\u{f6ff}".as_bytes());
    }
}
