//! HPACK (RFC 7541): header blocks of HTTP/2.
//!
//! The decoder keeps the dynamic table that the peer's encoder fills, within the size that was announced. The encoder adds
//! nothing to the peer's table: what it writes depends on nothing that was written before, so a block can be rendered ahead
//! and sent on any connection. nginx does the same.
//!
//! docs/http2.md says why it is written here.

mod decoder;
mod dynamic;
mod encode;
mod huffman;
mod table;

pub use self::{
    decoder::{Decoder, Field, HpackError},
    encode::{push_date, push_field, push_size_update},
};

/// Size of the dynamic table that both sides begin with, in bytes (RFC 9113, section 6.5.2).
pub const TABLE_BYTES: usize = 4096;

#[cfg(test)]
mod tests;
