//! Contents of a file as they were at one moment.

use std::{fs::File, io, os::unix::fs::FileExt};

use crate::beneath::{Metadata, OpenError};

/// Number of times that a file which is being written is read again before its reader gives up.
const READ_TRIES: usize = 3;

/// The contents of a small file, as they were at one moment: bytes that are read during a write are read again.
/// `before` is the file's state since before anything was read.
///
/// `None` when there are more than `bytes_max` bytes, or when the file does not come to rest.
///
/// # Errors
/// Those of fstat(2) and pread(2).
pub fn read_unchanging(
    file: &File,
    mut before: Metadata,
    bytes_max: u64,
) -> Result<Option<(Vec<u8>, Metadata)>, OpenError> {
    for _ in 0..READ_TRIES {
        if before.size > bytes_max {
            return Ok(None);
        }
        let Ok(size) = usize::try_from(before.size) else { return Ok(None) };
        let mut contents = vec![0; size];
        let whole = match file.read_exact_at(&mut contents, 0) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(error.into()),
        };
        let after = Metadata::of(file)?;
        if whole && after == before {
            return Ok(Some((contents, after)));
        }
        before = after;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents and metadata are of one moment: a file that has changed since its metadata was read is read again.
    #[test]
    fn what_changes_while_it_is_read_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        let file = File::open(&path).unwrap();
        let now = Metadata::of(&file).unwrap();
        for (before, why) in [
            (now, "unchanged"),
            (Metadata { size: 4, ..now }, "grown"),
            (Metadata { size: 20, ..now }, "shrunk"),
            (Metadata { changed_ns: 0, ..now }, "rewritten"),
        ] {
            let (contents, metadata) = read_unchanging(&file, before, 20).unwrap().expect(why);
            assert_eq!((&contents[..], metadata), (&b"0123456789"[..], now), "{why}");
        }
        assert!(read_unchanging(&file, now, 9).unwrap().is_none(), "too large");
        assert!(read_unchanging(&file, Metadata { size: 4, ..now }, 9).unwrap().is_none(), "grown too large");
    }
}
