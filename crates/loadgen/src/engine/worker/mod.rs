//! One thread of the engine.
//!
//! `mod.rs` is the loop and the bookkeeping, `kernel.rs` where events come from, `io.rs` what happens on an open
//! connection, `gather.rs` how the requests of a turn leave together, `tls.rs` what TLS adds to that, `dial.rs` how
//! connections are opened, given up and opened again, and when they pause, `schedule.rs` what an open loop and a ramp are
//! waiting for, `record.rs` what a log of requests is told.

mod connection;
mod dialer;
mod exchange;
mod issuer;
mod kernel;
mod recorder;
mod tls;

use std::{collections::VecDeque, net::IpAddr, num::NonZeroU64, sync::mpsc::Sender};

use rustix::fd::OwnedFd;

pub(super) use self::recorder::merge_logs;
use self::{
    connection::{Connection, Pending, Stamp},
    issuer::Ramp,
    kernel::{Gathering, Kernel},
};
use super::{
    Endpoint, EngineError, Load, Reuse,
    backlog::Backlog,
    cpu::{CpuTime, CpuWindow},
    pace::{Limit, Pacing, Schedule, first_of, share},
    pause::Pauses,
    tally::Tally,
    timeline::{Slice, Slicer},
    tls::Tls,
    window::{LiveStats, Window},
};
use crate::{
    clock::{self, MICROSECOND, MILLISECOND, Nanos, SECOND},
    error::ErrorClass,
    protocol::{Batch as _, ClientProtocol, Replies, Verdict},
    request_log::{Heard, Recorder},
};

/// One `recv` asks for this much.
const READ_BYTES: usize = 128 << 10;
/// Timeouts are looked for this often at most.
const TICK_MIN: Nanos = MILLISECOND;
const TICK_MAX: Nanos = 50 * MILLISECOND;
/// A tick that comes so much later than it should says that the thread was kept from running.
const HELD_UP: Nanos = 50 * MILLISECOND;
/// Without any reply for this long, and with failures only, a run is given up.
const PATIENCE_MIN: Nanos = 10 * SECOND;
/// A sleep that is to end exactly ends this much early, and the rest is spent looking at the clock.
const SPIN: Nanos = 50 * MICROSECOND;

pub(super) struct Worker<'a, P: ClientProtocol> {
    endpoint: &'a Endpoint,
    window: &'a Window,
    live: &'a LiveStats,
    thread: usize,
    /// Requests in a batch, and batches in flight on a connection.
    batch: u64,
    batches: usize,
    reuse: Reuse,
    timeout: Nanos,
    connect_timeout: Nanos,
    first_byte_timeout: Nanos,
    /// How often to look for what has taken too long.
    tick: Nanos,
    /// Look at the clock for this long rather than sleep.
    spin: Nanos,
    tls: Option<&'a Tls>,
    /// Where connections come from, in turn, and which is next; empty leaves it to the kernel.
    sources: &'a [IpAddr],
    source: usize,
    is_fast_open: bool,
    is_linger_zero: bool,

    protocol: P,
    kernel: Kernel,
    /// Of readiness: who has something to send when the turn is over.
    gathering: Gathering,
    connections: Vec<Connection<P>>,
    buffer: Box<[u8]>,
    /// Requests on their way into one `send`.
    burst: Vec<u8>,
    /// The same in TLS records, and what has been taken out of such.
    sealed: Vec<u8>,
    plain: Vec<u8>,
    tally: Tally,
    slicer: Option<Slicer>,
    recorder: Option<Box<Recorder>>,

    /// Open loop only.
    schedule: Option<Schedule>,
    /// A request was due and no connection free.
    is_starved: bool,
    /// When a connection came free after that.
    free_since: Nanos,
    backlog: Backlog,
    /// Connections that are not to be opened yet.
    ramp: Ramp,
    /// Of connections that pause.
    pauses: Option<Pauses>,
    /// Requests that may still be sent; `None` if time is the limit.
    quota: Option<u64>,
    /// Requests in flight, or waiting to be sent again.
    outstanding: u64,

    /// Connections to be opened.
    to_open: VecDeque<usize>,
    /// Connections that take another request (open loop).
    with_room: VecDeque<usize>,
    /// Connections with something left to read that the kernel will not mention again: slot and generation.
    again: Vec<(usize, u32)>,
    /// Sockets that the server is about to close: slot-less, kept so that the lingering state falls on its side.
    parting: VecDeque<OwnedFd>,
    /// Sockets to be closed once the kernel has nothing to do with them.
    closing: Vec<OwnedFd>,
    /// Connections that the server has not yet answered on.
    unsettled: usize,
    next_dial: Nanos,
    next_tick: Nanos,
    /// The last tick was put off for the sake of replies that had arrived meanwhile.
    has_caught_up: bool,
    last_reply: Nanos,
    failures_in_row: usize,
    was_abandoned: bool,
    cpu: CpuWindow,
}

/// What a thread hands back.
pub(super) struct WorkerReport<P> {
    pub(super) protocol: P,
    pub(super) tally: Tally,
    /// If [`Load::request_log`] asked for it, and the number of the thread's first connection.
    pub(super) recorder: Option<Box<Recorder>>,
    pub(super) first_connection: u64,
    /// Inside the window.
    pub(super) cpu: CpuTime,
    pub(super) was_abandoned: bool,
}

impl<'a, P: ClientProtocol> Worker<'a, P> {
    /// Everything that can fail or takes time, before the clock starts.
    pub(super) fn prepare(
        place: &Place<'a>,
        mut protocol: P,
        slices: Sender<Box<Slice>>,
    ) -> Result<PreparedWorker<'a, P>, EngineError> {
        let Place { endpoint, load, window, live, thread, threads } = *place;
        load.pin.pin_to_one(thread).map_err(|why| EngineError::Pin { cpus: load.pin.clone(), why })?;
        // Best effort: the default slack of 50 µs would show in an open loop's latency.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let kernel = Kernel::new(load.engine)?;
        let count = usize::try_from(share(load.connections as u64, thread, threads)).unwrap_or(usize::MAX);
        let batches = (load.pipeline / load.batch).max(1);
        let turns = load.requestor.map(|requestor| requestor.reps);
        let connections = (0..count).map(|_| Connection::new(protocol.open(), batches, turns)).collect();
        let quota = match (load.limit, turns) {
            (Limit::Requests(_), Some(turns)) => Some(turns.saturating_mul(count as u64)),
            (Limit::Requests(requests), None) => Some(share(requests, thread, threads)),
            (Limit::Duration(_), _) => None,
        };
        let pauses =
            load.requestor.map(|requestor| Pauses::new(requestor.pause, load.seed, load.connections, thread, threads));
        let worker = Self {
            endpoint,
            window,
            live,
            thread,
            batch: load.batch as u64,
            batches,
            reuse: load.reuse,
            timeout: clock::nanos(load.timeouts.total),
            connect_timeout: clock::nanos(load.timeouts.connect),
            first_byte_timeout: load.timeouts.first_byte.map_or(Nanos::MAX, clock::nanos),
            tick: (clock::nanos(load.timeouts.shortest()) / 8).clamp(TICK_MIN, TICK_MAX),
            spin: if load.spin { SPIN } else { 0 },
            tls: load.tls.as_ref(),
            sources: &load.sources,
            source: thread % load.sources.len().max(1),
            is_fast_open: load.is_fast_open,
            is_linger_zero: load.is_linger_zero,
            protocol,
            kernel,
            gathering: Gathering::default(),
            connections,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            burst: Vec::new(),
            sealed: Vec::new(),
            plain: Vec::new(),
            tally: Tally::new(),
            slicer: load.timeline.map(|width| Slicer::new(clock::nanos(width), slices).after(load.longest_warm_up())),
            recorder: load.request_log.map(|size| Box::new(Recorder::new(size, load.seed, thread))),
            schedule: None,
            is_starved: false,
            free_since: 0,
            backlog: Backlog::default(),
            ramp: Ramp::default(),
            pauses,
            quota,
            outstanding: 0,
            to_open: VecDeque::with_capacity(count),
            with_room: VecDeque::with_capacity(count),
            again: Vec::new(),
            parting: VecDeque::new(),
            closing: Vec::new(),
            unsettled: 0,
            next_dial: 0,
            next_tick: 0,
            has_caught_up: false,
            last_reply: 0,
            failures_in_row: 0,
            was_abandoned: false,
            cpu: CpuWindow::default(),
        };
        Ok(PreparedWorker { worker, load, threads })
    }

    /// Runs until the limit is reached and nothing is outstanding.
    pub(super) fn run(prepared: PreparedWorker<'a, P>) -> Result<WorkerReport<P>, EngineError> {
        let PreparedWorker { mut worker, load, threads } = prepared;
        let (origin, ramp) = (worker.window.origin(), clock::nanos(load.ramp));
        if let Pacing::Open { rate, arrivals } = load.pacing {
            worker.schedule = Some(Schedule::new(arrivals, rate, ramp, origin, load.seed, worker.thread, threads));
        }
        worker.ramp = Ramp::new(origin, ramp, worker.connections.len(), worker.thread, threads);
        worker.last_reply = origin;
        worker.next_tick = origin;
        worker.turn_until_finished()?;
        worker.cpu.note(worker.window, Nanos::MAX);
        if let Some(slicer) = &mut worker.slicer {
            slicer.flush();
        }
        let Self { protocol, tally, recorder, cpu, was_abandoned, thread, .. } = worker;
        let first_connection = first_of(load.connections as u64, thread, threads);
        Ok(WorkerReport { protocol, tally, recorder, first_connection, cpu: cpu.used(), was_abandoned })
    }

    fn turn_until_finished(&mut self) -> Result<(), EngineError> {
        loop {
            let mut now = clock::now();
            self.cpu.note(self.window, now);
            if now >= self.next_tick && !self.was_held_up(now) {
                self.tick(now);
            }
            if self.is_finished(now) {
                return Ok(());
            }
            self.climb(now);
            self.end_pauses(now);
            if self.dials_on_schedule() {
                self.dispatch(now);
            }
            self.dial(now);
            self.read_again();
            if self.schedule.is_some() && self.reuse == Reuse::Keep {
                now = clock::now();
                self.dispatch(now);
            }
            self.wait(self.rest_for(now))?;
            self.live.set(self.thread, self.tally.ok, self.tally.failed());
        }
    }

    /// How long nothing will happen by itself.
    fn rest_for(&self, now: Nanos) -> Nanos {
        if !self.again.is_empty() || self.has_events() {
            return 0;
        }
        let mut until = self.next_tick.min(self.ramp.next());
        if !self.to_open.is_empty() && !self.enough_is_being_opened() {
            until = until.min(self.next_dial_at(now));
        }
        if let Some(end) = self.pauses.as_ref().and_then(Pauses::next_end) {
            until = until.min(end);
        }
        if let Some(schedule) = &self.schedule
            && !self.with_room.is_empty()
            && self.is_issuing(now)
        {
            until = until.min(schedule.due().saturating_sub(self.spin));
        }
        until.saturating_sub(now)
    }

    fn is_finished(&self, now: Nanos) -> bool {
        self.window.is_stopped() || (self.outstanding == 0 && !self.is_issuing(now))
    }

    /// Whether new requests will still be sent.
    fn is_issuing(&self, now: Nanos) -> bool {
        // A schedule ends with the last request that falls due before the end, even if that one has to wait.
        let next = self.schedule.as_ref().map_or(now, Schedule::due);
        !self.was_abandoned
            && !self.window.is_stopped()
            && match self.quota {
                Some(quota) => quota > 0,
                None => !self.window.has_ended(next),
            }
    }

    /// How many of `most` more requests may be sent, and whether they are counted ones.
    fn leave(&self, due: Nanos, most: u64) -> Option<(u64, bool)> {
        let has_started = self.window.has_started(due);
        if self.was_abandoned || self.window.has_ended(due) {
            return None;
        }
        let allowed = self.quota.filter(|_| has_started).map_or(most, |quota| quota.min(most));
        (allowed > 0).then_some((allowed, has_started))
    }

    /// `count` requests are on their way, or have failed in place of being sent.
    fn took_leave(&mut self, count: u64, is_counted: bool) {
        self.outstanding += count;
        if let (Some(quota), true) = (&mut self.quota, is_counted) {
            *quota -= count;
        }
    }

    /// Chooses what the connection sends next.
    #[inline]
    fn next_pending(&mut self, slot: usize, due: Nanos, sent: Nanos) -> Option<Pending<P::Request>> {
        let turns_left = self.connections[slot].turns_left;
        let (most, is_counted) = self.leave(due, self.batch.min(turns_left))?;
        let request = self.protocol.next(&mut self.connections[slot].decoder, most);
        self.took_leave(request.left(), is_counted);
        self.connections[slot].turns_left = turns_left - request.left();
        Some(Pending { request, stamp: Stamp { due, sent, is_counted } })
    }

    /// A request that failed before there was anything to send it on.
    fn fail_unsent(&mut self, slot: Option<usize>, due: Nanos, class: ErrorClass, now: Nanos) -> bool {
        let Some((_, is_counted)) = self.leave(due, 1) else { return false };
        self.took_leave(1, is_counted);
        if self.settle(Stamp { due, sent: now, is_counted }, Replies::ONE, Err(class), now) {
            self.record_unsent(slot, Some(due), class, now);
        }
        true
    }

    /// The one place where requests get their verdict. Returns whether it counts.
    #[inline]
    fn settle(&mut self, stamp: Stamp, replies: Replies, verdict: Verdict, now: Nanos) -> bool {
        let Replies { count, hits, misses } = replies;
        self.outstanding -= count;
        let begin = if self.schedule.is_some() { stamp.due } else { stamp.sent };
        self.live.settled(self.thread, verdict, count, now.saturating_sub(begin));
        let is_by_issue = self.schedule.is_some() || self.quota.is_some();
        let is_counted = match verdict {
            _ if is_by_issue => stamp.is_counted,
            Ok(()) => self.window.contains(now),
            Err(_) => self.window.has_started(now),
        };
        match verdict {
            _ if !is_counted => self.note_uncounted(stamp, verdict, count, now),
            Ok(()) => {
                self.tally.ok += count;
                self.tally.hits += hits;
                self.tally.misses += misses;
                self.tally.service.saturating_record_n(now.saturating_sub(stamp.sent), count);
                if self.schedule.is_some() {
                    self.tally.response.saturating_record_n(now.saturating_sub(stamp.due), count);
                }
                self.note(stamp, verdict, count, now);
            }
            Err(class) => {
                self.tally.fail(class, count);
                self.note(stamp, verdict, count, now);
            }
        }
        is_counted
    }

    /// Fails all that is left of a batch.
    fn fail(&mut self, slot: usize, pending: Pending<P::Request>, class: ErrorClass, now: Nanos) {
        let replies = Replies { count: pending.request.left(), ..Replies::default() };
        self.conclude(slot, pending, replies, Err(class), Heard::default(), now);
    }

    /// A failure that belongs to no request.
    fn fail_unasked(&mut self, slot: usize, class: ErrorClass, now: Nanos) {
        if self.window.has_started(now) {
            self.tally.fail(class, 1);
            self.note(Stamp { due: now, sent: now, is_counted: true }, Err(class), 1, now);
            self.record_unsent(Some(slot), None, class, now);
        }
    }

    /// Whether this thread got no CPU for so long that replies may lie unread: it has a look at them before it blames the
    /// server for being late. Never twice in a row, or a thread that is always late would find nothing late.
    #[cold]
    fn was_held_up(&mut self, now: Nanos) -> bool {
        self.has_caught_up = !self.has_caught_up && now - self.next_tick > HELD_UP;
        if self.has_caught_up {
            self.next_tick = now + self.tick;
        }
        self.has_caught_up
    }

    /// Looks for what has taken too long.
    fn tick(&mut self, now: Nanos) {
        self.next_tick = now + self.tick;
        self.closing.extend(self.parting.drain(..));
        for slot in 0..self.connections.len() {
            self.check_deadlines(slot, now);
        }
        let patience = PATIENCE_MIN.max(self.timeout.saturating_mul(3));
        if self.failures_in_row > 3 * self.connections.len() && now - self.last_reply > patience && !self.was_abandoned
        {
            self.was_abandoned = true;
            for slot in 0..self.connections.len() {
                while let Some(pending) = self.connections[slot].resend.pop_front() {
                    self.fail(slot, pending, ErrorClass::ConnectFailed, now);
                }
            }
        }
    }
}

/// Where a worker stands: what all threads share, and which of them it is.
pub(super) struct Place<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) load: &'a Load,
    pub(super) window: &'a Window,
    pub(super) live: &'a LiveStats,
    pub(super) thread: usize,
    pub(super) threads: usize,
}

/// A worker that is ready to start.
pub(super) struct PreparedWorker<'a, P: ClientProtocol> {
    worker: Worker<'a, P>,
    load: &'a Load,
    threads: usize,
}
