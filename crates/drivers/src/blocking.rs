//! A thread per connection, plain blocking calls. The baseline.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    task::{Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use proto::{Protocol, Session};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use sys::{eventfd::EventFd, socket};

use crate::{
    Config, ConnectionModel, Descriptor, Driver, Listeners, ReadBuffer, Serving, Shutdown, Wait,
    accept::{Accepted, Acceptor, ConnectionLimit, ConnectionPermit, EXHAUSTED_PAUSE},
    clock,
    closing::end_output,
    counters::{Tally, ThreadCounters},
    peer::{peer, uptake},
    pipes::Pipes,
    shutdown::{Registration, Stage},
    system_calls,
    write::write_front_once,
};

/// Timeout of blocked calls, so that deadlines are seen without a system call per request to set them.
const TICK: Duration = Duration::from_secs(1);
/// Timeout of writes: few of them block, and a stalled reader should not be waited for much longer than asked.
const WRITE_TICK: Duration = Duration::from_millis(250);
/// Timeout of reads while others wait: a peer that has nothing to say when its turn comes delays them by no more.
const CONTENDED_TICK: Duration = Duration::from_millis(4);
/// While others wait, a peer that has not sent anything is closed after this time, counted from when it was accepted:
/// it may be about to send.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// While others wait, a peer that has been answered and says nothing more is closed after this time.
const IDLE_MAX: Duration = Duration::from_secs(5);

mod pushes;

use pushes::PushEvent;

pub(crate) struct Blocking;

impl Driver for Blocking {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "blocking",
        about: "a thread per connection, plain blocking calls",
        connection: ConnectionModel::Thread,
        waits_in: Wait::Recv,
        reads_into: ReadBuffer::Session,
        calls: system_calls::BLOCKING,
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let counters = config.statistics.register();
        let (protocol, counters) = (&*protocol, &counters);
        thread::scope(|scope| {
            accept_on_threads(listeners, config, shutdown, protocol.refusal(), |connection| {
                let ours = Arc::clone(&connection);
                let serve = move || {
                    let mut server = Server::new(protocol, config, shutdown, counters, TICK, || false);
                    let mut connection = server.open(ours);
                    while server.serve(&mut connection) == Next::Wait {}
                };
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
    /// `recv`, if the server drains: it sees the end of input, after what has already arrived.
    Reading(Arc<AcceptedConnection>, Shutdown),
    /// The wait for a connection. The listener itself is left alone: another process may have it, too.
    Accepting(Arc<EventFd>),
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        match &*self {
            Self::Parked(thread) => thread.unpark(),
            Self::Reading(connection, shutdown) if shutdown.is_draining() => {
                socket::shutdown_read(connection.socket.as_fd());
            }
            Self::Reading(..) => {}
            Self::Accepting(wake) => wake.poke(),
        }
    }
}

impl ThreadWaker {
    fn waker(self) -> Waker {
        Waker::from(Arc::new(self))
    }
}

/// Timeout of reads while a promise is waited for that replies may overtake.
const PROMISE_TICK: Duration = Duration::from_millis(5);
/// Time between two reads of a connection that goes on while the server drains.
const DRAIN_TICK: Duration = Duration::from_millis(5);

/// Accepts until drained, on a thread per socket. A connection that `start` gives back is refused.
pub(crate) fn accept_on_threads(
    listeners: Listeners,
    config: &Config,
    shutdown: &Shutdown,
    refusal: &[u8],
    start: impl Fn(Arc<AcceptedConnection>) -> Result<(), Arc<AcceptedConnection>> + Sync,
) -> io::Result<()> {
    let limit = ConnectionLimit::new(config);
    let (limit, start) = (&limit, &start);
    let listeners: Vec<_> = listeners.per_thread.into_iter().flatten().collect();
    crate::on_threads(config, shutdown, listeners, |listener| {
        let front_end = listener.front_end();
        let counters = config.statistics.register();
        let mut acceptor = Acceptor::new(limit, refusal)?;
        let wake = Arc::new(EventFd::new()?);
        let registered = shutdown.register_loop(ThreadWaker::Accepting(Arc::clone(&wake)).waker());
        while shutdown.stage() == Stage::Serving {
            registered.turned();
            let mut tally = Tally::default();
            match acceptor.accept(&listener, false, &mut tally) {
                Ok(Accepted::Connection(socket, permit)) => {
                    let connection = AcceptedConnection { socket, front_end, since: Instant::now(), _permit: permit };
                    if let Err(connection) = start(Arc::new(connection)) {
                        acceptor.refuse_admitted(&connection.socket, &mut tally);
                    }
                    // Only now, so that each connection counts once, as accepted or as refused.
                    tally.publish(&counters);
                }
                Ok(Accepted::Skipped) => tally.publish(&counters),
                Ok(Accepted::Empty) => {
                    listener.wait(&wake)?;
                    wake.clear();
                }
                Ok(Accepted::Exhausted) => thread::sleep(EXHAUSTED_PAUSE),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// A connection and its conversation with the protocol, which may go from one thread to another between two turns.
pub(crate) struct Connection<P: Protocol> {
    accepted: Arc<AcceptedConnection>,
    session: Session<P>,
    pipes: Pipes,
    /// Timeout of reads.
    read_tick: Duration,
    /// The last byte in either direction, or when the connection was accepted.
    quiet_since: Instant,
    has_answered: bool,
    /// Made when it first waits for input while it takes pushes.
    push_event: Option<PushEvent>,
    /// The drain ends its input.
    _registered: Registration,
}

/// Event that a thread has waited for before it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    /// Input, or its end; or nothing has been waited for.
    Input,
    /// Something to send that no request asked for.
    Push,
    Timeout,
}

/// State of a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another connection's turn; this one has not ended.
    Wait,
    Close,
}

/// A thread that serves one connection at a time.
pub(crate) struct Server<'a, P, C> {
    protocol: &'a P,
    config: &'a Config,
    shutdown: &'a Shutdown,
    counters: &'a ThreadCounters,
    /// Timeout of blocked calls.
    tick: Duration,
    /// True while other connections wait for this thread.
    is_contended: C,
    waker: Waker,
    tally: Tally,
}

impl<'a, P: Protocol, C: Fn() -> bool> Server<'a, P, C> {
    /// To be called on the thread that serves.
    pub(crate) fn new(
        protocol: &'a P,
        config: &'a Config,
        shutdown: &'a Shutdown,
        counters: &'a ThreadCounters,
        tick: Duration,
        is_contended: C,
    ) -> Self {
        let waker = ThreadWaker::Parked(thread::current()).waker();
        Self { protocol, config, shutdown, counters, tick, is_contended, waker, tally: Tally::default() }
    }

    /// Begins the conversation.
    pub(crate) fn open(&self, accepted: Arc<AcceptedConnection>) -> Connection<P> {
        let waker = ThreadWaker::Reading(Arc::clone(&accepted), self.shutdown.clone()).waker();
        let registered = self.shutdown.register(waker);
        if self.shutdown.is_draining() {
            socket::shutdown_read(accepted.socket.as_fd());
        }
        // Writes that time out see the deadline. A socket that is gone says so when it is read.
        let _ = set_socket_timeout(&accepted.socket, Timeout::Send, Some(self.tick.min(WRITE_TICK)));
        let peer = peer(accepted.socket.as_fd(), accepted.front_end);
        Connection {
            session: Session::new(self.protocol, peer, self.config.limits, clock::now()),
            pipes: Pipes::of_connection(&self.config.scratch_pipes),
            read_tick: Duration::ZERO,
            quiet_since: accepted.since,
            has_answered: false,
            push_event: None,
            _registered: registered,
            accepted,
        }
    }

    /// Serves a connection until it ends or, while others wait, until it has had its turn: one read, and all of the
    /// output that follows.
    pub(crate) fn serve(&mut self, connection: &mut Connection<P>) -> Next {
        // A broken connection is the peer's affair; nothing to report.
        let next = self.exchange(connection).unwrap_or(Next::Close);
        self.tally.0.closed += u64::from(next == Next::Close);
        self.tally.publish(self.counters);
        next
    }

    fn exchange(&mut self, connection: &mut Connection<P>) -> io::Result<Next> {
        let mut has_read = false;
        connection.set_read_tick(self.read_tick())?;
        loop {
            while !connection.session.outbox().is_empty() && !connection.session.is_aborted() {
                self.write(connection)?;
            }
            let session = &mut connection.session;
            session.resume(self.protocol, clock::now());
            if !session.outbox().is_empty() && !session.is_aborted() {
                continue;
            }
            end_output(session, connection.accepted.socket.as_fd(), clock::now());
            if session.is_done() {
                return Ok(Next::Close);
            }
            self.tally.publish(self.counters);
            if has_read && (self.is_contended)() {
                return Ok(Next::Wait);
            }
            self.read(connection)?;
            has_read = true;
        }
    }

    fn read(&mut self, connection: &mut Connection<P>) -> io::Result<()> {
        let waited = connection.wait_for_input()?;
        let Connection { accepted, session, quiet_since, .. } = connection;
        let read = match waited {
            Waited::Input => socket::recv_once(accepted.socket.as_fd(), session.recv_space()),
            Waited::Push => return Ok(()),
            Waited::Timeout => Err(io::ErrorKind::WouldBlock.into()),
        };
        let now = clock::now();
        if self.shutdown.stage() == Stage::Retiring && !session.is_retiring() {
            session.retire(self.protocol, now);
        }
        match read {
            // The drain has shut the reading side, which wakes a thread; what arrives after that can still be read, and the
            // end that the peer makes is another.
            Ok(0)
                if self.shutdown.is_draining()
                    && socket::is_established(&accepted.socket)
                    && session.drain(self.protocol) =>
            {
                session.tick(self.protocol, now, || uptake(&accepted.socket));
                thread::park_timeout(DRAIN_TICK);
            }
            Ok(0) => session.end_of_input(),
            Ok(n) => {
                // A peer that never pauses meets its deadlines here: that of a request, and that of its age.
                if session.has_input() || session.is_past_age(now) {
                    session.tick(self.protocol, now, || uptake(&accepted.socket));
                }
                self.tally.0.bytes_in += n as u64;
                *quiet_since = now.instant;
                session.received(n, now);
            }
            Err(error) if is_timeout(&error) => {
                session.tick(self.protocol, now, || uptake(&accepted.socket));
                if (self.is_contended)() && connection.is_out_of_patience(now.instant) {
                    connection.session.end_of_input();
                }
                connection.set_read_tick(self.read_tick())?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn write(&mut self, connection: &mut Connection<P>) -> io::Result<()> {
        let Connection { accepted, session, pipes, .. } = connection;
        let wrote = write_front_once(accepted.socket.as_fd(), session.outbox(), pipes);
        let now = clock::now();
        match wrote {
            Ok(0) => {
                if session.outbox().poll_reply(&self.waker).is_ready() {
                    return Ok(());
                }
                if session.is_multiplexed(self.protocol) && session.wants_read() {
                    // One thread cannot wait for both, so it looks at the promise often.
                    connection.set_read_tick(PROMISE_TICK)?;
                    self.read(connection)?;
                    connection.session.resume(self.protocol, clock::now());
                } else {
                    thread::park_timeout(self.tick);
                    session.tick(self.protocol, now, || uptake(&accepted.socket));
                    session.take_pushes_so_far();
                }
            }
            Ok(n) => {
                self.tally.0.bytes_out += n as u64;
                session.sent(now);
                session.report_sent(self.protocol, clock::now);
                // A peer that takes a little in each timeout meets its deadline here.
                if !session.outbox().is_empty() {
                    session.tick(self.protocol, now, || uptake(&accepted.socket));
                }
                connection.has_answered = true;
                connection.quiet_since = now.instant;
            }
            Err(error) if is_timeout(&error) => {
                session.tick(self.protocol, now, || uptake(&accepted.socket));
                // There may be more than the limit of what has been pushed meanwhile.
                session.take_pushes_so_far();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn read_tick(&self) -> Duration {
        if (self.is_contended)() { CONTENDED_TICK.min(self.tick) } else { self.tick }
    }
}

/// True for a call that came to nothing within its timeout, or was interrupted by a stop of the process: repeated, it
/// would have all of its timeout again, and a process that is stopped often would never look at a deadline.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl<P: Protocol> Connection<P> {
    /// True if an idle peer has kept its place for long enough while others wait.
    fn is_out_of_patience(&self, now: Instant) -> bool {
        let patience = if self.has_answered { IDLE_MAX } else { SILENCE_MAX };
        let has_nothing_to_wait_for = self.session.is_quiet() && !self.session.takes_pushes();
        has_nothing_to_wait_for && now.duration_since(self.quiet_since) >= patience
    }

    /// Waits for input, or for a push where the connection takes any. For others the read itself waits.
    fn wait_for_input(&mut self) -> io::Result<Waited> {
        if !self.session.takes_pushes() {
            return Ok(Waited::Input);
        }
        let event = match &mut self.push_event {
            Some(event) => event,
            none => none.insert(PushEvent::new()?),
        };
        let has_pushes = self.session.take_pushes(|| event.waker());
        let timeout = if has_pushes { Duration::ZERO } else { self.read_tick };
        let has_input = event.wait(self.accepted.socket.as_fd(), timeout)?;
        Ok(match has_input {
            true => Waited::Input,
            false if has_pushes || self.session.take_pushes(|| event.waker()) => Waited::Push,
            false => Waited::Timeout,
        })
    }

    /// Sets the time after which reads return without a byte. Costs a system call only when it changes.
    fn set_read_tick(&mut self, read_tick: Duration) -> io::Result<()> {
        if read_tick != self.read_tick {
            set_socket_timeout(&self.accepted.socket, Timeout::Recv, Some(read_tick))?;
            self.read_tick = read_tick;
        }
        Ok(())
    }
}
