//! Byte streams on a ring. One thread drives it. Receives are multishot and fill provided buffers; sends own their
//! bytes; both are submitted together, with the next [`StreamRing::wait`].

use std::{
    fmt, io,
    os::fd::{AsRawFd as _, BorrowedFd},
    time::Duration,
};

use io_uring::{cqueue, opcode, types::Fd};
use nix::libc;
use rustix::io::Errno;
use slab::Slab;

use super::{Filled, ProvidedBuffers, Ring};

const SUBMISSIONS: u32 = 2048;
const COMPLETIONS: u32 = 16384;
const BUFFER_BYTES: usize = 16 << 10;
/// User data of completions that nobody waits for.
const NOBODY: u64 = u64::MAX;

/// A ring for byte streams, and all that is in flight on it.
pub struct StreamRing {
    ring: Ring<KernelOwned>,
    generation: u32,
}

impl fmt::Debug for StreamRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRing").field("ring", &self.ring).finish_non_exhaustive()
    }
}

/// Memory that the kernel may touch.
struct KernelOwned {
    buffers: ProvidedBuffers<BUFFER_BYTES>,
    requests: Slab<Request>,
}

struct Request {
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

/// Identity of a request, to cancel it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    key: u32,
    generation: u32,
}

impl RequestId {
    fn user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.key)
    }

    fn of(user_data: u64) -> Self {
        Self { key: user_data as u32, generation: (user_data >> 32) as u32 }
    }
}

/// Event of a request that was made under this token.
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

impl StreamRing {
    /// # Errors
    /// The kernel, a sysctl or a filter refuses io_uring, or Linux is older than 6.1.
    pub fn new() -> io::Result<Self> {
        let ring = Ring::for_one_thread(SUBMISSIONS, COMPLETIONS, |ring| {
            Ok(KernelOwned { buffers: ProvidedBuffers::register(ring)?, requests: Slab::new() })
        })?;
        Ok(Self { ring, generation: 0 })
    }

    /// Completes once the socket takes bytes.
    pub fn watch_writable(&mut self, token: u64, socket: BorrowedFd<'_>) -> RequestId {
        let id = self.begin(token, Task::Watch);
        self.ring.poll_writable(socket, id.user_data());
        id
    }

    /// Receives until the end, an error or [`StreamRing::cancel`].
    pub fn receive(&mut self, token: u64, socket: BorrowedFd<'_>) -> RequestId {
        let id = self.begin(token, Task::Receive);
        // SAFETY: nothing here ever replaces `KernelOwned::buffers`.
        unsafe { self.ring.receive(socket, id.user_data()) };
        id
    }

    /// Sends all of `bytes`; the kernel waits for room. Two at once on one socket may overtake each other.
    pub fn send(&mut self, token: u64, socket: BorrowedFd<'_>, bytes: Vec<u8>) -> RequestId {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), length)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build();
        let id = self.begin(token, Task::Send(bytes));
        // SAFETY: the bytes are owned by a request, which ends with its last completion.
        unsafe { self.ring.push(&entry.user_data(id.user_data())) };
        id
    }

    /// Ends a request early; its last completion says so, unless it has come already.
    pub fn cancel(&mut self, id: RequestId) {
        let request = self.ring.memory().requests.get(id.key as usize);
        if request.is_some_and(|request| request.generation == id.generation) {
            self.ring.cancel(id.user_data(), NOBODY);
        }
    }

    /// Submits what has been asked for and appends what has completed, waiting for at least one or the timeout.
    ///
    /// # Errors
    /// Those of io_uring_enter(2) that end the ring.
    pub fn wait(&mut self, timeout: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        self.ring.wait(1, Some(timeout))?;
        let before = done.len();
        self.ring.reap(done, |memory, completion| match completion.user_data() {
            NOBODY => None,
            _ => memory.complete(completion),
        });
        self.ring.memory_mut().buffers.provide_for(done.len() - before);
        Ok(())
    }

    /// Lets the buffer be filled again.
    pub fn give_back(&mut self, filled: Filled) {
        self.ring.memory_mut().buffers.put_back(filled);
    }

    fn begin(&mut self, token: u64, task: Task) -> RequestId {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let key = self.ring.memory_mut().requests.insert(Request { generation, token, task });
        RequestId { key: key as u32, generation }
    }
}

impl KernelOwned {
    fn complete(&mut self, completion: &cqueue::Entry) -> Option<Completion> {
        let has_more = cqueue::more(completion.flags());
        let id = RequestId::of(completion.user_data());
        let key = id.key as usize;
        let outcome = usize::try_from(completion.result())
            .map_err(|_| Errno::from_raw_os_error(completion.result().wrapping_neg()));
        let buffer = cqueue::buffer_select(completion.flags());
        let filled = buffer.map(|buffer| self.buffers.take(buffer, outcome.unwrap_or(0)));
        let request = self.requests.get(key).filter(|request| request.generation == id.generation)?;
        let token = request.token;
        if has_more {
            return Some(Completion {
                token,
                event: Event::Received { bytes: outcome.map(|_| filled), is_armed: true },
            });
        }
        let event = match self.requests.remove(key).task {
            Task::Receive => Event::Received { bytes: outcome.map(|_| filled), is_armed: false },
            Task::Send(bytes) => Event::Sent { bytes, outcome },
            Task::Watch => Event::Writable,
        };
        Some(Completion { token, event })
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
    fn bytes_are_received_as_they_were_sent_up_to_the_end() {
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
    fn a_wait_of_no_length_submits_and_returns() {
        let mut ring = StreamRing::new().expect("io_uring");
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut done = Vec::new();
        ring.receive(1, ours.as_fd());
        ring.wait(Duration::ZERO, &mut done).expect("a ring that works");
        assert!(done.is_empty(), "{done:?}");
        ring.send(2, ours.as_fd(), b"asked".to_vec());
        ring.wait(Duration::ZERO, &mut done).expect("a ring that works");
        assert!(matches!(done[..], [Completion { token: 2, event: Event::Sent { outcome: Ok(5), .. } }]), "{done:?}");
        theirs.write_all(b"told").expect("open");
        ring.wait(Duration::ZERO, &mut done).expect("a ring that works");
        assert!(matches!(done[..], [_, Completion { token: 1, event: Event::Received { .. } }]), "{done:?}");
    }

    #[test]
    fn a_cancelled_receive_ends_and_a_stale_ticket_does_nothing() {
        let mut ring = StreamRing::new().expect("io_uring");
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let first = ring.receive(1, ours.as_fd());
        ring.cancel(first);
        let end = until(&mut ring, |completion, _| match completion.event {
            Event::Received { bytes, is_armed: false } => Some(bytes.map(|_| ())),
            Event::Received { .. } | Event::Writable | Event::Sent { .. } => None,
        });
        assert_eq!(end, Err(Errno::CANCELED));
        // The second has the first one's place, and must not be hit by its id.
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
