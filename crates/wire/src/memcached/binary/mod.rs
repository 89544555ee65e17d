//! memcached's binary protocol, as memcached 1.6.18 reads and writes it (its `protocol-binary.txt`).
//!
//! A connection speaks it if its first byte is [`REQUEST_MAGIC`], which no command line begins with. Requests are parsed by
//! [`RequestParser`](super::RequestParser), like those of the other protocols.

pub mod client;
mod opcode;
pub mod reply;
mod request;
mod status;

pub use opcode::Opcode;
pub use request::{Command, Head, Request, ReturnedParts, SaslStep};
pub(super) use request::{Parsed, parse};
pub use status::Status;

/// First byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;
/// First byte of a reply.
pub const REPLY_MAGIC: u8 = 0x81;
/// Length of the header that a packet begins with.
pub const HEADER_BYTES: usize = 24;
/// Length of the longest answer of a client to a SASL mechanism.
pub const SASL_BYTES_MAX: usize = 1024;

/// Fields of a header that requests and replies share. The data type is always 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    magic: u8,
    opcode: u8,
    key_bytes: u16,
    extras_bytes: u8,
    /// Status of a reply; a number without a meaning in a request.
    status: u16,
    /// Length of what follows the header: extras, key and value.
    body_bytes: u32,
    /// Number that a reply repeats.
    opaque: u32,
    /// Unique number of an item.
    cas: u64,
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [magic, opcode, key_0, key_1, extras_bytes, _, status_0, status_1, rest @ ..] = *bytes;
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = rest;
        Self {
            magic,
            opcode,
            key_bytes: u16::from_be_bytes([key_0, key_1]),
            extras_bytes,
            status: u16::from_be_bytes([status_0, status_1]),
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]),
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = self.magic;
        bytes[1] = self.opcode;
        bytes[2..4].copy_from_slice(&self.key_bytes.to_be_bytes());
        bytes[4] = self.extras_bytes;
        bytes[6..8].copy_from_slice(&self.status.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.body_bytes.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.opaque.to_be_bytes());
        bytes[16..].copy_from_slice(&self.cas.to_be_bytes());
        out.extend_from_slice(&bytes);
    }

    /// Returns the offsets of extras, key, value and end behind the header, or `None` if they are not in order.
    fn parts(&self) -> Option<[usize; 4]> {
        let extras = usize::from(self.extras_bytes);
        let key = extras + usize::from(self.key_bytes);
        let body = usize::try_from(self.body_bytes).unwrap_or(usize::MAX);
        (key <= body).then_some([0, extras, key, body])
    }
}
