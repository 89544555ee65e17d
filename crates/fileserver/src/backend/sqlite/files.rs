//! Files of databases, open as long as they have readers.
//!
//! Closing any descriptor of a file releases all locks that the process has on it (fcntl(2)), those that SQLite holds for
//! other connections among them. A reader without its lock could see half of a writer's transaction. SQLite takes care of
//! its own descriptors. A descriptor that is opened beside it, to read the header, therefore stays open until no connection
//! to the same file is left.

use std::{fs::File, io, mem::ManuallyDrop, path::Path, sync::Arc};

use parking_lot::Mutex;
use sys::beneath::Metadata;

use super::header::Header;

/// Right to a connection to the file; held for as long as the connection is open.
#[derive(Debug)]
pub(super) struct Lease(Identity);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// Files with leases, and at most one more.
#[derive(Debug, Default)]
pub(super) struct Files(Mutex<Vec<Open>>);

#[derive(Debug)]
struct Open {
    lease: Arc<Lease>,
    /// Descriptors of the file; several only if it was exchanged for another and back just as it was opened.
    files: Vec<File>,
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.device, inode: metadata.inode }
    }
}

impl Lease {
    pub(super) fn is_of(&self, metadata: &Metadata) -> bool {
        self.0 == Identity::from(metadata)
    }
}

impl Files {
    /// Reads the header of the file at `path`. Returns the lease, too, without which no connection to it may be open. The
    /// next call may close files without a lease.
    ///
    /// # Errors
    /// Those of open(2) and pread(2).
    pub(super) fn open(&self, path: &Path) -> io::Result<(Header, Arc<Lease>)> {
        let mut open = self.0.lock();
        let known = Metadata::at(path).ok().map(|metadata| Identity::from(&metadata));
        let place = match open.iter().position(|file| Some(file.lease.0) == known) {
            Some(place) => place,
            None => insert(&mut open, File::open(path)?)?,
        };
        let header = Header::read(&open[place].files[0]);
        let lease = Arc::clone(&open[place].lease);
        // Under the lock: no thread can be about to open a connection to one of them.
        open.retain(|file| Arc::strong_count(&file.lease) > 1);
        Ok((header?, lease))
    }
}

/// Adds a file, which may be open already. Returns its index.
fn insert(open: &mut Vec<Open>, file: File) -> io::Result<usize> {
    let identity = match Metadata::of(&file) {
        Ok(metadata) => Identity::from(&metadata),
        Err(error) => {
            // Open for ever is better than closed under another reader's locks.
            let _open = ManuallyDrop::new(file);
            return Err(error.into());
        }
    };
    if let Some(place) = open.iter().position(|other| other.lease.0 == identity) {
        open[place].files.push(file);
        return Ok(place);
    }
    open.push(Open { lease: Arc::new(Lease(identity)), files: vec![file] });
    Ok(open.len() - 1)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn files_open(files: &Files) -> usize {
        files.0.lock().iter().map(|open| open.files.len()).sum()
    }

    #[test]
    fn a_file_is_open_once_and_as_long_as_it_has_leases() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| directory.path().join(name));
        fs::write(&path, "a").unwrap();
        fs::write(&other, "b").unwrap();
        let files = Files::default();
        let (_, first) = files.open(&path).unwrap();
        let (_, second) = files.open(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &second) && first.is_of(&Metadata::at(&path).unwrap()));
        assert_eq!(files_open(&files), 1);

        // Another file of the same name: the old one is open as long as it is leased.
        fs::rename(&other, &path).unwrap();
        let (_, third) = files.open(&path).unwrap();
        assert!(!Arc::ptr_eq(&first, &third) && third.is_of(&Metadata::at(&path).unwrap()));
        drop(first);
        let (_, fourth) = files.open(&path).unwrap();
        assert_eq!(files_open(&files), 2);
        drop(second);
        let (_, fifth) = files.open(&path).unwrap();
        assert_eq!(files_open(&files), 1);
        drop((third, fourth, fifth));
        assert!(files.open(directory.path().join("none").as_path()).is_err());
    }
}
