//! FIFOs (fifo(7)): made, opened and removed by name in one directory, which no name leaves; and their capacity.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags},
    io::{Errno, retry_on_intr},
    pipe,
};

/// The directory that FIFOs are in. It stays the same directory when its name comes to mean another.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// The writing side of a FIFO. It never waits: what the FIFO has no room for is `WouldBlock`, and `BrokenPipe` says
/// that nobody reads any more (Rust's runtime ignores SIGPIPE).
#[derive(Debug)]
pub struct Writer(OwnedFd);

/// The reading side of a FIFO. Reading does not wait; 0 bytes are read while nobody has it open for writing.
#[derive(Debug)]
pub struct Reader(OwnedFd);

/// Owner and permissions of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// A user id.
    pub owner: u32,
    /// Permission bits, those of set-user-id, set-group-id and sticky included.
    pub mode: u32,
}

impl Ownership {
    /// Nobody but its owner, and root, can list, search or change it. Where there is an access control list, the bits
    /// of the group are the most that it grants to anybody (acl(5)), so this speaks for lists, too.
    pub fn is_for_owner_alone(self) -> bool {
        self.mode & 0o077 == 0
    }
}

/// Reason that a name is not a FIFO that can be written into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Empty, longer than a name may be, `.`, `..`, or with a `/` or a NUL in it.
    #[error("not the name of a file in a directory")]
    BadName,
    #[error("no such FIFO")]
    Missing,
    #[error("a symbolic link")]
    Link,
    /// A regular file, directory, socket or device.
    #[error("not a FIFO")]
    NotFifo,
    /// Nobody has opened it for reading yet; that may come.
    #[error("nobody has opened the FIFO for reading")]
    NoReader,
    #[error("permission denied")]
    Denied,
    /// Out of descriptors; may pass.
    #[error("out of file descriptors")]
    Exhausted,
    #[error(transparent)]
    Failed(Errno),
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::BadName => Errno::INVAL,
            OpenError::Missing => Errno::NOENT,
            OpenError::Link => Errno::LOOP,
            OpenError::NotFifo => Errno::NOTSUP,
            OpenError::NoReader => Errno::NXIO,
            OpenError::Denied => Errno::ACCESS,
            OpenError::Exhausted => Errno::MFILE,
            OpenError::Failed(errno) => errno,
        }
        .into()
    }
}

impl Directory {
    /// The longest name of a file, in bytes.
    pub const NAME_MAX: usize = 255;

    /// # Errors
    /// Those of open(2).
    pub fn open(path: impl rustix::path::Arg) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(fs::openat(fs::CWD, path, flags, Mode::empty())?))
    }

    /// Returns the ownership of the open directory, whatever has its name by now.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn ownership(&self) -> io::Result<Ownership> {
        let stat = fs::fstat(&self.0)?;
        Ok(Ownership { owner: stat.st_uid, mode: stat.st_mode & 0o7777 })
    }

    /// The names in it, in no order, without `.` and `..`.
    ///
    /// # Errors
    /// Those of openat(2) and getdents(2); it takes the permission to read the directory.
    pub fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = Dir::new(fs::openat(&self.0, c".", flags, Mode::empty())?)?;
        let name = |entry: rustix::io::Result<fs::DirEntry>| Ok(entry?.file_name().to_bytes().to_vec());
        let names = listed.map(name).collect::<io::Result<Vec<_>>>()?;
        Ok(names.into_iter().filter(|name| !matches!(&name[..], b"." | b"..")).collect())
    }

    /// Opens a FIFO for writing, if somebody has it open for reading. Never blocks, follows no link, and writes to
    /// nothing that is not a FIFO.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_writer(&self, name: &[u8]) -> Result<Writer, OpenError> {
        self.open_fifo(name, OFlags::WRONLY).map(Writer)
    }

    /// Opens a FIFO for reading, without waiting for a writer.
    ///
    /// # Errors
    /// See [`OpenError`]; never `NoReader`.
    pub fn open_reader(&self, name: &[u8]) -> Result<Reader, OpenError> {
        self.open_fifo(name, OFlags::RDONLY).map(Reader)
    }

    /// Makes a FIFO that its owner alone may use.
    ///
    /// # Errors
    /// `InvalidInput` of what cannot be a name, and those of mkfifo(3): `AlreadyExists` among them.
    pub fn make(&self, name: &[u8]) -> io::Result<()> {
        check_name(name)?;
        Ok(fs::mkfifoat(&self.0, name, Mode::RUSR | Mode::WUSR)?)
    }

    /// # Errors
    /// `InvalidInput` of what cannot be a name, and those of unlink(2).
    pub fn remove(&self, name: &[u8]) -> io::Result<()> {
        check_name(name)?;
        Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn open_fifo(&self, name: &[u8], access: OFlags) -> Result<OwnedFd, OpenError> {
        check_name(name)?;
        // Opening some devices does something, so a look comes first. It decides nothing else: the name may mean
        // something else by the time it is opened, and what counts is what was opened.
        let look = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW);
        if !look.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_fifo()) {
            return Err(self.explain(name, look.err().unwrap_or(Errno::NOTSUP)));
        }
        let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        // A name has one component, so without following a link nothing leads out of the directory.
        let opened = retry_on_intr(|| fs::openat(&self.0, name, flags, Mode::empty()));
        let opened = opened.map_err(|errno| self.explain(name, errno))?;
        let kind = FileType::from_raw_mode(fs::fstat(&opened).map_err(OpenError::Failed)?.st_mode);
        if kind.is_fifo() { Ok(opened) } else { Err(OpenError::NotFifo) }
    }

    /// The same errno has several reasons: ENXIO is a FIFO without a reader, and a socket as well.
    fn explain(&self, name: &[u8], errno: Errno) -> OpenError {
        match errno {
            Errno::MFILE | Errno::NFILE => return OpenError::Exhausted,
            Errno::NAMETOOLONG | Errno::INVAL => return OpenError::BadName,
            _ => {}
        }
        let kind = match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return OpenError::Missing,
            Err(_) => return OpenError::Failed(errno),
        };
        match (kind, errno) {
            (FileType::Symlink, _) => OpenError::Link,
            (FileType::Fifo, Errno::NXIO) => OpenError::NoReader,
            (FileType::Fifo, Errno::ACCESS | Errno::PERM) => OpenError::Denied,
            // It was not there a moment ago; the sender may ask again.
            (FileType::Fifo, Errno::NOENT) => OpenError::Missing,
            (FileType::Fifo, other) => OpenError::Failed(other),
            _ => OpenError::NotFifo,
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), OpenError> {
    let is_name = !name.is_empty()
        && name.len() <= Directory::NAME_MAX
        && !matches!(name, b"." | b"..")
        && !name.iter().any(|byte| matches!(byte, b'/' | 0));
    if is_name { Ok(()) } else { Err(OpenError::BadName) }
}

impl Writer {
    /// As many of the bytes as there is room for.
    ///
    /// # Errors
    /// `WouldBlock` when there is none, `BrokenPipe` when nobody reads any more.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::write(&self.0, bytes))?)
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Writer> for OwnedFd {
    fn from(writer: Writer) -> Self {
        writer.0
    }
}

impl Reader {
    /// Locks the FIFO (flock(2)) for as long as this is open; false if another process has it. The lock goes with the
    /// process, however that ends, and keeps no process from reading or writing.
    ///
    /// # Errors
    /// Those of flock(2).
    pub fn try_lock(&self) -> io::Result<bool> {
        match retry_on_intr(|| fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// It has been removed: no name leads here any more.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn is_removed(&self) -> io::Result<bool> {
        Ok(fs::fstat(&self.0)?.st_nlink == 0)
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Reader> for OwnedFd {
    fn from(reader: Reader) -> Self {
        reader.0
    }
}

/// Bytes of whole pages that a pipe has room for.
///
/// # Errors
/// Those of F_GETPIPE_SZ (fcntl(2)).
pub fn capacity(pipe: impl AsFd) -> io::Result<usize> {
    Ok(pipe::fcntl_getpipe_size(pipe)?)
}

/// Gives a pipe room for at least `bytes`; returns how many it has room for then. It is never made smaller.
///
/// # Errors
/// Those of F_SETPIPE_SZ (fcntl(2)); EPERM is more than `/proc/sys/fs/pipe-max-size` for one pipe, or than
/// `pipe-user-pages-soft` for all pipes of a user. The pipe is what it was then.
pub fn raise_capacity(pipe: impl AsFd, bytes: usize) -> io::Result<usize> {
    let usual = capacity(&pipe)?;
    if usual >= bytes {
        return Ok(usual);
    }
    Ok(pipe::fcntl_setpipe_size(&pipe, bytes)?)
}

/// Returns the number of bytes in a pipe (FIONREAD).
///
/// # Errors
/// Those of ioctl(2).
pub fn filled(pipe: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(pipe)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;
    use crate::swapper::Swapper;

    fn directory() -> (tempfile::TempDir, Directory) {
        let path = tempfile::tempdir().unwrap();
        let directory = Directory::open(path.path()).unwrap();
        (path, directory)
    }

    #[test]
    fn only_fifos_that_somebody_reads_open() {
        let (path, directory) = directory();
        let at = |name: &str| path.path().join(name);
        std::fs::write(at("file"), "contents").unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (target, link) in [("fifo", "link"), ("nowhere", "dangling"), ("link", "chain")] {
            symlink(target, at(link)).unwrap();
        }
        directory.make(b"fifo").unwrap();
        let long = [b'a'; 256];
        for (name, why) in [
            (&b""[..], OpenError::BadName),
            (b".", OpenError::BadName),
            (b"..", OpenError::BadName),
            (b"/etc/hostname", OpenError::BadName),
            (b"directory/fifo", OpenError::BadName),
            (b"a\0b", OpenError::BadName),
            (&long, OpenError::BadName),
            (&long[..255], OpenError::Missing),
            (b"none", OpenError::Missing),
            (b"link", OpenError::Link),
            (b"dangling", OpenError::Link),
            (b"chain", OpenError::Link),
            (b"file", OpenError::NotFifo),
            (b"directory", OpenError::NotFifo),
            (b"socket", OpenError::NotFifo),
            (b"fifo", OpenError::NoReader),
        ] {
            assert_eq!(directory.open_writer(name).unwrap_err(), why, "{}", name.escape_ascii());
        }
        assert_eq!(std::fs::read(at("file")).unwrap(), b"contents");
        let _reader = directory.open_reader(b"fifo").unwrap();
        directory.open_writer(b"fifo").unwrap();
    }

    /// While a name means a FIFO, a link to another, and a regular file in turn.
    #[test]
    fn no_swap_of_a_name_opens_anything_but_the_fifo() {
        const OPENED: usize = 3_000;
        let (path, directory) = directory();
        let at = |name: &str| path.path().join(name);
        directory.make(b"fifo").unwrap();
        std::fs::write(at("file"), "contents").unwrap();
        fs::mkfifoat(fs::CWD, at("other"), Mode::RWXU).unwrap();
        symlink("other", at("link")).unwrap();
        let reader = directory.open_reader(b"fifo").unwrap();
        let inode = fs::fstat(&reader).unwrap().st_ino;
        let file = std::fs::File::open(at("file")).unwrap();
        let swapper = Swapper::start(["file", "link"].map(|other| [at("fifo"), at(other)]).to_vec());
        let (mut opened, mut refused) = (0, 0);
        while opened < OPENED || refused < OPENED {
            match directory.open_writer(b"fifo") {
                Ok(writer) => {
                    assert_eq!(fs::fstat(&writer).unwrap().st_ino, inode);
                    writer.write(b"x").unwrap();
                    let read = rustix::io::read(&reader, &mut [0; 2]).unwrap();
                    assert_eq!(read, 1);
                    opened += 1;
                }
                // What is found when it is to be explained is not always what failed to open.
                Err(_) => refused += 1,
            }
        }
        drop(swapper);
        assert_eq!(io::read_to_string(file).unwrap(), "contents");
    }

    /// A FIFO is for whoever made it, and is gone once removed.
    #[test]
    fn a_fifo_is_made_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (path, directory) = directory();
        directory.make(b"fifo").unwrap();
        assert_eq!(directory.make(b"fifo").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(directory.make(b"../fifo").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let mode = std::fs::metadata(path.path().join("fifo")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        directory.remove(b"fifo").unwrap();
        assert_eq!(directory.remove(b"fifo").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// The directory that was opened is meant, whatever has its name by now.
    #[test]
    fn a_directory_that_was_renamed_is_still_the_one() {
        let (path, _) = directory();
        let (old, new) = (path.path().join("old"), path.path().join("new"));
        std::fs::create_dir(&old).unwrap();
        let directory = Directory::open(&old).unwrap();
        std::fs::rename(&old, &new).unwrap();
        std::fs::create_dir(&old).unwrap();
        directory.make(b"fifo").unwrap();
        assert!(new.join("fifo").exists() && !old.join("fifo").exists());
    }

    #[test]
    fn writing_stops_at_the_capacity_and_at_the_reader_s_death() {
        let (_path, directory) = directory();
        directory.make(b"fifo").unwrap();
        let reader = directory.open_reader(b"fifo").unwrap();
        let writer = directory.open_writer(b"fifo").unwrap();
        let room = raise_capacity(&writer, 100_000).unwrap();
        assert!(room >= 100_000 && capacity(&reader).unwrap() == room);
        assert_eq!(raise_capacity(&writer, 4096).unwrap(), room, "never smaller");
        assert_eq!(writer.write(&vec![7; room + 1]).unwrap(), room);
        assert_eq!(filled(&reader).unwrap(), room as u64);
        assert_eq!(writer.write(b"more").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(reader);
        assert_eq!(writer.write(b"more").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
