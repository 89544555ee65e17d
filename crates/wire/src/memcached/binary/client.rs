//! The client's direction: requests out, replies in.

use super::{HEADER_BYTES, Header, Opcode, REPLY_MAGIC, REQUEST_MAGIC};
use crate::memcached::client::VALUE_BYTES_MAX;

/// Parts of a request behind its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestBody<'a> {
    pub extras: &'a [u8],
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// Appends a request with the number of a command. The server repeats `opaque` in its reply; a `cas` other than 0 is the
/// unique number that the item must have.
pub fn request(out: &mut Vec<u8>, opcode: u8, opaque: u32, cas: u64, body: &RequestBody<'_>) {
    let RequestBody { extras, key, value } = *body;
    let header = Header {
        magic: REQUEST_MAGIC,
        opcode,
        key_bytes: u16::try_from(key.len()).unwrap_or(u16::MAX),
        extras_bytes: u8::try_from(extras.len()).unwrap_or(u8::MAX),
        status: 0,
        body_bytes: u32::try_from(extras.len() + key.len() + value.len()).unwrap_or(u32::MAX),
        opaque,
        cas,
    };
    header.write(out);
    for part in [extras, key, value] {
        out.extend_from_slice(part);
    }
}

/// Appends `get`.
pub fn get(out: &mut Vec<u8>, opaque: u32, key: &[u8]) {
    request(out, Opcode::Get.number(), opaque, 0, &RequestBody { key, ..RequestBody::default() });
}

/// Appends `set`, without a condition.
pub fn set(out: &mut Vec<u8>, opaque: u32, key: &[u8], flags: u32, expiry: u32, value: &[u8]) {
    let extras = [flags.to_be_bytes(), expiry.to_be_bytes()].concat();
    request(out, Opcode::Set.number(), opaque, 0, &RequestBody { extras: &extras, key, value });
}

/// Appends `delete`.
pub fn delete(out: &mut Vec<u8>, opaque: u32, key: &[u8]) {
    request(out, Opcode::Delete.number(), opaque, 0, &RequestBody { key, ..RequestBody::default() });
}

/// A reply, borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    pub opcode: u8,
    /// Number of a [`Status`](super::Status), or one that is not known.
    pub status: u16,
    pub opaque: u32,
    /// Unique number of the item; 0: the reply has none.
    pub cas: u64,
    pub extras: &'a [u8],
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// Reason why the bytes of a server are no reply. The connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("a reply does not begin with 0x{REPLY_MAGIC:02x}")]
    Magic,
    #[error("the parts of a reply are longer than the whole")]
    Lengths,
    #[error("a reply is longer than {VALUE_BYTES_MAX} bytes")]
    TooLong,
}

/// Returns the reply at the start of `input` and its length in bytes, or `None` if it is torn.
///
/// # Errors
/// The first rule that the bytes break, however they arrive.
pub fn decode(input: &[u8]) -> Result<Option<(Reply<'_>, usize)>, DecodeError> {
    if input.first().is_some_and(|&magic| magic != REPLY_MAGIC) {
        return Err(DecodeError::Magic);
    }
    let Some((bytes, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let header = Header::read(bytes);
    let [_, key_start, value_start, end] = header.parts().ok_or(DecodeError::Lengths)?;
    if end > VALUE_BYTES_MAX {
        return Err(DecodeError::TooLong);
    }
    let Some(body) = rest.get(..end) else { return Ok(None) };
    let reply = Reply {
        opcode: header.opcode,
        status: header.status,
        opaque: header.opaque,
        cas: header.cas,
        extras: &body[..key_start],
        key: &body[key_start..value_start],
        value: &body[value_start..],
    };
    Ok(Some((reply, HEADER_BYTES + end)))
}
