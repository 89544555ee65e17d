//! Texts of scripts: their digests, and the line of flags that one may begin with.

use sha1::{Digest as _, Sha1};
use thiserror::Error;

/// SHA-1 of a script's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 20]);

impl Digest {
    pub fn of(text: &[u8]) -> Self {
        Self(Sha1::digest(text).into())
    }

    /// Parses forty hexadecimal digits in any case.
    pub fn parse(hex: &[u8]) -> Option<Self> {
        let hex: &[u8; 40] = hex.try_into().ok()?;
        // Without a branch or a table, so that many digits are converted at a time.
        let (mut digits, mut are_digits) = ([0; 40], true);
        for (value, &digit) in digits.iter_mut().zip(hex) {
            let (number, letter) = (digit.wrapping_sub(b'0'), (digit | 0x20).wrapping_sub(b'a'));
            *value = if number < 10 { number } else { letter.wrapping_add(10) };
            are_digits &= (number < 10) | (letter < 6);
        }
        let mut bytes = [0; 20];
        for (byte, [high, low]) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = high << 4 | low;
        }
        are_digits.then_some(Self(bytes))
    }

    /// Returns forty hexadecimal digits in lower case.
    pub fn hex(self) -> String {
        let digits = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|nibble| digits[usize::from(nibble)] as char)
            .collect()
    }
}

/// Flags of a script's first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// It may only read.
    pub is_read_only: bool,
}

/// One script.
#[derive(Clone, Debug)]
pub struct Source {
    pub text: Box<[u8]>,
    pub flags: Flags,
}

/// Reason for which a first line is refused; the texts are Redis's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SourceError {
    #[error("ERR Invalid script shebang")]
    Unterminated,
    #[error("ERR Unexpected engine in script shebang: {0}")]
    Engine(String),
    #[error("ERR Unknown lua shebang option: {0}")]
    Option(String),
    #[error("ERR Unexpected flag in script shebang: {0}")]
    Flag(String),
}

impl Source {
    /// Reads the first line of a script, if it begins with `#!`.
    ///
    /// # Errors
    /// The line says something that Redis 7.0 does not know either.
    pub fn parse(text: &[u8]) -> Result<Self, SourceError> {
        let mut flags = Flags::default();
        if text.starts_with(b"#!") {
            let end = text.iter().position(|&byte| byte == b'\n').ok_or(SourceError::Unterminated)?;
            let line = String::from_utf8_lossy(&text[..end]);
            let mut words = line.split_ascii_whitespace();
            if let Some(engine) = words.next().filter(|&engine| engine != "#!lua") {
                return Err(SourceError::Engine(engine.to_owned()));
            }
            for option in words {
                let names = option.strip_prefix("flags=").ok_or_else(|| SourceError::Option(option.to_owned()))?;
                for name in names.split(',').filter(|name| !name.is_empty()) {
                    match name {
                        "no-writes" => flags.is_read_only = true,
                        // No command is refused for want of a replica or of a slot, and each is asked about memory itself.
                        "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                        _ => return Err(SourceError::Flag(name.to_owned())),
                    }
                }
            }
        }
        Ok(Self { text: text.into(), flags })
    }

    /// Returns the code: the text without its first line, whose line feed keeps the numbers of the others.
    pub fn code(&self) -> &[u8] {
        match self.text.starts_with(b"#!") {
            true => &self.text[self.text.iter().position(|&byte| byte == b'\n').unwrap_or(self.text.len())..],
            false => &self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_in_any_case() {
        let digest = Digest::of(b"return 1");
        assert_eq!(digest.hex(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(Digest::parse(digest.hex().to_uppercase().as_bytes()), Some(digest));
        assert_eq!([&b""[..], b"e0", &[b'x'; 40], &[b'0'; 41]].map(Digest::parse), [None; 4]);
        for at in 0..40 {
            let mut hex = *b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
            hex[at] = [b'g', b'/', b':', b'@', b'`', 0, 0xff][at % 7];
            assert_eq!(Digest::parse(&hex), None, "{at}");
        }
    }

    #[test]
    fn the_first_line_is_read_as_by_redis() {
        let source = |text: &str| Source::parse(text.as_bytes()).map(|source| (source.flags, source.code().to_vec()));
        let read_only = Flags { is_read_only: true };
        assert_eq!(source("return 1"), Ok((Flags::default(), b"return 1".to_vec())));
        assert_eq!(source("#!lua flags=no-writes,allow-oom\nx"), Ok((read_only, b"\nx".to_vec())));
        assert_eq!(source("#!lua"), Err(SourceError::Unterminated));
        assert_eq!(source("#!python\n"), Err(SourceError::Engine("#!python".to_owned())));
        assert_eq!(source("#!lua name=x\n"), Err(SourceError::Option("name=x".to_owned())));
        assert_eq!(source("#!lua flags=nope\n"), Err(SourceError::Flag("nope".to_owned())));
    }
}
