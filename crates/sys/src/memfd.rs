//! Files that live in memory and have no name (memfd_create(2)).

use std::{
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// An empty file.
///
/// # Errors
/// Those of memfd_create(2): no descriptors, no memory.
pub fn empty() -> io::Result<OwnedFd> {
    Ok(memfd_create(c"kept", MemfdFlags::CLOEXEC)?)
}

/// A file with these contents, which nobody can change any more.
///
/// # Errors
/// Those of memfd_create(2) and write(2): no descriptors, no memory.
pub fn sealed(contents: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create(c"sealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(file);
    file.write_all(contents)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::fs::FileExt};

    use super::*;

    #[test]
    fn what_is_sealed_can_be_read_and_not_changed() {
        let mut file = File::from(sealed(b"contents").unwrap());
        assert!(file.write_at(b"x", 0).is_err() && file.set_len(3).is_err() && file.set_len(30).is_err());
        let mut text = String::new();
        io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "contents");
    }
}
