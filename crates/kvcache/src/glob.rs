//! Patterns of KEYS, SCAN and PSUBSCRIBE.

/// True if the whole text matches the pattern, byte by byte and case-sensitive: `*` is any bytes, `?` one byte, `[a-c]`
/// one of these, `[^a-c]` one of the others, and `\` makes the next byte literal.
///
/// Odd patterns match as in Redis: an open `[` ends with the pattern, a range may be reversed, bytes above 127 come before
/// the others in a range, and only an empty pattern matches an empty text.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // State to go back to: the pattern behind the last star, and the text at that moment. Earlier stars need no other try,
    // since the last one can take any bytes that they could.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', _)) = pattern.split_first()
            && !text.is_empty()
        {
            pattern = without_stars(pattern);
            if pattern.is_empty() {
                return true;
            }
            star = Some((pattern, text));
        }
        match step(pattern, text) {
            Step::Next(after, rest) => (pattern, text) = (after, rest),
            Step::Done => return true,
            Step::Differs => match star {
                Some((behind, from)) if from.len() > 1 => {
                    (pattern, text) = (behind, &from[1..]);
                    star = Some((behind, text));
                }
                _ => return false,
            },
        }
    }
}

enum Step<'p, 't> {
    Next(&'p [u8], &'t [u8]),
    Done,
    Differs,
}

/// Compares one byte with the start of the pattern, which is not a star.
fn step<'p, 't>(pattern: &'p [u8], text: &'t [u8]) -> Step<'p, 't> {
    let (Some((&first, mut after)), Some((&byte, rest))) = (pattern.split_first(), text.split_first()) else {
        return if pattern.is_empty() && text.is_empty() { Step::Done } else { Step::Differs };
    };
    let fits = match first {
        b'?' => true,
        b'[' => {
            let (fits, behind) = match_class(after, byte);
            after = behind;
            fits
        }
        b'\\' => match after.split_first() {
            Some((&escaped, behind)) => {
                after = behind;
                escaped == byte
            }
            None => byte == b'\\',
        },
        literal => literal == byte,
    };
    match fits {
        true if rest.is_empty() => Step::Next(without_stars(after), rest),
        true => Step::Next(after, rest),
        false => Step::Differs,
    }
}

fn without_stars(pattern: &[u8]) -> &[u8] {
    let stars = pattern.iter().take_while(|&&byte| byte == b'*').count();
    &pattern[stars..]
}

/// Matches a byte against the class whose `[` has been read. Returns true if it is in the class, and the pattern behind it.
fn match_class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (is_negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut is_in = false;
    let behind = loop {
        rest = match rest {
            [] => break rest,
            [b'\\', escaped, behind @ ..] => {
                is_in |= *escaped == byte;
                behind
            }
            [b']', behind @ ..] => break behind,
            [from, b'-', to, behind @ ..] => {
                let (from, to) = (from.cast_signed(), to.cast_signed());
                is_in |= (from.min(to)..=from.max(to)).contains(&byte.cast_signed());
                behind
            }
            [literal, behind @ ..] => {
                is_in |= *literal == byte;
                behind
            }
        };
    };
    (is_in != is_negated, behind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "a", true),
            ("*", "", false),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("a**", "a", true),
            ("*a*b*", "xaybz", true),
            ("*a*b", "xaybz", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("[a-]", "-", false),
            ("[a-]x", "x", true),
            ("[\\]]", "]", true),
            ("[\\", "\\", true),
            ("[abc", "c", true),
            ("[", "[", false),
            ("[^", "x", true),
            ("[]a]", "a]", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("\\", "\\", true),
            ("A", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
        assert!(matches(b"[\x80-\x7f]", b"\x00"), "bytes are signed in a range");
        assert!(!matches(b"[\x01-\xff]", b"\x02"), "bytes are signed in a range");
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let (pattern, text) = (b"*a".repeat(2000), b"a".repeat(1999));
        assert!(!matches(&pattern, &text));
    }

    /// Matches by trying everything.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], text) => text.is_empty(),
            ([b'*', behind @ ..], text) => (0..=text.len()).any(|at| naive(behind, &text[at..])),
            (_, []) => false,
            ([b'?', behind @ ..], [_, rest @ ..]) => naive(behind, rest),
            ([b'[', behind @ ..], [byte, rest @ ..]) => {
                let (fits, behind) = match_class(behind, *byte);
                fits && naive(behind, rest)
            }
            ([b'\\', escaped, behind @ ..], [byte, rest @ ..]) => escaped == byte && naive(behind, rest),
            ([literal, behind @ ..], [byte, rest @ ..]) => literal == byte && naive(behind, rest),
        }
    }

    proptest! {
        #[test]
        fn going_back_to_the_last_star_finds_every_match(pattern in r"[ab*?\[\]^\\-]{0,10}", text in r"[ab\]\\-]{1,10}") {
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), naive(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
