//! Bodies as they should be, and as they arrive. They are not kept, but counted and hashed as they pass.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Size of the pieces in which files are hashed.
pub const PIECE_BYTES: usize = 1 << 20;

/// Facts about a file that are read before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileScan {
    Length,
    LengthAndDigest,
}

/// Depth to which a reply is checked. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, ValueEnum)]
pub enum FileVerify {
    /// Only that it is a reply, and not that the server failed or refused
    None,
    /// The document was found, if there is one
    Status,
    /// … and is as long as it should be
    Length,
    /// … and has the digest of the file in the directory
    Sha256,
}

/// Reads the length of a file, and its SHA-256 if asked for. `piece` is a buffer, and `observe` is told the number of
/// bytes after each piece that has been hashed.
///
/// # Errors
/// The file cannot be read.
pub fn scan_file(
    path: &Path,
    knowledge: FileScan,
    piece: &mut [u8],
    mut observe: impl FnMut(u64),
) -> io::Result<(u64, Option<[u8; 32]>)> {
    let mut file = File::open(path)?;
    if knowledge == FileScan::Length {
        return Ok((file.metadata()?.len(), None));
    }
    let (mut digest, mut length) = (Sha256::new(), 0);
    loop {
        let read = match file.read(piece) {
            Ok(0) => return Ok((length, Some(digest.finalize().into()))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        digest.update(&piece[..read]);
        length += read as u64;
        observe(read as u64);
    }
}

/// Part of a body that has arrived.
#[derive(Clone, Debug, Default)]
pub struct Body {
    bytes: u64,
    digest: Option<Sha256>,
}

impl Body {
    /// Counts a piece whose digest is of no interest, or that was not read into memory.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Counts and hashes a piece of a body that should be no longer than `length`.
    #[inline]
    pub(crate) fn hash(&mut self, piece: &[u8], length: u64) {
        self.bytes += piece.len() as u64;
        // What is too long is wrong already.
        if self.bytes <= length {
            self.digest.get_or_insert_default().update(piece);
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn has_digest(self, digest: Option<[u8; 32]>) -> bool {
        digest == Some(self.digest.unwrap_or_default().finalize().into())
    }
}
