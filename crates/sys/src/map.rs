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

struct Kept(Mmap);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
