//! Detection of the protocol that a peer speaks, for a port with several.

use memchr::memchr2;

use crate::us::SEPARATOR;

/// Result of the detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detected {
    /// The protocol of [`crate::resp`], as an array or as an inline command.
    Resp,
    /// The protocol of [`crate::us`].
    Us,
    /// The bytes that decide have not arrived yet.
    Unknown,
}

/// Detects the protocol from the first bytes of a connection: `*` begins a RESP array; otherwise the first line feed or
/// unit separator decides. Only a prefix of the stream is read, so that tearing cannot change the result.
pub fn detect(input: &[u8]) -> Detected {
    Detector::default().detect(input)
}

/// [`detect`] for bytes that arrive in pieces; each byte is read once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detector {
    searched: usize,
}

impl Detector {
    /// Detects the protocol. `input` starts with the first byte of the connection each time.
    pub fn detect(&mut self, input: &[u8]) -> Detected {
        if input.first() == Some(&b'*') {
            return Detected::Resp;
        }
        let Some(found) = memchr2(b'\n', SEPARATOR, input.get(self.searched..).unwrap_or_default()) else {
            self.searched = input.len();
            return Detected::Unknown;
        };
        if input[self.searched + found] == SEPARATOR { Detected::Us } else { Detected::Resp }
    }
}
