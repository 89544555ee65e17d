//! A driver on poll(2): a loop for each thread, and a task for each connection. What a task does is in `drivers::tasks`, which wants
//! three things of a runtime: a descriptor that is watched, a sleep, and tasks.

#![forbid(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use drivers::{
    ConnectionModel, Descriptor, Driver, Serving, Wait, on_threads,
    parts::ConnectionLimit,
    tasks::{Eager, Ready, Spawn, Timer, Watch, serve_listeners},
};
use proto::Protocol;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::eventfd::EventFd;

/// The driver. A program that has it runs on `drivers::Only<PollDriver>`.
#[derive(Debug)]
pub struct PollDriver;

impl Driver for PollDriver {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "poll",
        about: "a loop around poll(2) per thread, one task per connection",
        connection: ConnectionModel::Task,
        listener_per_thread: true,
        waits_in: Wait::Poll,
        calls: &["ppoll"],
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(Serving { protocol, listeners, config, shutdown }: Serving<'_, P>) -> io::Result<()> {
        let limit = ConnectionLimit::new(config);
        on_threads(config, shutdown, listeners.into_threads(), |listeners| {
            let server = (&protocol, config, shutdown);
            block_on(serve_listeners::<P, Eager<Polled>, Ready<Eager<Polled>>, Sleep, Self>(listeners, server, &limit))
        })
    }
}

impl Spawn for PollDriver {
    fn spawn(task: impl Future<Output = ()> + 'static) {
        LOOP.with_borrow_mut(|this| this.spawned.push(Box::pin(task)));
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

thread_local! { static LOOP: RefCell<Loop> = RefCell::default() }

/// The tasks to begin with, and all that the others wait for: each of them says so anew in each turn.
#[derive(Default)]
struct Loop {
    spawned: Vec<Task>,
    awaited: Vec<(Rc<Socket>, PollFlags)>,
    deadline: Option<Instant>,
}

/// Runs a future and the tasks that are spawned on this thread until the future has ended. Every turn polls every task, as poll(2)
/// looks at every descriptor.
fn block_on(main: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let (mut main, mut tasks) = (pin!(main), Vec::<Task>::new());
    let event = Arc::new(EventFd::new()?);
    let waker = Waker::from(Arc::clone(&event));
    loop {
        let mut cx = Context::from_waker(&waker);
        tasks.retain_mut(|task| task.as_mut().poll(&mut cx).is_pending());
        if let Poll::Ready(outcome) = main.as_mut().poll(&mut cx) {
            return outcome;
        }
        let Loop { spawned, mut awaited, deadline } = LOOP.take();
        // The socket of a task that has ended is closed now, and not after the sleep.
        awaited.retain(|(socket, _)| Rc::strong_count(socket) > 1);
        sleep(&awaited, if spawned.is_empty() { deadline } else { Some(Instant::now()) }, &event);
        tasks.extend(spawned);
    }
}

/// Sleeps until something happens that is waited for, or somebody wakes a task: that is one event for all of them.
fn sleep(awaited: &[(Rc<Socket>, PollFlags)], deadline: Option<Instant>, event: &EventFd) {
    let mut fds = vec![PollFd::new(event, PollFlags::IN)];
    fds.extend(awaited.iter().map(|(socket, wanted)| PollFd::new(&socket.fd, *wanted)));
    let timeout = deadline.and_then(|at| Timespec::try_from(at.saturating_duration_since(Instant::now())).ok());
    let polled = poll(&mut fds, timeout.as_ref());
    if polled.is_err() {
        // Interrupted, no memory, or more descriptors than the limit allows by now: all are looked at, which is harmless.
        thread::sleep(Duration::from_millis(1));
    }
    for ((socket, wanted), fd) in awaited.iter().zip(&fds[1..]) {
        socket.events.set(if polled.is_ok() { fd.revents() } else { *wanted });
    }
    if !fds[0].revents().is_empty() {
        event.clear();
    }
}

struct Socket {
    fd: OwnedFd,
    events: Cell<PollFlags>,
}

struct Polled(Rc<Socket>);

impl Polled {
    fn poll(&self, wanted: PollFlags) -> Poll<io::Result<()>> {
        let (events, flags) = (self.0.events.get(), wanted | PollFlags::HUP | PollFlags::ERR);
        if events.intersects(flags) {
            self.0.events.set(events - flags);
            return Poll::Ready(Ok(()));
        }
        LOOP.with_borrow_mut(|this| match this.awaited.last_mut() {
            Some((socket, flags)) if Rc::ptr_eq(socket, &self.0) => *flags |= wanted,
            _ => this.awaited.push((Rc::clone(&self.0), wanted)),
        });
        Poll::Pending
    }
}

impl Watch for Polled {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self(Rc::new(Socket { fd, events: Cell::new(PollFlags::empty()) })))
    }

    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(PollFlags::IN)
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(PollFlags::OUT)
    }
}

impl AsFd for Polled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

struct Sleep(Instant);

impl Timer for Sleep {
    fn at(deadline: Instant) -> Self {
        Self(deadline)
    }

    fn reset(&mut self, deadline: Instant) {
        self.0 = deadline;
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> {
        if self.0 <= Instant::now() {
            return Poll::Ready(());
        }
        LOOP.with_borrow_mut(|this| this.deadline = Some(this.deadline.map_or(self.0, |at| at.min(self.0))));
        Poll::Pending
    }
}
