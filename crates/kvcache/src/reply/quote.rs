//! Bytes from a client, quoted in the text of an error.
//!
//! Errors are texts, but Redis quotes bytes in them. A byte that is not part of a UTF-8 character is kept as a character
//! of a private use area, and becomes that byte again when the error is written.

use std::borrow::Cow;

/// Character that stands for byte 0. A client's own characters of this area are split into bytes as well.
const FIRST: u32 = 0xf700;
const LAST: u32 = FIRST + 0xff;

/// Quotes the first `max` bytes, up to a zero, where a C string ends.
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

/// Returns the first `max` bytes, up to a zero.
pub(crate) fn until_zero(bytes: &[u8], max: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(max)];
    bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)
}

fn escape(bytes: &[u8], text: &mut String) {
    text.extend(bytes.iter().filter_map(|&byte| char::from_u32(FIRST + u32::from(byte))));
}

/// Returns the bytes that a text with quotes stands for.
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
        fn quoting_keeps_all_bytes_but_zeros(bytes in prop::collection::vec(1_u8..=255, 0..60)) {
            let text = quote(&bytes, 100);
            prop_assert_eq!(&*unquote(&text), &*bytes);
        }
    }

    #[test]
    fn a_quote_ends_at_a_zero_or_at_its_limit() {
        assert_eq!(&*unquote(&quote(b"ab\0c", 100)), b"ab");
        assert_eq!(&*unquote(&quote("a\u{e9}".as_bytes(), 2)), b"a\xc3");
        assert_eq!(&*unquote(&quote("\u{f741}\u{f6ff}".as_bytes(), 100)), "\u{f741}\u{f6ff}".as_bytes());
    }
}
