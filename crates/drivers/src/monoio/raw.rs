//! Memory that a ring of monoio's reads, and one socket in several hands: the crate asks for both in `unsafe`.

use std::{
    cell::UnsafeCell,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    rc::Rc,
};

use libc::iovec;
use monoio::{
    buf::{IoBuf, IoVecBuf},
    io::{AsyncReadRent, AsyncWriteRent},
    net::TcpStream,
};

use crate::tasks::Piece;

// SAFETY: a segment's memory is on the heap or in a mapping and owned by the segment, so that it stays where it is when
// the piece is moved, and `bytes` never returns more than is there.
unsafe impl IoBuf for Piece {
    fn read_ptr(&self) -> *const u8 {
        self.bytes().as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.bytes().len()
    }
}

/// Pieces that one operation sends.
pub(super) struct Gathered {
    pieces: Vec<Piece>,
    iovecs: Vec<iovec>,
}

impl Gathered {
    pub(super) fn new(pieces: Vec<Piece>) -> Self {
        let iovecs = pieces
            .iter()
            .map(Piece::bytes)
            .map(|bytes| iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
        Self { iovecs: iovecs.collect(), pieces }
    }

    pub(super) fn into_pieces(self) -> Vec<Piece> {
        self.pieces
    }
}

// SAFETY: both vectors are never changed, and the memory that the one points to belongs to the other, as above.
unsafe impl IoVecBuf for Gathered {
    fn read_iovec_ptr(&self) -> *const iovec {
        self.iovecs.as_ptr()
    }

    fn read_iovec_len(&self) -> usize {
        self.iovecs.len()
    }
}

/// A stream that is read, written and watched at the same time. The crate's own halves share one as well, but shut the
/// socket down when the half that writes is dropped.
#[derive(Clone)]
pub(super) struct Stream(Rc<UnsafeCell<TcpStream>>);

impl Stream {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self(Rc::new(UnsafeCell::new(stream)))
    }

    /// Receives once; one receive at a time.
    pub(super) async fn read(&self, buffer: Box<[u8]>) -> (io::Result<usize>, Box<[u8]>) {
        // SAFETY: the crate promises (`Split`) that a read is independent of a write: the operation that is made here has
        // a share of the descriptor of its own, and the reference is not used once it has been made.
        unsafe { &mut *self.0.get() }.read(buffer).await
    }

    /// Sends once; one send at a time.
    pub(super) async fn write(&self, piece: Piece) -> (io::Result<usize>, Piece) {
        // SAFETY: as for a read.
        unsafe { &mut *self.0.get() }.write(piece).await
    }

    /// Sends several pieces at once.
    pub(super) async fn writev(&self, pieces: Gathered) -> (io::Result<usize>, Gathered) {
        // SAFETY: as for a read.
        unsafe { &mut *self.0.get() }.writev(pieces).await
    }

    pub(super) async fn readable(self) -> io::Result<()> {
        // SAFETY: as for a read.
        unsafe { &*self.0.get() }.readable(false).await
    }

    pub(super) async fn writable(self) -> io::Result<()> {
        // SAFETY: as for a read.
        unsafe { &*self.0.get() }.writable(false).await
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the stream owns the descriptor, and lives for as long as `self` is borrowed; the reference to it is
        // used for the length of this call only.
        unsafe { BorrowedFd::borrow_raw((*self.0.get()).as_raw_fd()) }
    }
}
