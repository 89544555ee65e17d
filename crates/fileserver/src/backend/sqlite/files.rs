//! The files of databases, open as long as somebody reads one.
//!
//! Whoever closes any descriptor of a file takes all locks of its process from that file (fcntl(2)), those that SQLite
//! holds for other connections among them; a reader that loses one could see half of a writer's transaction. SQLite
//! keeps to that among its own descriptors. Therefore what is opened beside it, to look at the header, stays open
//! until no connection to the same file is left.

use std::{
    fs::File,
    io,
    mem::ManuallyDrop,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use sys::beneath::Metadata;

use super::header::Header;

/// Kept by whoever has a connection to the file, for as long as that is open.
#[derive(Debug)]
pub(super) struct Lease(Identity);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// Every file that somebody has a lease of, and at most one more.
#[derive(Debug, Default)]
pub(super) struct Files(Mutex<Vec<Open>>);

#[derive(Debug)]
struct Open {
    lease: Arc<Lease>,
    /// More than one only where a file was exchanged for another and back just as it was opened.
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
    /// What the file at `path` says of itself, and the lease without which no connection to it may be open. The next
    /// call may close what nobody has a lease of any more.
    ///
    /// # Errors
    /// Those of open(2) and pread(2).
    pub(super) fn look(&self, path: &Path) -> io::Result<(Header, Arc<Lease>)> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Metadata::at(path).ok().map(|metadata| Identity::from(&metadata));
        let place = match open.iter().position(|file| Some(file.lease.0) == known) {
            Some(place) => place,
            None => insert(&mut open, File::open(path)?)?,
        };
        let header = Header::of(&open[place].files[0]);
        let lease = Arc::clone(&open[place].lease);
        // Under the lock: nobody can be about to open a connection to one of them.
        open.retain(|file| Arc::strong_count(&file.lease) > 1);
        Ok((header?, lease))
    }
}

/// Where the file is, which may be one that is open already.
fn insert(open: &mut Vec<Open>, file: File) -> io::Result<usize> {
    let identity = match Metadata::of(&file) {
        Ok(metadata) => Identity::from(&metadata),
        Err(error) => {
            // Rather open for ever than closed under somebody's locks.
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
        files.0.lock().unwrap().iter().map(|open| open.files.len()).sum()
    }

    #[test]
    fn a_file_is_open_once_and_as_long_as_somebody_has_a_lease() {
        let directory = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| directory.path().join(name));
        fs::write(&path, "a").unwrap();
        fs::write(&other, "b").unwrap();
        let files = Files::default();
        let (_, first) = files.look(&path).unwrap();
        let (_, second) = files.look(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &second) && first.is_of(&Metadata::at(&path).unwrap()));
        assert_eq!(files_open(&files), 1);

        // Another file of the same name: the old one is open as long as it is leased.
        fs::rename(&other, &path).unwrap();
        let (_, third) = files.look(&path).unwrap();
        assert!(!Arc::ptr_eq(&first, &third) && third.is_of(&Metadata::at(&path).unwrap()));
        drop(first);
        let (_, fourth) = files.look(&path).unwrap();
        assert_eq!(files_open(&files), 2);
        drop(second);
        let (_, fifth) = files.look(&path).unwrap();
        assert_eq!(files_open(&files), 1);
        drop((third, fourth, fifth));
        assert!(files.look(directory.path().join("none").as_path()).is_err());
    }
}
