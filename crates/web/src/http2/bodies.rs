//! Bodies on their way into frames.

use std::os::fd::AsFd;

use proto::{FileRegion, Outbox, Readable};
use sys::transfer;

/// Bytes that a connection may hold for more to be copied: a client that reads slowly should cost little.
const HELD_MAX: usize = 64 * 1024;

/// How files get into frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Bodies {
    /// Copies of what the page cache has, behind the frames' heads: a frame has 16 KiB at most, and calls of their own for each
    /// head and each part of a file cost more.
    #[default]
    Copied,
    /// Regions as they are, since a layer that encrypts collects them itself.
    Referred,
}

impl Bodies {
    /// True if there is room for another frame.
    #[inline]
    pub(super) fn have_room(self, out: &Outbox) -> bool {
        !out.is_full() && (self == Self::Referred || out.held_bytes() < HELD_MAX)
    }

    /// Queues the payload of a frame, the first bytes of a body, behind the frame's head.
    #[inline]
    pub(super) fn push_part(self, out: &mut Outbox, body: &mut Outbox, len: u64) {
        let copied = if self == Self::Copied && !body.is_inline() { copy(out, body, len) } else { 0 };
        out.push_from(body, len - copied);
    }
}

/// Copies up to what is not in the page cache, and returns how many bytes.
fn copy(out: &mut Outbox, body: &mut Outbox, len: u64) -> u64 {
    let mut left = len;
    while left > 0 {
        let piece = body.readable().next();
        let moved = match piece {
            Some(Readable::Memory(memory)) => {
                let len = left.min(memory.len() as u64);
                out.push_from(body, len)
            }
            Some(Readable::File(region)) => {
                let copied = copy_cached(region, left, out.inline());
                body.advance(copied);
                copied as u64
            }
            None => 0,
        };
        if moved == 0 {
            break;
        }
        left -= moved;
    }
    len - left
}

/// Appends at most `max` bytes of a file, and returns how many: none where they are not in the page cache, or are gone,
/// which the driver finds out.
fn copy_cached(region: &FileRegion, max: u64, to: &mut Vec<u8>) -> usize {
    let at = to.len();
    to.resize(at + region.len.min(max) as usize, 0);
    let read = transfer::read_cached(region.file.as_fd(), region.offset, &mut to[at..]);
    let n = read.ok().flatten().unwrap_or(0);
    to.truncate(at + n);
    n
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, sync::Arc};

    use super::*;

    const LEN: usize = 200 * 1024;

    /// A body of some memory and a file, and its bytes.
    fn body() -> (File, Outbox, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        let mut body = Outbox::default();
        body.inline().extend_from_slice(b"begin");
        let copy = Arc::new(file.try_clone().unwrap().into());
        body.push_file(FileRegion { file: copy, offset: 0, len: LEN as u64 });
        (file, body, [b"begin", &bytes[..]].concat())
    }

    /// Takes everything out, as bytes, and returns how many of them were parts of files.
    fn drain(out: &mut Outbox) -> (Vec<u8>, usize) {
        let (mut bytes, mut of_files) = (Vec::new(), 0);
        loop {
            let n = match out.readable().next() {
                Some(Readable::Memory(memory)) => {
                    bytes.extend_from_slice(memory);
                    memory.len()
                }
                Some(Readable::File(region)) => {
                    let n = copy_cached(region, region.len, &mut bytes);
                    of_files += n;
                    n
                }
                None => return (bytes, of_files),
            };
            assert!(n > 0);
            out.advance(n);
        }
    }

    #[test]
    fn bodies_are_copied_as_far_as_a_connection_may_hold_them_and_none_of_their_bytes_is_lost() {
        for (bodies, frame) in [1_000, 4_096, 16_384]
            .into_iter()
            .flat_map(|frame| [Bodies::Copied, Bodies::Referred].map(|bodies| (bodies, frame)))
        {
            let (_file, mut body, bytes) = body();
            let (mut sent, mut of_files, mut turns) = (Vec::new(), 0, 0);
            while !body.is_empty() {
                let mut out = Outbox::default();
                while bodies.have_room(&out) && !body.is_empty() {
                    let len = body.unsent_bytes().min(frame);
                    bodies.push_part(&mut out, &mut body, len);
                }
                assert!(out.held_bytes() < HELD_MAX + frame as usize);
                let (part, of_file) = drain(&mut out);
                sent.extend(part);
                of_files += of_file;
                turns += 1;
            }
            assert!(sent == bytes, "{bodies:?}, frames of {frame}");
            let expected = if bodies == Bodies::Copied { (0, bytes.len().div_ceil(HELD_MAX)) } else { (LEN, 1) };
            assert!(
                of_files == expected.0 && turns >= expected.1,
                "{bodies:?}, frames of {frame}: {of_files}, {turns}"
            );
        }
    }

    #[test]
    fn a_file_that_was_cut_is_left_to_the_driver() {
        let (file, mut body, bytes) = body();
        file.set_len(3_000).unwrap();
        let mut out = Outbox::default();
        Bodies::Copied.push_part(&mut out, &mut body, 5 + 10_000);
        assert_eq!(out.held_bytes(), 5 + 3_000);
        let memory: Vec<u8> = out.memory().flatten().copied().collect();
        assert_eq!(memory, bytes[..3_005]);
        out.advance(3_005);
        assert!(matches!(out.readable().next(), Some(Readable::File(FileRegion { offset: 3_000, len: 7_000, .. }))));
    }
}
