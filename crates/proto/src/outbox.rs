//! The ordered output of one connection: one queue, written by protocols and seen by drivers in two ways, borrowed
//! (readiness) or taken (completion).

use std::{
    collections::VecDeque,
    io::IoSlice,
    mem,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;

use crate::{
    deferred::Ledger,
    kernel_tls::{KernelTls, KernelTlsState},
    pipe::{MappedRegion, PipeRegion, ScratchPipe},
    push::Source,
    segment::{FileRegion, Segment},
};

mod buffers;
mod kernel_tls;
mod moving;
mod promises;
mod pushes;

pub use self::moving::Readable;

/// Bodies at or below this size are copied next to their header instead of being queued.
const FLATTEN_MAX: usize = 2048;
/// Output held in memory above which a protocol must stop producing.
const HIGH_WATER: usize = 256 * 1024;
/// Queued segments above which a protocol must stop producing.
const QUEUE_MAX: usize = 64;

/// The next thing a readiness driver should write.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one write")]
pub enum NextWrite<'a> {
    /// As many as the count says are filled in.
    Memory([IoSlice<'a>; Outbox::IOV], usize),
    File(&'a FileRegion),
    Pipe(&'a mut PipeRegion),
    /// A step on the socket; [`Outbox::complete_kernel_tls`] follows, or [`Outbox::refuse_kernel_tls`].
    KernelTls(&'a KernelTls),
    /// A promise is still open; see [`Outbox::poll_reply`].
    Waiting,
}

/// The next thing a completion driver should submit.
#[derive(Debug)]
pub enum Taken {
    /// The caller's until [`Outbox::recycle`]; never `Deferred`.
    Segment(Segment),
    Waiting,
    Nothing,
}

/// Reason to take no input, beside the amount of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gate {
    #[default]
    Open,
    /// See [`Outbox::hold_input`].
    Held,
    /// A promise was dropped: nothing may follow what is queued.
    Truncated,
}

/// The ordered output of one connection.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<Segment>,
    /// Inline bytes not yet behind a queued segment; always last in order.
    tail: Vec<u8>,
    /// Bytes already written of whatever memory comes first.
    written: usize,
    /// Memory bytes in `queue`.
    queued: usize,
    /// Segments taken and not yet recycled.
    in_flight: usize,
    /// Promises in `queue`, open or settled.
    deferred: usize,
    /// Bytes behind open promises; made with the first promise.
    ledger: Option<Arc<Ledger>>,
    gate: Gate,
    kernel_tls: KernelTlsState,
    spare: Vec<u8>,
    /// Buffers come from [`BufferPool`] and go back there, whatever their size.
    is_pooled: bool,
    emptied: Option<Box<ScratchPipe>>,
    /// Pushes of other threads, once the protocol takes some.
    source: Option<Source>,
}

impl Outbox {
    /// Pieces of memory that one vectored write takes.
    pub const IOV: usize = 16;
    /// Bytes that one write takes. A peer's window is seldom larger, and what it does not take at once costs both sides
    /// more than a second write does.
    pub const WRITE_MAX: usize = 256 * 1024;

    /// True if nothing is queued; something may still be in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.tail.is_empty()
    }

    /// True if nothing is queued and nothing is in flight.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.is_empty() && self.in_flight == 0
    }

    /// True if a protocol is to stop answering, and a session to stop reading: this is the back-pressure.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.gate != Gate::Open
            || self.queued + self.tail.len() >= HIGH_WATER
            || self.queue.len() >= QUEUE_MAX
            || self.deferred_bytes() >= HIGH_WATER
    }

    /// True if a promise was dropped, and everything before it has been sent.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.gate == Gate::Truncated && self.is_idle()
    }

    /// True if segments are with the driver, between [`Outbox::take`] and [`Outbox::recycle`].
    #[inline]
    pub fn has_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// Bytes that have not been sent, of files and pipes, too. What is in flight is not among them. An answer that is
    /// still to be taken from its promise counts as one byte.
    pub fn unsent_bytes(&self) -> u64 {
        let queued: u64 = self.queue.iter().map(Segment::len).sum();
        queued + self.tail.len() as u64 - self.written as u64
    }

    /// Bytes held in memory, including answers that wait behind an open promise.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.queued + self.tail.len() + self.deferred_bytes()
    }

    /// Bytes held in memory that is this connection's own: not shared with a cache or a store, which accounts for it. Every
    /// queued segment is looked at.
    pub fn own_bytes(&self) -> usize {
        let queued: usize = self.queue.iter().map(Segment::own_bytes).sum();
        let deferred = self.ledger.as_ref().map_or(0, |ledger| ledger.own.load(Ordering::Relaxed));
        queued + self.tail.len() + deferred
    }

    fn deferred_bytes(&self) -> usize {
        self.ledger.as_ref().map_or(0, |ledger| ledger.held.load(Ordering::Relaxed))
    }

    // --- protocols write ------------------------------------------------------------------

    /// True if all that is held are bytes written by [`Outbox::inline`].
    pub fn is_inline(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the buffer for headers and small replies. Append only.
    #[inline]
    pub fn inline(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    pub fn push_shared(&mut self, body: &Bytes) {
        self.push_body(body, Bytes::clone);
    }

    /// Queues a body as it is, however small: for registered memory, which a copy would not be in.
    pub fn push_uncopied(&mut self, body: &Bytes) {
        if !body.is_empty() {
            self.push(Segment::Shared(Bytes::clone(body)));
        }
    }

    /// Copies a small body next to its header; only a large one is made shareable.
    pub fn push_body<B: AsRef<[u8]>>(&mut self, body: &B, share: impl FnOnce(&B) -> Bytes) {
        if body.as_ref().len() <= FLATTEN_MAX {
            self.tail.extend_from_slice(body.as_ref());
        } else {
            self.push(Segment::Shared(share(body)));
        }
    }

    pub fn push_file(&mut self, region: FileRegion) {
        if region.len > 0 {
            self.push(Segment::File(region));
        }
    }

    pub fn push_pipe(&mut self, region: PipeRegion) {
        if region.len > 0 {
            self.push(Segment::Pipe(region));
        }
    }

    /// Queues bytes of a mapped file, never copied here.
    pub fn push_mapped(&mut self, region: MappedRegion) {
        if !region.bytes().is_empty() {
            self.push(Segment::Mapped(region));
        }
    }

    /// Queues everything that another outbox holds, none of it written yet.
    pub fn push_outbox(&mut self, other: Self) {
        if other.queue.is_empty() {
            self.tail.extend_from_slice(&other.tail);
            return;
        }
        self.seal();
        // A promise of the other keeps its own ledger: the answer is accounted for there until it is taken.
        self.deferred += other.deferred;
        self.gate = self.gate.max(other.gate);
        other.queue.into_iter().for_each(|segment| self.append(segment));
        self.tail.extend_from_slice(&other.tail);
    }

    fn push(&mut self, segment: Segment) {
        self.seal();
        self.append(segment);
    }

    fn append(&mut self, segment: Segment) {
        self.queued += segment.held_bytes();
        self.queue.push_back(segment);
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let full = mem::replace(&mut self.tail, mem::take(&mut self.spare));
            self.append(Segment::Owned(full));
        }
    }

    // --- readiness view -------------------------------------------------------------------

    /// Returns the next thing to write, or `None` when nothing is queued.
    #[inline]
    pub fn front(&mut self) -> Option<NextWrite<'_>> {
        self.settle();
        self.front_settled()
    }

    #[inline]
    fn front_settled(&mut self) -> Option<NextWrite<'_>> {
        if self.is_empty() {
            return None;
        }
        if self.queue.front().is_some_and(|segment| segment.memory().is_none()) {
            return Some(match self.queue.front_mut()? {
                Segment::File(region) => NextWrite::File(region),
                Segment::Pipe(region) => NextWrite::Pipe(region),
                Segment::KernelTls(step) => NextWrite::KernelTls(step),
                Segment::Deferred(_) | Segment::Owned(_) | Segment::Shared(_) | Segment::Mapped(_) => {
                    NextWrite::Waiting
                }
            });
        }
        let mut iov = [IoSlice::new(&[]); Self::IOV];
        let (mut count, mut room) = (0, Self::WRITE_MAX);
        let queued = self.queue.iter().map(Segment::memory);
        let tail = (!self.tail.is_empty()).then_some(Some(&self.tail[..]));
        for memory in queued.chain(tail).map_while(|memory| memory).take(Self::IOV) {
            let skip = if count == 0 { self.written } else { 0 };
            let piece = &memory[skip..];
            let piece = &piece[..piece.len().min(room)];
            room -= piece.len();
            iov[count] = IoSlice::new(piece);
            count += 1;
            if room == 0 {
                break;
            }
        }
        Some(NextWrite::Memory(iov, count))
    }

    /// True if the memory in front is followed by a file or pipe that can be sent at once (worth MSG_MORE).
    pub fn has_more_after_memory(&self) -> bool {
        let after = self.queue.iter().find(|segment| segment.memory().is_none());
        matches!(after, Some(Segment::File(_) | Segment::Pipe(_)))
    }

    /// Returns the memory in front, before the first file, pipe or promise.
    pub fn memory(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.iter().map_while(Segment::memory)
    }

    /// True if the file or pipe in front is followed by something that can be sent at once.
    pub fn has_more_after_front(&self) -> bool {
        match self.queue.get(1) {
            Some(next) => !matches!(next, Segment::Deferred(_)),
            None => !self.tail.is_empty(),
        }
    }

    /// Sends the pipe in front in another way, as memory and file; false when part of it is in a scratch pipe already.
    pub fn fall_back(&mut self) -> bool {
        let Some(Segment::Pipe(region)) = self.queue.front() else { return false };
        let Some((head, file)) = region.fall_back() else { return false };
        self.queue.pop_front();
        if file.len > 0 {
            self.queue.push_front(Segment::File(file));
        }
        if !head.is_empty() {
            self.queued += head.len();
            self.queue.push_front(Segment::Shared(head));
        }
        true
    }

    /// Sends all that is mapped as parts of its files, which may have lost pages; false when nothing is mapped. What comes
    /// before a lost page would not leave with it otherwise, a head for example.
    pub fn fall_back_from_mappings(&mut self) -> bool {
        let mut has_mapped = false;
        for (at, segment) in self.queue.iter_mut().enumerate() {
            if let Segment::Mapped(region) = segment {
                if at == 0 {
                    region.skip(mem::take(&mut self.written));
                }
                *segment = Segment::File(region.fall_back());
                has_mapped = true;
            }
        }
        has_mapped
    }

    /// Removes `n` bytes, which have been written, of what [`Outbox::front`] showed.
    ///
    /// # Panics
    /// When that is more than it showed.
    #[inline]
    pub fn advance(&mut self, mut n: usize) {
        while n > 0 {
            let Some(front) = self.queue.front_mut() else {
                return self.advance_tail(n);
            };
            let left = match front {
                Segment::File(FileRegion { offset, len, .. }) => {
                    let sent = (n as u64).min(*len);
                    *offset += sent;
                    *len -= sent;
                    if *len > 0 {
                        return;
                    }
                    sent as usize
                }
                Segment::Pipe(region) => {
                    region.advance(n as u64);
                    if region.len > 0 {
                        return;
                    }
                    n
                }
                Segment::Owned(bytes) => bytes.len() - self.written,
                Segment::Shared(bytes) => bytes.len() - self.written,
                Segment::Mapped(region) => region.bytes().len() - self.written,
                Segment::Deferred(_) | Segment::KernelTls(_) => panic!("neither a promise nor a step is written"),
            };
            if n < left {
                self.written += n;
                return;
            }
            n -= left;
            self.written = 0;
            if let Some(done) = self.queue.pop_front() {
                self.queued -= done.held_bytes();
                self.reuse(done);
            }
        }
    }

    fn advance_tail(&mut self, n: usize) {
        self.written += n;
        assert!(self.written <= self.tail.len(), "advanced past the end");
        if self.written == self.tail.len() {
            self.written = 0;
            self.tail.clear();
            if self.tail.capacity() > self.capacity_max() {
                self.tail = Vec::new();
            }
        }
    }

    // --- completion view ------------------------------------------------------------------

    /// Moves the next segment out; the caller owns it until the kernel is done with it.
    pub fn take(&mut self) -> Taken {
        self.settle();
        if self.queue.is_empty() {
            self.seal();
        }
        if self.is_waiting() {
            return Taken::Waiting;
        }
        let Some(mut segment) = self.queue.pop_front() else { return Taken::Nothing };
        self.queued -= segment.held_bytes();
        segment.skip(mem::take(&mut self.written));
        self.in_flight += 1;
        Taken::Segment(segment)
    }

    /// Ends what [`Outbox::take`] began; must be called for every segment taken.
    pub fn recycle(&mut self, segment: Segment) {
        self.in_flight -= 1;
        self.reuse(segment);
    }

    /// Undoes [`Outbox::take`]; several segments are put back last first.
    pub fn put_back(&mut self, segment: Segment) {
        self.in_flight -= 1;
        self.queued += segment.held_bytes();
        self.queue.push_front(segment);
    }

    /// Takes the scratch pipe of a region that has been sent to its last byte.
    pub fn emptied_pipe(&mut self) -> Option<Box<ScratchPipe>> {
        self.emptied.take()
    }

    fn reuse(&mut self, segment: Segment) {
        match segment {
            Segment::Owned(mut buffer) if buffer.capacity() <= self.capacity_max() => {
                buffer.clear();
                let slot = if self.tail.capacity() == 0 { &mut self.tail } else { &mut self.spare };
                if slot.capacity() == 0 {
                    *slot = buffer;
                }
            }
            Segment::Pipe(region) => self.emptied = region.into_scratch(),
            Segment::Owned(_)
            | Segment::Shared(_)
            | Segment::File(_)
            | Segment::Mapped(_)
            | Segment::Deferred(_)
            | Segment::KernelTls(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
