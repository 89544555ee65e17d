//! Readers of replies: where their bytes go.

use std::{fs::File, os::fd::AsFd};

use rustix::{
    io::Errno,
    pipe::{SpliceFlags, splice},
};

use super::{MqError, MqLoad};

/// The most that one splice(2) is asked for.
const SPLICE_MAX: usize = 1 << 30;

/// Reader that takes what a FIFO holds.
pub(super) enum ReplyReader {
    Read(Box<[u8]>),
    Splice(File),
}

/// Bytes that came out of a FIFO at once. 0 bytes are its end.
pub(super) enum Piece<'a> {
    Copied(&'a [u8]),
    Spliced(u64),
}

impl ReplyReader {
    pub(super) fn new(plan: &MqLoad) -> Result<Self, MqError> {
        Ok(match plan.sink {
            super::ReplySink::Read => Self::Read(vec![0; plan.buffer_bytes].into_boxed_slice()),
            super::ReplySink::Splice => {
                Self::Splice(File::options().write(true).open("/dev/null").map_err(MqError::Null)?)
            }
        })
    }

    /// Takes what is there, without waiting: `Errno::AGAIN` is an empty FIFO that somebody may still write into.
    pub(super) fn take(&mut self, fifo: impl AsFd) -> Result<Piece<'_>, Errno> {
        match self {
            Self::Read(buffer) => {
                let length = rustix::io::read(fifo, &mut **buffer)?;
                Ok(Piece::Copied(&buffer[..length]))
            }
            Self::Splice(null) => {
                let length = splice(fifo, None, &*null, None, SPLICE_MAX, SpliceFlags::NONBLOCK)?;
                Ok(Piece::Spliced(length as u64))
            }
        }
    }
}

impl Piece<'_> {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Copied(piece) => piece.len() as u64,
            Self::Spliced(bytes) => *bytes,
        }
    }
}
