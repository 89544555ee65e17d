//! A thread per connection, plain blocking calls. The baseline.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    task::{Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use proto::{Now, Peer, Protocol, Session};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use sys::socket;

use crate::{
    Config, ConnectionModel, DefaultWorkers, Descriptor, Driver, FilePath, IoModel, Listeners, MemoryPath, PipePath,
    ReadBuffer, Serving, Shutdown, Wait,
    accept::{Accepted, Acceptor, ConnectionLimit, ConnectionPermit, EXHAUSTED_PAUSE},
    clock,
    closing::end_output,
    counters::{Tally, ThreadCounters},
    pipes::Pipes,
    write::write_front,
};

/// Timeout of blocked calls, so that deadlines are seen without a system call per request to set them.
const TICK: Duration = Duration::from_secs(1);
/// Timeout of writes: few of them block, and a stalled reader should not be waited for much longer than asked.
const WRITE_TICK: Duration = Duration::from_millis(250);
/// While others wait, a peer that has not sent anything keeps its place for this time, counted from when it was
/// accepted: it may be about to. Time spent in a queue is part of it, which makes a long queue of silent peers a
/// short wait: those that come to its head have mostly used theirs up, and are only looked at.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// No read waits for less, however little of that is left.
const READ_TICK_MIN: Duration = Duration::from_millis(1);

pub(crate) struct Blocking;

impl Driver for Blocking {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "blocking",
        about: "a thread per connection, plain blocking calls",
        io: IoModel::Readiness,
        connection: ConnectionModel::Thread,
        default_workers: DefaultWorkers::None,
        listener_per_thread: false,
        batches: false,
        waits_in: Wait::Recv,
        reads_into: ReadBuffer::Session,
        sends_memory: MemoryPath::Send,
        sends_files: FilePath::Sendfile,
        sends_pipes: PipePath::Splice,
        registers_memory: false,
        needs: None,
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let counters = config.statistics.register();
        let (protocol, counters) = (&*protocol, &counters);
        thread::scope(|scope| {
            accept_on_threads(listeners, config, shutdown, protocol.refusal(), |connection| {
                let ours = Arc::clone(&connection);
                let serve = move || serve_connection(&ours, protocol, config, shutdown, counters, TICK, || false);
                // A shortage of threads does not end the connections that have one.
                thread::Builder::new().spawn_scoped(scope, serve).map(drop).map_err(|_| connection)
            })
        })
    }
}

/// A connection that has been accepted.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    socket: OwnedFd,
    front_end: usize,
    since: Instant,
    _permit: ConnectionPermit,
}

/// Wakes a thread out of the call that it is blocked in.
enum ThreadWaker {
    /// `park`: a promise was settled.
    Parked(Thread),
    /// `recv`: it sees the end of input, after what has already arrived.
    Reading(Arc<AcceptedConnection>),
    /// `accept`: it fails. A descriptor of its own, since the waker may be the last to drop it, and the
    /// listener has to be closed before the driver returns.
    Accepting(OwnedFd),
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        match &*self {
            Self::Parked(thread) => thread.unpark(),
            Self::Reading(connection) => socket::shutdown_read(connection.socket.as_fd()),
            Self::Accepting(listener) => socket::shutdown_both(listener.as_fd()),
        }
    }
}

impl ThreadWaker {
    fn waker(self) -> Waker {
        Waker::from(Arc::new(self))
    }
}

/// Accepts until drained, on a thread per address. A connection that `start` gives back is refused.
pub(crate) fn accept_on_threads(
    listeners: Listeners,
    config: &Config,
    shutdown: &Shutdown,
    refusal: &[u8],
    start: impl Fn(Arc<AcceptedConnection>) -> Result<(), Arc<AcceptedConnection>> + Sync,
) -> io::Result<()> {
    let limit = ConnectionLimit::new(config.connections_max);
    let (limit, start) = (&limit, &start);
    let addresses: Vec<_> = listeners.per_thread.into_iter().flatten().enumerate().collect();
    crate::on_threads(config, shutdown, addresses, |(front_end, listener)| {
        let counters = config.statistics.register();
        let mut acceptor = Acceptor::new(limit, refusal)?;
        let waker = ThreadWaker::Accepting(listener.as_fd().try_clone_to_owned()?);
        let _registered = shutdown.register(waker.waker());
        while !shutdown.is_draining() {
            let mut tally = Tally::default();
            match acceptor.accept(&listener, false, &mut tally) {
                Ok(Accepted::Connection(socket, permit)) => {
                    let connection = AcceptedConnection { socket, front_end, since: Instant::now(), _permit: permit };
                    if let Err(connection) = start(Arc::new(connection)) {
                        acceptor.refuse_admitted(&connection.socket, &mut tally);
                    }
                    // Only now, so that each connection counts once, as let in or as turned away.
                    tally.publish(&counters);
                }
                Ok(Accepted::Skipped | Accepted::Empty) => tally.publish(&counters),
                Ok(Accepted::Exhausted) => thread::sleep(EXHAUSTED_PAUSE),
                Err(_) if shutdown.is_draining() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Serves one connection to its end. Blocked calls return every `tick`. While `is_contended`, others wait for this
/// thread, so an idle peer has to go, after one tick if it has been answered before.
pub(crate) fn serve_connection<P: Protocol>(
    connection: &Arc<AcceptedConnection>,
    protocol: &P,
    config: &Config,
    shutdown: &Shutdown,
    counters: &ThreadCounters,
    tick: Duration,
    is_contended: impl Fn() -> bool,
) {
    let _registered = shutdown.register(ThreadWaker::Reading(Arc::clone(connection)).waker());
    if shutdown.is_draining() {
        socket::shutdown_read(connection.socket.as_fd());
    }
    let peer = Peer::new(connection.socket.as_fd(), connection.front_end);
    let session = Session::new(protocol, peer, config.limits, clock::now());
    let pipes = Pipes::of_connection(&config.scratch_pipes);
    let mut conversation = Connection {
        socket: &connection.socket,
        session,
        protocol,
        pipes,
        tick,
        is_contended,
        read_tick: Duration::ZERO,
        quiet_since: connection.since,
        has_answered: false,
        tally: Tally::default(),
    };
    // A broken connection is the peer's affair; nothing to report.
    let _ = conversation.run(counters);
    conversation.tally.0.closed += 1;
    conversation.tally.publish(counters);
}

struct Connection<'a, P: Protocol, G> {
    socket: &'a OwnedFd,
    session: Session<P>,
    protocol: &'a P,
    pipes: Pipes,
    tick: Duration,
    is_contended: G,
    /// Timeout of reads.
    read_tick: Duration,
    /// The last byte in either direction, or when the connection was let in.
    quiet_since: Instant,
    has_answered: bool,
    tally: Tally,
}

impl<P: Protocol, G: Fn() -> bool> Connection<'_, P, G> {
    fn run(&mut self, counters: &ThreadCounters) -> io::Result<()> {
        self.set_read_tick(self.patience(Instant::now()))?;
        set_socket_timeout(self.socket, Timeout::Send, Some(self.tick.min(WRITE_TICK)))?;
        let waker = ThreadWaker::Parked(thread::current()).waker();
        loop {
            while !self.session.outbox().is_empty() && !self.session.is_aborted() {
                self.write(&waker)?;
            }
            self.session.resume(self.protocol, clock::now());
            if !self.session.outbox().is_empty() && !self.session.is_aborted() {
                continue;
            }
            end_output(&mut self.session, self.socket.as_fd(), clock::now());
            if self.session.is_done() {
                return Ok(());
            }
            self.tally.publish(counters);
            self.read()?;
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let read = socket::recv(self.socket.as_fd(), self.session.recv_space());
        let now = clock::now();
        match read {
            Ok(0) => self.session.end_of_input(),
            Ok(n) => {
                // A peer that never pauses in the middle of a request meets its deadline here.
                if self.session.has_input() {
                    self.session.tick(self.protocol, now);
                }
                self.tally.0.bytes_in += n as u64;
                self.quiet_since = now.instant;
                self.session.received(n, now);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.tick(now)?,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn write(&mut self, waker: &Waker) -> io::Result<()> {
        let wrote = write_front(self.socket.as_fd(), self.session.outbox(), &mut self.pipes);
        let now = clock::now();
        match wrote {
            Ok(0) => {
                if self.session.outbox().poll_reply(waker).is_pending() {
                    thread::park_timeout(self.tick);
                    self.session.tick(self.protocol, now);
                }
            }
            Ok(n) => {
                self.tally.0.bytes_out += n as u64;
                self.has_answered = true;
                self.quiet_since = now.instant;
                self.session.sent(now);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.session.tick(self.protocol, now),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Handles a read that timed out.
    fn tick(&mut self, now: Now) -> io::Result<()> {
        self.session.tick(self.protocol, now);
        let patience = self.patience(now.instant);
        if patience.is_some_and(|left| left.is_zero()) {
            self.session.end_of_input();
            return Ok(());
        }
        self.set_read_tick(patience)
    }

    /// Returns the time for which this peer may keep its place; `None`: as long as it likes.
    fn patience(&self, now: Instant) -> Option<Duration> {
        let patience = if self.has_answered { self.tick } else { SILENCE_MAX };
        let is_idle = self.session.is_quiet() && (self.is_contended)();
        is_idle.then(|| patience.saturating_sub(now.duration_since(self.quiet_since)))
    }

    /// Reads return when patience ends, if that is sooner than a tick. Costs a system call only when it changes.
    fn set_read_tick(&mut self, patience: Option<Duration>) -> io::Result<()> {
        let read_tick = patience.unwrap_or(self.tick).clamp(READ_TICK_MIN, self.tick);
        if read_tick != self.read_tick {
            set_socket_timeout(self.socket, Timeout::Recv, Some(read_tick))?;
            self.read_tick = read_tick;
        }
        Ok(())
    }
}
