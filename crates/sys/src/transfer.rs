//! Bytes that move between descriptors without passing through user space (sendfile(2), splice(2), tee(2),
//! vmsplice(2), pipe(7)).

use std::{
    io::{self, IoSliceMut},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::{Errno, ReadWriteFlags, retry_on_intr},
    pipe::{IoSliceRaw, PipeFlags, SpliceFlags},
};

/// The most that one call is asked for.
const CALL_MAX: u64 = 1 << 30;

/// Sends part of a file; returns how much.
///
/// # Errors
/// `UnexpectedEof` when the file ends before `offset + len`: it shrank.
pub fn sendfile(socket: BorrowedFd<'_>, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<usize> {
    until_uninterrupted(|| sendfile_once(socket, file, offset, len))
}

/// Like [`sendfile`] to a socket with a timeout, which would begin anew if the call were repeated.
///
/// # Errors
/// Those of [`sendfile`]; `Interrupted` when the process was stopped and continued meanwhile (signal(7)).
pub fn sendfile_once(socket: BorrowedFd<'_>, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<usize> {
    let mut offset = offset;
    match rustix::fs::sendfile(socket, file, Some(&mut offset), len.min(CALL_MAX) as usize)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => Ok(n),
    }
}

/// Reads the bytes of a file that are in the page cache; `None` where the first of them is not, or where the file
/// system cannot tell, so that reading it may have to wait for a disk. 0 bytes: the file ends before `offset`.
///
/// # Errors
/// Those of preadv2(2).
pub fn read_cached(file: BorrowedFd<'_>, offset: u64, to: &mut [u8]) -> io::Result<Option<usize>> {
    let mut to = [IoSliceMut::new(to)];
    match retry_on_intr(|| rustix::io::preadv2(file, &mut to, offset, ReadWriteFlags::NOWAIT)) {
        Ok(n) => Ok(Some(n)),
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Repeats a call for as long as a signal interrupts it before it has come to anything.
#[inline]
pub fn until_uninterrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Reader and writer of a new pipe.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// Reader and writer of a new pipe with room for `bytes`, and how many bytes of whole pages it has room for: fewer
/// where the kernel grants no more (`/proc/sys/fs/pipe-max-size`, `pipe-user-pages-soft`).
///
/// # Errors
/// Those of pipe(2) and of F_GETPIPE_SZ (fcntl(2)).
pub fn pipe_of(bytes: usize) -> io::Result<(OwnedFd, OwnedFd, usize)> {
    let (reader, writer) = pipe()?;
    let usual = rustix::pipe::fcntl_getpipe_size(&writer)?;
    let capacity = match usual < bytes {
        true => rustix::pipe::fcntl_setpipe_size(&writer, bytes).unwrap_or(usual),
        false => usual,
    };
    Ok((reader, writer, capacity))
}

/// Like [`pipe_of`], and no larger than that either: for pipes that are kept, of which a user may have so many bytes.
///
/// # Errors
/// Those of pipe(2) only.
pub fn pipe_exactly(bytes: usize) -> io::Result<(OwnedFd, OwnedFd, usize)> {
    let (reader, writer) = pipe()?;
    let capacity = match rustix::pipe::fcntl_setpipe_size(&writer, bytes) {
        Ok(capacity) => capacity,
        Err(_) => rustix::pipe::fcntl_getpipe_size(&writer)?,
    };
    Ok((reader, writer, capacity))
}

/// Puts `bytes` into an empty pipe that has room for them.
///
/// # Errors
/// Those of write(2), and `WriteZero` when it took less than all.
pub fn write_in(pipe: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    match retry_on_intr(|| rustix::io::write(pipe, bytes))? {
        n if n == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Empties a pipe into a socket. Never waits on the pipe; waits on a blocking socket. With `more` TCP holds a partial
/// segment back for what follows.
///
/// # Errors
/// `UnexpectedEof` when the pipe holds nothing.
pub fn splice_out(pipe: BorrowedFd<'_>, socket: BorrowedFd<'_>, len: u64, more: bool) -> io::Result<usize> {
    until_uninterrupted(|| splice_out_once(pipe, socket, len, more))
}

/// Like [`splice_out`] to a socket with a timeout, which would begin anew if the call were repeated.
///
/// # Errors
/// Those of [`splice_out`]; `Interrupted` when the process was stopped and continued meanwhile (signal(7)).
pub fn splice_out_once(pipe: BorrowedFd<'_>, socket: BorrowedFd<'_>, len: u64, more: bool) -> io::Result<usize> {
    let len = len.min(CALL_MAX) as usize;
    let flags = if more { SpliceFlags::MOVE | SpliceFlags::MORE } else { SpliceFlags::MOVE };
    match rustix::pipe::splice(pipe, None, socket, None, len, flags)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => Ok(n),
    }
}

/// Fills a pipe from a file, as far as there is room; returns how much, 0 at the end of the file.
pub fn splice_in(file: impl AsFd, offset: u64, pipe: impl AsFd, len: u64) -> io::Result<usize> {
    let (file, pipe, len, mut offset) = (file.as_fd(), pipe.as_fd(), len.min(CALL_MAX) as usize, offset);
    Ok(retry_on_intr(|| rustix::pipe::splice(file, Some(&mut offset), pipe, None, len, SpliceFlags::NONBLOCK))?)
}

/// Fills a pipe with the pages that hold `bytes`, as far as there is room; returns how much. The pipe refers to the
/// pages and copies nothing: a change before they have been sent changes the bytes that are sent.
///
/// # Errors
/// EFAULT when the first page of it is a page of a file that has been cut.
pub fn vmsplice(pipe: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let pieces = [IoSliceRaw::from_slice(bytes)];
    // SAFETY: without SPLICE_F_GIFT the kernel only reads the pages, and keeps them for as long as the pipe names them.
    Ok(retry_on_intr(|| unsafe { rustix::pipe::vmsplice(pipe, &pieces, SpliceFlags::NONBLOCK) })?)
}

/// Duplicates the first `len` bytes in `from` into the empty pipe `to`; returns how many of them it had room for. It
/// always starts at the head, so what was cut short cannot be continued.
pub fn tee(from: BorrowedFd<'_>, to: BorrowedFd<'_>, len: u64) -> io::Result<usize> {
    let len = len.min(CALL_MAX) as usize;
    Ok(retry_on_intr(|| rustix::pipe::tee(from, to, len, SpliceFlags::NONBLOCK))?)
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
            assert_eq!(tee(cached_reader.as_fd(), writer.as_fd(), 4).unwrap(), 4);
            assert_eq!(splice_out(reader.as_fd(), ours.as_fd(), 4, false).unwrap(), 4);
            let mut got = [0; 4];
            theirs.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"pipe");
        }
    }

    #[test]
    fn reads_of_the_page_cache_tell_what_is_there() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut to = [0; 4];
        assert_eq!((read_cached(file.as_fd(), 3, &mut to).unwrap(), &to), (Some(4), b"3456"));
        assert_eq!(read_cached(file.as_fd(), 8, &mut to).unwrap(), Some(2));
        assert_eq!(read_cached(file.as_fd(), 10, &mut to).unwrap(), Some(0), "its end");
        let waiting = std::fs::File::open("/proc/version").unwrap();
        assert_eq!(read_cached(waiting.as_fd(), 0, &mut to).unwrap(), None, "procfs cannot tell");
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

    /// A capacity that the kernel does not grant is reported, and the pipe is there all the same.
    #[test]
    fn a_pipe_is_as_large_as_it_says() {
        for (asked, least) in [(1, 1), (64 << 10, 4 << 10), (512 << 10, 4 << 10), (usize::MAX, 4 << 10)] {
            let (_reader, writer, capacity) = pipe_of(asked).unwrap();
            assert!(capacity >= least, "{capacity} of {asked}");
            let room = rustix::fs::fcntl_getfl(&writer).and_then(|flags| {
                rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK)?;
                rustix::io::write(&writer, &vec![7; capacity + 1])
            });
            assert_eq!(room, Ok(capacity));
        }
    }

    /// A pipe that is kept takes no more of what its user may have than it needs.
    #[test]
    fn a_small_pipe_is_small_and_takes_what_it_says() {
        for (asked, want) in [(1, 4096), (4096, 4096), (4097, 8192), (128 << 10, 128 << 10)] {
            let (reader, writer, capacity) = pipe_exactly(asked).unwrap();
            assert_eq!(capacity, want);
            write_in(writer.as_fd(), &vec![7; asked]).unwrap();
            let mut got = vec![0; asked + 1];
            assert_eq!(rustix::io::read(&reader, &mut got), Ok(asked));
        }
    }

    /// Pages of a mapping go out as the file's bytes; pages that the file has lost are an error and no signal.
    #[test]
    fn pages_of_a_mapping_are_spliced_and_lost_ones_are_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        let contents: Vec<u8> = (0..5 * 4096).map(|at| (at / 4096 + at) as u8).collect();
        file.write_all(&contents).unwrap();
        let file = OwnedFd::from(file);
        let map = crate::map::map_file(&file, contents.len()).unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (reader, writer) = pipe().unwrap();
        let n = vmsplice(writer.as_fd(), &map[100..]).unwrap();
        assert_eq!(n, contents.len() - 100);
        assert_eq!(splice_out(reader.as_fd(), theirs.as_fd(), n as u64, true).unwrap(), n);
        let mut got = vec![0; n];
        ours.read_exact(&mut got).unwrap();
        assert!(got == contents[100..]);
        rustix::fs::ftruncate(&file, 4096).unwrap();
        assert_eq!(vmsplice(writer.as_fd(), &map[..8192]).unwrap(), 4096, "the page that is left");
        let error = vmsplice(writer.as_fd(), &map[4096..]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::FAULT.raw_os_error()));
    }

    /// Room counts in pages, whatever is in them, and what does not fit is told.
    #[test]
    fn a_short_tee_says_so() {
        let (cached, cached_writer, capacity) = pipe_of(64 << 10).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let filled = splice_in(&file, 0, &cached_writer, 1 << 20).unwrap();
        assert_eq!(filled, capacity);
        let (_reader, writer) = pipe().unwrap();
        assert_eq!(rustix::pipe::fcntl_setpipe_size(&writer, 4096), Ok(4096));
        assert_eq!(tee(cached.as_fd(), writer.as_fd(), filled as u64).unwrap(), 4096);
    }
}
