//! How values are kept: as they are, or compressed.
//!
//! A compressed value begins with the length of what it stands for (4 bytes, little endian), which bounds the memory
//! that decoding takes: a decoder never writes more.

use std::{
    borrow::Cow,
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

use service::{Choice, Dimension};

mod algorithms;

use algorithms::{Algorithm, Gzip, Lz4, Zstd};

/// The bits of an entry's encoding that say how the value is kept.
const ALGORITHM: u8 = 0b0111;
/// The bit that does not: a memcached client has fetched the entry.
pub(crate) const FETCHED: u8 = 0b1000;
/// The encoding of a value that is kept as it is.
const RAW: u8 = 0;
/// The length in front of a compressed value.
const LENGTH_BYTES: usize = 4;
/// The longest value that is compressed: its length must fit in front of it, and a thread's buffers are as large.
const VALUE_BYTES_MAX: usize = 1 << 30;

macro_rules! compressions {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal, $number:literal => $algorithm:ty;)+) => {
        /// What is done to large values.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Compression {
            /// values are kept as they are
            #[default]
            None,
            $($(#[doc = $about])+ $kind,)+
        }

        impl Compression {
            pub const ALL: &[Self] = &[Self::None, $(Self::$kind,)+];

            pub fn name(self) -> &'static str {
                match self { Self::None => "none", $(Self::$kind => $name,)+ }
            }

            pub fn about(self) -> &'static str {
                match self {
                    Self::None => "values are kept as they are",
                    $(Self::$kind => concat!($($about,)+).trim_ascii(),)+
                }
            }

            /// What is recorded beside a value that is kept like this.
            fn encoding(self) -> u8 {
                match self { Self::None => RAW, $(Self::$kind => $number,)+ }
            }

            /// Appends the compressed value to `kept` if it is at most `max` bytes long.
            fn compress(self, value: &[u8], max: usize, kept: &mut Vec<u8>) -> Option<()> {
                match self { Self::None => None, $(Self::$kind => <$algorithm>::compress(value, max, kept),)+ }
            }
        }

        /// Decodes exactly `len` bytes with the algorithm of this number.
        fn decompress(encoding: u8, kept: &[u8], len: usize) -> Result<Vec<u8>, Damage> {
            match encoding {
                $($number => <$algorithm>::decompress(kept, len).ok_or(Damage::Content),)+
                _ => Err(Damage::Algorithm),
            }
        }
    };
}

compressions! {
    /// DEFLATE with gzip's frame, level 1: what the original did
    Gzip = "gzip", 1 => Gzip;
    /// LZ4 blocks
    Lz4 = "lz4", 2 => Lz4;
    /// Zstandard frames, level 1
    Zstd = "zstd", 3 => Zstd;
}

macro_rules! damages {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal;)+) => {
        /// Why a value cannot be decoded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Damage {
            $($(#[doc = $about])+ $kind,)+
        }

        impl Damage {
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }
        }

        /// Values that could not be decoded, by [`Damage`].
        type Failures = [AtomicU64; [$(Damage::$kind,)+].len()];
    };
}

damages! {
    /// its encoding is none that there is
    Algorithm = "algorithm";
    /// the length in front of it is missing, or longer than any value
    Length = "length";
    /// the algorithm finds it damaged, or its length is not the one in front of it
    Content = "content";
}

/// Not the name of a compression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown compression `{0}`; there are {names}", names = Compression::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownCompression(String);

impl FromStr for Compression {
    type Err = UnknownCompression;

    fn from_str(name: &str) -> Result<Self, UnknownCompression> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| UnknownCompression(name.to_owned()))
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What `--list-backends` says of compression.
pub fn dimension() -> Dimension {
    let choice = |kind: &Compression| Choice {
        name: kind.name().to_owned(),
        description: kind.about().to_owned(),
        unavailable: None,
        facts: None,
    };
    Dimension {
        name: "compression",
        flag: "--compression",
        default: Compression::default().name().to_owned(),
        choices: Compression::ALL.iter().map(choice).collect(),
    }
}

/// What is done to values on their way in and out.
#[derive(Debug, Default)]
pub struct Codec {
    compression: Compression,
    threshold: usize,
    failures: Failures,
}

impl Clone for Codec {
    /// With the same choices; failures are counted anew.
    fn clone(&self) -> Self {
        Self::new(self.compression, self.threshold)
    }
}

impl Codec {
    /// Compresses values of at least `threshold` bytes.
    pub fn new(compression: Compression, threshold: usize) -> Self {
        Self { compression, threshold, failures: Failures::default() }
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Values shorter than this are kept as they are.
    #[inline]
    pub fn threshold(&self) -> usize {
        if self.compression == Compression::None { usize::MAX } else { self.threshold }
    }

    /// How often a value could not be decoded, each time a miss for who asked.
    pub fn failures(&self, damage: Damage) -> u64 {
        self.failures[damage as usize].load(Ordering::Relaxed)
    }

    /// The bytes to keep, and their encoding. What would not shrink by a sixteenth is kept as it is.
    pub fn encode<'v>(&self, value: &'v [u8]) -> (Cow<'v, [u8]>, u8) {
        if value.len() < self.threshold() || value.len() > VALUE_BYTES_MAX {
            return (Cow::Borrowed(value), RAW);
        }
        match self.compress(value) {
            Some(kept) => (Cow::Owned(kept), self.compression.encoding()),
            None => (Cow::Borrowed(value), RAW),
        }
    }

    fn compress(&self, value: &[u8]) -> Option<Vec<u8>> {
        let len = u32::try_from(value.len()).ok()?;
        let max = (value.len() - value.len() / 16).checked_sub(LENGTH_BYTES + 1)?;
        let mut kept = Vec::with_capacity(LENGTH_BYTES + max);
        kept.extend_from_slice(&len.to_le_bytes());
        self.compression.compress(value, max, &mut kept)?;
        Some(kept)
    }

    /// `None`: not something [`Codec::encode`] has made, with whatever choices.
    #[inline]
    pub fn decode<'v>(&self, kept: &'v [u8], encoding: u8) -> Option<Cow<'v, [u8]>> {
        match encoding & ALGORITHM {
            RAW => Some(Cow::Borrowed(kept)),
            algorithm => self.decompress(kept, algorithm).map(Cow::Owned),
        }
    }

    fn decompress(&self, kept: &[u8], algorithm: u8) -> Option<Vec<u8>> {
        let len = decoded_len(kept).ok_or(Damage::Length);
        match len.and_then(|len| decompress(algorithm, &kept[LENGTH_BYTES..], len)) {
            Ok(value) => Some(value),
            Err(damage) => {
                self.failures[damage as usize].fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

fn decoded_len(kept: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(*kept.first_chunk::<LENGTH_BYTES>()?);
    usize::try_from(len).ok().filter(|&len| len <= VALUE_BYTES_MAX)
}

#[cfg(test)]
mod tests;
