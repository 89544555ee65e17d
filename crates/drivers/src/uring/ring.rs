//! The operations of the driver on its ring. Their memory is the ring's until they have completed.

use std::{
    io,
    os::fd::{BorrowedFd, FromRawFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use io_uring::{cqueue, squeue};
use proto::{Outbox, Segment};
use rustix::io::Errno;
use slab::Slab;
use sys::{
    registered::Region,
    ring::{ProvidedBuffers, Ring},
};

use super::send::{Request, SendOp};

const SUBMISSIONS: u32 = 2048;
const COMPLETIONS: u32 = 8192;
/// Size of a provided buffer.
const BUFFER_BYTES: usize = 8 * 1024;
/// Finished sends kept for the next ones.
const SPARE_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    Accept,
    Receive,
    Send,
    /// Its key is of [`KernelOwned::zero_copy`]; it is reaped as a `Send` of the connection.
    SendZeroCopy,
    /// The socket takes bytes again.
    Writable,
    Mail,
    /// The first deadline of a connection is due.
    Alarm,
    /// A change of another operation, whose own completion tells the outcome.
    Change,
}

const OPS: [Op; 8] =
    [Op::Accept, Op::Receive, Op::Send, Op::SendZeroCopy, Op::Writable, Op::Mail, Op::Alarm, Op::Change];

/// One reaped completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) op: Op,
    pub(super) key: usize,
    result: i32,
    /// The multishot request stays armed.
    pub(super) has_more: bool,
    buffer: Option<u16>,
}

impl Completion {
    fn of(entry: &cqueue::Entry) -> Self {
        Self {
            op: OPS[(entry.user_data() >> 56) as usize],
            key: entry.user_data() as u32 as usize,
            result: entry.result(),
            has_more: cqueue::more(entry.flags()),
            buffer: cqueue::buffer_select(entry.flags()),
        }
    }

    pub(super) fn result(&self) -> Result<usize, Errno> {
        usize::try_from(self.result).map_err(|_| Errno::from_raw_os_error(-self.result))
    }
}

pub(super) struct DriverRing(Ring<KernelOwned>);

/// Memory that the kernel may touch, beside registered memory.
struct KernelOwned {
    buffers: ProvidedBuffers<BUFFER_BYTES>,
    /// Indexed by connection key; at most one send per connection is in flight.
    sends: Vec<Option<Box<SendOp>>>,
    #[expect(clippy::vec_box, reason = "the kernel is told where they are")]
    spare: Vec<Box<SendOp>>,
    /// Registered memory that is being sent, or has been sent and may be sent again by TCP.
    zero_copy: Slab<ZeroCopySend>,
}

struct ZeroCopySend {
    connection: usize,
    /// Read by the kernel.
    _bytes: Bytes,
}

impl ZeroCopySend {
    /// Returns the outcome of a zero-copy send as that of any other; `None` for the notification behind it, which is
    /// its last completion.
    fn reap(sends: &mut Slab<Self>, done: Completion, is_notification: bool) -> Option<Completion> {
        let connection = sends.get(done.key)?.connection;
        if !done.has_more {
            sends.remove(done.key);
        }
        (!is_notification).then_some(Completion { op: Op::Send, key: connection, ..done })
    }
}

impl DriverRing {
    pub(super) fn new(registered: Option<&Arc<Region>>) -> io::Result<Self> {
        let mut ring = Ring::for_one_thread(SUBMISSIONS, COMPLETIONS, |ring| {
            let buffers = ProvidedBuffers::register(ring)?;
            Ok(KernelOwned { buffers, sends: Vec::new(), spare: Vec::new(), zero_copy: Slab::new() })
        })?;
        registered.map_or(Ok(()), |region| ring.register(Arc::clone(region)))?;
        Ok(Self(ring))
    }

    /// Memory that is sent without being copied.
    pub(super) fn registered(&self) -> Option<&Region> {
        self.0.registered()
    }

    /// Submits what has been pushed and appends what has completed, waiting for at least one or the timeout.
    pub(super) fn wait(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> io::Result<()> {
        self.0.wait(1, timeout)?;
        let before = done.len();
        self.0.reap(done, |memory, entry| {
            let done = Completion::of(entry);
            if done.op != Op::SendZeroCopy {
                return Some(done);
            }
            ZeroCopySend::reap(&mut memory.zero_copy, done, cqueue::notif(entry.flags()))
        });
        self.0.memory_mut().buffers.provide_for(done.len() - before);
        Ok(())
    }

    // --- requests -------------------------------------------------------------------------

    pub(super) fn accept(&mut self, at: usize, listener: BorrowedFd<'_>) {
        self.0.accept(listener, user_data(Op::Accept, at));
    }

    pub(super) fn receive(&mut self, key: usize, socket: BorrowedFd<'_>) {
        // SAFETY: nothing here ever replaces `KernelOwned::buffers`.
        unsafe { self.0.receive(socket, user_data(Op::Receive, key)) }
    }

    pub(super) fn cancel(&mut self, op: Op, key: usize) {
        self.0.cancel(user_data(op, key), user_data(Op::Change, key));
    }

    pub(super) fn wait_writable(&mut self, key: usize, socket: BorrowedFd<'_>) {
        self.0.poll_writable(socket, user_data(Op::Writable, key));
    }

    /// Completes whenever `mailbox` becomes readable.
    pub(super) fn watch(&mut self, mailbox: BorrowedFd<'_>) {
        self.0.poll_readable(mailbox, user_data(Op::Mail, 0));
    }

    /// Completes once after this time; an alarm that is `set` already moves there.
    pub(super) fn alarm(&mut self, after: Duration, set: bool) {
        let alarm = user_data(Op::Alarm, 0);
        if set {
            self.0.reset_timer(alarm, after, user_data(Op::Change, 0));
        } else {
            self.0.set_timer(after, alarm);
        }
    }

    /// Sends the segments that `load` puts in, and owns them until [`DriverRing::sent`] gives them back. False when
    /// there are none.
    pub(super) fn send(&mut self, key: usize, socket: BorrowedFd<'_>, load: impl FnOnce(&mut Vec<Segment>)) -> bool {
        let KernelOwned { sends, spare, .. } = self.0.memory_mut();
        if sends.len() <= key {
            sends.resize_with(key + 1, || None);
        }
        assert!(sends[key].is_none(), "one send per connection");
        let mut send = spare.pop().unwrap_or_default();
        if !send.load(load) {
            spare.push(send);
            return false;
        }
        sends[key] = Some(send);
        self.submit_send(key, socket)
    }

    /// Submits a send, or what is left of it; false when there is none.
    pub(super) fn submit_send(&mut self, key: usize, socket: BorrowedFd<'_>) -> bool {
        let (memory, registered) = self.0.memory_and_registered();
        let Some(Some(send)) = memory.sends.get_mut(key) else { return false };
        match send.request(socket, registered) {
            Request::Copied(entry) => self.push(entry, Op::Send, key),
            Request::Registered(entry, bytes) => {
                let at = memory.zero_copy.insert(ZeroCopySend { connection: key, _bytes: bytes });
                self.push(entry, Op::SendZeroCopy, at);
            }
        }
        true
    }

    fn push(&mut self, entry: squeue::Entry, op: Op, key: usize) {
        // SAFETY: what a send points to is in `KernelOwned::sends` until `sent` has met its completion, and in
        // `KernelOwned::zero_copy` until its notification has been reaped.
        unsafe { self.0.push(&entry.user_data(user_data(op, key))) }
    }

    // --- completions ----------------------------------------------------------------------

    /// Returns the socket that an accept brought.
    #[expect(clippy::disallowed_methods, reason = "a completion brings a bare descriptor")]
    pub(super) fn accepted(&self, done: Completion) -> Result<OwnedFd, Errno> {
        assert!(done.op == Op::Accept);
        let fd = done.result()?;
        // SAFETY: a successful accept hands over a fresh descriptor that has no other owner, once: `Completion` is
        // only made by `wait`, and this is called once for each.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// Returns the bytes that a receive brought.
    pub(super) fn received(&self, done: Completion) -> &[u8] {
        match (done.buffer, done.result()) {
            (Some(id), Ok(len)) => self.0.memory().buffers.filled(id, len),
            _ => &[],
        }
    }

    pub(super) fn give_back(&mut self, done: Completion) {
        if let Some(id) = done.buffer {
            self.0.memory_mut().buffers.give_back(id);
        }
    }

    /// `Some` once the send has come to its end and its segments have been given back; `None` after the rest of it has
    /// been submitted again, or waits for the socket.
    pub(super) fn sent(
        &mut self,
        done: Completion,
        socket: BorrowedFd<'_>,
        outbox: &mut Outbox,
    ) -> Option<Result<(), Errno>> {
        let KernelOwned { sends, spare, .. } = self.0.memory_mut();
        let slot = sends.get_mut(done.key)?;
        let outcome = match done.result() {
            Ok(n) if slot.as_mut()?.advance(n) => Ok(()),
            // The kernel waits for the socket by itself, but not for ever: after many wake-ups it hands the wait to us.
            Err(Errno::AGAIN) => {
                self.wait_writable(done.key, socket);
                return None;
            }
            Ok(_) | Err(Errno::INTR) => {
                self.submit_send(done.key, socket);
                return None;
            }
            Err(error) => Err(error),
        };
        let mut send = slot.take()?;
        send.unload(outbox, outcome != Err(Errno::FAULT));
        if spare.len() < SPARE_MAX {
            spare.push(send);
        }
        Some(outcome)
    }
}

/// # Errors
/// The kernel does not let this process have a ring.
pub(super) fn probe() -> io::Result<()> {
    bare().map(drop)
}

/// # Errors
/// The kernel does not take this memory with so many rings at once, each of which counts towards the limit of locked
/// memory, or does not send it without copying.
pub(super) fn probe_registered(region: &Arc<Region>, threads: usize) -> io::Result<()> {
    let rings = (0..threads).map(|_| bare().and_then(|mut ring| ring.register(Arc::clone(region)).map(|()| ring)));
    rings.collect::<io::Result<Vec<_>>>().map(drop)
}

fn bare() -> io::Result<Ring<()>> {
    Ring::for_one_thread(SUBMISSIONS, COMPLETIONS, |_| Ok(()))
}

fn user_data(op: Op, key: usize) -> u64 {
    (op as u64) << 56 | (key as u64 & 0xffff_ffff)
}
