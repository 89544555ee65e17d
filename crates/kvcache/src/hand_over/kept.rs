//! Keys that outlive a restart in a file in memory that the service manager keeps for the next process.
//!
//! Its own length and a mark end the file: a process that is killed meanwhile leaves nothing. A confined process writes it by
//! nothing but write(2).

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    os::unix::fs::FileExt,
};

use anyhow::ensure;
use store::Store;

use crate::server::KvServer;

const MARK: [u8; 8] = *b"qt-kept\n";

/// Returns what ends a file with so many bytes of keys.
fn trailer(length: u64) -> [u8; 16] {
    let mut trailer = [0; 16];
    trailer[..8].copy_from_slice(&length.to_le_bytes());
    trailer[8..].copy_from_slice(&MARK);
    trailer
}

impl<S: Store + 'static> KvServer<S> {
    /// Writes everything that all connections share into an empty file. Returns the number of keys.
    ///
    /// # Errors
    /// There is no memory for it; then nothing is left.
    pub(crate) fn leave_keys(&self, mut file: &File) -> io::Result<u64> {
        let mut to = BufWriter::with_capacity(1 << 16, file);
        let keys = self.send_keys(&mut to)?;
        to.flush()?;
        let length = file.metadata()?.len();
        file.write_all(&trailer(length))?;
        Ok(keys)
    }

    /// Takes what the process before this one has left, and empties the file. False if that has left nothing.
    ///
    /// # Errors
    /// It is not of this version, or does not fit; what has been taken by then stays.
    pub(crate) fn take_left_keys(&self, file: &File) -> anyhow::Result<bool> {
        let taken = self.read_left_keys(file);
        file.set_len(0)?;
        let mut file = file;
        file.rewind()?;
        taken
    }

    fn read_left_keys(&self, mut file: &File) -> anyhow::Result<bool> {
        let bytes = file.metadata()?.len();
        if bytes == 0 {
            return Ok(false);
        }
        let mut ends_with = [0; 16];
        let length = bytes.saturating_sub(ends_with.len() as u64);
        let is_read = file.read_exact_at(&mut ends_with, length).is_ok();
        ensure!(is_read && ends_with == trailer(length), "the process before this one was ended while it wrote them");
        file.rewind()?;
        self.receive_keys(&mut BufReader::with_capacity(1 << 16, file.take(length)))?;
        Ok(true)
    }
}
