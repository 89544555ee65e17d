//! Files in memory (mmap(2)).

use std::{io, os::fd::OwnedFd};

use bytes::Bytes;
use memmap2::Mmap;

/// Maps `len` bytes of a file. The bytes are for the kernel's eyes only: once the file has been truncated, reading the
/// lost pages in user space is SIGBUS, where a system call given them fails with EFAULT.
pub fn map_file(file: &OwnedFd, len: usize) -> io::Result<Bytes> {
    // SAFETY: the mapping is private and read-only and nobody reads it in user space (see above), so that a change of
    // the file underneath is never observed through a reference.
    let map = unsafe { memmap2::MmapOptions::new().len(len).map_copy_read_only(file)? };
    Ok(Bytes::from_owner(Kept(map)))
}

/// Limit of one [`PageReader::read`].
pub const PAGES_READ_MAX: usize = 64 * 1024;

/// Reader of mapped files, for whoever needs their bytes in user space: the kernel copies them to a file in memory and
/// from there, so that a page that the file has lost is an error and not SIGBUS.
#[derive(Debug)]
pub struct PageReader(OwnedFd);

impl PageReader {
    /// # Errors
    /// Those of memfd_create(2): no descriptors, no memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self(rustix::fs::memfd_create(c"pages", rustix::fs::MemfdFlags::CLOEXEC)?))
    }

    /// Copies the beginning of `mapped`, as much as `to` has room for and at most [`PAGES_READ_MAX`] bytes; returns how
    /// much.
    ///
    /// # Errors
    /// The first page has been lost (EFAULT), or there is no memory.
    pub fn read(&self, mapped: &[u8], to: &mut [u8]) -> io::Result<usize> {
        let len = mapped.len().min(to.len()).min(PAGES_READ_MAX);
        let copied = rustix::io::retry_on_intr(|| rustix::io::pwrite(&self.0, &mapped[..len], 0))?;
        Ok(rustix::io::retry_on_intr(|| rustix::io::pread(&self.0, &mut to[..copied], 0))?)
    }
}

struct Kept(Mmap);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn pages_that_a_file_has_lost_are_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..20_000_u32).map(|i| i as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let mapped = map_file(&File::open(&path).unwrap().into(), content.len()).unwrap();
        let (reader, mut to) = (PageReader::new().unwrap(), vec![0; 9_000]);
        assert_eq!((reader.read(&mapped, &mut to).unwrap(), &to[..]), (9_000, &content[..9_000]));
        File::options().write(true).open(&path).unwrap().set_len(4_096).unwrap();
        assert_eq!(reader.read(&mapped, &mut to).unwrap(), 4_096);
        assert!(reader.read(&mapped.slice(4_096..), &mut to).is_err());
    }
}
