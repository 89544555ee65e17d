use std::{
    fmt, io,
    mem::ManuallyDrop,
    os::fd::{AsRawFd, BorrowedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use io_uring::{
    EnterFlags, IoUring, Probe, cqueue, opcode, squeue,
    types::{CancelBuilder, Fd, SubmitArgs, Timespec},
};
use nix::libc;
use rustix::io::Errno;

use super::provided::GROUP;
use crate::registered::Region;

/// Limit of the time that a ring which is dropped waits for what is in flight.
const REAP_MAX: Duration = Duration::from_secs(1);

/// A ring, and the memory `M` that the kernel may touch on its behalf.
///
/// Invariant: memory named by a submitted entry stays in `M` until the entry's last completion has been reaped. Where
/// the kernel cannot be made to let go of it, it is leaked.
pub struct Ring<M> {
    ring: IoUring,
    shared: ManuallyDrop<KernelMemory<M>>,
    /// Entries whose last completion is still to come.
    in_flight: usize,
}

/// Memory that the kernel may touch.
struct KernelMemory<M> {
    memory: M,
    /// Read when an entry of [`Ring::set_timer`] or [`Ring::reset_timer`] is submitted; the last one set is that of all that wait for it.
    timer: Box<Timespec>,
    registered: Option<Arc<Region>>,
}

impl<M> Ring<M> {
    /// Index of registered memory among a ring's fixed buffers.
    pub const REGISTERED: u16 = 0;

    /// Makes a ring for one thread alone, which runs the kernel's part of the work, too, while it waits. `memory` may
    /// register what it makes.
    ///
    /// # Errors
    /// Those of io_uring_setup(2): the kernel, a sysctl or a filter refuses it, or Linux is older than 6.1. Those of
    /// `memory`.
    pub fn for_one_thread(
        submissions: u32,
        completions: u32,
        memory: impl FnOnce(&IoUring) -> io::Result<M>,
    ) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().setup_cqsize(completions);
        Self::of(builder.build(submissions)?, memory)
    }

    /// Makes a ring that may go from one thread to another.
    ///
    /// # Errors
    /// Those of io_uring_setup(2) and of `memory`.
    pub fn for_any_thread(submissions: u32, memory: impl FnOnce(&IoUring) -> io::Result<M>) -> io::Result<Self> {
        Self::of(IoUring::new(submissions)?, memory)
    }

    fn of(ring: IoUring, memory: impl FnOnce(&IoUring) -> io::Result<M>) -> io::Result<Self> {
        let shared =
            ManuallyDrop::new(KernelMemory { memory: memory(&ring)?, timer: Box::default(), registered: None });
        Ok(Self { ring, shared, in_flight: 0 })
    }

    /// Registers memory as the fixed buffer [`Ring::REGISTERED`], to be sent without being copied.
    ///
    /// # Errors
    /// Those of io_uring_register(2), such as the limit of locked memory; `Unsupported` before Linux 6.0.
    pub fn register(&mut self, region: Arc<Region>) -> io::Result<()> {
        let mut offered = Probe::new();
        self.ring.submitter().register_probe(&mut offered)?;
        if !offered.is_supported(opcode::SendZc::CODE) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it has no SEND_ZC (Linux 6.0 or later)"));
        }
        let buffer = libc::iovec { iov_base: region.as_mut_ptr().cast(), iov_len: region.len() };
        // SAFETY: the region is mapped and stays so, since the ring keeps it. The kernel pins its pages, and touches
        // them for entries alone whose bytes `push` is told to keep.
        unsafe { self.ring.submitter().register_buffers(&[buffer])? };
        self.shared.registered = Some(region);
        Ok(())
    }

    /// Memory that has been registered.
    #[inline]
    pub fn registered(&self) -> Option<&Region> {
        self.shared.registered.as_deref()
    }

    #[inline]
    pub fn memory(&self) -> &M {
        &self.shared.memory
    }

    /// Returns the memory, and with it the registered memory.
    #[inline]
    pub fn memory_and_registered(&mut self) -> (&mut M, Option<&Region>) {
        let KernelMemory { memory, registered, .. } = &mut *self.shared;
        (memory, registered.as_deref())
    }

    #[inline]
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.shared.memory
    }

    // --- requests -------------------------------------------------------------------------

    /// Queues an entry for the next [`Ring::wait`].
    ///
    /// # Safety
    /// Whatever the entry points to is in `M` or in registered memory, and is neither moved, freed nor written to
    /// before the entry's last completion has been reaped. Provided buffers that it names by their group stay in `M`
    /// for as long as the ring lives.
    #[inline]
    pub unsafe fn push(&mut self, entry: &squeue::Entry) {
        self.in_flight += 1;
        // SAFETY: as the caller promises; descriptors that are closed too early make an operation fail, not misbehave.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // A full queue: what is in it goes first. An error here comes again, and is reported, in `wait`.
            let _ = self.ring.submit();
        }
    }

    /// Accepts connections again and again.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, user_data: u64) {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build().user_data(user_data);
        // SAFETY: it holds a descriptor and numbers, and no pointer.
        unsafe { self.push(&entry) }
    }

    /// Receives again and again, into provided buffers.
    ///
    /// # Safety
    /// If `M` has registered [`super::ProvidedBuffers`], they stay in it for as long as the ring lives.
    #[inline]
    pub unsafe fn receive(&mut self, socket: BorrowedFd<'_>, user_data: u64) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build().user_data(user_data);
        // SAFETY: it holds no pointer; the buffers that the kernel takes from the group stay, as the caller promises.
        unsafe { self.push(&entry) }
    }

    /// Completes once the socket takes bytes.
    pub fn poll_writable(&mut self, socket: BorrowedFd<'_>, user_data: u64) {
        let entry = opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLOUT as u32).build().user_data(user_data);
        // SAFETY: it holds a descriptor and numbers, and no pointer.
        unsafe { self.push(&entry) }
    }

    /// Completes whenever the descriptor becomes readable.
    pub fn poll_readable(&mut self, descriptor: BorrowedFd<'_>, user_data: u64) {
        let entry = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), libc::POLLIN as u32).multi(true).build();
        // SAFETY: it holds a descriptor and numbers, and no pointer.
        unsafe { self.push(&entry.user_data(user_data)) }
    }

    /// Completes once after this time, whatever the ring waits for meanwhile.
    pub fn set_timer(&mut self, after: Duration, user_data: u64) {
        *self.shared.timer = Timespec::from(after);
        let entry = opcode::Timeout::new(&raw const *self.shared.timer).build().user_data(user_data);
        // SAFETY: the time is on the heap, where it stays; the kernel reads it only while it takes the entry in, and this thread,
        // which alone writes it, is in that call then.
        unsafe { self.push(&entry) }
    }

    /// Lets the timer with the user data `target` complete after this time instead, if it has not completed.
    pub fn reset_timer(&mut self, target: u64, after: Duration, user_data: u64) {
        *self.shared.timer = Timespec::from(after);
        let time = &raw const *self.shared.timer;
        let entry = opcode::TimeoutUpdate::new(target, time).build().user_data(user_data);
        // SAFETY: as in `set_timer`.
        unsafe { self.push(&entry) }
    }

    /// Ends the request with the user data `target` early; its own completion says so.
    pub fn cancel(&mut self, target: u64, user_data: u64) {
        let entry = opcode::AsyncCancel::new(target).build().user_data(user_data);
        // SAFETY: it holds numbers, and no pointer.
        unsafe { self.push(&entry) }
    }

    // --- completions ----------------------------------------------------------------------

    /// Submits what has been queued, and waits for `count` completions or the timeout; with one of zero for nothing. An interrupted
    /// wait is over.
    ///
    /// # Errors
    /// Those of io_uring_enter(2) that end the ring.
    pub fn wait(&mut self, count: usize, timeout: Option<Duration>) -> io::Result<()> {
        let waited = match timeout {
            None => self.ring.submit_and_wait(count),
            Some(Duration::ZERO) => self.enter_without_waiting(),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(count, &SubmitArgs::new().timespec(&timeout))
            }
        };
        match waited.map_err(|error| (Errno::from_io_error(&error), error)) {
            Ok(_) | Err((Some(Errno::INTR | Errno::BUSY | Errno::TIME | Errno::AGAIN), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// Submits what has been queued, and has the kernel complete what it can. A timer of no length would sleep for tens of
    /// microseconds.
    fn enter_without_waiting(&mut self) -> io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: there is no argument that could point anywhere.
        unsafe { self.ring.submitter().enter::<()>(queued, 0, EnterFlags::GETEVENTS.bits(), None) }
    }

    /// Appends what has completed, as `complete` sees it.
    #[inline]
    pub fn reap<T>(&mut self, done: &mut Vec<T>, mut complete: impl FnMut(&mut M, &cqueue::Entry) -> Option<T>) {
        let Self { ring, shared, in_flight } = self;
        done.extend(ring.completion().filter_map(|completion| {
            *in_flight -= usize::from(!cqueue::more(completion.flags()));
            complete(&mut shared.memory, &completion)
        }));
    }
}

impl<M> Drop for Ring<M> {
    fn drop(&mut self) {
        let begin = Instant::now();
        if self.in_flight > 0 {
            // Whatever is not reaped below, the kernel may still touch.
            let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        }
        while self.in_flight > 0 && begin.elapsed() < REAP_MAX {
            if self.wait(1, Some(Duration::from_millis(10))).is_err() {
                break;
            }
            self.reap(&mut Vec::<()>::new(), |_, _| None);
        }
        if self.in_flight == 0 {
            // SAFETY: nothing is in flight, so the kernel has no use for the memory; it is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.shared) };
        }
    }
}

impl<M> fmt::Debug for Ring<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}
