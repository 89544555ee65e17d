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
    accept::{Accepted, Door, Gate, REST, Ticket},
    clock,
    counters::{Counters, Tally},
    farewell::end_output,
    pipes::Pipes,
    write::write_front,
};

/// Blocked calls return so often, so that deadlines are seen without a system call per request to set them.
const TICK: Duration = Duration::from_secs(1);
/// The same for writes: few of them block, and a stalled reader should not be waited for much longer than asked.
const WRITE_TICK: Duration = Duration::from_millis(250);
/// While others wait, a peer that has not said anything keeps its place for so long, counted from when it was let in:
/// it may be about to. Time spent in a queue is part of it, which is what makes a long queue of silent peers a short
/// wait: those who come to its head have mostly used theirs up, and are only looked at.
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
            accept_on_threads(listeners, config, shutdown, protocol.refusal(), |guest| {
                let ours = Arc::clone(&guest);
                let serve = move || converse(&ours, protocol, config, shutdown, counters, TICK, || false);
                // No thread to be had is no reason to stop serving those who have one.
                thread::Builder::new().spawn_scoped(scope, serve).map(drop).map_err(|_| guest)
            })
        })
    }
}

/// A connection that has been let in.
#[derive(Debug)]
pub(crate) struct Guest {
    socket: OwnedFd,
    front_end: usize,
    since: Instant,
    _ticket: Ticket,
}

/// Wakes a thread out of the calls it may be blocked in.
enum Alert {
    /// `park`: a promise was settled.
    Parked(Thread),
    /// `recv`: it sees the end of input, after what has already arrived.
    Reading(Arc<Guest>),
    /// `accept`: it fails. A descriptor of its own, since whoever wakes may be the last to let go of it, and the
    /// listener has to be gone before the driver is.
    Accepting(OwnedFd),
}

impl Wake for Alert {
    fn wake(self: Arc<Self>) {
        match &*self {
            Self::Parked(thread) => thread.unpark(),
            Self::Reading(guest) => socket::shutdown_read(guest.socket.as_fd()),
            Self::Accepting(listener) => socket::shutdown_both(listener.as_fd()),
        }
    }
}

impl Alert {
    fn waker(self) -> Waker {
        Waker::from(Arc::new(self))
    }
}

/// Accepts until drained, on a thread per address. Whom `welcome` gives back is turned away.
pub(crate) fn accept_on_threads(
    listeners: Listeners,
    config: &Config,
    shutdown: &Shutdown,
    refusal: &[u8],
    welcome: impl Fn(Arc<Guest>) -> Result<(), Arc<Guest>> + Sync,
) -> io::Result<()> {
    let gate = Gate::new(config.connections_max);
    let (gate, welcome) = (&gate, &welcome);
    let addresses: Vec<_> = listeners.seats.into_iter().flatten().enumerate().collect();
    crate::on_threads(config, shutdown, addresses, |(front_end, listener)| {
        let counters = config.statistics.register();
        let mut door = Door::new(gate, refusal)?;
        let alert = Alert::Accepting(listener.as_fd().try_clone_to_owned()?);
        let _registered = shutdown.register(alert.waker());
        while !shutdown.is_draining() {
            let mut tally = Tally::default();
            match door.accept(&listener, false, &mut tally) {
                Ok(Accepted::Connection(socket, ticket)) => {
                    let guest = Guest { socket, front_end, since: Instant::now(), _ticket: ticket };
                    if let Err(guest) = welcome(Arc::new(guest)) {
                        door.turn_away_admitted(&guest.socket, &mut tally);
                    }
                    // Only now, so that each connection counts once, as let in or as turned away.
                    tally.publish(&counters);
                }
                Ok(Accepted::Nobody | Accepted::Empty) => tally.publish(&counters),
                Ok(Accepted::Exhausted) => thread::sleep(REST),
                Err(_) if shutdown.is_draining() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Serves one connection to its end. Blocked calls return every `tick`. `gives_way`: others wait for this thread, so an
/// idle peer has to go, after one tick if it has been answered before.
pub(crate) fn converse<P: Protocol>(
    guest: &Arc<Guest>,
    protocol: &P,
    config: &Config,
    shutdown: &Shutdown,
    counters: &Counters,
    tick: Duration,
    gives_way: impl Fn() -> bool,
) {
    let _registered = shutdown.register(Alert::Reading(Arc::clone(guest)).waker());
    if shutdown.is_draining() {
        socket::shutdown_read(guest.socket.as_fd());
    }
    let peer = Peer::new(guest.socket.as_fd(), guest.front_end);
    let session = Session::new(protocol, peer, config.limits, clock::now());
    let pipes = Pipes::of_connection(&config.scratch_pipes);
    let mut conversation = Conversation {
        socket: &guest.socket,
        session,
        protocol,
        pipes,
        tick,
        gives_way,
        read_tick: Duration::ZERO,
        quiet_since: guest.since,
        has_answered: false,
        tally: Tally::default(),
    };
    // A broken connection is the peer's affair; nothing to report.
    let _ = conversation.run(counters);
    conversation.tally.0.closed += 1;
    conversation.tally.publish(counters);
}

struct Conversation<'a, P: Protocol, G> {
    socket: &'a OwnedFd,
    session: Session<P>,
    protocol: &'a P,
    pipes: Pipes,
    tick: Duration,
    gives_way: G,
    /// How soon a read that nothing comes of returns.
    read_tick: Duration,
    /// The last byte in either direction, or when the connection was let in.
    quiet_since: Instant,
    has_answered: bool,
    tally: Tally,
}

impl<P: Protocol, G: Fn() -> bool> Conversation<'_, P, G> {
    fn run(&mut self, counters: &Counters) -> io::Result<()> {
        self.set_read_tick(self.patience(Instant::now()))?;
        set_socket_timeout(self.socket, Timeout::Send, Some(self.tick.min(WRITE_TICK)))?;
        let waker = Alert::Parked(thread::current()).waker();
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

    /// A read came to nothing.
    fn tick(&mut self, now: Now) -> io::Result<()> {
        self.session.tick(self.protocol, now);
        let patience = self.patience(now.instant);
        if patience.is_some_and(|left| left.is_zero()) {
            self.session.end_of_input();
            return Ok(());
        }
        self.set_read_tick(patience)
    }

    /// For how much longer this peer may keep its place; `None`: as long as it likes.
    fn patience(&self, now: Instant) -> Option<Duration> {
        let patience = if self.has_answered { self.tick } else { SILENCE_MAX };
        let is_idle = self.session.is_quiet() && (self.gives_way)();
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
