//! Bytes that move between descriptors without passing through user space (sendfile(2), splice(2), tee(2)).

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::retry_on_intr,
    pipe::{PipeFlags, SpliceFlags},
};

/// The most that one call is asked for.
const CALL_MAX: u64 = 1 << 30;

/// Sends part of a file; returns how much.
///
/// # Errors
/// `UnexpectedEof` when the file ends before `offset + len`: it shrank.
pub fn sendfile(socket: BorrowedFd<'_>, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<usize> {
    let mut offset = offset;
    match retry_on_intr(|| rustix::fs::sendfile(socket, file, Some(&mut offset), len.min(CALL_MAX) as usize))? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => Ok(n),
    }
}

/// Reader and writer of a new pipe.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// Empties a pipe into a socket. Never waits on the pipe; waits on a blocking socket.
///
/// # Errors
/// `UnexpectedEof` when the pipe holds nothing.
pub fn splice_out(pipe: BorrowedFd<'_>, socket: BorrowedFd<'_>, len: u64) -> io::Result<usize> {
    let len = len.min(CALL_MAX) as usize;
    match retry_on_intr(|| rustix::pipe::splice(pipe, None, socket, None, len, SpliceFlags::MOVE))? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => Ok(n),
    }
}

/// Fills a pipe from a file, as far as there is room; returns how much.
pub fn splice_in(file: impl AsFd, offset: u64, pipe: impl AsFd, len: u64) -> io::Result<usize> {
    let mut offset = offset;
    Ok(rustix::pipe::splice(file, Some(&mut offset), pipe, None, len.min(CALL_MAX) as usize, SpliceFlags::NONBLOCK)?)
}

/// Duplicates the first `len` bytes in `from` into the empty pipe `to`.
///
/// # Errors
/// `UnexpectedEof` when not all of it fitted: tee always starts at the head, so it cannot be continued.
pub fn tee(from: BorrowedFd<'_>, to: BorrowedFd<'_>, len: u64) -> io::Result<()> {
    let n = rustix::pipe::tee(from, to, len.min(CALL_MAX) as usize, SpliceFlags::NONBLOCK)?;
    if n as u64 == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Seek, Write},
        os::unix::net::UnixStream,
    };

    use super::*;

    /// A cached pipe can be sent twice: tee leaves it as it was.
    #[test]
    fn tee_leaves_the_original_in_place() {
        let (cached_reader, cached_writer) = pipe().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello, pipe").unwrap();
        assert_eq!(splice_in(&file, 7, &cached_writer, 4).unwrap(), 4);
        for _ in 0..2 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let (reader, writer) = pipe().unwrap();
            tee(cached_reader.as_fd(), writer.as_fd(), 4).unwrap();
            assert_eq!(splice_out(reader.as_fd(), ours.as_fd(), 4).unwrap(), 4);
            let mut got = [0; 4];
            theirs.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"pipe");
        }
    }

    /// A file that shrank is an error, not a loop that sends nothing for ever.
    #[test]
    fn sendfile_notices_a_file_that_shrank() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        file.set_len(4).unwrap();
        file.rewind().unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(sendfile(ours.as_fd(), file.as_fd(), 0, 10).unwrap(), 4);
        let error = sendfile(ours.as_fd(), file.as_fd(), 4, 6).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
