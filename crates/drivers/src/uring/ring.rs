//! A ring that owns every byte the kernel may touch.
//!
//! Invariant: memory named by a submitted entry stays in `self` until the entry's last completion has been reaped. For
//! registered memory that is the notification which follows the completion of a zero-copy send.

use std::{
    io,
    mem::ManuallyDrop,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use io_uring::{
    IoUring, Probe, cqueue, opcode, squeue,
    types::{CancelBuilder, Fd, SubmitArgs, Timespec},
};
use proto::Segment;
use rustix::io::Errno;
use slab::Slab;
use sys::registered::Region;

use super::{
    buffers::{BufferRing, GROUP},
    send::{Request, Sending},
};

/// The fixed buffer that registered memory is.
pub(super) const REGISTERED: u16 = 0;
const SUBMISSIONS: u32 = 2048;
const COMPLETIONS: u32 = 8192;
/// Finished sends kept for the next ones.
const SPARE_MAX: usize = 64;
/// How long a ring that is dropped waits for what is in flight.
const REAP_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    Accept,
    Receive,
    Send,
    /// Its key is of [`Lent::held`]; it is reaped as a `Send` of the connection.
    SendZeroCopy,
    /// The socket takes bytes again.
    Writable,
    Mail,
    Cancel,
}

const OPS: [Op; 7] = [Op::Accept, Op::Receive, Op::Send, Op::SendZeroCopy, Op::Writable, Op::Mail, Op::Cancel];

/// One reaped completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) op: Op,
    pub(super) key: usize,
    result: i32,
    /// The multishot request stays armed.
    pub(super) more: bool,
    buffer: Option<u16>,
}

impl Done {
    pub(super) fn result(&self) -> Result<usize, Errno> {
        usize::try_from(self.result).map_err(|_| Errno::from_raw_os_error(-self.result))
    }
}

pub(super) struct Ring {
    ring: IoUring,
    /// Leaked when the kernel cannot be made to let go of it.
    lent: ManuallyDrop<Lent>,
    /// Entries whose last completion is still to come.
    in_flight: usize,
}

/// Memory that the kernel may touch.
struct Lent {
    buffers: BufferRing,
    /// Indexed by connection key; at most one send per connection is in flight.
    sending: Vec<Option<Box<Sending>>>,
    #[expect(clippy::vec_box, reason = "the kernel is told where they are")]
    spare: Vec<Box<Sending>>,
    registered: Option<Arc<Region>>,
    /// Registered memory that is being sent, or has been sent and may be sent again by TCP.
    held: Slab<Held>,
}

/// One zero-copy send.
struct Held {
    connection: usize,
    /// Read by the kernel.
    _bytes: Bytes,
}

impl Held {
    /// The outcome of a zero-copy send, as that of any other; `None` for the notification behind it.
    fn reap(held: &mut Slab<Self>, done: Done, is_notification: bool) -> Option<Done> {
        let connection = held.get(done.key)?.connection;
        if !done.more {
            held.remove(done.key);
        }
        (!is_notification).then_some(Done { op: Op::Send, key: connection, ..done })
    }
}

impl Ring {
    pub(super) fn new(registered: Option<&Arc<Region>>) -> io::Result<Self> {
        let ring = build()?;
        let buffers = BufferRing::register(&ring)?;
        if let Some(region) = registered {
            register(&ring, region)?;
        }
        let (registered, held) = (registered.cloned(), Slab::new());
        let lent = Lent { buffers, sending: Vec::new(), spare: Vec::new(), registered, held };
        Ok(Self { ring, lent: ManuallyDrop::new(lent), in_flight: 0 })
    }

    /// Memory that is sent without being copied.
    pub(super) fn registered(&self) -> Option<&Region> {
        self.lent.registered.as_deref()
    }

    /// Submits what has been pushed and appends what has completed, waiting for at least one or the timeout.
    pub(super) fn wait(&mut self, done: &mut Vec<Done>, timeout: Option<Duration>) -> io::Result<()> {
        let waited = match timeout.map(Timespec::from) {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout)),
        };
        match waited.map_err(|error| (Errno::from_io_error(&error), error)) {
            Ok(_) | Err((Some(Errno::INTR | Errno::BUSY | Errno::TIME | Errno::AGAIN), _)) => {}
            Err((_, error)) => return Err(error),
        }
        let Self { ring, lent, in_flight } = self;
        done.extend(ring.completion().filter_map(|completion| {
            let done = Done {
                op: OPS[(completion.user_data() >> 56) as usize],
                key: completion.user_data() as u32 as usize,
                result: completion.result(),
                more: cqueue::more(completion.flags()),
                buffer: cqueue::buffer_select(completion.flags()),
            };
            *in_flight -= usize::from(!done.more);
            if done.op != Op::SendZeroCopy {
                return Some(done);
            }
            Held::reap(&mut lent.held, done, cqueue::notif(completion.flags()))
        }));
        Ok(())
    }

    // --- requests -------------------------------------------------------------------------

    pub(super) fn accept(&mut self, front_end: usize, listener: BorrowedFd<'_>) {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build();
        self.push(Op::Accept, front_end, &entry);
    }

    pub(super) fn receive(&mut self, key: usize, socket: BorrowedFd<'_>) {
        self.push(Op::Receive, key, &opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build());
    }

    pub(super) fn cancel(&mut self, op: Op, key: usize) {
        self.push(Op::Cancel, key, &opcode::AsyncCancel::new(user_data(op, key)).build());
    }

    pub(super) fn wait_writable(&mut self, key: usize, socket: BorrowedFd<'_>) {
        let events = rustix::event::PollFlags::OUT.bits();
        self.push(Op::Writable, key, &opcode::PollAdd::new(Fd(socket.as_raw_fd()), events.into()).build());
    }

    /// Completes whenever `mailbox` becomes readable.
    pub(super) fn watch(&mut self, mailbox: BorrowedFd<'_>) {
        let events = rustix::event::PollFlags::IN.bits();
        let entry = opcode::PollAdd::new(Fd(mailbox.as_raw_fd()), events.into()).multi(true).build();
        self.push(Op::Mail, 0, &entry);
    }

    /// Sends the segments that `load` puts in, and owns them until [`Ring::sent`] gives them back. False when there
    /// are none.
    pub(super) fn send(&mut self, key: usize, socket: BorrowedFd<'_>, load: impl FnOnce(&mut Vec<Segment>)) -> bool {
        if self.lent.sending.len() <= key {
            self.lent.sending.resize_with(key + 1, || None);
        }
        assert!(self.lent.sending[key].is_none(), "one send per connection");
        let mut sending = self.lent.spare.pop().unwrap_or_default();
        if !sending.load(load) {
            self.lent.spare.push(sending);
            return false;
        }
        self.lent.sending[key] = Some(sending);
        self.resend(key, socket)
    }

    fn push(&mut self, op: Op, key: usize, entry: &squeue::Entry) {
        let entry = entry.clone().user_data(user_data(op, key));
        self.in_flight += 1;
        // SAFETY: every pointer in `entry` names memory owned by `self` (see the module's invariant); descriptors that
        // are closed too early make an operation fail, not misbehave.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            // A full queue: what is in it goes first. An error here comes again, and is reported, in `wait`.
            let _ = self.ring.submit();
        }
    }

    // --- completions ----------------------------------------------------------------------

    /// The socket that an accept brought.
    #[expect(clippy::disallowed_methods, reason = "a completion brings a bare descriptor")]
    pub(super) fn accepted(&self, done: Done) -> Result<OwnedFd, Errno> {
        assert!(done.op == Op::Accept);
        let fd = done.result()?;
        // SAFETY: a successful accept hands over a fresh descriptor that nobody else knows, once: `Done` is only made
        // by `wait`, and this is called once for each.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// The bytes that a receive brought.
    pub(super) fn received(&self, done: Done) -> &[u8] {
        match (done.buffer, done.result()) {
            (Some(id), Ok(len)) => self.lent.buffers.filled(id, len),
            _ => &[],
        }
    }

    pub(super) fn give_back(&mut self, done: Done) {
        if let Some(id) = done.buffer {
            self.lent.buffers.give_back(id);
        }
    }

    /// `Some` once the send has come to its end and its segments have been given back; `None` after the rest of it has
    /// been submitted again, or waits for the socket.
    pub(super) fn sent(
        &mut self,
        done: Done,
        socket: BorrowedFd<'_>,
        unload: impl FnMut(Segment),
    ) -> Option<Result<(), Errno>> {
        let slot = self.lent.sending.get_mut(done.key)?;
        let outcome = match done.result() {
            Ok(n) if slot.as_mut()?.advance(n) => Ok(()),
            // The kernel waits for the socket by itself, but not for ever: after many wake-ups it hands the wait to us.
            Err(Errno::AGAIN) => {
                self.wait_writable(done.key, socket);
                return None;
            }
            Ok(_) | Err(Errno::INTR) => {
                self.resend(done.key, socket);
                return None;
            }
            Err(error) => Err(error),
        };
        let mut sending = slot.take()?;
        sending.unload(unload);
        if self.lent.spare.len() < SPARE_MAX {
            self.lent.spare.push(sending);
        }
        Some(outcome)
    }

    /// Submits what is left of a send; false when there is none.
    pub(super) fn resend(&mut self, key: usize, socket: BorrowedFd<'_>) -> bool {
        let Lent { sending, registered, .. } = &mut *self.lent;
        let Some(Some(sending)) = sending.get_mut(key) else { return false };
        match sending.request(socket, registered.as_deref()) {
            Request::Copied(entry) => self.push(Op::Send, key, &entry),
            Request::Registered(entry, bytes) => {
                let held = self.lent.held.insert(Held { connection: key, _bytes: bytes });
                self.push(Op::SendZeroCopy, held, &entry);
            }
        }
        true
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let begin = Instant::now();
        // Whatever is not reaped below, the kernel may still touch.
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        let mut done = Vec::new();
        while self.in_flight > 0 && begin.elapsed() < REAP_MAX {
            if self.wait(&mut done, Some(Duration::from_millis(10))).is_err() {
                break;
            }
        }
        if self.in_flight == 0 {
            // SAFETY: nothing is in flight, so the kernel has no use for the memory; it is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.lent) };
        }
    }
}

/// Whether the kernel lets this process have a ring.
pub(super) fn probe() -> io::Result<()> {
    build().map(drop)
}

/// Whether the kernel takes this memory with so many rings at once, each of which counts towards the limit of locked
/// memory, and sends it without copying.
pub(super) fn probe_registered(region: &Region, threads: usize) -> io::Result<()> {
    let rings = (0..threads).map(|_| build().and_then(|ring| register(&ring, region).map(|()| ring)));
    rings.collect::<io::Result<Vec<_>>>().map(drop)
}

fn register(ring: &IoUring, region: &Region) -> io::Result<()> {
    let mut offered = Probe::new();
    ring.submitter().register_probe(&mut offered)?;
    if !offered.is_supported(opcode::SendZc::CODE) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it has no SEND_ZC (Linux 6.0 or later)"));
    }
    let buffer = libc::iovec { iov_base: region.as_mut_ptr().cast(), iov_len: region.len() };
    // SAFETY: the region is mapped. The kernel pins its pages and only ever reads them, in sends whose bytes are held
    // in `Lent::held`.
    unsafe { ring.submitter().register_buffers(&[buffer]) }
}

fn build() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_cqsize(COMPLETIONS)
        .build(SUBMISSIONS)
}

fn user_data(op: Op, key: usize) -> u64 {
    (op as u64) << 56 | (key as u64 & 0xffff_ffff)
}
