//! One connection without its socket: protocol state, torn input, queued output.
//!
//! All back-pressure, limit, half-close and deadline policy is here, so that it is the same on every driver.

mod greeting;
mod pushes;
mod time;

use std::{
    mem,
    time::{Duration, Instant},
};

use self::greeting::Proxied;
pub use self::time::RETIRE_AFTER;
use crate::{BatchEntry, Flow, Limits, Now, Outbox, Peer, Protocol, Secured, Step, inbox::Inbox, stall::StallCheck};

/// Time that a peer may go on sending after the last output.
const LINGER_MAX: Duration = Duration::from_secs(2);
/// Limit of the input that is discarded in that time, in bytes.
const LINGER_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The header of a proxy is awaited.
    Greeting,
    /// Requests are read and answered.
    Open,
    /// The queue is still sent.
    Closing(CloseMode),
    /// Our side is closed; input is discarded until the peer closes too.
    Lingering {
        until: Instant,
        budget: usize,
    },
    Aborted,
}

/// Way to close a connection after the last output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseMode {
    Close,
    Linger,
    /// `Close` if the peer has everything by then, otherwise `Linger`.
    CloseAfterAck,
}

/// One connection without its socket.
pub struct Session<P: Protocol> {
    conn: P::Conn,
    inbox: Inbox,
    outbox: Outbox,
    phase: Phase,
    /// No more input will come: the peer closed its side, or the server drains. Buffered requests are still answered.
    is_ended: bool,
    /// A protocol with [`Protocol::STREAMS`] has been told so.
    is_end_told: bool,
    /// The server drains.
    is_draining: bool,
    /// The protocol has not had a turn yet that something beside output calls for: a drain that it goes on in, or a push.
    owes_turn: bool,
    quiet_since: Instant,
    /// The last time that input arrived.
    heard_at: Instant,
    /// Time of the greatest age.
    retire_at: Option<Instant>,
    /// It has come: the next reply is the last.
    is_retiring: bool,
    /// The last look at what the peer takes.
    stall: Option<Box<StallCheck>>,
    /// Connection of a proxy that speaks for others.
    proxied: Option<Box<Proxied>>,
    limits: Limits,
}

impl<P: Protocol> Session<P> {
    pub fn new(protocol: &P, peer: Peer<'_>, limits: Limits, now: Now) -> Self {
        let proxied = limits.admission.and_then(|admission| Proxied::new(admission, peer.address(), now));
        Self {
            conn: protocol.open(peer, now),
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            phase: if proxied.is_some() { Phase::Greeting } else { Phase::Open },
            is_ended: false,
            is_end_told: false,
            is_draining: false,
            owes_turn: false,
            quiet_since: now.instant,
            heard_at: now.instant,
            retire_at: limits.age_max.and_then(|age| now.instant.checked_add(age)),
            is_retiring: false,
            stall: None,
            proxied,
            limits,
        }
    }

    /// Passes on what a layer below has agreed with the peer.
    pub fn secured(&mut self, protocol: &P, secured: Secured<'_>) {
        protocol.on_secured(&mut self.conn, secured);
    }

    /// Returns the output, for the driver to write.
    #[inline]
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// True while a driver may read: this is the back-pressure.
    #[inline]
    pub fn wants_read(&self) -> bool {
        match self.phase {
            Phase::Open => !self.is_ended && !self.outbox.is_full() && self.inbox.len() < self.limits.request_bytes_max,
            Phase::Greeting => !self.is_ended && self.inbox.len() < self.limits.request_bytes_max,
            Phase::Lingering { .. } => !self.is_ended,
            Phase::Closing(_) | Phase::Aborted => false,
        }
    }

    /// True if the connection can be closed. Ask only after [`Session::resume`] has followed the last flush.
    #[inline]
    pub fn is_done(&self) -> bool {
        match self.phase {
            Phase::Open => self.outbox.is_broken() || self.is_ended && self.is_all_sent(),
            Phase::Closing(mode) => self.outbox.is_idle() && (self.is_ended || mode == CloseMode::Close),
            Phase::Greeting | Phase::Lingering { .. } => self.is_ended,
            Phase::Aborted => true,
        }
    }

    /// True if queued output is not to be sent any more.
    #[inline]
    pub fn is_aborted(&self) -> bool {
        self.phase == Phase::Aborted
    }

    /// True if the output ends before its end: the peer must not take what it has for the whole.
    pub fn is_cut_off(&mut self) -> bool {
        self.is_aborted() && (!self.outbox.is_idle() || self.outbox.has_dropped_pushes())
    }

    /// True if the output has been sent and it matters whether the peer has it: a driver that can tell calls
    /// [`Session::acknowledged`]. In either case [`Session::begin_lingering`] is called next.
    #[inline]
    pub fn is_awaiting_ack(&self) -> bool {
        self.phase == Phase::Closing(CloseMode::CloseAfterAck) && !self.is_ended && self.outbox.is_idle()
    }

    /// Notes that the peer has all of the output and that its input has been read: there is nothing to linger for.
    pub fn acknowledged(&mut self) {
        if self.is_awaiting_ack() {
            self.phase = Phase::Closing(CloseMode::Close);
        }
    }

    /// True once, when the output has been sent and the driver must shut the writing side down and go on reading.
    #[inline]
    pub fn begin_lingering(&mut self, now: Now) -> bool {
        let lingers = matches!(self.phase, Phase::Closing(CloseMode::Linger | CloseMode::CloseAfterAck));
        let starts = lingers && !self.is_ended && self.outbox.is_idle();
        if starts {
            self.phase = Phase::Lingering { until: now.instant + LINGER_MAX, budget: LINGER_BYTES_MAX };
        }
        starts
    }

    /// True if everything that was read has been answered, and nothing is to be sent.
    pub fn is_quiet(&self) -> bool {
        self.inbox.is_empty() && self.outbox.is_idle()
    }

    pub fn end_of_input(&mut self) {
        self.is_ended = true;
    }

    /// Ends the input, since the server drains, unless the protocol goes on until it has ended the connection itself. A turn
    /// is due in either case. Returns true if it goes on.
    pub fn drain(&mut self, protocol: &P) -> bool {
        if !mem::replace(&mut self.is_draining, true) && !self.drain_streams(protocol) {
            self.is_ended = true;
        }
        !self.is_ended
    }

    /// Tells a protocol that the server drains. Returns true if it goes on; otherwise the input has to end.
    pub fn drain_streams(&mut self, protocol: &P) -> bool {
        let is_open = self.phase == Phase::Open && !self.is_ended;
        let goes_on = P::STREAMS && is_open && protocol.on_drain(&mut self.conn);
        self.owes_turn |= goes_on;
        goes_on
    }

    /// Lets the connection come to its end: the next reply is the last, and without another request it is closed a moment
    /// later. For a server whose successor accepts the connections to come. A turn is due.
    pub fn retire(&mut self, protocol: &P, now: Now) {
        if !mem::replace(&mut self.is_retiring, true) {
            // However long it has been quiet, a request may be on its way.
            self.quiet_since = now.instant;
            self.owes_turn |= P::STREAMS && self.phase == Phase::Open && !self.is_ended;
            protocol.retire(&mut self.conn);
        }
    }

    /// True from [`Session::retire`] on, and from the greatest age.
    pub fn is_retiring(&self) -> bool {
        self.is_retiring
    }

    /// True from [`Session::drain`] on.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// True if replies may overtake a promise that is waited for, so that there is something to read for.
    pub fn is_multiplexed(&self, protocol: &P) -> bool {
        P::STREAMS && protocol.is_multiplexed(&self.conn)
    }

    pub fn has_ended(&self) -> bool {
        self.is_ended
    }

    // --- input ----------------------------------------------------------------------------

    /// True if a torn request is held, or one there was no room to answer; the next read belongs behind it.
    #[inline]
    pub fn has_input(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Returns room to read into; [`Session::received`] and [`Session::resume`] follow, on this thread or on another.
    pub fn recv_space(&mut self) -> &mut [u8] {
        self.inbox.space(self.limits.request_bytes_max.saturating_sub(self.inbox.len()))
    }

    pub fn received(&mut self, n: usize, now: Now) {
        self.hear(now);
        self.inbox.received(n);
    }

    /// Copies `lent` bytes behind the held ones; [`Session::resume`] follows, here or on another thread.
    pub fn hold(&mut self, lent: &[u8], now: Now) {
        self.hear(now);
        self.inbox.extend(lent, 0, 0);
    }

    /// Parses bytes lent by the driver in place; only a torn request at the end is copied.
    #[inline]
    pub fn feed(&mut self, protocol: &P, data: &[u8], now: Now) {
        if !self.inbox.is_empty() {
            self.hold(data, now);
            return self.resume(protocol, now);
        }
        self.hear(now);
        self.collect_pushes();
        let step = match self.can_take_input() {
            true => protocol.on_input(&mut self.conn, data, now, &mut self.outbox),
            false if self.is_greeting() => {
                self.inbox.extend(data, 0, 0);
                return self.greet(protocol, now);
            }
            false => Step::open(0),
        };
        self.finish(protocol, step, data);
    }

    /// True if [`Session::resume`] has something to offer, now that output has or has not been sent (`flushed`). To be
    /// asked after every attempt to send, and after the end of input.
    #[inline]
    pub fn wants_turn(&self, protocol: &P, flushed: bool) -> bool {
        flushed && (self.has_input() || self.is_streaming(protocol) && self.can_take_input())
            || (self.owes_end() || self.owes_turn) && self.can_take_input()
    }

    /// Offers held input again: after new input, or after a flush made room. A protocol with [`Protocol::STREAMS`] has
    /// its turn although none is held.
    #[inline]
    pub fn resume(&mut self, protocol: &P, now: Now) {
        if P::STREAMS {
            return self.resume_stream(protocol, now);
        }
        if self.inbox.is_empty() {
            return;
        }
        self.offer_held(protocol, now);
    }

    fn resume_stream(&mut self, protocol: &P, now: Now) {
        // This is the turn, also where the protocol has no use for it: it would be due for ever.
        self.owes_turn = false;
        if self.has_input() || self.is_streaming(protocol) {
            self.offer_held(protocol, now);
        }
        if self.owes_end() && self.can_take_input() {
            self.is_end_told = true;
            let flow = protocol.on_end(&mut self.conn, now, &mut self.outbox);
            self.finish(protocol, Step { flow, ..Step::open(0) }, &[]);
        }
    }

    #[inline]
    fn offer_held(&mut self, protocol: &P, now: Now) {
        self.collect_pushes();
        let step = match self.can_take_input() {
            true => protocol.on_input(&mut self.conn, self.inbox.filled(), now, &mut self.outbox),
            false if self.is_greeting() => return self.greet(protocol, now),
            false => Step::open(0),
        };
        self.finish(protocol, step, &[]);
    }

    /// Returns this session's share of a batch: held input and `lent` bytes behind it. [`Session::finish`] follows.
    pub(crate) fn batch_entry<'a>(&'a mut self, lent: &'a [u8], now: Now) -> Option<BatchEntry<'a, P::Conn>> {
        self.hear(now);
        self.collect_pushes();
        let accepts = self.can_take_input();
        let input = match self.inbox.is_empty() {
            true => lent,
            false => {
                self.inbox.extend(lent, 0, 0);
                self.inbox.filled()
            }
        };
        (accepts && !input.is_empty()).then(|| BatchEntry {
            conn: &mut self.conn,
            input,
            out: &mut self.outbox,
            step: Step::open(0),
        })
    }

    #[inline]
    fn hear(&mut self, now: Now) {
        (self.quiet_since, self.heard_at) = (now.instant, now.instant);
    }

    #[inline]
    fn is_streaming(&self, protocol: &P) -> bool {
        P::STREAMS && protocol.is_streaming(&self.conn)
    }

    /// True if the protocol is still to be told that no more input will come.
    #[inline]
    fn owes_end(&self) -> bool {
        P::STREAMS && self.is_ended && !self.is_end_told
    }

    #[inline]
    fn can_take_input(&self) -> bool {
        self.phase == Phase::Open && !self.outbox.is_full()
    }

    /// Applies what the protocol made of the held input, or, where none was held, of the `lent` bytes.
    pub(crate) fn finish(&mut self, protocol: &P, step: Step, lent: &[u8]) {
        match self.inbox.is_empty() {
            true if step.consumed < lent.len() => self.inbox.extend(lent, step.consumed, step.need),
            true => assert_eq!(step.consumed, lent.len(), "more was consumed than offered"),
            false => {
                assert!(step.consumed <= self.inbox.len(), "more was consumed than offered");
                self.inbox.consume(step.consumed, step.need);
            }
        }
        self.follow(step.flow);
        match self.phase {
            Phase::Open if self.has_too_much_output(step) => self.phase = Phase::Aborted,
            // A request larger than we are willing to hold.
            Phase::Open if self.inbox.len() >= self.limits.request_bytes_max && !self.is_held_up() => {
                self.phase = Phase::Closing(CloseMode::Linger);
            }
            Phase::Open if self.is_retiring => self.retire_after_reply(protocol),
            Phase::Open | Phase::Greeting => {}
            Phase::Closing(_) | Phase::Aborted => self.inbox.clear(),
            Phase::Lingering { .. } => self.discard(),
        }
    }

    /// True if the peer's output takes more memory than it may. What is shared, with a cache for example, is no cost of the
    /// peer's: it may be as long as it likes.
    #[inline]
    fn has_too_much_output(&self, step: Step) -> bool {
        let max = self.limits.output_bytes_max;
        // The queue may be long, and is looked at only where it may have grown.
        self.outbox.held_bytes() > max
            && (step.consumed > 0 || self.outbox.has_pending_replies())
            && self.outbox.own_bytes() > max
    }

    /// True if there are requests that may be read later: there is no room for their replies, or they wait for one.
    fn is_held_up(&self) -> bool {
        self.outbox.is_full() || self.outbox.has_pending_replies()
    }

    fn follow(&mut self, flow: Flow) {
        if self.phase == Phase::Open {
            self.phase = match flow {
                Flow::Open => Phase::Open,
                Flow::Close => Phase::Closing(CloseMode::Close),
                Flow::Linger => Phase::Closing(CloseMode::Linger),
                Flow::CloseAfterAck => Phase::Closing(CloseMode::CloseAfterAck),
                Flow::Abort => Phase::Aborted,
            };
        }
    }

    /// The reply that has just been queued is the last, unless a request is still arriving.
    #[cold]
    fn retire_after_reply(&mut self, protocol: &P) {
        if self.inbox.is_empty() && !self.outbox.is_idle() && protocol.retire(&mut self.conn) {
            self.phase = Phase::Closing(CloseMode::Linger);
        }
    }

    fn discard(&mut self) {
        let discarded = self.inbox.len();
        self.inbox.consume(discarded, 0);
        if let Phase::Lingering { budget, .. } = &mut self.phase {
            *budget = budget.saturating_sub(discarded);
            if *budget == 0 {
                self.phase = Phase::Aborted;
            }
        }
    }
}

#[cfg(test)]
mod push_tests;
#[cfg(test)]
mod stall_tests;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
