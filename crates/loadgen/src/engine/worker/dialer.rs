//! Attempts to connect: how connections are opened, and when they are opened again.

use std::{collections::VecDeque, net::IpAddr};

use rustix::{fd::OwnedFd, io::Errno};

use super::{
    super::{
        endpoint::{Attempt, ConnectOptions, Endpoint},
        load::Load,
        pace::begin_of,
        tls::Tls,
    },
    kernel::{Kernel, Link},
    thread::Thread,
};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    error::ErrorClass,
};

/// At most this many connections wait for their first reply: a listener's queue is often 128 long, and what does not
/// fit into it is retried by the kernel after a second.
const UNSETTLED_MAX: usize = 100;
/// A server that is slow to answer (or is not asked) has accepted this many after this time.
const UNSETTLED_PAUSE: Nanos = 10 * MILLISECOND;
/// Pause after a failed attempt, doubled with each further one up to the maximum.
const BACKOFF_MIN: Nanos = 10 * MILLISECOND;
const BACKOFF_MAX: Nanos = 500 * MILLISECOND;
/// Sockets kept until the server has closed its end.
const DEFERRED_CLOSE_MAX: usize = 4096;

/// Time of the next attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redial {
    Now,
    AfterBackoff,
}

/// Outcome of an attempt to connect.
pub(super) enum Dialed {
    Connected,
    /// The kernel will report the outcome.
    Pending,
    /// The listener's queue is full; tried again soon.
    Postponed,
    Failed(ErrorClass),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No socket; waits to be opened.
    #[default]
    Closed,
    /// No socket; failed, and tries again later.
    BackingOff {
        until: Nanos,
    },
    Connecting {
        since: Nanos,
    },
    /// There is a connection, but no TLS on it yet.
    Handshaking {
        since: Nanos,
    },
    Open,
}

/// Stage of one slot.
#[derive(Debug, Default)]
pub(super) struct DialState {
    stage: Stage,
    /// Beginning of the current attempt, refusals by a full queue included.
    since: Option<Nanos>,
    /// Number of connections in a row that came to nothing.
    failures: u32,
    /// The server has answered on this socket, so it no longer sits in the listener's queue.
    is_settled: bool,
    /// A connection has been open in this slot, now or before.
    was_opened: bool,
    /// A failed attempt has been counted as a failed request.
    was_charged: bool,
}

impl DialState {
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    #[inline]
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.stage, Stage::Connecting { .. })
    }

    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self.stage, Stage::Handshaking { .. })
    }

    pub(super) fn was_opened(&self) -> bool {
        self.was_opened
    }

    /// Returns true if no connection was ever open here, and nothing that was counted says so.
    pub(super) fn is_missing(&self) -> bool {
        !self.was_opened && !self.was_charged
    }

    /// Returns true if the server has answered on this connection.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Takes note that a failed attempt is counted as a failed request.
    pub(super) fn charge(&mut self) {
        self.was_charged = true;
    }

    /// Returns true while there is a socket that is not open yet.
    pub(super) fn is_opening(&self) -> bool {
        self.is_connecting() || self.is_handshaking()
    }

    /// Returns true if something may arrive on the socket.
    #[inline]
    pub(super) fn can_be_read(&self) -> bool {
        self.is_open() || self.is_handshaking()
    }
}

/// Connections of one thread that are still to be opened for the first time, evenly over some time.
#[derive(Debug)]
struct Ramp {
    origin: Nanos,
    length: Nanos,
    /// The next one, and the number of all.
    slot: usize,
    count: usize,
    thread: usize,
    threads: usize,
}

impl Ramp {
    /// Returns when the next connection is to be opened.
    fn next(&self) -> Nanos {
        if self.slot == self.count {
            return Nanos::MAX;
        }
        // The threads alternate, so that together they open connections evenly.
        let place = self.slot * self.threads + self.thread;
        self.origin.saturating_add(begin_of(self.length, place, self.count * self.threads))
    }
}

/// Opens the connections of one thread.
pub(super) struct Dialer<'a> {
    endpoint: &'a Endpoint,
    tls: Option<&'a Tls>,
    /// Addresses that connections come from, in turn, and the place of the next; empty leaves it to the kernel.
    sources: &'a [IpAddr],
    next_source: usize,
    is_fast_open: bool,
    is_linger_zero: bool,
    timeout: Nanos,
    ramp: Ramp,
    /// Slots to be opened, in order.
    queue: VecDeque<usize>,
    /// Number of sockets that the server has not yet answered on.
    unsettled: usize,
    /// Time from which connections may be opened again although too many are unsettled.
    next_batch: Nanos,
    /// Sockets that the server is about to close: kept so that TIME_WAIT falls on its side.
    deferred_close: VecDeque<OwnedFd>,
}

impl<'a> Dialer<'a> {
    /// Makes a dialer for the `count` connections of `thread`.
    pub(super) fn new(thread: &Thread<'a>, count: usize) -> Self {
        let Thread { endpoint, load, index, threads, .. } = *thread;
        let Load { sources, is_fast_open, is_linger_zero, .. } = load;
        Self {
            endpoint,
            tls: load.tls.as_ref(),
            sources,
            next_source: index % sources.len().max(1),
            is_fast_open: *is_fast_open,
            is_linger_zero: *is_linger_zero,
            timeout: clock::nanos(load.timeouts.connect),
            ramp: Ramp { origin: 0, length: clock::nanos(load.ramp), slot: 0, count, thread: index, threads },
            queue: VecDeque::with_capacity(count),
            unsettled: 0,
            next_batch: 0,
            deferred_close: VecDeque::new(),
        }
    }

    /// Sets the beginning of the ramp.
    pub(super) fn start(&mut self, origin: Nanos) {
        self.ramp.origin = origin;
    }

    /// Returns a slot that is to be opened for the first time by `now`.
    pub(super) fn next_of_ramp(&mut self, now: Nanos) -> Option<usize> {
        let slot = self.ramp.slot;
        (self.ramp.next() <= now).then(|| {
            self.ramp.slot += 1;
            slot
        })
    }

    pub(super) fn enqueue(&mut self, slot: usize) {
        self.queue.push_back(slot);
    }

    pub(super) fn first_in_queue(&self) -> Option<usize> {
        self.queue.front().copied()
    }

    pub(super) fn dequeue(&mut self) {
        self.queue.pop_front();
    }

    /// Returns when something is to be done next; `can_open` is false if no more connections are needed.
    pub(super) fn next_wake(&self, now: Nanos, can_open: impl FnOnce() -> bool) -> Nanos {
        let ramp = self.ramp.next();
        if self.queue.is_empty() || !can_open() { ramp } else { ramp.min(self.next_open(now)) }
    }

    /// Returns when the next connection may be opened.
    fn next_open(&self, now: Nanos) -> Nanos {
        if self.unsettled < UNSETTLED_MAX { now } else { self.next_batch }
    }

    /// Begins a batch that a listener's queue can take. Returns its size.
    pub(super) fn begin_batch(&mut self, now: Nanos) -> usize {
        if self.queue.is_empty() || now < self.next_open(now) {
            return 0;
        }
        let free = UNSETTLED_MAX.saturating_sub(self.unsettled);
        self.next_batch = now + UNSETTLED_PAUSE;
        self.queue.len().min(if free == 0 { UNSETTLED_MAX } else { free })
    }

    /// Begins to connect.
    pub(super) fn open(&mut self, dial: &mut DialState, link: &mut Link, kernel: &mut Kernel, now: Nanos) -> Dialed {
        let since = *dial.since.get_or_insert(now);
        let options = ConnectOptions {
            source: self.next_source(),
            is_fast_open: self.is_fast_open,
            is_linger_zero: self.is_linger_zero,
        };
        let mut attempt = self.endpoint.connect(options);
        if matches!(attempt, Err(Errno::MFILE)) && !self.deferred_close.is_empty() {
            // Those were only kept out of courtesy.
            kernel.close(self.deferred_close.drain(..));
            kernel.close_now();
            attempt = self.endpoint.connect(options);
        }
        match attempt {
            Ok(Attempt::Connected(socket)) => self.install(dial, link, socket, Dialed::Connected, kernel, now),
            Ok(Attempt::Pending(socket)) => self.install(dial, link, socket, Dialed::Pending, kernel, now),
            Ok(Attempt::QueueFull) if now - since < self.timeout => {
                dial.stage = Stage::BackingOff { until: now + MILLISECOND };
                Dialed::Postponed
            }
            Ok(Attempt::QueueFull) => Dialed::Failed(ErrorClass::ConnectTimeout),
            Err(error) => Dialed::Failed(ErrorClass::from_connect_error(error)),
        }
    }

    /// Returns where the next connection comes from.
    fn next_source(&mut self) -> Option<IpAddr> {
        let source = *self.sources.get(self.next_source)?;
        self.next_source = (self.next_source + 1) % self.sources.len();
        Some(source)
    }

    fn install(
        &mut self,
        dial: &mut DialState,
        link: &mut Link,
        socket: OwnedFd,
        dialed: Dialed,
        kernel: &mut Kernel,
        now: Nanos,
    ) -> Dialed {
        dial.stage = Stage::Connecting { since: now };
        link.open(socket);
        self.unsettled += 1;
        match kernel.watch(link, matches!(dialed, Dialed::Pending)) {
            Ok(()) => dialed,
            Err(error) => Dialed::Failed(ErrorClass::from_connect_error(error)),
        }
    }

    /// Reads the outcome of a pending attempt, whose socket has reported something.
    pub(super) fn finish(link: &mut Link, kernel: &mut Kernel) -> Dialed {
        match link.attempt() {
            None => Dialed::Pending,
            Some(outcome) => match outcome.and_then(|()| kernel.watch_connected(link)) {
                Ok(()) => Dialed::Connected,
                Err(error) => Dialed::Failed(ErrorClass::from_connect_error(error)),
            },
        }
    }

    /// Begins a handshake on a socket that is connected. Returns false if there is none to make.
    pub(super) fn begin_handshake(
        &self,
        dial: &mut DialState,
        link: &mut Link,
        now: Nanos,
    ) -> Result<bool, rustls::Error> {
        let Some(tls) = self.tls else { return Ok(false) };
        link.begin_tls(tls.session(now)?);
        dial.stage = Stage::Handshaking { since: dial.since.unwrap_or(now) };
        Ok(true)
    }

    /// Takes note that requests may be sent. Returns when the attempt began.
    pub(super) fn opened(dial: &mut DialState) -> Option<Nanos> {
        dial.stage = Stage::Open;
        dial.was_opened = true;
        dial.since.take()
    }

    /// Takes note of a reply that makes sense.
    #[inline]
    pub(super) fn settle(&mut self, dial: &mut DialState) {
        if !dial.is_settled {
            dial.is_settled = true;
            dial.failures = 0;
            self.unsettled -= 1;
        }
    }

    /// Takes note of an attempt or a connection that came to nothing.
    pub(super) fn fail(dial: &mut DialState) {
        dial.failures += 1;
        dial.since = None;
    }

    /// Takes note that the server has closed the connection. Returns when to connect again: one that closes without
    /// ever answering would otherwise be dialled as fast as the kernel can.
    pub(super) fn closed_by_server(dial: &mut DialState) -> Redial {
        if dial.is_settled {
            return Redial::Now;
        }
        dial.failures += 1;
        Redial::AfterBackoff
    }

    /// Empties the slot, which has a socket or not.
    pub(super) fn release(&mut self, dial: &mut DialState, has_socket: bool, redial: Redial, now: Nanos) {
        if has_socket && !dial.is_settled {
            self.unsettled -= 1;
        }
        dial.is_settled = false;
        dial.stage = match redial {
            Redial::Now => Stage::Closed,
            Redial::AfterBackoff => {
                let backoff = BACKOFF_MIN << dial.failures.saturating_sub(1).min(10);
                Stage::BackingOff { until: now + backoff.min(BACKOFF_MAX) }
            }
        };
    }

    /// Keeps a socket that the server is about to close. The side that closes first keeps the port for a minute, and
    /// that should be the server.
    pub(super) fn defer_close(&mut self, socket: OwnedFd, kernel: &mut Kernel) {
        if self.deferred_close.len() < DEFERRED_CLOSE_MAX {
            self.deferred_close.push_back(socket);
        } else {
            kernel.close([socket]);
        }
    }

    /// Closes what was kept by [`Self::defer_close`] since the last call.
    pub(super) fn close_deferred(&mut self, kernel: &mut Kernel) {
        kernel.close(self.deferred_close.drain(..));
    }

    /// Ends a pause that is over. Returns true if the slot may be opened again.
    pub(super) fn end_backoff(dial: &mut DialState, now: Nanos) -> bool {
        let is_over = matches!(dial.stage, Stage::BackingOff { until } if until <= now);
        if is_over {
            dial.stage = Stage::Closed;
        }
        is_over
    }

    /// Returns true if the attempt has taken too long.
    pub(super) fn is_overdue(&self, dial: &DialState, now: Nanos) -> bool {
        matches!(dial.stage, Stage::Connecting { since } | Stage::Handshaking { since }
            if now.saturating_sub(since) >= self.timeout)
    }
}
