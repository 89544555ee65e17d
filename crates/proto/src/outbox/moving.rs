//! Output that becomes that of another outbox: as it is, or as what a layer makes of its bytes.

use std::mem;

use super::Outbox;
use crate::segment::{FileRegion, Segment};

/// A piece of output whose bytes a layer can read.
#[derive(Clone, Copy, Debug)]
pub enum Readable<'a> {
    Memory(&'a [u8]),
    File(&'a FileRegion),
}

impl Outbox {
    /// Returns what can be read of the output, in its order: up to the first promise, pipe or mapping.
    /// [`Outbox::advance`] may be given any part of it.
    pub fn readable(&mut self) -> impl Iterator<Item = Readable<'_>> {
        self.settle();
        let queued = self.queue.iter().map(|segment| match segment {
            Segment::Owned(bytes) => Some(Readable::Memory(bytes)),
            Segment::Shared(bytes) => Some(Readable::Memory(bytes)),
            Segment::File(region) => Some(Readable::File(region)),
            Segment::Pipe(_) | Segment::Mapped(_) | Segment::Deferred(_) | Segment::KernelTls(_) => None,
        });
        let tail = (!self.tail.is_empty()).then_some(Some(Readable::Memory(&self.tail)));
        let mut written = self.written;
        queued.chain(tail).map_while(move |piece| match piece? {
            Readable::Memory(bytes) => Some(Readable::Memory(&bytes[mem::take(&mut written)..])),
            file @ Readable::File(_) => Some(file),
        })
    }

    /// Moves the first bytes of another outbox behind what is queued here: as many as asked for, but not beyond a promise.
    /// A pipe is sent as its file, since a pipe cannot be divided. Returns the number of bytes that have been moved.
    pub fn push_from(&mut self, other: &mut Self, len: u64) -> u64 {
        let mut left = len;
        while left > 0 {
            let piece = match other.queue.front_mut() {
                None if other.tail.is_empty() => break,
                None => {
                    let part = &other.tail[other.written..];
                    let part = &part[..part.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                    self.tail.extend_from_slice(part);
                    part.len()
                }
                Some(Segment::File(region)) => {
                    let part = region.len.min(left).min(usize::MAX as u64);
                    self.push_file(FileRegion { len: part, ..region.clone() });
                    usize::try_from(part).unwrap_or(usize::MAX)
                }
                Some(Segment::Pipe(_)) => {
                    if !other.fall_back() {
                        break;
                    }
                    continue;
                }
                Some(Segment::Deferred(_) | Segment::KernelTls(_)) => break,
                Some(front) => self.push_part(front, other.written, left),
            };
            other.advance(piece);
            left -= piece as u64;
        }
        len - left
    }

    /// Queues the beginning of a piece of memory, without what has been written of it. Returns its length.
    fn push_part(&mut self, piece: &mut Segment, written: usize, len: u64) -> usize {
        if let Segment::Owned(bytes) = piece {
            *piece = Segment::Shared(mem::take(bytes).into());
        }
        let held = piece.memory().map_or(0, <[u8]>::len);
        let part = written..held.min(written.saturating_add(usize::try_from(len).unwrap_or(usize::MAX)));
        match piece {
            Segment::Shared(bytes) => self.push_shared(&bytes.slice(part.clone())),
            Segment::Mapped(region) => self.push_mapped(region.slice(part.clone())),
            Segment::Owned(_) | Segment::File(_) | Segment::Pipe(_) | Segment::Deferred(_) | Segment::KernelTls(_) => {}
        }
        part.len()
    }
}
