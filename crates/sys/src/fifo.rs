//! The writing end of a FIFO that somebody else has made, opened without waiting and without being led elsewhere.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
    pipe::{fcntl_getpipe_size, fcntl_setpipe_size},
};

/// The directory in which clients make their FIFOs.
#[derive(Debug)]
pub struct FifoDirectory(OwnedFd);

/// A FIFO open for writing, non-blocking, with a reader at the time.
#[derive(Debug)]
pub struct Fifo(OwnedFd);

/// Why a FIFO cannot be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FifoError {
    /// Nobody has it open for reading; may pass.
    #[error("nobody reads it")]
    NoReader,
    #[error("there is none of that name")]
    Missing,
    #[error("a symbolic link")]
    Link,
    #[error("not a FIFO")]
    NotAFifo,
    #[error("permission denied")]
    Denied,
    /// Out of descriptors; may pass.
    #[error("out of file descriptors")]
    Exhausted,
    #[error(transparent)]
    Failed(Errno),
}

impl From<Errno> for FifoError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NXIO => Self::NoReader,
            Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::NAMETOOLONG | Errno::INVAL => Self::Missing,
            Errno::LOOP => Self::Link,
            Errno::ISDIR => Self::NotAFifo,
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::Denied,
            Errno::MFILE | Errno::NFILE => Self::Exhausted,
            other => Self::Failed(other),
        }
    }
}

impl FifoDirectory {
    /// # Errors
    /// Those of open(2).
    pub fn open(path: impl rustix::path::Arg) -> io::Result<Self> {
        Ok(Self(fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens the FIFO of this name for writing. Neither waits for a reader nor opens anything but a FIFO.
    ///
    /// # Errors
    /// See [`FifoError`]; [`FifoError::NoReader`] is worth another try.
    pub fn open_writer(&self, name: &[u8]) -> Result<Fifo, FifoError> {
        // Opening some devices does something, so a look comes first. It decides nothing: fstat does, afterwards.
        let stat = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => {}
            FileType::Symlink => return Err(FifoError::Link),
            _ => return Err(FifoError::NotAFifo),
        }
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = loop {
            match fs::openat2(&self.0, name, flags, Mode::empty(), resolve) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                outcome => break outcome?,
            }
        };
        if !FileType::from_raw_mode(fs::fstat(&opened)?.st_mode).is_fifo() {
            return Err(FifoError::NotAFifo);
        }
        Ok(Fifo(opened))
    }
}

impl Fifo {
    /// Bytes that fit.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn capacity(&self) -> io::Result<usize> {
        Ok(fcntl_getpipe_size(&self.0)?)
    }

    /// Makes room for at least so many bytes.
    ///
    /// # Errors
    /// EPERM above fs.pipe-max-size or fs.pipe-user-pages-soft without the capability, EBUSY below what is in it.
    pub fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
        Ok(fcntl_setpipe_size(&self.0, bytes)?)
    }
}

impl AsFd for Fifo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
