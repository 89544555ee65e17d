//! What falls due by the clock: requests of an open loop, and connections of a ramp.

use super::{
    super::pace::{Schedule, begin_of},
    Worker,
    connection::Stamp,
};
use crate::{
    clock::{self, Nanos},
    error::ErrorClass,
    protocol::{ClientProtocol, Verdict},
};

/// The connections of one thread that are still to be opened for the first time, evenly over some time.
#[derive(Debug, Default)]
pub(super) struct Ramp {
    origin: Nanos,
    length: Nanos,
    /// The next one, and how many there are.
    slot: usize,
    count: usize,
    thread: usize,
    threads: usize,
}

impl Ramp {
    pub(super) fn new(origin: Nanos, length: Nanos, count: usize, thread: usize, threads: usize) -> Self {
        Self { origin, length, slot: 0, count, thread, threads }
    }

    /// When the next connection is to be opened.
    pub(super) fn next(&self) -> Nanos {
        if self.slot == self.count {
            return Nanos::MAX;
        }
        // The threads take turns, so that together they climb evenly.
        let place = self.slot * self.threads + self.thread;
        self.origin.saturating_add(begin_of(self.length, place, self.count * self.threads))
    }
}

impl<P: ClientProtocol> Worker<'_, P> {
    /// Puts the connections in line whose time has come.
    pub(super) fn climb(&mut self, now: Nanos) {
        while self.ramp.next() <= now {
            self.line_up(self.ramp.slot);
            self.ramp.slot += 1;
        }
    }

    /// Sends what has fallen due, as far as connections have room.
    pub(super) fn dispatch(&mut self, now: Nanos) {
        let mut now = now;
        while let Some(due) = self.schedule.as_ref().map(Schedule::due)
            && due <= now
        {
            if !self.is_issuing(now) {
                return;
            }
            let is_late = now - due >= self.timeout;
            let slot = if is_late { None } else { self.take_connection_with_room() };
            if slot.is_none() && !is_late {
                self.is_starved = true;
                return;
            }
            match slot {
                Some(slot) => {
                    self.note_lag(due, now);
                    let Some(pending) = self.next_pending(slot, due, now) else { return };
                    self.send_one(slot, pending);
                }
                None => {
                    if !self.fail_unsent(None, due, ErrorClass::Timeout, now) {
                        return;
                    }
                    self.note_backlog(due, true, now);
                }
            }
            if let Some(schedule) = &mut self.schedule {
                schedule.advance();
            }
            now = clock::now();
        }
    }

    /// How late a request leaves although it has a connection. That it had to wait for one is the server's doing.
    #[inline]
    fn note_lag(&mut self, due: Nanos, now: Nanos) {
        if self.is_starved {
            (self.is_starved, self.free_since) = (false, now);
        }
        self.note_backlog(due, due < self.free_since, now);
        let lag = now.saturating_sub(due.max(self.free_since));
        if self.window.contains(due) {
            self.tally.lag.saturating_record(lag);
            if let Some(slicer) = &mut self.slicer {
                slicer.lag(self.window.elapsed(now), lag);
            }
        } else if let Some(slicer) = &mut self.slicer
            && !self.window.has_started(now)
        {
            slicer.warm_up_lag(self.window.since_origin(now), lag);
        }
    }

    /// How many requests waited for a connection when this one fell due, which leaves `now` or has failed.
    #[inline]
    pub(super) fn note_backlog(&mut self, due: Nanos, has_waited: bool, now: Nanos) {
        let waiting = self.backlog.left(due, has_waited, now);
        if self.window.contains(due) {
            self.tally.backlog.saturating_record(waiting);
        }
    }

    /// A verdict for the timeline.
    #[inline]
    pub(super) fn note(&mut self, stamp: Stamp, verdict: Verdict, count: u64, now: Nanos) {
        if let Some(slicer) = &mut self.slicer {
            let response = self.schedule.as_ref().map(|_| now.saturating_sub(stamp.due));
            slicer.settle(self.window.elapsed(now), verdict, count, now.saturating_sub(stamp.sent), response);
        }
    }

    /// A verdict that is not counted, for what the timeline has of the warm-up.
    pub(super) fn note_uncounted(&mut self, stamp: Stamp, verdict: Verdict, count: u64, now: Nanos) {
        if let Some(slicer) = &mut self.slicer
            && !self.window.has_started(now)
        {
            let response = self.schedule.as_ref().map(|_| now.saturating_sub(stamp.due));
            let service = now.saturating_sub(stamp.sent);
            slicer.warm_up(self.window.since_origin(now), verdict, count, service, response);
        }
    }
}
