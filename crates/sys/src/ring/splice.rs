//! Chains of splices from a file into a pipe, by io_uring(7).

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use io_uring::{
    opcode,
    squeue::{Entry, Flags},
    types::Fd,
};
use rustix::{io::Errno, pipe::SpliceFlags};

use super::Ring;

/// Links of a chain: a splice each.
const LINKS_MAX: usize = 8;

/// A ring that runs one chain at a time.
pub struct SpliceRing {
    ring: Ring<()>,
    results: Vec<(u64, i32)>,
}

impl SpliceRing {
    /// # Errors
    /// Those of io_uring_setup(2): EPERM or ENOSYS where the kernel or a sandbox does not allow it.
    pub fn new() -> io::Result<Self> {
        Ok(Self { ring: Ring::for_any_thread(LINKS_MAX as u32, |_| Ok(()))?, results: Vec::with_capacity(LINKS_MAX) })
    }

    /// Fills a pipe from a file as far as there is room, by at most eight linked splices of `piece` bytes; returns how
    /// much, 0 at the end of the file. The splices run one after the other, on a thread of the kernel's; the first
    /// that moves less than its piece ends the chain. Returns when the chain has ended.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room, and those of splice(2).
    pub fn splice(&mut self, file: impl AsFd, offset: u64, pipe: impl AsFd, len: u64, piece: u32) -> io::Result<usize> {
        let (file, pipe) = (file.as_fd(), pipe.as_fd());
        let pieces = len.div_ceil(u64::from(piece).max(1)).clamp(1, LINKS_MAX as u64);
        for index in 0..pieces {
            let done = index * u64::from(piece);
            let wanted = u32::try_from((len - done).min(u64::from(piece))).unwrap_or(piece);
            let entry = opcode::Splice::new(
                Fd(file.as_raw_fd()),
                i64::try_from(offset + done).map_err(|_| Errno::OVERFLOW)?,
                Fd(pipe.as_raw_fd()),
                -1,
                wanted,
            );
            let link = if index + 1 < pieces { Flags::IO_LINK } else { Flags::empty() };
            self.push(&entry.flags(SpliceFlags::NONBLOCK.bits()).build().flags(link).user_data(index));
        }
        self.finish(pieces as usize)
    }

    fn push(&mut self, entry: &Entry) {
        // SAFETY: the entry holds two descriptors and numbers, and no pointer.
        unsafe { self.ring.push(entry) }
    }

    /// Waits until every link has completed; returns what the chain has moved.
    fn finish(&mut self, links: usize) -> io::Result<usize> {
        self.results.clear();
        while self.results.len() < links {
            self.ring.wait(links - self.results.len(), None)?;
            self.ring.reap(&mut self.results, |(), link| Some((link.user_data(), link.result())));
        }
        self.results.sort_unstable();
        outcome(&self.results)
    }
}

/// Bytes that a chain has moved, or the reason that it has moved none: links after a short one were cancelled.
fn outcome(results: &[(u64, i32)]) -> io::Result<usize> {
    let moved: usize = results.iter().filter_map(|&(_, result)| usize::try_from(result).ok()).sum();
    match results.first() {
        Some(&(_, first)) if first < 0 => Err(io::Error::from_raw_os_error(-first)),
        _ => Ok(moved),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::transfer;

    fn file(contents: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(contents).unwrap();
        file
    }

    /// A chain moves what there is room for, in order, and says how much.
    #[test]
    fn a_chain_fills_a_pipe_and_stops_where_it_is_full() {
        let contents: Vec<u8> = (0..300_000_u32).map(|at| (at / 251) as u8).collect();
        let (file, mut ring) = (file(&contents), SpliceRing::new().unwrap());
        let (reader, writer, capacity) = transfer::pipe_of(64 << 10).unwrap();
        let mut reader = std::fs::File::from(reader);
        let mut got = Vec::new();
        for (piece, offset) in [(4096, 0), (20_000, 65_536), (1 << 20, 131_072), (50_000, 196_608)] {
            let room = capacity.min(8 * piece as usize);
            let n = ring.splice(&file, offset, &writer, contents.len() as u64 - offset, piece).unwrap();
            assert!(n > 0 && n <= room, "{n} in pieces of {piece}");
            let mut taken = vec![0; n];
            reader.read_exact(&mut taken).unwrap();
            assert!(taken == contents[offset as usize..][..n], "pieces of {piece} at {offset}");
            got.push(n);
        }
        assert_eq!(got[0], 32 << 10, "eight links of a page");
        assert_eq!(got[2], capacity);
    }

    #[test]
    fn full_pipes_ends_of_files_and_dead_readers_are_told_apart() {
        let (file, mut ring) = (file(&[7; 100_000]), SpliceRing::new().unwrap());
        let (reader, writer, capacity) = transfer::pipe_exactly(4096).unwrap();
        assert_eq!(ring.splice(&file, 100_000, &writer, 10, 4096).unwrap(), 0);
        assert_eq!(ring.splice(&file, 0, &writer, 100_000, 4096).unwrap(), capacity);
        let full = ring.splice(&file, 0, &writer, 100_000, 4096).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        drop(reader);
        // A process that another test has begun to start may have the reader, too, for a moment.
        let dead = loop {
            match ring.splice(&file, 0, &writer, 100_000, 4096).unwrap_err() {
                full if full.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                dead => break dead,
            }
        };
        assert_eq!(dead.kind(), io::ErrorKind::BrokenPipe);
    }
}
