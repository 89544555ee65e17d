//! A thread per connection, plain blocking calls. The baseline.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    task::{Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use proto::{Now, Peer, Protocol, Session};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use sys::socket;

use crate::{
    Config, Driver, Listeners, Serving, Shutdown,
    accept::{Accepted, Door, Gate, REST, Ticket},
    clock,
    counters::{Counters, Tally},
    write::{Pipes, write_front},
};

/// Blocked calls return so often, so that deadlines are seen without a system call per request to set them.
const TICK: Duration = Duration::from_secs(1);
/// The same for writes: few of them block, and a stalled reader should not be waited for much longer than asked.
const WRITE_TICK: Duration = Duration::from_millis(250);

/// A peer that has not said anything yet keeps its place for so many ticks although others wait: it may be about to.
const SILENT_TICKS_MAX: u32 = 10;

pub(crate) struct Blocking;

impl Driver for Blocking {
    const LISTENER_PER_THREAD: bool = false;

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let counters = config.statistics.register();
        let (protocol, counters) = (&*protocol, &counters);
        thread::scope(|scope| {
            accept_on_threads(listeners, config, shutdown, protocol.refusal(), |guest, door| {
                let guest = Arc::new(guest);
                let ours = Arc::clone(&guest);
                let serve = move || converse(&ours, protocol, config, shutdown, counters, TICK, || false);
                if thread::Builder::new().spawn_scoped(scope, serve).is_err() {
                    // No thread to be had is no reason to stop serving those who have one.
                    door.turn_away(&guest.socket, &mut Tally::default());
                }
            })
        })
    }
}

/// A connection that has been let in.
#[derive(Debug)]
pub(crate) struct Guest {
    socket: OwnedFd,
    front_end: usize,
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

/// Accepts until drained, on a thread per address.
pub(crate) fn accept_on_threads(
    listeners: Listeners,
    config: &Config,
    shutdown: &Shutdown,
    refusal: &[u8],
    welcome: impl Fn(Guest, &Door) + Sync,
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
                    tally.publish(&counters);
                    welcome(Guest { socket, front_end, _ticket: ticket }, &door);
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

/// Serves one connection to its end. `gives_way`: others wait for this thread, so an idle peer has to go.
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
    let pipes = Pipes::default();
    let mut conversation = Conversation {
        socket: &guest.socket,
        session,
        protocol,
        pipes,
        gives_way,
        quiet_ticks: 0,
        has_answered: false,
        tally: Tally::default(),
    };
    // A broken connection is the peer's affair; nothing to report.
    let _ = conversation.run(tick, counters);
    conversation.tally.0.closed += 1;
    conversation.tally.publish(counters);
}

struct Conversation<'a, P: Protocol, G> {
    socket: &'a OwnedFd,
    session: Session<P>,
    protocol: &'a P,
    pipes: Pipes,
    gives_way: G,
    /// Ticks in a row without a byte.
    quiet_ticks: u32,
    has_answered: bool,
    tally: Tally,
}

impl<P: Protocol, G: Fn() -> bool> Conversation<'_, P, G> {
    fn run(&mut self, tick: Duration, counters: &Counters) -> io::Result<()> {
        set_socket_timeout(self.socket, Timeout::Recv, Some(tick))?;
        set_socket_timeout(self.socket, Timeout::Send, Some(tick.min(WRITE_TICK)))?;
        let waker = Alert::Parked(thread::current()).waker();
        loop {
            while !self.session.outbox().is_empty() && !self.session.is_aborted() {
                self.write(&waker, tick)?;
            }
            self.session.resume(self.protocol, clock::now());
            if !self.session.outbox().is_empty() && !self.session.is_aborted() {
                continue;
            }
            if self.session.starts_lingering(clock::now()) {
                socket::shutdown_write(self.socket.as_fd());
            }
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
                self.quiet_ticks = 0;
                self.session.received(n, now);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.tick(now),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn write(&mut self, waker: &Waker, tick: Duration) -> io::Result<()> {
        let wrote = write_front(self.socket.as_fd(), self.session.outbox(), &mut self.pipes);
        let now = clock::now();
        match wrote {
            Ok(0) => {
                if self.session.outbox().poll_reply(waker).is_pending() {
                    thread::park_timeout(tick);
                    self.session.tick(self.protocol, now);
                }
            }
            Ok(n) => {
                self.tally.0.bytes_out += n as u64;
                self.has_answered = true;
                self.session.sent(now);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.session.tick(self.protocol, now),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn tick(&mut self, now: Now) {
        self.session.tick(self.protocol, now);
        self.quiet_ticks += 1;
        let idle = self.has_answered || self.quiet_ticks >= SILENT_TICKS_MAX;
        if idle && self.session.is_quiet() && (self.gives_way)() {
            self.session.end_of_input();
        }
    }
}
