//! FIFOs for replies.

use std::io;

use sys::fifo::{Directory, OpenError, Reader};

/// FIFO that is open for reading, and is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Fifo<'a> {
    directory: &'a Directory,
    pub(super) name: String,
    pub(super) reader: Reader,
}

impl<'a> Fifo<'a> {
    pub(super) fn make(directory: &'a Directory, name: String) -> io::Result<Self> {
        directory.make(name.as_bytes())?;
        match directory.open_reader(name.as_bytes()) {
            Ok(reader) => Ok(Self { directory, name, reader }),
            Err(error) => {
                // What is left is removed at the end of the run.
                let _ = directory.remove(name.as_bytes());
                Err(of_open(error))
            }
        }
    }
}

impl Drop for Fifo<'_> {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = self.directory.remove(self.name.as_bytes());
    }
}

pub(super) fn of_open(error: OpenError) -> io::Error {
    match error {
        OpenError::Exhausted => rustix::io::Errno::MFILE.into(),
        OpenError::Failed(errno) => errno.into(),
        OpenError::BadName
        | OpenError::Missing
        | OpenError::Link
        | OpenError::NotFifo
        | OpenError::NoReader
        | OpenError::Denied => io::Error::other(error),
    }
}
