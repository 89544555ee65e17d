//! Raw io_uring, a ring per thread: multishot accept and receive, a provided-buffer ring, and one submission for all
//! the sends of a turn.
//!
//! The ring has no sendfile, and its splice always goes to a kernel worker thread; so output that holds a file or a
//! pipe is written by plain calls, here, whenever the ring says that the socket is writable.

use std::{
    io, mem,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use proto::{BatchInput, BufferPool, Now, Protocol, Session, run_batch};
use slab::Slab;
use sys::{listen::Listener, registered::Region};

use crate::{
    Config, ConnectionModel, DefaultWorkers, Descriptor, Driver, FilePath, IoModel, MemoryPath, PipePath, ReadBuffer,
    Serving, Shutdown, Unavailable, Wait,
    accept::{Accepted, Acceptor, ConnectionLimit, EXHAUSTED_PAUSE},
    clock,
    counters::{Tally, ThreadCounters},
    descriptor::IO_URING,
    mailbox::{Key, Mailbox},
    on_threads,
    peer::peer,
    pipes::Pipes,
    shutdown::Stage,
    system_calls,
    wheel::Wheel,
};

mod connection;
mod ring;
mod send;

use connection::Slot;
use ring::{Completion, DriverRing, Op};

pub(crate) struct Uring;

impl Driver for Uring {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "uring",
        about: "raw io_uring: multishot accept and recv, provided buffers, batched submission",
        built_on: Some("io-uring 0.7.15; ring flags SINGLE_ISSUER, DEFER_TASKRUN, COOP_TASKRUN"),
        io: IoModel::Completion,
        connection: ConnectionModel::Loop,
        default_workers: DefaultWorkers::None,
        listener_per_thread: true,
        batches: true,
        waits_in: Wait::Ring,
        reads_into: ReadBuffer::Provided,
        sends_memory: MemoryPath::RingSend,
        sends_files: FilePath::Sendfile,
        sends_pipes: PipePath::Splice,
        registers_memory: true,
        is_optional: false,
        needs: Some(IO_URING),
        calls: system_calls::URING,
    };

    fn probe() -> Result<(), Unavailable> {
        ring::probe().map_err(|error| Unavailable::without_io_uring(&error))
    }

    fn probe_registered(region: &Arc<Region>, threads: usize) -> io::Result<()> {
        ring::probe_registered(region, threads)
    }

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        on_threads(config, shutdown, listeners.per_thread, |listeners| {
            RingLoop::new(&*protocol, listeners, config, &limit)?.run(shutdown)
        })
    }
}

struct RingLoop<'p, P: Protocol> {
    listeners: Vec<ListenerState>,
    acceptor: Acceptor,
    slots: Slab<Slot<P>>,
    /// Connections to look at once the whole batch of completions has been read, so that one send answers many
    /// receives.
    dirty: Vec<usize>,
    /// Those of this turn, while it lasts.
    turn: Vec<usize>,
    /// Input that waits to be answered in one go, at most one receive of each connection.
    received: Vec<Completion>,
    wheel: Wheel,
    /// When the ring completes [`Op::Alarm`], if that is under way.
    alarm: Option<Instant>,
    counters: Arc<ThreadCounters>,
    stage: Stage,
    cx: LoopContext<'p, P>,
}

/// Parts of the loop that its connections use.
struct LoopContext<'p, P> {
    protocol: &'p P,
    ring: DriverRing,
    mailbox: Arc<Mailbox<Key>>,
    pipes: Pipes,
    buffers: BufferPool,
    tally: Tally,
    limits: proto::Limits,
    now: Now,
    /// True while one connection alone has something to do in this turn.
    is_alone: bool,
}

struct ListenerState {
    listener: Option<Listener>,
    /// When to arm the accept again after a shortage.
    rearm_at: Option<Instant>,
}

impl From<Key> for usize {
    fn from(Key(key): Key) -> Self {
        key
    }
}

impl<'p, P: Protocol> RingLoop<'p, P> {
    fn new(
        protocol: &'p P,
        listeners: Vec<Listener>,
        config: &Config,
        limit: &Arc<ConnectionLimit>,
    ) -> io::Result<Self> {
        let now = clock::now();
        let state = |listener| ListenerState { listener: Some(listener), rearm_at: Some(now.instant) };
        Ok(Self {
            listeners: listeners.into_iter().map(state).collect(),
            acceptor: Acceptor::new(limit, protocol.refusal())?,
            slots: Slab::new(),
            dirty: Vec::new(),
            turn: Vec::new(),
            received: Vec::new(),
            wheel: Wheel::new(now.instant),
            alarm: None,
            counters: config.statistics.register(),
            stage: Stage::Serving,
            cx: LoopContext {
                protocol,
                ring: DriverRing::new(config.registered.as_ref())?,
                mailbox: Mailbox::new()?,
                pipes: Pipes::of_loop(&config.scratch_pipes),
                buffers: BufferPool::default(),
                tally: Tally::default(),
                limits: config.limits,
                now,
                is_alone: false,
            },
        })
    }

    fn run(mut self, shutdown: &Shutdown) -> io::Result<()> {
        let mailbox = Arc::clone(&self.cx.mailbox);
        let registered = shutdown.register_loop(mailbox.waker(Key::LOOP));
        self.cx.ring.watch(mailbox.as_fd());
        let mut done = Vec::new();
        loop {
            match shutdown.stage() {
                stage if stage == self.stage => {}
                Stage::Serving => {}
                Stage::Retiring => self.retire(),
                Stage::Draining => self.drain(),
            }
            if self.stage == Stage::Draining
                && self.slots.is_empty()
                && self.listeners.iter().all(|state| state.listener.is_none())
            {
                self.cx.tally.publish(&self.counters);
                return Ok(());
            }
            self.arm_accepts();
            self.set_alarm();
            self.cx.ring.wait(&mut done, self.timeout())?;
            self.cx.now = clock::now();
            for done in done.drain(..) {
                self.complete(done)?;
            }
            self.answer_received();
            for key in self.wheel.expire(self.cx.now.instant) {
                self.expire(key);
            }
            self.serve_dirty();
            self.cx.tally.publish(&self.counters);
            registered.turned();
        }
    }

    /// Lets the ring wake the loop at the first deadline. That seldom changes, and a timer that stays set costs a wait nothing,
    /// where a timeout of its own would cost each of them.
    fn set_alarm(&mut self) {
        let Some(due) = self.wheel.due().filter(|&due| self.alarm.is_none_or(|alarm| due < alarm)) else { return };
        let set = self.alarm.replace(due).is_some();
        self.cx.ring.alarm(due.saturating_duration_since(self.cx.now.instant), set);
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.dirty.is_empty() {
            return Some(Duration::ZERO);
        }
        let rearm = self.listeners.iter().filter_map(|state| state.rearm_at).min();
        rearm.map(|at| at.saturating_duration_since(self.cx.now.instant))
    }

    fn complete(&mut self, done: Completion) -> io::Result<()> {
        match done.op {
            Op::Accept => self.accepted(done)?,
            Op::Alarm => self.alarm = None,
            Op::Change => {}
            Op::Mail => {
                for Key(key) in self.cx.mailbox.collect() {
                    self.mark(key);
                }
                if !done.has_more {
                    self.cx.ring.watch(self.cx.mailbox.as_fd());
                }
            }
            Op::Receive => self.receive(done),
            Op::Send | Op::SendZeroCopy | Op::Writable => {
                self.mark(done.key);
                self.slots[done.key].complete(done, &mut self.cx);
            }
        }
        Ok(())
    }

    fn mark(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key)
            && !mem::replace(&mut slot.is_dirty, true)
        {
            self.dirty.push(key);
        }
    }

    // --- accepting ------------------------------------------------------------------------

    fn arm_accepts(&mut self) {
        for (index, state) in self.listeners.iter_mut().enumerate() {
            if let Some(listener) = &state.listener
                && state.rearm_at.is_some_and(|at| at <= self.cx.now.instant)
            {
                state.rearm_at = None;
                self.cx.ring.accept(index, listener.as_fd());
            }
        }
    }

    fn accepted(&mut self, done: Completion) -> io::Result<()> {
        let Some(ListenerState { listener: Some(listener), .. }) = self.listeners.get(done.key) else { return Ok(()) };
        let (front_end, tally) = (listener.front_end(), &mut self.cx.tally);
        let accepted = match self.cx.ring.accepted(done) {
            Ok(socket) => self.acceptor.admit(socket, tally),
            Err(_) if self.stage != Stage::Serving => Accepted::Skipped,
            Err(error) => self.acceptor.failed(listener, error.into(), tally)?,
        };
        if !done.has_more {
            let rest = if matches!(accepted, Accepted::Exhausted) { EXHAUSTED_PAUSE } else { Duration::ZERO };
            let state = &mut self.listeners[done.key];
            state.rearm_at = Some(self.cx.now.instant + rest).filter(|_| self.stage == Stage::Serving);
            if self.stage != Stage::Serving {
                // Closed only now that the ring has let go of it, so that the port is free at once.
                let listener = state.listener.take();
                self.take_last(listener)?;
            }
        }
        if let Accepted::Connection(socket, permit) = accepted {
            self.open(socket, front_end, permit);
        }
        Ok(())
    }

    /// Accepts what waits at a listener that another process has, too: the kernel wakes one of the two only (EPOLLEXCLUSIVE),
    /// and it may have been this one, just before it let go.
    fn take_last(&mut self, listener: Option<Listener>) -> io::Result<()> {
        let Some(listener) = listener.filter(|_| self.stage == Stage::Retiring) else { return Ok(()) };
        loop {
            match self.acceptor.accept(&listener, true, &mut self.cx.tally)? {
                Accepted::Connection(socket, permit) => self.open(socket, listener.front_end(), permit),
                Accepted::Skipped => {}
                Accepted::Empty | Accepted::Exhausted => return Ok(()),
            }
        }
    }

    fn open(&mut self, socket: OwnedFd, front_end: usize, permit: crate::accept::ConnectionPermit) {
        let LoopContext { protocol, limits, now, .. } = self.cx;
        let mut session = Box::new(Session::new(protocol, peer(socket.as_fd(), front_end), limits, now));
        if self.stage == Stage::Retiring {
            session.retire(protocol, now);
        }
        let key = self.slots.insert(Slot::new(socket, session, permit, self.stage == Stage::Draining));
        self.mark(key);
    }

    // --- serving --------------------------------------------------------------------------

    fn receive(&mut self, done: Completion) {
        self.mark(done.key);
        self.slots[done.key].received(done);
        match done.result() {
            Ok(n) if n > 0 => {
                self.cx.tally.0.bytes_in += n as u64;
                if self.received.iter().any(|earlier| earlier.key == done.key) {
                    self.answer_received();
                }
                self.received.push(done);
                if self.received.len() >= P::BATCH {
                    self.answer_received();
                }
            }
            _ => self.cx.ring.give_back(done),
        }
    }

    /// Runs the protocol on what has been received, in the kernel's own buffers.
    fn answer_received(&mut self) {
        let LoopContext { protocol, ring, buffers, now, .. } = &mut self.cx;
        for done in &self.received {
            self.slots[done.key].session_mut().outbox().borrow_buffer(buffers);
        }
        match &self.received[..] {
            [] => return,
            [done] => self.slots[done.key].session_mut().feed(protocol, ring.received(*done), *now),
            several => {
                let mut sessions: Vec<_> =
                    several.iter().filter_map(|done| self.slots[done.key].session.take()).collect();
                let offers = sessions.iter_mut().zip(several);
                let mut offers: Vec<_> = offers
                    .map(|(session, done)| BatchInput { session: &mut **session, lent: ring.received(*done) })
                    .collect();
                run_batch(*protocol, &mut offers, *now);
                for (done, session) in several.iter().zip(sessions) {
                    self.slots[done.key].session = Some(session);
                }
            }
        }
        for done in self.received.drain(..) {
            ring.give_back(done);
        }
    }

    fn expire(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.timer.clear();
            slot.tick(self.cx.protocol, self.cx.now);
            self.mark(key);
        }
    }

    fn serve_connection(&mut self, key: usize) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        (slot.is_dirty, slot.is_paused) = (false, false);
        if slot.move_bytes(key, &mut self.cx) {
            let deadline = slot.session_mut().deadline(self.cx.protocol);
            self.wheel.set(key, &mut slot.timer, deadline);
            if slot.is_paused {
                self.mark(key);
            }
        } else if slot.is_free() {
            self.cx.tally.0.closed += 1;
            self.slots.remove(key);
        }
    }

    /// Closes each listener, at once or when the ring has let go of it.
    fn stop_accepting(&mut self) {
        for (index, state) in self.listeners.iter_mut().enumerate().filter(|(_, state)| state.listener.is_some()) {
            match state.rearm_at.take() {
                Some(_) => state.listener = None,
                None => self.cx.ring.cancel(Op::Accept, index),
            }
        }
    }

    fn retire(&mut self) {
        self.stage = Stage::Retiring;
        self.stop_accepting();
        for (_, slot) in &mut self.slots {
            slot.session_mut().retire(self.cx.protocol, self.cx.now);
        }
        self.serve_all();
    }

    fn drain(&mut self) {
        let accepts = self.stage == Stage::Serving;
        self.stage = Stage::Draining;
        if accepts {
            self.stop_accepting();
        }
        for (_, slot) in &mut self.slots {
            slot.is_draining = true;
        }
        self.serve_all();
    }

    fn serve_all(&mut self) {
        for (key, slot) in &mut self.slots {
            if !mem::replace(&mut slot.is_dirty, true) {
                self.dirty.push(key);
            }
        }
        self.serve_dirty();
    }

    fn serve_dirty(&mut self) {
        self.cx.is_alone = self.dirty.len() == 1;
        let mut turn = mem::take(&mut self.turn);
        mem::swap(&mut self.dirty, &mut turn);
        for key in turn.drain(..) {
            self.serve_connection(key);
        }
        // The next turn need not allocate.
        self.turn = turn;
    }
}
