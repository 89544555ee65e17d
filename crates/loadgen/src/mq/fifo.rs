//! FIFOs for answers.

use std::io;
use std::path::PathBuf;

use sys::fifo::{Directory, OpenError, Reader};

use super::Plan;

/// A FIFO that is open for reading, and is removed with this.
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
                // Sweeping at the end of the run would find it, too.
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

fn of_open(error: OpenError) -> io::Error {
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

/// Removes what clients that were killed have left, when it is dropped.
#[derive(Debug)]
pub(super) struct Sweep {
    directory: PathBuf,
    prefix: String,
}

impl Sweep {
    pub(super) fn of(plan: &Plan) -> Self {
        Self { directory: plan.fifo_directory.clone(), prefix: plan.prefix.clone() }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(self.prefix.as_bytes()) {
                // Best effort: what cannot be removed now never will be.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
