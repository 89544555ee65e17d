//! Texts that a server sends with replies that fail: each is kept once, in bounded memory.

/// Limit of the different texts that are kept; what comes after them is counted as [`OTHERS`].
const TEXTS_MAX: usize = 16;
/// Limit of a kept text, in bytes of the server's.
const TEXT_BYTES_MAX: usize = 160;
const OTHERS: &str = "(other texts)";

/// Numbered texts of one thread.
#[derive(Debug, Default)]
pub struct FailureTexts {
    texts: Vec<String>,
    last: Option<u32>,
}

impl FailureTexts {
    /// Takes note of the text of a reply that fails.
    #[cold]
    pub(crate) fn note(&mut self, said: &[u8]) {
        let text = printable(said);
        let known = self.texts.iter().position(|known| *known == text).unwrap_or_else(|| {
            if self.texts.len() < TEXTS_MAX {
                self.texts.push(text);
                self.texts.len() - 1
            } else {
                TEXTS_MAX
            }
        });
        self.last = u32::try_from(known).ok();
    }

    /// Returns the number of the text that was noted last, once.
    pub(crate) fn take_last(&mut self) -> Option<u32> {
        self.last.take()
    }

    /// Returns the text of a number.
    pub(crate) fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or(OTHERS, String::as_str)
    }
}

/// Formats the beginning of what a server has sent: text as it is, and other bytes as `\x00`.
fn printable(said: &[u8]) -> String {
    let cut = said.len().min(TEXT_BYTES_MAX);
    let mut text = String::new();
    for chunk in said[..cut].utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() { text.extend(character.escape_default()) } else { text.push(character) }
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    if cut < said.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_however_often_it_comes() {
        let mut texts = FailureTexts::default();
        let numbers = [b"a", b"b", b"a"].map(|said| {
            texts.note(said);
            texts.take_last()
        });
        assert_eq!((numbers, texts.take_last()), ([Some(0), Some(1), Some(0)], None));
        assert_eq!((texts.text(0), texts.text(1)), ("a", "b"));
    }

    #[test]
    fn texts_without_end_take_bounded_memory() {
        let mut texts = FailureTexts::default();
        (0..1_000).for_each(|number: u32| texts.note(format!("key:{number} {}", "x".repeat(500)).as_bytes()));
        assert_eq!(texts.texts.len(), TEXTS_MAX);
        assert!(texts.texts.iter().all(|text| text.len() < 200 && text.ends_with('…')), "{texts:?}");
        let last = texts.take_last().expect("one was noted");
        assert_eq!(texts.text(last), OTHERS);
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        assert_eq!(printable(b"-ERR caf\xc3\xa9\r\n\xff"), "-ERR café\\r\\n\\xff");
    }
}
