//! One JSON object on one line, whatever its values are.

use std::io::Write;

/// Writer of one object, field by field, in the order in which they are added.
#[derive(Debug)]
pub struct JsonLine<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> JsonLine<'a> {
    /// Begins an object behind what `out` holds.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Goes on with an object that has at least one field and has not been ended.
    pub fn resume(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_empty: false }
    }

    /// Adds a text. Bytes that are not UTF-8 become U+FFFD.
    pub fn text(&mut self, name: &'static str, value: &[u8]) -> &mut Self {
        self.name(name);
        push_string(value, self.out);
        self
    }

    /// Adds a text, or `null`.
    pub fn optional_text(&mut self, name: &'static str, value: Option<&[u8]>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.literal(name, "null"),
        }
    }

    /// Adds something whose text needs no escapes.
    pub fn display(&mut self, name: &'static str, value: impl std::fmt::Display) -> &mut Self {
        self.name(name);
        // Writing to memory does not fail.
        let _ = write!(self.out, "\"{value}\"");
        self
    }

    pub fn number(&mut self, name: &'static str, value: u64) -> &mut Self {
        self.name(name);
        let _ = write!(self.out, "{value}");
        self
    }

    /// Adds a duration in seconds, to the microsecond.
    pub fn seconds(&mut self, name: &'static str, value: std::time::Duration) -> &mut Self {
        self.name(name);
        let _ = write!(self.out, "{}.{:06}", value.as_secs(), value.subsec_micros());
        self
    }

    pub fn boolean(&mut self, name: &'static str, value: bool) -> &mut Self {
        self.literal(name, if value { "true" } else { "false" })
    }

    /// Ends the object and the line.
    pub fn end(&mut self) {
        self.out.extend_from_slice(b"}\n");
    }

    fn literal(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.name(name);
        self.out.extend_from_slice(value.as_bytes());
        self
    }

    /// Writes a field's name, which needs no escapes.
    fn name(&mut self, name: &'static str) {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

fn push_string(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in value.utf8_chunks() {
        let mut rest = chunk.valid().as_bytes();
        while let Some(at) = rest.iter().position(|&byte| needs_escape(byte)) {
            out.extend_from_slice(&rest[..at]);
            match rest[at] {
                byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
                byte => {
                    let _ = write!(out, "\\u{byte:04x}");
                }
            }
            rest = &rest[at + 1..];
        }
        out.extend_from_slice(rest);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

/// DEL is legal in JSON, and nothing that a terminal should see.
fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f || byte == b'"' || byte == b'\\'
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_object_has_its_fields_in_order() {
        let mut out = b"before ".to_vec();
        JsonLine::new(&mut out).text("a", b"x\"\\\n\xff").optional_text("b", None);
        JsonLine::resume(&mut out)
            .number("c", 7)
            .seconds("d", Duration::from_micros(1_000_250))
            .boolean("e", true)
            .end();
        let expected = "before {\"a\":\"x\\\"\\\\\\u000a\u{fffd}\",\"b\":null,\"c\":7,\"d\":1.000250,\"e\":true}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    proptest! {
        /// Whatever the bytes are, it is one line that parses back to them.
        #[test]
        fn any_value_is_one_line_that_parses_back(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            JsonLine::new(&mut out).text("value", &value).number("end", 1).end();
            prop_assert_eq!(out.iter().position(|&byte| byte == b'\n'), Some(out.len() - 1));
            prop_assert!(out[..out.len() - 1].iter().all(|&byte| byte >= 0x20 && byte != 0x7f));
            let parsed: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let text = String::from_utf8_lossy(&value);
            prop_assert_eq!(parsed["value"].as_str(), Some(&*text));
        }
    }
}
