//! Deadlines of a session.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{CloseMode, Phase, Session};
use crate::{Limits, Now, Protocol, Uptake, stall::StallCheck};

/// A connection quiet for so long gives its spare buffers back.
const TRIM_AFTER: Duration = Duration::from_secs(1);
/// While an answer is awaited, the clock of the stall is set back this many times per stall limit; so once it is given
/// the peer has nearly all of the limit to take it.
const STALL_PARTS: u32 = 8;
/// A connection that has reached its greatest age is closed without another reply once it is quiet for so long: a request
/// may be on its way.
pub const RETIRE_AFTER: Duration = Duration::from_secs(1);
/// Spare buffers not worth an alarm.
const TRIM_MIN: usize = 512;

impl<P: Protocol> Session<P> {
    /// Notes that bytes of output have been sent.
    #[inline]
    pub fn sent(&mut self, now: Now) {
        self.quiet_since = now.instant;
    }

    /// Tells a protocol that wants to know ([`Protocol::OBSERVES_OUTPUT`]) that output has been sent. Drivers call it
    /// after a write, and after they have given back what they took.
    #[inline]
    pub fn report_sent(&mut self, protocol: &P, clock: fn() -> Now) {
        if P::OBSERVES_OUTPUT && !self.outbox.has_in_flight() {
            protocol.on_sent(&mut self.conn, &self.outbox, clock);
        }
    }

    /// Returns the time at which [`Session::tick`] has something to do. It may move later without notice; drivers look
    /// again when it comes.
    #[inline]
    pub fn deadline(&self, protocol: &P) -> Option<Instant> {
        match self.phase {
            Phase::Lingering { until, .. } => return Some(until),
            Phase::Greeting => return self.proxied.as_ref()?.until,
            Phase::Open | Phase::Closing(_) | Phase::Aborted => {}
        }
        if !self.outbox.is_idle() {
            let limit = self.limits.stall_max;
            let stall = match self.is_blocked_on_reply() {
                true => self.quiet_since + limit / STALL_PARTS,
                false => StallCheck::next(self.stall.as_deref(), self.heard_at, limit),
            };
            return Some(self.retire_at.filter(|_| !self.is_retiring).map_or(stall, |at| at.min(stall)));
        }
        let retire = if self.is_retiring { Some(self.quiet_since + RETIRE_AFTER) } else { self.retire_at };
        let trim = (self.spare_capacity() >= TRIM_MIN).then(|| self.quiet_since + TRIM_AFTER);
        let protocol = protocol.deadline(&self.conn, self.quiet_since);
        trim.into_iter().chain(protocol).chain(retire).min()
    }

    /// Does whatever is due at `now`. `uptake` asks the socket what the peer has taken; it is called only where output
    /// has been pending for a while.
    pub fn tick(&mut self, protocol: &P, now: Now, uptake: impl FnOnce() -> Uptake) {
        if self.is_past_age(now) {
            self.is_retiring = true;
            protocol.retire(&mut self.conn);
        }
        if self.deadline(protocol).is_none_or(|at| at > now.instant) {
            return;
        }
        if self.is_blocked_on_reply() {
            self.quiet_since = now.instant;
            self.stall = None; // What it takes from here on is another matter.
            return;
        }
        let is_lingering = matches!(self.phase, Phase::Lingering { .. });
        if !is_lingering && !self.outbox.is_idle() {
            return self.check_stall(now, uptake());
        }
        if self.phase != Phase::Open {
            if let (Phase::Greeting, Some(proxied)) = (self.phase, &self.proxied) {
                proxied.refuse("no PROXY header has arrived in time");
            }
            self.phase = Phase::Aborted;
            return;
        }
        let is_quiet = self.quiet_since + RETIRE_AFTER <= now.instant && self.inbox.is_empty();
        if self.is_retiring && is_quiet && protocol.retire(&mut self.conn) {
            self.phase = Phase::Closing(CloseMode::Linger);
            return;
        }
        if self.spare_capacity() >= TRIM_MIN {
            self.trim();
        }
        if protocol.deadline(&self.conn, self.quiet_since).is_some_and(|at| at <= now.instant) {
            let flow = protocol.on_deadline(&mut self.conn, now, &mut self.outbox);
            self.follow(flow);
        }
    }

    /// Aborts a connection whose peer takes too little.
    fn check_stall(&mut self, now: Now, uptake: Uptake) {
        let Limits { stall_max, send_rate_min, .. } = self.limits;
        let check = StallCheck::new(self.heard_at, now.instant, uptake);
        if check.is_stalled(self.stall.as_deref(), stall_max, send_rate_min) {
            self.phase = Phase::Aborted;
        }
        self.stall = Some(Box::new(check));
    }

    /// True if [`Session::tick`] has to note the connection's age: a driver that waits for input with a timeout asks
    /// this when input comes before each timeout.
    #[inline]
    pub fn is_past_age(&self, now: Now) -> bool {
        !self.is_retiring && self.retire_at.is_some_and(|at| at <= now.instant)
    }

    /// True if a promise stands before everything else: the peer has nothing to take, so it cannot be the one that
    /// stalls.
    fn is_blocked_on_reply(&self) -> bool {
        !matches!(self.phase, Phase::Lingering { .. } | Phase::Aborted) && self.outbox.is_blocked_on_reply()
    }

    pub(super) fn spare_capacity(&self) -> usize {
        self.inbox.spare_capacity() + self.outbox.spare_capacity()
    }

    fn trim(&mut self) {
        self.outbox.trim();
        if self.inbox.is_empty() {
            drop(mem::take(&mut self.inbox));
        }
    }
}
