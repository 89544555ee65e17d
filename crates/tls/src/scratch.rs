//! Memory that the connections of a thread share: none of it is held from one turn to the next.

use std::{cell::RefCell, io, mem, os::fd::AsFd};

use proto::{BufferPool, FileRegion, Outbox, Readable};
use sys::{map::PageReader, transfer};

/// Plaintext that is collected, or read from a file, before it is encrypted.
const PLAIN_BYTES: usize = 64 * 1024;
/// The largest buffer that is kept for the next records.
const RECORDS_CAPACITY_MAX: usize = 128 * 1024;

/// Memory for ciphertext that a thread keeps: about as many pieces as a connection has queued at most.
const SEALED_MAX: usize = 6;

thread_local! {
    /// Apart from the rest, since it is given back while that is in use.
    static SEALED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[derive(Default)]
struct Scratch {
    records: Vec<u8>,
    plain: Vec<u8>,
    buffers: BufferPool,
    pages: Option<PageReader>,
}

/// Memory for ciphertext, which goes back to the thread that has sent it.
pub(crate) struct Sealed(Vec<u8>);

impl Sealed {
    /// Takes `len` bytes, whatever is in them.
    pub(crate) fn take(len: usize) -> Self {
        let kept = SEALED.with_borrow_mut(|kept| {
            let at = kept.iter().position(|buffer| buffer.len() == len)?;
            Some(kept.swap_remove(at))
        });
        Self(kept.unwrap_or_else(|| vec![0; len]))
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl AsRef<[u8]> for Sealed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        let buffer = mem::take(&mut self.0);
        // The thread may be ending.
        let _ = SEALED.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            // The last lengths are the likeliest.
            if kept.len() == SEALED_MAX {
                kept.remove(0);
            }
            kept.push(buffer);
        });
    }
}

/// Takes an empty buffer for records that are to be decrypted.
pub(crate) fn take_records() -> Vec<u8> {
    SCRATCH.with_borrow_mut(|scratch| mem::take(&mut scratch.records))
}

/// Gives it back.
pub(crate) fn keep_records(mut buffer: Vec<u8>) {
    if buffer.capacity() <= RECORDS_CAPACITY_MAX {
        buffer.clear();
        SCRATCH.with_borrow_mut(|scratch| scratch.records = buffer);
    }
}

/// Runs `seal` on the beginning of several pieces, at most `max` bytes, in one: up to what is not in the page cache; `None`
/// if that comes first.
///
/// # Errors
/// The file in front cannot be read, or has shrunk.
pub(crate) fn with_collected<'a, T>(
    pieces: impl Iterator<Item = Readable<'a>>,
    max: usize,
    seal: impl FnOnce(&[u8]) -> T,
) -> io::Result<Option<T>> {
    with_plain(|plain| {
        let plain = &mut plain[..max.min(PLAIN_BYTES)];
        let mut end = 0;
        for piece in pieces {
            let room = &mut plain[end..];
            let (wanted, n) = match piece {
                Readable::Memory(bytes) => {
                    let n = bytes.len().min(room.len());
                    room[..n].copy_from_slice(&bytes[..n]);
                    (n, n)
                }
                Readable::File(region) => {
                    let wanted = usize::try_from(region.len).unwrap_or(usize::MAX).min(room.len());
                    match read_cached(region, &mut room[..wanted]) {
                        Ok(n) => (wanted, n.unwrap_or(0)),
                        Err(error) if end == 0 => return Err(error),
                        // What comes before it is sent first.
                        Err(_) => break,
                    }
                }
            };
            end += n;
            if n < wanted || end == plain.len() {
                break;
            }
        }
        Ok((end > 0).then(|| seal(&plain[..end])))
    })
}

/// Runs `seal` on a copy of the beginning of a mapping.
pub(crate) fn with_mapped<T>(mapped: &[u8], seal: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
    let pages = SCRATCH.with_borrow_mut(|scratch| scratch.pages.take());
    let pages = pages.map_or_else(PageReader::new, Ok)?;
    let sealed = with_plain(|plain| pages.read(mapped, plain).map(|n| seal(&plain[..n])));
    SCRATCH.with_borrow_mut(|scratch| scratch.pages = Some(pages));
    sealed
}

fn with_plain<T>(run: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.plain.resize(PLAIN_BYTES, 0);
        run(&mut scratch.plain)
    })
}

/// Lends a buffer for plaintext replies.
pub(crate) fn lend_buffer(outbox: &mut Outbox) {
    SCRATCH.with_borrow_mut(|scratch| outbox.borrow_buffer(&mut scratch.buffers));
}

/// Takes it back, if it is empty.
pub(crate) fn take_back_buffer(outbox: &mut Outbox) {
    SCRATCH.with_borrow_mut(|scratch| outbox.return_buffer(&mut scratch.buffers));
}

/// Reads the bytes of a file that are in the page cache; see [`transfer::read_cached`].
fn read_cached(region: &FileRegion, to: &mut [u8]) -> io::Result<Option<usize>> {
    match transfer::read_cached(region.file.as_fd(), region.offset, to)? {
        Some(0) => Err(io::ErrorKind::UnexpectedEof.into()), // It shrank.
        read => Ok(read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_ciphertext_is_used_again() {
        let lengths = [100, 200, 100];
        let at = |sealed: &Sealed| sealed.as_ref().as_ptr();
        let before = lengths.map(Sealed::take);
        let places = before.each_ref().map(at);
        drop(before);
        let after = lengths.map(Sealed::take);
        assert!(after.iter().zip(lengths).all(|(sealed, len)| sealed.as_ref().len() == len));
        assert!(after.iter().all(|sealed| places.contains(&at(sealed))));
        drop((0..2 * SEALED_MAX).map(|_| Sealed::take(300)).collect::<Vec<_>>());
        assert_eq!(SEALED.with_borrow(Vec::len), SEALED_MAX, "a bounded number");
    }
}
