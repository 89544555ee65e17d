//! The format of a snapshot. All numbers are little endian.
//!
//! ```text
//! file    = magic (8 bytes) version u32 unix_ms u64 crc32 u32, block*, end
//! block   = length u32 > 0, entries u32, entry* (length bytes), crc32 u32
//! entry   = key_len u32 value_len u32 expires_at u64 flags u32 version u64 encoding u8, key, value
//! end     = length u32 = 0, 0 u32, entries u64, crc32 u32
//! ```
//!
//! Each checksum covers everything since the one before it. Values are as the store keeps them, compressed or not; keys
//! begin with the mark of their database unless that is 0. A collection is packed, however large, as `store::collections`
//! describes it.

use std::{
    io::{self, ErrorKind, Read, Write},
    path::Path,
};

use store::Attributes;

use super::SnapshotError;

const MAGIC: [u8; 8] = *b"KVSNAP\r\n";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = MAGIC.len() + 4 + 8;
const BLOCK_HEADER_BYTES: usize = 8;
const ENTRY_HEADER_BYTES: usize = 29;
const CRC_BYTES: u64 = 4;
/// Bytes from which on a block is written.
const BLOCK_BYTES: usize = 256 * 1024;
/// Limit of a block: one entry of the longest key and value, beside a whole block.
const BLOCK_BYTES_MAX: u32 = (3 << 30) - 1;

/// One key with its value and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotEntry<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) attributes: Attributes,
}

/// Writes entries, block by block.
#[derive(Debug)]
pub(super) struct Writer<W> {
    file: W,
    block: Vec<u8>,
    entries: u32,
    total: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn begin(mut file: W, unix_ms: u64) -> io::Result<Self> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&unix_ms.to_le_bytes());
        let crc = crc32fast::hash(&header);
        header.extend_from_slice(&crc.to_le_bytes());
        file.write_all(&header)?;
        Ok(Self { file, block: Vec::with_capacity(BLOCK_BYTES), entries: 0, total: 0 })
    }

    /// Returns the number of bytes that [`Writer::flush`] would write.
    pub(super) fn pending(&self) -> usize {
        self.block.len()
    }

    /// Adds an entry to the block. One longer than the format allows is left out: no store has such.
    pub(super) fn add(&mut self, entry: &SnapshotEntry<'_>) {
        let SnapshotEntry { key, value, attributes: Attributes { expires_at, flags, version, encoding } } = *entry;
        let (Ok(key_len), Ok(value_len)) = (u32::try_from(key.len()), u32::try_from(value.len())) else { return };
        if self.block.is_empty() {
            self.block.extend_from_slice(&[0; BLOCK_HEADER_BYTES]);
        }
        self.block.extend_from_slice(&key_len.to_le_bytes());
        self.block.extend_from_slice(&value_len.to_le_bytes());
        self.block.extend_from_slice(&expires_at.to_le_bytes());
        self.block.extend_from_slice(&flags.to_le_bytes());
        self.block.extend_from_slice(&version.to_le_bytes());
        self.block.push(encoding);
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(value);
        self.entries += 1;
    }

    /// Writes the block if it is large enough.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.block.len() >= BLOCK_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(self.block.len() - BLOCK_HEADER_BYTES).ok().filter(|&len| len <= BLOCK_BYTES_MAX);
        let length = length.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "a block is too long"))?;
        self.block[..4].copy_from_slice(&length.to_le_bytes());
        self.block[4..8].copy_from_slice(&self.entries.to_le_bytes());
        let crc = crc32fast::hash(&self.block);
        self.block.extend_from_slice(&crc.to_le_bytes());
        self.file.write_all(&self.block)?;
        self.total += u64::from(self.entries);
        (self.entries, self.block) = (0, Vec::with_capacity(BLOCK_BYTES));
        Ok(())
    }

    /// Writes what is left. Returns the number of entries.
    pub(super) fn end(mut self) -> io::Result<u64> {
        self.write()?;
        let mut end = vec![0; BLOCK_HEADER_BYTES];
        end.extend_from_slice(&self.total.to_le_bytes());
        let crc = crc32fast::hash(&end);
        end.extend_from_slice(&crc.to_le_bytes());
        self.file.write_all(&end)?;
        self.file.flush()?;
        Ok(self.total)
    }
}

/// Reason why a file is not read to its end.
#[derive(Debug)]
pub(super) enum FormatError {
    Io(io::Error),
    Damaged { offset: u64, what: &'static str },
    DoesNotFit,
}

impl From<io::Error> for FormatError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl FormatError {
    pub(super) fn with_path(self, path: &Path) -> SnapshotError {
        let path = path.to_owned();
        match self {
            Self::Io(error) => SnapshotError::Io { path, error },
            Self::Damaged { offset, what } => SnapshotError::Damaged { path, offset, what },
            Self::DoesNotFit => SnapshotError::DoesNotFit { path },
        }
    }
}

/// Reads entries, block by block.
#[derive(Debug)]
pub(super) struct Reader<R> {
    file: R,
    offset: u64,
    /// Length of the file: memory is never allocated for more than what is left of it. `None`: it comes from a process of
    /// this program, and something follows its end.
    len: Option<u64>,
}

impl<R: Read> Reader<R> {
    pub(super) fn begin(file: R, len: Option<u64>) -> Result<Self, FormatError> {
        let mut reader = Self { file, offset: 0, len };
        let header = reader.piece(HEADER_BYTES as u64)?;
        reader.checksum(&[&header])?;
        let (magic, rest) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(FormatError::Damaged { offset: 0, what: "it does not begin like a snapshot" });
        }
        if number::<4>(rest) != u64::from(VERSION) {
            return Err(FormatError::Damaged { offset: MAGIC.len() as u64, what: "another version of the format" });
        }
        Ok(reader)
    }

    /// Visits all entries.
    pub(super) fn each(
        mut self,
        mut visit: impl FnMut(SnapshotEntry<'_>) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let mut total = 0;
        loop {
            let begin = self.offset;
            let header = self.piece(BLOCK_HEADER_BYTES as u64)?;
            let (length, entries) = (number::<4>(&header), number::<4>(&header[4..]));
            if length == 0 {
                return self.end(&header, entries, total);
            }
            if length > u64::from(BLOCK_BYTES_MAX) {
                return Err(FormatError::Damaged { offset: begin, what: "a block is too long" });
            }
            let at = self.offset;
            let block = self.piece(length)?;
            self.checksum(&[&header, &block])?;
            let mut rest = &block[..];
            for _ in 0..entries {
                let offset = at + (block.len() - rest.len()) as u64;
                let (entry, behind) =
                    split(rest).ok_or(FormatError::Damaged { offset, what: "an entry is longer than its block" })?;
                if !store::is_portable(entry.value, entry.attributes.encoding) {
                    return Err(FormatError::Damaged { offset, what: "a value is none of its type" });
                }
                visit(entry)?;
                rest = behind;
            }
            if !rest.is_empty() {
                return Err(FormatError::Damaged { offset: begin, what: "a block is longer than its entries" });
            }
            total += entries;
        }
    }

    fn end(mut self, header: &[u8], entries: u64, total: u64) -> Result<(), FormatError> {
        let begin = self.offset;
        let announced = self.piece(8)?;
        self.checksum(&[header, &announced])?;
        if entries != 0 || number::<8>(&announced) != total {
            return Err(FormatError::Damaged { offset: begin, what: "there are more or fewer entries than it says" });
        }
        match self.len.is_none_or(|len| len == self.offset) {
            true => Ok(()),
            false => Err(FormatError::Damaged { offset: self.offset, what: "something follows the end" }),
        }
    }

    fn piece(&mut self, len: u64) -> Result<Vec<u8>, FormatError> {
        let cut_short = FormatError::Damaged { offset: self.offset, what: "it has been cut short" };
        let left = self.len.map_or(u64::MAX, |whole| whole.saturating_sub(self.offset));
        let (true, Ok(wanted)) = (len <= left, usize::try_from(len)) else {
            return Err(cut_short);
        };
        let mut piece = vec![0; wanted];
        match self.file.read_exact(&mut piece) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(cut_short),
            Err(error) => return Err(error.into()),
        }
        self.offset += len;
        Ok(piece)
    }

    /// Reads a checksum and compares it with that of these pieces.
    fn checksum(&mut self, pieces: &[&[u8]]) -> Result<(), FormatError> {
        let offset = self.offset;
        let expected = number::<4>(&self.piece(CRC_BYTES)?);
        let mut crc = crc32fast::Hasher::new();
        pieces.iter().for_each(|piece| crc.update(piece));
        if u64::from(crc.finalize()) != expected {
            return Err(FormatError::Damaged { offset, what: "a checksum does not match what is in front of it" });
        }
        Ok(())
    }
}

/// Splits the first entry off a block.
fn split(block: &[u8]) -> Option<(SnapshotEntry<'_>, &[u8])> {
    let (header, rest) = block.split_at_checked(ENTRY_HEADER_BYTES)?;
    let len = |at: usize| usize::try_from(number::<4>(&header[at..])).ok();
    let (key, rest) = rest.split_at_checked(len(0)?)?;
    let (value, rest) = rest.split_at_checked(len(4)?)?;
    let attributes = Attributes {
        expires_at: number::<8>(&header[8..]),
        flags: u32::try_from(number::<4>(&header[16..])).ok()?,
        version: number::<8>(&header[20..]),
        encoding: Some(header[28]).filter(|&encoding| encoding < 16)?,
    };
    Some((SnapshotEntry { key, value, attributes }, rest))
}

/// Reads the number in the first `N` bytes, which must be there.
fn number<const N: usize>(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number[..N].copy_from_slice(&bytes[..N]);
    u64::from_le_bytes(number)
}
