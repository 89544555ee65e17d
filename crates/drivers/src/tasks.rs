//! One task per connection on an async runtime: all that the runtimes share. What a runtime has of its own stands behind three
//! small traits: a descriptor that it watches ([`Readiness`]), a connection that it moves the bytes of ([`Transport`]) and a
//! [`Timer`].

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    marker::PhantomData,
    mem::take,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use proto::{BufferPool, Protocol, Session};
use sys::listen::Listener;

use crate::{
    Config, ScratchPipes, Shutdown,
    accept::{Accepted, Acceptor, ConnectionLimit, ConnectionPermit, EXHAUSTED_PAUSE},
    clock,
    closing::end_output,
    counters::{Tally, ThreadCounters},
    peer::{peer, uptake},
    pipes::Pipes,
    shutdown::Stage,
};

mod crew;
mod eager;
mod pieces;
mod readiness;
mod ring;
mod waiting;

pub use crew::{Crew, Member};
pub use eager::{Eager, Watch};
#[cfg(any(feature = "compio", feature = "monoio"))]
pub(crate) use pieces::{Piece, Pieces};
pub use readiness::{Readiness, Ready, none_if_blocked};
#[cfg(all(feature = "glommio", not(target_env = "musl")))]
pub(crate) use readiness::{drain_arrived, receive_ready, write_ready};
#[cfg(any(feature = "compio", feature = "monoio"))]
pub(crate) use ring::{RingSocket, RingTransport};
pub use waiting::{AcceptorDrain, Timer};
pub(crate) use waiting::{DeadlineTimer, Drain};

/// One read; a fuller socket is read again.
const READ_BYTES: usize = 32 * 1024;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        read: vec![0; READ_BYTES],
        buffers: BufferPool::default(),
        pipes: None,
    });
}

/// Memory that every task of a thread reads to and writes its replies in: one that waits for its peer holds no buffer
/// and no pipe.
pub(crate) struct Scratch {
    pub(crate) read: Vec<u8>,
    pub(crate) buffers: BufferPool,
    pipes: Option<Pipes>,
}

impl Scratch {
    pub(crate) fn pipes(&mut self, supply: &ScratchPipes) -> &mut Pipes {
        self.pipes.get_or_insert_with(|| Pipes::of_loop(supply))
    }
}

/// A connection's socket, and the way of its bytes.
pub trait Transport: AsFd + Sized {
    fn new(socket: OwnedFd) -> io::Result<Self>;

    /// Reads, while the session wants that, and lets the protocol answer. False: the task will be woken.
    fn read<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<bool>;

    /// Writes what there is, up to the share of a turn.
    fn write<P: Protocol>(&mut self, side: &mut Side<'_, P>, cx: &mut Context<'_>) -> io::Result<Progress>;

    /// Sees to it, while the server drains, that what has arrived is read and that the input ends behind it. False: there is
    /// nothing more to do for that.
    fn drain<P: Protocol>(&mut self, side: &mut Side<'_, P>) -> io::Result<bool>;
}

/// Outcome of an attempt to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Output has left, or may have made room in another way.
    pub wrote: bool,
    /// The connection has written its share; others first.
    pub paused: bool,
}

/// All of a connection but its socket.
pub struct Side<'a, P: Protocol> {
    pub session: Session<P>,
    pub protocol: &'a P,
    pub config: &'a Config,
    pub tally: Tally,
}

/// State that the tasks of one address share.
pub struct Shared<P> {
    pub protocol: Arc<P>,
    pub config: Config,
    pub shutdown: Shutdown,
    pub front_end: usize,
    pub counters: Arc<ThreadCounters>,
}

impl<P: Protocol> Shared<P> {
    /// Returns what the tasks of each address of a thread share, with its listener and who accepts there.
    pub fn of_each(
        listeners: impl IntoIterator<Item = Listener>,
        (protocol, config, shutdown): (&Arc<P>, &Config, &Shutdown),
        limit: &Arc<ConnectionLimit>,
    ) -> io::Result<Vec<(Self, Listener, Acceptor)>> {
        let counters = config.statistics.register();
        let of_one = |listener: Listener| {
            let shared = Self {
                protocol: Arc::clone(protocol),
                config: config.clone(),
                shutdown: shutdown.clone(),
                front_end: listener.front_end(),
                counters: Arc::clone(&counters),
            };
            Ok((shared, listener, Acceptor::new(limit, protocol.refusal())?))
        };
        listeners.into_iter().map(of_one).collect()
    }
}

/// Listener that a runtime watches.
pub struct Incoming<R, T> {
    listener: Listener,
    readiness: R,
    timer: PhantomData<fn() -> T>,
}

impl<R: Readiness, T: Timer> Incoming<R, T> {
    pub fn new(listener: Listener) -> io::Result<Self> {
        let readiness = R::new(listener.as_fd().try_clone_to_owned()?)?;
        Ok(Self { listener, readiness, timer: PhantomData })
    }

    /// The next connection, or `None` once the server accepts no more.
    pub async fn next(
        &mut self,
        acceptor: &mut Acceptor,
        drain: &mut AcceptorDrain<'_>,
        counters: &ThreadCounters,
        nonblocking: bool,
    ) -> io::Result<Option<(OwnedFd, ConnectionPermit)>> {
        loop {
            let mut tally = Tally::default();
            let mut accepted = Ok(Accepted::Empty);
            let ready = poll_fn(|cx| {
                if drain.poll(cx) != Stage::Serving {
                    return Poll::Ready(None);
                }
                let accept = || {
                    accepted = acceptor.accept_next(&self.listener, nonblocking, &mut tally);
                    Ok(usize::from(!matches!(accepted, Ok(Accepted::Empty))))
                };
                self.readiness.poll_receive(cx, 1, accept).map(Some)
            });
            let Some(ready) = ready.await else { return Ok(None) };
            if let Err(error) = ready {
                // The runtime could not wait: for memory, that is no end.
                accepted = acceptor.failed(&self.listener, error, &mut tally);
            }
            tally.publish(counters);
            match accepted? {
                Accepted::Connection(socket, permit) => return Ok(Some((socket, permit))),
                Accepted::Skipped | Accepted::Empty => {}
                Accepted::Exhausted => waiting::sleep::<T>(EXHAUSTED_PAUSE).await,
            }
        }
    }
}

/// Time for a runtime to have its next turn.
const LET_GO: Duration = Duration::from_millis(1);

/// Runs tasks on the thread that they are spawned on.
pub trait Spawn {
    fn spawn(task: impl Future<Output = ()> + 'static);
}

/// Serves connections on this thread, in tasks of a runtime: `R` watches listeners, `X` is a connection, `T` a sleep, `S` has the
/// tasks run. Returns when no more are accepted and the last one has ended.
///
/// # Errors
/// A listener fails.
pub async fn serve_listeners<P: Protocol, R: Readiness, X: Transport, T: Timer, S: Spawn>(
    listeners: Vec<Listener>,
    server: (&Arc<P>, &Config, &Shutdown),
    limit: &Arc<ConnectionLimit>,
) -> io::Result<()> {
    let served = Shared::of_each(listeners, server, limit)?.into_iter();
    let mut acceptors: Vec<_> = served.map(|served| Box::pin(accept::<P, R, X, T, S>(served))).collect();
    poll_fn(|cx| {
        let mut failure = Ok(());
        acceptors.retain_mut(|acceptor| match acceptor.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => false,
            Poll::Ready(error) => {
                failure = error;
                false
            }
        });
        if failure.is_ok() && !acceptors.is_empty() { Poll::Pending } else { Poll::Ready(failure) }
    })
    .await
}

async fn accept<P: Protocol, R: Readiness, X: Transport, T: Timer, S: Spawn>(
    (shared, listener, mut acceptor): (Shared<P>, Listener, Acceptor),
) -> io::Result<()> {
    let (shared, crew) = (Arc::new(shared), Crew::default());
    let mut incoming = Incoming::<R, T>::new(listener)?;
    let mut drain = AcceptorDrain::new(&shared.shutdown);
    while let Some((socket, permit)) = incoming.next(&mut acceptor, &mut drain, &shared.counters, true).await? {
        let (shared, member) = (Arc::clone(&shared), crew.join());
        S::spawn(async move {
            serve_connection::<P, X, T>(socket, permit, &shared).await;
            drop(member);
        });
    }
    drop(incoming);
    // A ring lets go of the listener in its next turn; if there were none, the kernel would do it after the end of the process,
    // and the port would not be free.
    waiting::sleep::<T>(LET_GO).await;
    crew.ended().await;
    Ok(())
}

/// Serves a connection to its end, and counts that.
pub async fn serve_connection<P: Protocol, X: Transport, T: Timer>(
    socket: OwnedFd,
    permit: ConnectionPermit,
    shared: &Shared<P>,
) {
    let Shared { protocol, config, counters, front_end, .. } = shared;
    let session = Session::new(&**protocol, peer(socket.as_fd(), *front_end), config.limits, clock::now());
    let mut side = Side { session, protocol, config, tally: Tally::default() };
    // A broken connection is the peer's affair; nothing to report.
    let _ = run::<P, X, T>(socket, &mut side, shared).await;
    side.tally.0.closed += 1;
    side.tally.publish(counters);
    drop(permit);
}

async fn run<P: Protocol, X: Transport, T: Timer>(
    socket: OwnedFd,
    side: &mut Side<'_, P>,
    Shared { shutdown, counters, .. }: &Shared<P>,
) -> io::Result<()> {
    let mut transport = X::new(socket)?;
    let (mut drain, mut timer) = (Drain::new(shutdown), DeadlineTimer::<T>::default());
    let mut paused = false;
    poll_fn(|cx| {
        loop {
            let moved = move_bytes(&mut transport, side, &mut paused, cx)?;
            if take(&mut paused) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Side { session, protocol, tally, .. } = &mut *side;
            end_output(session, transport.as_fd(), clock::now());
            if session.is_done() {
                return Poll::Ready(Ok(()));
            }
            if moved {
                continue;
            }
            tally.publish(counters);
            match drain.poll(cx) {
                Stage::Retiring if !session.is_retiring() => {
                    session.retire(*protocol, clock::now());
                    continue;
                }
                Stage::Draining => {
                    if transport.drain(side)? {
                        continue;
                    }
                }
                Stage::Serving | Stage::Retiring => {}
            }
            let Side { session, protocol, .. } = &mut *side;
            ready!(timer.poll(session.deadline(protocol), cx));
            session.tick(protocol, clock::now(), || uptake(&transport.as_fd()));
        }
    })
    .await
}

/// False: everything that could move is `Pending`, and will wake the task.
fn move_bytes<P: Protocol>(
    transport: &mut impl Transport,
    side: &mut Side<'_, P>,
    paused: &mut bool,
    cx: &mut Context<'_>,
) -> io::Result<bool> {
    let read = side.session.wants_read() && transport.read(side, cx)?;
    let pushed = side.session.take_pushes(|| cx.waker());
    let progress = transport.write(side, cx)?;
    *paused = progress.paused;
    let Side { session, protocol, .. } = side;
    let resumes = session.wants_turn(protocol, progress.wrote);
    if resumes {
        if P::STREAMS {
            with_scratch(|Scratch { buffers, .. }| session.outbox().borrow_buffer(buffers));
        }
        session.resume(protocol, clock::now());
    }
    with_scratch(|Scratch { buffers, .. }| session.outbox().return_buffer(buffers));
    Ok(read || pushed || progress.wrote || resumes)
}

pub(crate) fn with_scratch<T>(use_it: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with_borrow_mut(use_it)
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpStream,
        os::fd::BorrowedFd,
        pin::pin,
        sync::atomic::{AtomicBool, Ordering::Relaxed},
        task::Waker,
    };

    use rustix::io::Errno;
    use sys::listen::Sharing;

    use super::*;
    use crate::Shutdown;

    /// A runtime that has no memory to wait with, once.
    struct Poor(OwnedFd, AtomicBool);

    impl AsFd for Poor {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl Readiness for Poor {
        fn new(socket: OwnedFd) -> io::Result<Self> {
            Ok(Self(socket, AtomicBool::new(true)))
        }

        fn poll_receive(
            &self,
            _: &mut Context<'_>,
            _: usize,
            receive: impl FnOnce() -> io::Result<usize>,
        ) -> Poll<io::Result<Option<usize>>> {
            if self.1.swap(false, Relaxed) {
                return Poll::Ready(Err(Errno::NOMEM.into()));
            }
            Poll::Ready(none_if_blocked(receive()))
        }

        fn poll_send(
            &self,
            _: &mut Context<'_>,
            send: impl FnOnce() -> io::Result<usize>,
        ) -> Poll<io::Result<Option<usize>>> {
            Poll::Ready(none_if_blocked(send()))
        }
    }

    struct Elapsed;

    impl Timer for Elapsed {
        fn at(_: std::time::Instant) -> Self {
            Self
        }

        fn reset(&mut self, _: std::time::Instant) {}

        fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }

    #[test]
    fn an_accept_that_cannot_be_waited_for_is_tried_again() {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), Sharing::Alone).unwrap();
        let _client = TcpStream::connect(listener.address().to_string()).unwrap();
        let limit = ConnectionLimit::with(1, None);
        let (mut acceptor, shutdown) = (Acceptor::new(&limit, &[]).unwrap(), Shutdown::default());
        let (mut drain, counters) = (AcceptorDrain::new(&shutdown), ThreadCounters::default());
        let mut incoming = Incoming::<Poor, Elapsed>::new(listener).unwrap();
        let mut next = pin!(incoming.next(&mut acceptor, &mut drain, &counters, true));
        let accepted = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(accepted, Poll::Ready(Ok(Some(_)))));
    }
}
