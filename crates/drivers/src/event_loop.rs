//! The readiness loop that `epoll` and `reactor` share: edge-triggered epoll through mio. The two differ in where the
//! protocol runs, which is a [`Executor`].

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

use mio::{Events, Interest, Poll, Token, event::Event, unix::SourceFd};
use proto::{BufferPool, Now, Protocol, Session};
use slab::Slab;
use sys::listen::Listener;

use crate::{
    Config, Shutdown,
    accept::{Accepted, Acceptor, ConnectionLimit, EXHAUSTED_PAUSE},
    clock,
    counters::{Tally, ThreadCounters},
    mailbox::{Key, Mailbox},
    peer::{peer, uptake},
    pipes::Pipes,
    shutdown::Stage,
    wheel::Wheel,
};

mod connection;
mod executor;

use connection::{Next, Slot};
pub(crate) use executor::{Executor, Inline, Job, LoopMessage};

const EVENTS_MAX: usize = 1024;
const MAILBOX: Token = Token(usize::MAX);
/// Listeners count down from here.
const LISTENERS: usize = usize::MAX - 1;
/// One read; a fuller socket is read again.
const READ_BYTES: usize = 64 * 1024;
/// Bytes that are read for one batch, and that its replies should come to: it all has to stay in the processor's cache.
const BATCH_BYTES: usize = 192 * 1024;
/// Connections taken in before those there are get their turn.
const ACCEPT_MAX: usize = 64;

pub(crate) struct EventLoop<'p, P: Protocol, W: Executor<P>> {
    poll: Poll,
    listeners: Vec<Listener>,
    acceptor: Acceptor,
    /// Listeners with more connections waiting, and when to go on with them.
    accepting: Vec<usize>,
    accept_at: Option<Instant>,
    /// Another process accepts.
    is_retiring: bool,
    slots: Slab<Slot<P>>,
    wheel: Wheel,
    /// Connections to look at in this turn, and those that used up their share of the last one.
    ready: Vec<usize>,
    again: Vec<usize>,
    counters: Arc<ThreadCounters>,
    cx: LoopContext<'p, P, W>,
}

/// Parts of the loop that its connections use.
pub(crate) struct LoopContext<'p, P: Protocol, W> {
    protocol: &'p P,
    executor: W,
    mailbox: Arc<Mailbox<LoopMessage<P>>>,
    /// Bytes that the connections of a batch have sent, one behind the other.
    scratch: Vec<u8>,
    /// Connections in the next batch.
    batch_len: usize,
    buffers: BufferPool,
    pipes: Pipes,
    tally: Tally,
    limits: proto::Limits,
    now: Now,
    is_draining: bool,
}

impl<'p, P: Protocol, W: Executor<P>> EventLoop<'p, P, W> {
    pub(crate) fn new(
        protocol: &'p P,
        executor: W,
        listeners: Vec<Listener>,
        config: &Config,
        limit: &Arc<ConnectionLimit>,
    ) -> io::Result<Self> {
        let (poll, mailbox, now) = (Poll::new()?, Mailbox::new()?, clock::now());
        poll.registry().register(&mut SourceFd(&mailbox.as_fd().as_raw_fd()), MAILBOX, Interest::READABLE)?;
        for (index, listener) in listeners.iter().enumerate() {
            let token = Token(LISTENERS - index);
            poll.registry().register(&mut SourceFd(&listener.as_fd().as_raw_fd()), token, Interest::READABLE)?;
        }
        Ok(Self {
            poll,
            listeners,
            acceptor: Acceptor::new(limit, protocol.refusal())?,
            accepting: Vec::new(),
            accept_at: None,
            is_retiring: false,
            slots: Slab::new(),
            wheel: Wheel::new(now.instant),
            ready: Vec::new(),
            again: Vec::new(),
            counters: config.statistics.register(),
            cx: LoopContext {
                protocol,
                executor,
                mailbox,
                scratch: vec![0; if W::BATCH > 1 { BATCH_BYTES } else { READ_BYTES }],
                batch_len: W::BATCH,
                buffers: BufferPool::default(),
                pipes: Pipes::of_loop(&config.scratch_pipes),
                tally: Tally::default(),
                limits: config.limits,
                now,
                is_draining: false,
            },
        })
    }

    pub(crate) fn run(mut self, shutdown: &Shutdown) -> io::Result<()> {
        let registered = shutdown.register_loop(self.cx.mailbox.waker(Key::LOOP));
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            match shutdown.stage() {
                Stage::Serving => {}
                Stage::Retiring if self.is_retiring => {}
                Stage::Retiring => self.retire(),
                Stage::Draining if self.cx.is_draining => {}
                Stage::Draining => self.drain(),
            }
            if self.cx.is_draining && self.slots.is_empty() {
                self.cx.tally.publish(&self.counters);
                return Ok(());
            }
            match self.poll.poll(&mut events, self.timeout()) {
                // No events, but perhaps a timer: a process that is stopped often must not begin its sleep anew.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                polled => polled?,
            }
            self.cx.now = clock::now();
            self.ready.append(&mut self.again);
            events.iter().for_each(|event| self.note(event));
            self.accept()?;
            for key in self.wheel.expire(self.cx.now.instant) {
                self.expire(key);
            }
            self.serve_ready();
            self.cx.tally.publish(&self.counters);
            registered.turned();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = self.cx.now.instant;
        let accept = self.accept_at.map(|at| at.saturating_duration_since(now));
        accept.into_iter().chain(self.wheel.timeout(now)).min()
    }

    fn note(&mut self, event: &Event) {
        match event.token() {
            MAILBOX => {
                for message in self.cx.mailbox.collect() {
                    self.take_message(message);
                }
            }
            Token(key) if key > LISTENERS - self.listeners.len() => {
                self.accepting.push(LISTENERS - key);
                self.accept_at.get_or_insert(self.cx.now.instant);
            }
            Token(key) => {
                if let Some(slot) = self.slots.get_mut(key) {
                    slot.ready.note(event);
                    self.ready.push(key);
                }
            }
        }
    }

    fn take_message(&mut self, message: LoopMessage<P>) {
        match message {
            LoopMessage::Look(Key(key)) => self.ready.push(key),
            LoopMessage::Back(Key(key), session) => {
                // A slot whose session is away is never removed.
                let session = self.slots[key].session.insert(session);
                if self.is_retiring {
                    session.retire(self.cx.protocol, self.cx.now);
                }
                self.ready.push(key);
            }
        }
    }

    // --- accepting ------------------------------------------------------------------------

    fn accept(&mut self) -> io::Result<()> {
        if self.accept_at.is_none_or(|at| at > self.cx.now.instant) {
            return Ok(());
        }
        self.accept_at = None;
        for _ in 0..ACCEPT_MAX {
            let Some(&at) = self.accepting.last() else { return Ok(()) };
            let Some(listener) = self.listeners.get(at) else { return Ok(()) };
            let front_end = listener.front_end();
            match self.acceptor.accept_next(listener, true, &mut self.cx.tally)? {
                Accepted::Connection(socket, permit) => self.open(socket, front_end, permit),
                Accepted::Skipped => {}
                Accepted::Empty => drop(self.accepting.pop()),
                Accepted::Exhausted => {
                    self.accept_at = Some(self.cx.now.instant + EXHAUSTED_PAUSE);
                    return Ok(());
                }
            }
        }
        // No edge comes for those still waiting.
        self.accept_at = Some(self.cx.now.instant);
        Ok(())
    }

    fn open(&mut self, socket: OwnedFd, front_end: usize, permit: crate::accept::ConnectionPermit) {
        let LoopContext { protocol, limits, now, .. } = self.cx;
        let session = Box::new(Session::new(protocol, peer(socket.as_fd(), front_end), limits, now));
        let key = self.slots.insert(Slot::new(socket, session, permit));
        // A peer that has asked already is answered at once; one that closes after a single answer is never watched.
        self.ready.push(key);
    }

    /// From here on the kernel says when something happens, beginning with what has happened before.
    fn watch(&mut self, key: usize) -> io::Result<()> {
        let slot = &mut self.slots[key];
        if !mem::replace(&mut slot.is_watched, true) {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut SourceFd(&slot.socket.as_raw_fd()), Token(key), interest)?;
        }
        Ok(())
    }

    // --- serving --------------------------------------------------------------------------

    fn serve_ready(&mut self) {
        let mut ready = mem::take(&mut self.ready);
        let mut rest = &ready[..];
        while !rest.is_empty() {
            let seen = match W::BATCH {
                1 => 1,
                _ => connection::read_batch(rest, &mut self.slots, &mut self.cx),
            };
            for &key in &rest[..seen] {
                self.serve_connection(key);
            }
            rest = &rest[seen..];
        }
        ready.clear();
        self.ready = ready;
    }

    fn serve_connection(&mut self, key: usize) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        match slot.move_bytes(Key(key), &mut self.cx) {
            Next::Wait(deadline) => {
                self.wheel.set(key, &mut slot.timer, deadline);
                // The kernel has no memory or no watch left for one more: that costs the connection, and no other.
                if let Err(error) = self.watch(key) {
                    let advice = "raise fs.epoll.max_user_watches or lower --max-connections";
                    self.acceptor.warn(format_args!("{error}; {advice}"));
                    self.close(key);
                }
            }
            Next::Away => {}
            Next::Again => self.again.push(key),
            Next::Close => self.close(key),
        }
    }

    fn close(&mut self, key: usize) {
        self.cx.tally.0.closed += 1;
        self.slots.remove(key); // Closing the socket takes it off the poll.
    }

    fn expire(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.timer.clear();
            if let Some(session) = &mut slot.session {
                session.tick(self.cx.protocol, self.cx.now, || uptake(&slot.socket));
            }
            self.ready.push(key);
        }
    }

    /// Leaves what waits at the listeners to whoever else has them. They have to be deregistered for that: a descriptor
    /// that is closed stays registered while its socket is open elsewhere (epoll(7)).
    fn stop_accepting(&mut self) {
        for listener in self.listeners.drain(..) {
            // It fails only for one that is not registered.
            let _ = self.poll.registry().deregister(&mut SourceFd(&listener.as_fd().as_raw_fd()));
        }
        (self.accepting, self.accept_at) = (Vec::new(), None);
    }

    fn retire(&mut self) {
        self.is_retiring = true;
        self.stop_accepting();
        for (key, slot) in &mut self.slots {
            // One that a worker has is told when it comes back.
            if let Some(session) = &mut slot.session {
                session.retire(self.cx.protocol, self.cx.now);
            }
            self.ready.push(key);
        }
        self.serve_ready();
    }

    fn drain(&mut self) {
        self.cx.is_draining = true;
        self.stop_accepting();
        for (key, slot) in &mut self.slots {
            // What has arrived is still answered: look, even though no edge said so.
            slot.ready.is_readable = true;
            self.ready.push(key);
        }
        self.serve_ready();
    }
}

/// Readiness as the edges said, where no call has contradicted it.
#[derive(Debug)]
pub(crate) struct Readiness {
    is_readable: bool,
    is_writable: bool,
    /// The end of input was announced: no edge will come for it again.
    is_ending: bool,
}

impl Readiness {
    /// Readiness of a socket just accepted: there may be something to read, and there is room to write.
    fn fresh() -> Self {
        Self { is_readable: true, is_writable: true, is_ending: false }
    }

    fn note(&mut self, event: &Event) {
        self.is_ending |= event.is_read_closed() || event.is_error();
        self.is_readable |= event.is_readable() || self.is_ending;
        self.is_writable |= event.is_writable();
    }

    /// A short read drained the socket; skip the EAGAIN round trip, unless the end is still to be read.
    fn have_read(&mut self, n: usize, room: usize) {
        self.is_readable = n == room || self.is_ending;
    }
}

/// Returns the waker of a connection, which its promises wake when they are settled.
fn waker_of<'a, P: Protocol>(
    slot: &'a mut Option<Waker>,
    mailbox: &Arc<Mailbox<LoopMessage<P>>>,
    key: Key,
) -> &'a Waker {
    slot.get_or_insert_with(|| mailbox.waker(key))
}
