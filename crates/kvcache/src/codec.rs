//! Encoding of stored values: as they are, or compressed.
//!
//! A compressed value begins with the length of the original (4 bytes, little endian), which bounds the memory that
//! decoding takes: a decoder never writes more.

mod algorithms;

use std::{
    borrow::Cow,
    sync::atomic::{AtomicU64, Ordering},
};

use clap::ValueEnum;
use service::Dimension;

use self::algorithms::{Algorithm, Gzip, Lz4, Zstd};

/// Bits of an entry's encoding that name the algorithm.
const ALGORITHM: u8 = 0b0111;
/// Bit of an entry's encoding that a [`Codec`] ignores: a memcached client has fetched the entry.
pub(crate) const FETCHED: u8 = 0b1000;
/// Encoding of a value that is kept as it is.
const RAW: u8 = 0;
/// Bytes of the length in front of a compressed value.
const LENGTH_BYTES: usize = 4;
/// Limit of the values that are compressed: the length must fit in front of the value, and a thread's buffers are as
/// large.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// Compression of large values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// values are stored as they are
    #[default]
    #[value(aliases = ["", "0", "false", "no", "off"])]
    None,
    /// DEFLATE with gzip's frame, level 1: what the original did
    #[value(aliases = ["1", "true", "yes", "on"])]
    Gzip,
    /// LZ4 blocks
    Lz4,
    /// Zstandard frames, level 1
    Zstd,
}

impl Compression {
    /// Returns the number that is recorded beside a value that is kept like this.
    fn encoding(self) -> u8 {
        match self {
            Self::None => RAW,
            Self::Gzip => 1,
            Self::Lz4 => 2,
            Self::Zstd => 3,
        }
    }

    /// Appends the compressed value to `encoded` if it is at most `max` bytes long.
    fn compress(self, value: &[u8], max: usize, encoded: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::None => None,
            Self::Gzip => Gzip::compress(value, max, encoded),
            Self::Lz4 => Lz4::compress(value, max, encoded),
            Self::Zstd => Zstd::compress(value, max, encoded),
        }
    }
}

/// Decodes exactly `len` bytes with the algorithm of this number.
fn decompress(encoding: u8, encoded: &[u8], len: usize) -> Result<Vec<u8>, DecodeError> {
    let value = match encoding {
        1 => Gzip::decompress(encoded, len),
        2 => Lz4::decompress(encoded, len),
        3 => Zstd::decompress(encoded, len),
        _ => return Err(DecodeError::Algorithm),
    };
    value.ok_or(DecodeError::Content)
}

/// Reason why a value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The encoding is unknown.
    Algorithm,
    /// The length in front of the value is missing, or longer than any value.
    Length,
    /// The algorithm finds the value damaged, or it does not have the length in front of it.
    Content,
}

impl DecodeError {
    pub const ALL: &[Self] = &[Self::Algorithm, Self::Length, Self::Content];

    pub fn name(self) -> &'static str {
        match self {
            Self::Algorithm => "algorithm",
            Self::Length => "length",
            Self::Content => "content",
        }
    }
}

/// Returns what `--list-backends` says of compression.
pub fn compression_dimension() -> Dimension {
    Dimension::of("compression", "--compression", &Compression::None)
}

/// Encoder and decoder of values.
#[derive(Debug, Default)]
pub struct Codec {
    compression: Compression,
    threshold: usize,
    /// Failures to decode, by [`DecodeError`].
    failures: [AtomicU64; DecodeError::ALL.len()],
}

impl Clone for Codec {
    /// Copies the choices; failures are counted anew.
    fn clone(&self) -> Self {
        Self::new(self.compression, self.threshold)
    }
}

impl Codec {
    /// Returns a codec that compresses values of at least `threshold` bytes.
    pub fn new(compression: Compression, threshold: usize) -> Self {
        Self { compression, threshold, failures: Default::default() }
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the length below which values are kept as they are.
    #[inline]
    pub fn threshold(&self) -> usize {
        if self.compression == Compression::None { usize::MAX } else { self.threshold }
    }

    /// Returns the number of failures to decode for this reason; each was a miss for the client.
    pub fn failures(&self, error: DecodeError) -> u64 {
        self.failures[error as usize].load(Ordering::Relaxed)
    }

    /// Returns the bytes to store, and their encoding. A value that would not shrink by a sixteenth is kept as it is.
    pub fn encode<'v>(&self, value: &'v [u8]) -> (Cow<'v, [u8]>, u8) {
        if value.len() < self.threshold() || value.len() > VALUE_BYTES_MAX {
            return (Cow::Borrowed(value), RAW);
        }
        match self.compress(value) {
            Some(encoded) => (Cow::Owned(encoded), self.compression.encoding()),
            None => (Cow::Borrowed(value), RAW),
        }
    }

    fn compress(&self, value: &[u8]) -> Option<Vec<u8>> {
        let len = u32::try_from(value.len()).ok()?;
        let max = (value.len() - value.len() / 16).checked_sub(LENGTH_BYTES + 1)?;
        let mut encoded = Vec::with_capacity(LENGTH_BYTES + max);
        encoded.extend_from_slice(&len.to_le_bytes());
        self.compression.compress(value, max, &mut encoded)?;
        Some(encoded)
    }

    /// Decodes a stored value. `None` means that no [`Codec::encode`] has made it, whatever the choices.
    #[inline]
    pub fn decode<'v>(&self, encoded: &'v [u8], encoding: u8) -> Option<Cow<'v, [u8]>> {
        match encoding & ALGORITHM {
            RAW => Some(Cow::Borrowed(encoded)),
            algorithm => self.decompress(encoded, algorithm).map(Cow::Owned),
        }
    }

    fn decompress(&self, encoded: &[u8], algorithm: u8) -> Option<Vec<u8>> {
        let len = decoded_len(encoded).ok_or(DecodeError::Length);
        match len.and_then(|len| decompress(algorithm, &encoded[LENGTH_BYTES..], len)) {
            Ok(value) => Some(value),
            Err(error) => {
                self.failures[error as usize].fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

fn decoded_len(encoded: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(*encoded.first_chunk::<LENGTH_BYTES>()?);
    usize::try_from(len).ok().filter(|&len| len <= VALUE_BYTES_MAX)
}

#[cfg(test)]
mod tests;
