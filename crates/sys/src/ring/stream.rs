//! An io_uring for byte streams, safe to use: whatever the kernel may touch is owned by the ring until the kernel is done
//! with it.
//!
//! One thread drives it. Receives are multishot and fill memory that the ring provides (io_uring_register_buf_ring(3));
//! sends own their bytes; both are submitted together, with the next [`StreamRing::wait`].

use std::{
    io,
    mem::ManuallyDrop,
    ops::Deref,
    os::fd::{AsRawFd as _, BorrowedFd},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use io_uring::{
    IoUring, cqueue, opcode, squeue,
    types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec},
};
use memmap2::{MmapMut, MmapOptions};
use nix::libc;
use rustix::io::Errno;
use slab::Slab;

const SUBMISSIONS: u32 = 2048;
const COMPLETIONS: u32 = 16384;
/// Provided buffers: a power of two.
const BUFFERS: u16 = 512;
const BUFFER_BYTES: usize = 16 << 10;
const GROUP: u16 = 0;
/// How long a ring that is dropped waits for what is in flight.
const REAP_MAX: Duration = Duration::from_secs(1);
/// Completions that nobody waits for.
const NOBODY: u64 = u64::MAX;

/// A ring, and all that is in flight on it.
pub struct StreamRing {
    ring: IoUring,
    /// Leaked when the kernel cannot be made to let go of it.
    lent: ManuallyDrop<Lent>,
    /// Entries whose last completion is still to come.
    in_flight: usize,
    generation: u32,
}

impl std::fmt::Debug for StreamRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamRing").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

struct Lent {
    pool: Pool,
    flights: Slab<Flight>,
}

struct Flight {
    generation: u32,
    token: u64,
    task: Task,
}

enum Task {
    Receive,
    /// Read by the kernel.
    Send(Vec<u8>),
    Watch,
}

/// Names a request that may be cancelled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ticket {
    key: u32,
    generation: u32,
}

impl Ticket {
    fn user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.key)
    }

    fn of(user_data: u64) -> Self {
        Self { key: user_data as u32, generation: (user_data >> 32) as u32 }
    }
}

/// Something has happened to what was asked for under this token.
#[derive(Debug)]
pub struct Completion {
    pub token: u64,
    pub event: Event,
}

#[derive(Debug)]
pub enum Event {
    /// The socket takes bytes, or an attempt to connect is decided.
    Writable,
    /// Bytes, or nothing for the end of the stream. Unless `is_armed` more needs another [`StreamRing::receive`]:
    /// `ENOBUFS` only says that no provided buffer was free.
    Received { bytes: Result<Option<Filled>, Errno>, is_armed: bool },
    /// The bytes given to [`StreamRing::send`], and how many of them were taken.
    Sent { bytes: Vec<u8>, outcome: Result<usize, Errno> },
}

/// A provided buffer with what was received in it. It is owed to [`StreamRing::give_back`].
#[derive(Debug)]
#[must_use]
pub struct Filled {
    id: u16,
    memory: Box<[u8]>,
    length: usize,
}

impl Deref for Filled {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl StreamRing {
    /// Fails where the kernel, a sysctl or a filter refuses io_uring, and before Linux 6.1.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let pool = Pool::register(&ring)?;
        let lent = ManuallyDrop::new(Lent { pool, flights: Slab::new() });
        Ok(Self { ring, lent, in_flight: 0, generation: 0 })
    }

    /// Completes once the socket takes bytes.
    pub fn watch_writable(&mut self, token: u64, socket: BorrowedFd<'_>) -> Ticket {
        let events = rustix::event::PollFlags::OUT.bits();
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), events.into()).build();
        self.begin(token, Task::Watch, entry)
    }

    /// Receives until the end, an error or [`StreamRing::cancel`].
    pub fn receive(&mut self, token: u64, socket: BorrowedFd<'_>) -> Ticket {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.begin(token, Task::Receive, entry)
    }

    /// Sends all of `bytes`; the kernel waits for room. Two at once on one socket may overtake each other.
    pub fn send(&mut self, token: u64, socket: BorrowedFd<'_>, bytes: Vec<u8>) -> Ticket {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), length)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build();
        self.begin(token, Task::Send(bytes), entry)
    }

    /// Ends a request early; its last completion says so, unless it has come already.
    pub fn cancel(&mut self, ticket: Ticket) {
        let is_there =
            self.lent.flights.get(ticket.key as usize).is_some_and(|flight| flight.generation == ticket.generation);
        if is_there {
            self.push(&opcode::AsyncCancel::new(ticket.user_data()).build().user_data(NOBODY));
        }
    }

    /// Submits what has been asked for and appends what has completed, waiting for at least one or the timeout.
    pub fn wait(&mut self, timeout: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        let timeout = Timespec::from(timeout);
        match self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout)) {
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR | Errno::BUSY | Errno::TIME | Errno::AGAIN) => {}
                _ => return Err(error),
            },
        }
        let Self { ring, lent, in_flight, .. } = self;
        for completion in ring.completion() {
            let has_more = cqueue::more(completion.flags());
            *in_flight -= usize::from(!has_more);
            if completion.user_data() != NOBODY {
                done.extend(lent.complete(&completion, has_more));
            }
        }
        Ok(())
    }

    /// The buffer can be filled again.
    pub fn give_back(&mut self, filled: Filled) {
        self.lent.pool.provide(filled.id, filled.memory);
    }

    fn begin(&mut self, token: u64, task: Task, entry: squeue::Entry) -> Ticket {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let key = self.lent.flights.insert(Flight { generation, token, task });
        let ticket = Ticket { key: key as u32, generation };
        self.push(&entry.user_data(ticket.user_data()));
        ticket
    }

    fn push(&mut self, entry: &squeue::Entry) {
        self.in_flight += 1;
        // SAFETY: what `entry` points to is owned by a flight in `lent`, and a flight ends with its last completion.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // A full queue: what is in it goes first. An error here comes again, and is reported, in `wait`.
            let _ = self.ring.submit();
        }
    }
}

impl Lent {
    fn complete(&mut self, completion: &cqueue::Entry, has_more: bool) -> Option<Completion> {
        let ticket = Ticket::of(completion.user_data());
        let key = ticket.key as usize;
        let outcome = usize::try_from(completion.result())
            .map_err(|_| Errno::from_raw_os_error(completion.result().wrapping_neg()));
        let buffer = cqueue::buffer_select(completion.flags());
        let filled = buffer.map(|id| self.pool.take(id, outcome.unwrap_or(0)));
        let flight = self.flights.get(key).filter(|flight| flight.generation == ticket.generation)?;
        let token = flight.token;
        if has_more {
            return Some(Completion {
                token,
                event: Event::Received { bytes: outcome.map(|_| filled), is_armed: true },
            });
        }
        let event = match self.flights.remove(key).task {
            Task::Receive => Event::Received { bytes: outcome.map(|_| filled), is_armed: false },
            Task::Send(bytes) => Event::Sent { bytes, outcome },
            Task::Watch => Event::Writable,
        };
        Some(Completion { token, event })
    }
}

impl Drop for StreamRing {
    fn drop(&mut self) {
        let begin = Instant::now();
        // Whatever is not reaped below, the kernel may still touch.
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        let mut done = Vec::new();
        while self.in_flight > 0 && begin.elapsed() < REAP_MAX {
            if self.wait(Duration::from_millis(10), &mut done).is_err() {
                break;
            }
            done.clear();
        }
        if self.in_flight == 0 {
            // SAFETY: nothing is in flight, so the kernel has no use for the memory; it is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.lent) };
        }
    }
}

/// The provided buffers.
struct Pool {
    /// [`BUFFERS`] entries, shared with the kernel.
    entries: MmapMut,
    /// Those that the kernel has.
    lent: Vec<Option<*mut [u8]>>,
    tail: u16,
}

// SAFETY: the pointers are boxes that nobody else has.
unsafe impl Send for Pool {}

impl Pool {
    fn register(ring: &IoUring) -> io::Result<Self> {
        let entries = MmapOptions::new().len(usize::from(BUFFERS) * size_of::<BufRingEntry>()).map_anon()?;
        // SAFETY: a page-aligned mapping of BUFFERS entries, which `StreamRing` keeps until the kernel is done with it.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, BUFFERS, GROUP, 0)? };
        let mut this = Self { entries, lent: vec![None; usize::from(BUFFERS)], tail: 0 };
        (0..BUFFERS).for_each(|id| this.provide(id, vec![0; BUFFER_BYTES].into_boxed_slice()));
        Ok(this)
    }

    fn provide(&mut self, id: u16, memory: Box<[u8]>) {
        let memory = Box::into_raw(memory);
        self.lent[usize::from(id)] = Some(memory);
        let entries = self.entries.as_mut_ptr().cast::<BufRingEntry>();
        // SAFETY: the index is masked into the BUFFERS entries; only this thread writes entries and the tail, and the
        // kernel reads an entry only after the release store that publishes it.
        unsafe {
            let entry = &mut *entries.add(usize::from(self.tail & (BUFFERS - 1)));
            entry.set_addr(memory.cast::<u8>() as u64);
            entry.set_len(memory.len() as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    /// The kernel has put `length` bytes into this buffer, and forgotten it.
    fn take(&mut self, id: u16, length: usize) -> Filled {
        let memory = self.lent[usize::from(id)].take();
        #[expect(clippy::expect_used, reason = "the kernel names a buffer once for each time that it was provided")]
        let memory = memory.expect("a buffer that the kernel had");
        // SAFETY: made by `Box::into_raw` in `provide` and taken once; the kernel does not touch a buffer after naming it.
        let memory = unsafe { Box::from_raw(memory) };
        assert!(length <= memory.len());
        Filled { id, memory, length }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for memory in self.lent.iter_mut().filter_map(Option::take) {
            // SAFETY: made by `Box::into_raw`; `StreamRing` drops the pool only when the kernel is done with it.
            drop(unsafe { Box::from_raw(memory) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        os::{fd::AsFd as _, unix::net::UnixStream},
    };

    use super::*;

    fn until<T>(ring: &mut StreamRing, mut found: impl FnMut(Completion, &mut StreamRing) -> Option<T>) -> T {
        let mut done = Vec::new();
        loop {
            ring.wait(Duration::from_millis(100), &mut done).expect("a ring that works");
            for completion in done.drain(..) {
                if let Some(found) = found(completion, ring) {
                    return found;
                }
            }
        }
    }

    #[test]
    fn bytes_arrive_as_they_were_sent_more_than_there_are_buffers_and_the_end_is_seen() {
        let mut ring = StreamRing::new().expect("io_uring");
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let text: Vec<u8> = (0..20 << 20).map(|at: u32| (at % 251) as u8).collect();
        let sent = text.clone();
        let writer = std::thread::spawn(move || theirs.write_all(&sent).expect("read to the end"));
        ring.receive(7, ours.as_fd());
        let mut received = Vec::new();
        until(&mut ring, |completion, ring| {
            assert_eq!(completion.token, 7);
            let Event::Received { bytes, is_armed } = completion.event else { panic!("only this was asked for") };
            match bytes {
                Ok(Some(bytes)) => {
                    received.extend_from_slice(&bytes);
                    ring.give_back(bytes);
                }
                Ok(None) => return Some(()),
                Err(error) => assert_eq!(error, Errno::NOBUFS),
            }
            if !is_armed {
                ring.receive(7, ours.as_fd());
            }
            None
        });
        writer.join().expect("written");
        assert!(received == text);
    }

    #[test]
    fn a_send_waits_for_room_and_gives_its_bytes_back() {
        let mut ring = StreamRing::new().expect("io_uring");
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let text = vec![b'x'; 4 << 20];
        ring.send(1, ours.as_fd(), text.clone());
        let reader = std::thread::spawn(move || {
            let mut read = vec![0; 4 << 20];
            theirs.read_exact(&mut read).expect("all of it");
            read
        });
        let (bytes, outcome) = until(&mut ring, |completion, _| match completion.event {
            Event::Sent { bytes, outcome } => Some((bytes, outcome)),
            Event::Writable | Event::Received { .. } => None,
        });
        assert_eq!((outcome, bytes == text), (Ok(4 << 20), true));
        assert!(reader.join().expect("read") == text);
    }

    #[test]
    fn a_cancelled_receive_ends_and_a_stale_ticket_touches_nothing() {
        let mut ring = StreamRing::new().expect("io_uring");
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let first = ring.receive(1, ours.as_fd());
        ring.cancel(first);
        let end = until(&mut ring, |completion, _| match completion.event {
            Event::Received { bytes, is_armed: false } => Some(bytes.map(|_| ())),
            Event::Received { .. } | Event::Writable | Event::Sent { .. } => None,
        });
        assert_eq!(end, Err(Errno::CANCELED));
        // The second has the first one's place, and must not be hit by its ticket.
        ring.receive(2, ours.as_fd());
        ring.cancel(first);
        let mut done = Vec::new();
        ring.wait(Duration::from_millis(20), &mut done).expect("a ring that works");
        assert!(done.is_empty(), "{done:?}");
        theirs.write_all(b"still here").expect("open");
        let got = until(&mut ring, |completion, _| match completion.event {
            Event::Received { bytes: Ok(Some(bytes)), .. } => Some((completion.token, bytes.to_vec())),
            Event::Received { .. } | Event::Writable | Event::Sent { .. } => panic!("{completion:?}"),
        });
        assert_eq!(got, (2, b"still here".to_vec()));
    }
}
