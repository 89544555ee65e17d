//! Schedule and quota: which requests are sent, when, and on which connections.

use std::sync::Arc;

use super::{
    super::{
        backlog::Backlog,
        load::Reuse,
        pace::{Limit, Pacing, Schedule, share},
        pause::Pauses,
        skew::WithRoom,
        window::Window,
    },
    connection::Connection,
    pipeline::{Delay, Pending, Pipeline, Stamp},
    thread::Thread,
};
use crate::{
    clock::{self, MICROSECOND, Nanos, SECOND},
    protocol::{Batch, ClientProtocol},
};

/// Without any reply for this long, and with failures only, a run is given up.
const PATIENCE_MIN: Nanos = 10 * SECOND;
/// A sleep that is to end exactly ends this much early, and the rest is spent looking at the clock.
const SPIN: Nanos = 200 * MICROSECOND;

/// Decides which requests one thread sends, and when.
pub(super) struct Issuer<'a> {
    window: &'a Window,
    reuse: Reuse,
    /// Requests in a batch, and batches in flight on a connection.
    batch: u64,
    batches: usize,
    timeout: Nanos,
    /// Time for which the clock is watched before a request falls due.
    spin: Nanos,
    /// Open loop only.
    schedule: Option<Schedule>,
    /// Connections that take another request (open loop).
    with_room: WithRoom,
    /// A request was due and no connection free.
    is_starved: bool,
    /// Time at which a connection came free after that.
    free_since: Nanos,
    backlog: Backlog,
    /// Pauses of requestors.
    pauses: Option<Pauses>,
    /// Requests that may still be sent; `None` if time is the limit.
    quota: Option<u64>,
    /// Between two turns: nothing is sent.
    is_held: bool,
    /// Requests in flight, or waiting to be sent again.
    outstanding: u64,
    last_reply: Nanos,
    failures_in_row: usize,
    was_abandoned: bool,
}

/// Request that has fallen due.
#[derive(Clone, Copy)]
pub(super) struct DueRequest {
    pub(super) due: Nanos,
    /// The connection to send it on; `None` if it has waited for one as long as anything may take.
    pub(super) slot: Option<usize>,
}

impl<'a> Issuer<'a> {
    pub(super) fn new(thread: &Thread<'a>) -> Self {
        let Thread { load, window, index, threads, .. } = *thread;
        let connections = thread.connections();
        let quota = match (load.limit, load.requestor) {
            (Limit::Requests(_), Some(requestor)) => Some(requestor.reps.saturating_mul(connections as u64)),
            (Limit::Requests(requests), None) => Some(share(requests, index, threads)),
            (Limit::Duration(_), _) => None,
        };
        let pauses = |pause| Pauses::new(pause, load.seed, load.connections, index, threads);
        Self {
            window,
            reuse: load.reuse,
            batch: load.batch as u64,
            batches: thread.batches(),
            timeout: clock::nanos(load.timeouts.total),
            spin: if load.spin { SPIN } else { 0 },
            schedule: None,
            with_room: WithRoom::new(connections, load.skew, load.seed, index),
            is_starved: false,
            free_since: 0,
            backlog: Backlog::default(),
            pauses: load.requestor.map(|requestor| pauses(requestor.pause)),
            quota,
            is_held: false,
            outstanding: 0,
            last_reply: 0,
            failures_in_row: 0,
            was_abandoned: false,
        }
    }

    /// Sets the beginning of the load.
    pub(super) fn start(&mut self, thread: &Thread<'_>, origin: Nanos) {
        let Thread { load, index, threads, .. } = *thread;
        if let Pacing::Open { rate, arrivals } = load.pacing {
            let ramp = clock::nanos(load.ramp);
            let schedule = Schedule::new(arrivals, rate, ramp, origin, load.seed, index, threads);
            self.schedule = Some(match &load.timetable {
                Some(timetable) => schedule.following(Arc::clone(timetable), clock::nanos(load.warmup)),
                None => schedule,
            });
        }
        self.last_reply = origin;
    }

    #[inline]
    pub(super) fn is_open_loop(&self) -> bool {
        self.schedule.is_some()
    }

    /// Returns true if a request that falls due opens a connection of its own.
    pub(super) fn dials_on_schedule(&self) -> bool {
        self.reuse == Reuse::Once && self.is_open_loop()
    }

    /// Returns true if requests that fall due are sent on connections that are open already.
    pub(super) fn sends_on_schedule(&self) -> bool {
        self.reuse == Reuse::Keep && self.is_open_loop()
    }

    #[inline]
    pub(super) fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Returns true if everything is sent and settled, or the run was stopped.
    pub(super) fn is_finished(&self, now: Nanos) -> bool {
        self.window.is_stopped() || (self.outstanding == 0 && !self.is_issuing(now))
    }

    /// Returns true if new requests will still be sent.
    pub(super) fn is_issuing(&self, now: Nanos) -> bool {
        // A schedule ends with the last request that falls due before the end, even if that one has to wait.
        let next = self.due(now);
        !self.was_abandoned
            && !self.window.is_stopped()
            && match self.quota {
                Some(quota) => quota > 0,
                None => !self.window.has_ended(next),
            }
    }

    /// Returns when the next request falls due: in a closed loop always now.
    pub(super) fn due(&self, now: Nanos) -> Nanos {
        self.schedule.as_ref().map_or(now, Schedule::due)
    }

    /// Returns when something is to be done next.
    pub(super) fn next_wake(&self, now: Nanos) -> Nanos {
        let pause = self.pauses.as_ref().and_then(Pauses::next_end).unwrap_or(Nanos::MAX);
        match &self.schedule {
            Some(schedule) if !self.with_room.is_empty() && self.is_issuing(now) => {
                pause.min(schedule.due().saturating_sub(self.spin))
            }
            _ => pause,
        }
    }

    /// Returns the number of connections that the rest of the run needs, where each batch has one of its own and
    /// nothing but the number of requests limits the run; `None` if there is no such number.
    pub(super) fn connections_needed(&self) -> Option<u64> {
        self.quota.filter(|_| self.reuse == Reuse::Once && !self.is_open_loop()).map(|quota| quota.div_ceil(self.batch))
    }

    /// Returns how many of `most` more requests may be sent, and whether they are counted.
    #[inline]
    fn take_quota(&self, due: Nanos, most: u64) -> Option<(u64, bool)> {
        let has_started = self.window.has_started(due);
        if self.was_abandoned || self.is_held || self.window.has_ended(due) {
            return None;
        }
        let allowed = self.quota.filter(|_| has_started).map_or(most, |quota| quota.min(most));
        (allowed > 0).then_some((allowed, has_started))
    }

    /// Takes note that `count` requests are on their way, or have failed in place of being sent.
    #[inline]
    fn record_issued(&mut self, count: u64, is_counted: bool) {
        self.outstanding += count;
        if let (Some(quota), true) = (&mut self.quota, is_counted) {
            *quota -= count;
        }
    }

    /// Holds the requests back, or lets them go.
    pub(super) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn has_outstanding(&self) -> bool {
        self.outstanding > 0
    }

    /// Takes note that `count` requests are settled.
    #[inline]
    pub(super) fn record_settled(&mut self, count: u64) {
        self.outstanding -= count;
    }

    /// Chooses the batch that the connection sends next; `None` if it is to send no more.
    #[inline]
    pub(super) fn next_batch<P: ClientProtocol>(
        &mut self,
        connection: &mut Connection<P>,
        protocol: &mut P,
        due: Nanos,
        sent: Nanos,
    ) -> Option<Pending<P::Request>> {
        let most = self.batch.min(connection.pipeline.sends_left());
        let (most, is_counted) = self.take_quota(due, most)?;
        let request = protocol.next(&mut connection.decoder, most);
        self.record_issued(request.left(), is_counted);
        connection.pipeline.use_reps(request.left());
        connection.pipeline.use_lifetime(request.left());
        Some(Pending { request, stamp: Stamp { due, sent, is_counted } })
    }

    /// Appends to `burst` what has to be sent again, and in a closed loop as much as fills the pipeline.
    #[inline]
    pub(super) fn fill<P: ClientProtocol>(
        &mut self,
        connection: &mut Connection<P>,
        protocol: &mut P,
        burst: &mut Vec<u8>,
        sent: Nanos,
        now: Nanos,
    ) {
        if P::MULTIPLEXED {
            protocol.flush(&mut connection.decoder, burst);
        }
        while connection.has_room(self.batches) {
            let next = match connection.pipeline.pop_resend() {
                None if self.is_open_loop() => None,
                None => self.next_batch(connection, protocol, now, sent),
                Some(again) => {
                    let request = protocol.renew(&mut connection.decoder, again.request);
                    connection.pipeline.use_lifetime(request.left());
                    Some(Pending { request, ..again })
                }
            };
            let Some(mut pending) = next else { break };
            pending.stamp.sent = sent;
            protocol.encode(pending.request, burst);
            connection.pipeline.push(pending);
        }
        if P::MULTIPLEXED {
            protocol.flush(&mut connection.decoder, burst);
        }
    }

    /// Issues a request that fails before there is anything to send it on. Returns its stamp; `None` if it was not to
    /// be sent anyway.
    pub(super) fn issue_unsent(&mut self, due: Nanos, now: Nanos) -> Option<Stamp> {
        let (_, is_counted) = self.take_quota(due, 1)?;
        self.record_issued(1, is_counted);
        Some(Stamp { due, sent: now, is_counted })
    }

    /// Returns the request that has fallen due, with a connection for it. `None` if nothing is due, or all connections
    /// are busy.
    pub(super) fn due_request<P: ClientProtocol>(
        &mut self,
        connections: &mut [Connection<P>],
        now: Nanos,
    ) -> Option<DueRequest> {
        let due = self.schedule.as_ref().map(Schedule::due).filter(|due| *due <= now)?;
        if !self.is_issuing(now) {
            return None;
        }
        if now - due >= self.timeout {
            return Some(DueRequest { due, slot: None });
        }
        let slot = self.take_connection_with_room(connections);
        self.is_starved |= slot.is_none();
        slot.map(|slot| DueRequest { due, slot: Some(slot) })
    }

    /// Goes on to the next request of the schedule.
    pub(super) fn advance(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
    }

    /// Returns the delay of a request that has found a connection and is sent `now`.
    #[inline]
    pub(super) fn delay(&mut self, due: Nanos, now: Nanos) -> Delay {
        if self.is_starved {
            (self.is_starved, self.free_since) = (false, now);
        }
        let backlog = self.backlog(due, due < self.free_since, now);
        Delay { lag: now.saturating_sub(due.max(self.free_since)), backlog }
    }

    /// Returns the number of requests that waited for a connection when this one fell due, which is sent `now` or has
    /// failed.
    #[inline]
    pub(super) fn backlog(&mut self, due: Nanos, has_waited: bool, now: Nanos) -> u64 {
        self.backlog.record_departure(due, has_waited, now)
    }

    /// Offers the connection to the schedule, if there is one and the connection has room.
    #[inline]
    pub(super) fn list_if_room<P: ClientProtocol>(&mut self, connection: &mut Connection<P>, slot: usize) {
        if self.is_open_loop() && connection.has_room(self.batches) {
            self.list(connection, slot);
        }
    }

    /// Offers the connection to the schedule.
    pub(super) fn list<P: ClientProtocol>(&mut self, connection: &mut Connection<P>, slot: usize) {
        if !connection.is_listed {
            connection.is_listed = true;
            self.with_room.push(slot);
        }
    }

    fn take_connection_with_room<P: ClientProtocol>(&mut self, connections: &mut [Connection<P>]) -> Option<usize> {
        while let Some(slot) = self.with_room.pop() {
            let connection = &mut connections[slot];
            connection.is_listed = false;
            let is_free = match self.reuse {
                Reuse::Keep => connection.has_room(self.batches),
                Reuse::Once => connection.dial.is_closed(),
            };
            if is_free {
                return Some(slot);
            }
        }
        None
    }

    /// Begins a pause, if the connection is a requestor's and has more to send.
    #[inline]
    pub(super) fn begin_pause<R: Batch>(&mut self, pipeline: &mut Pipeline<R>, slot: usize, now: Nanos) {
        if let Some(pauses) = &mut self.pauses
            && pipeline.reps_left() > 0
        {
            pipeline.set_pausing(pauses.begin(slot, now));
        }
    }

    /// Returns a slot whose pause is over.
    pub(super) fn next_pause_ended(&mut self, now: Nanos) -> Option<usize> {
        self.pauses.as_mut().and_then(|pauses| pauses.pop_ended(now))
    }

    /// Takes note of a reply that makes sense.
    #[inline]
    pub(super) fn note_reply(&mut self, now: Nanos) {
        self.last_reply = now;
        self.failures_in_row = 0;
    }

    /// Takes note of a connection that failed.
    pub(super) fn note_failure(&mut self) {
        self.failures_in_row += 1;
    }

    /// Returns true if there have been nothing but failures for long, on the whole on each of the `connections`, and the
    /// run has not been given up yet.
    pub(super) fn is_unresponsive(&self, connections: usize, now: Nanos) -> bool {
        let patience = PATIENCE_MIN.max(self.timeout.saturating_mul(3));
        !self.was_abandoned && self.failures_in_row > 3 * connections && now - self.last_reply > patience
    }

    /// Gives the run up: nothing more is sent.
    pub(super) fn abandon(&mut self) {
        self.was_abandoned = true;
    }

    /// Returns true if the window has been closed for as long as a request may take.
    pub(super) fn is_overdue(&self, now: Nanos) -> bool {
        now >= self.window.end().saturating_add(self.timeout)
    }

    pub(super) fn was_abandoned(&self) -> bool {
        self.was_abandoned
    }
}
