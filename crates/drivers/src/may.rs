//! One stackful coroutine of may's per connection, on worker threads that steal from each other. A coroutine runs its connection's
//! task, and blocks in the crate's `wait_io` until the socket has an event or somebody wakes it.

use std::{
    cell::RefCell,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    panic::resume_unwind,
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Relaxed, Release, SeqCst},
            fence,
        },
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use may::{
    coroutine_local, go,
    io::{CoIo, WaitIo, WaitIoWaker},
};
use proto::Protocol;
use rustix::event::epoll::EventFlags;
use sys::listen::Listener;

use crate::{
    ConnectionModel, Descriptor, Driver, Serving, Wait,
    accept::{Acceptor, ConnectionLimit},
    system_calls,
    tasks::{AcceptorDrain, Crew, Eager, Incoming, Ready, Shared, Watch, serve_connection},
};

mod timer;

use timer::MayTimer;

/// Stack of a coroutine, in words: half a mebibyte, of which the kernel provides what is touched. A handshake or a script needs
/// more than the crate's 32 KiB.
const STACK_WORDS: usize = 64 * 1024;

pub(crate) struct May;

impl Driver for May {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "may",
        about: "one stackful coroutine of may's per connection, on stealing workers that share the processors of --pin",
        built_on: Some("may 0.3.51"),
        connection: ConnectionModel::Coroutine,
        waits_in: Wait::Epoll,
        is_optional: true,
        calls: system_calls::MAY,
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        // The workers are the process's, begin with the first coroutine, and run where their creator does.
        if let Some(cpus) = &config.pin {
            cpus.pin_to_all()?;
        }
        may::config().set_workers(config.threads).set_stack_size(STACK_WORDS).set_worker_pin(false);
        let served =
            Shared::of_each(listeners.per_thread.into_iter().flatten(), (&protocol, config, shutdown), &limit)?;
        let acceptors: Vec<_> = served
            .into_iter()
            .map(|(shared, listener, acceptor)| go!(move || run(accept(shared, listener, acceptor))))
            .collect();
        // Its listener is closed when a coroutine has ended, so this thread waits for the connections.
        let outcomes: Vec<_> = acceptors.into_iter().map(|acceptor| acceptor.join()).collect();
        for outcome in outcomes {
            block_on(outcome.unwrap_or_else(|panic| resume_unwind(panic))?.ended());
        }
        Ok(())
    }
}

async fn accept<P: Protocol>(shared: Shared<P>, listener: Listener, mut acceptor: Acceptor) -> io::Result<Crew> {
    let (shared, crew) = (Arc::new(shared), Crew::default());
    let mut incoming = Incoming::<Eager<MaySocket>, MayTimer>::new(listener)?;
    let mut drain = AcceptorDrain::new(&shared.shutdown);
    while let Some((socket, permit)) = incoming.next(&mut acceptor, &mut drain, &shared.counters, true).await? {
        let (shared, member) = (Arc::clone(&shared), crew.join());
        go!(move || {
            run(serve_connection::<P, Ready<Eager<MaySocket>>, MayTimer>(socket, permit, &shared));
            drop(member);
        });
    }
    Ok(crew)
}

/// Waits for something on a thread.
fn block_on<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

coroutine_local! {
    // The socket whose events the coroutine waits for.
    static SOCKET: RefCell<Option<Arc<Socket>>> = RefCell::new(None)
}

/// Runs a task on this coroutine to its end.
fn run<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    let wakeup = Arc::new(Wakeup::default());
    let waker = Waker::from(Arc::clone(&wakeup));
    loop {
        if let Poll::Ready(output) = poll_once(task.as_mut(), &waker) {
            return output;
        }
        let Some(socket) = SOCKET.with(|socket| socket.borrow().clone()) else {
            may::coroutine::yield_now();
            continue;
        };
        wakeup.coroutine.get_or_init(|| socket.io.waker());
        // Of two threads that each write one of the two and read the other, one sees what the other has written.
        fence(SeqCst);
        if !wakeup.is_due.swap(false, AcqRel) {
            socket.events.fetch_or(socket.io.wait_io(), Relaxed);
            wakeup.is_due.swap(false, AcqRel);
        }
    }
}

/// Polls a task. A coroutine may go on on another thread when it has waited, and a compiler that sees both sides of a wait in
/// one function may keep the address of a thread's own memory.
#[inline(never)]
fn poll_once<F: Future>(task: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    task.poll(&mut Context::from_waker(waker))
}

/// Wakes a coroutine, also before it waits for the first time.
#[derive(Default)]
struct Wakeup {
    is_due: AtomicBool,
    coroutine: OnceLock<WaitIoWaker>,
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Release);
        fence(SeqCst);
        if let Some(coroutine) = self.coroutine.get() {
            coroutine.wakeup();
        }
    }
}

/// A non-blocking socket that may's epoll watches, and the events that have come and nobody has asked for.
struct Socket {
    io: CoIo<Arc<OwnedFd>>,
    events: AtomicUsize,
    /// Closed last: `CoIo` would close it and then take its number out of the epoll, when that may be another socket's.
    descriptor: Arc<OwnedFd>,
}

struct MaySocket(Arc<Socket>);

impl MaySocket {
    /// Takes the event of one direction. What ends the input, or the socket, is no event that passes: it may have come
    /// with bytes that were read first.
    fn poll(&self, passing: EventFlags, lasting: EventFlags) -> Poll<io::Result<()>> {
        let [passing, lasting] =
            [passing, lasting | EventFlags::ERR | EventFlags::HUP].map(|flags| flags.bits() as usize);
        let events = self.0.events.fetch_and(!passing, Relaxed);
        if events & (passing | lasting) == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl Watch for MaySocket {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let descriptor = Arc::new(socket);
        let io = CoIo::new(Arc::clone(&descriptor)).map_err(io::Error::from)?;
        let socket = Arc::new(Socket { io, events: AtomicUsize::new(0), descriptor });
        SOCKET.with(|current| current.replace(Some(Arc::clone(&socket))));
        Ok(Self(socket))
    }

    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(EventFlags::IN, EventFlags::RDHUP)
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(EventFlags::OUT, EventFlags::empty())
    }
}

impl AsFd for MaySocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }
}
