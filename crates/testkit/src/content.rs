//! Files of pseudo-random bytes, which repeat nowhere, and digests.

use std::{fs, fs::File, io::Write, path::Path};

use anyhow::Context;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// A directory with one file in it, both removed when this is dropped.
#[derive(Debug)]
pub struct Content {
    dir: TempDir,
    bytes: Vec<u8>,
}

impl Content {
    /// Writes a file of pseudo-random bytes, the same for the same length.
    pub fn new(len: usize) -> anyhow::Result<Self> {
        let dir = TempDir::with_prefix("testkit-").context("cannot make a temporary directory")?;
        let bytes = pseudo_random(len);
        fs::write(dir.path().join("content"), &bytes).context("cannot write the content file")?;
        Ok(Self { dir, bytes })
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("content")
    }

    /// Directory of the file, with room for more temporary files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Truncates the file in place.
    pub fn truncate(&self, len: u64) -> anyhow::Result<()> {
        let mut file = File::options().write(true).open(self.path())?;
        file.set_len(len)?;
        Ok(file.flush()?)
    }
}

/// Returns output of SplitMix64 (Steele, Lea, Flood 2014), seeded with the length.
fn pseudo_random(len: usize) -> Vec<u8> {
    let mut state = len as u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    });
    words.flat_map(u64::to_le_bytes).take(len).collect()
}

/// Returns the SHA-256 digest of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
