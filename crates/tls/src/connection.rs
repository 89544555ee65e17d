//! One connection: a session of the inner protocol, and the TLS state that its bytes pass through.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use proto::{Alarm, Flow, Limits, Now, Outbox, Peer, Protocol, Session, Step, Uptake};
use rustls::{ServerConfig, server::UnbufferedServerConnection};

use crate::{
    Statistics, Tls,
    engine::{Broken, Engine},
    files::Reading,
    input::Received,
    kernel::KernelSide,
    output::Pace,
    scratch,
};

/// A connection that has been quiet for so long begins with small records again.
const QUIET_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It must have become `Open` by then.
    Handshake(Instant),
    Open,
    /// An alert has been queued, or close_notify: nothing follows, and input is ignored.
    Over,
}

/// One connection.
pub struct Connection<P: Protocol> {
    /// `None` if rustls does not take the configuration: such a connection is closed.
    /// It is gone, too, once the kernel encrypts.
    pub(crate) engine: Option<Box<Engine>>,
    /// State of a connection whose output the kernel encrypts.
    pub(crate) kernel: Option<Box<KernelSide>>,
    /// Kernel TLS has not been ruled out.
    pub(crate) may_use_kernel: bool,
    pub(crate) inner: Session<P>,
    pub(crate) phase: Phase,
    /// The inner session is to come to its end.
    pub(crate) is_retiring: bool,
    /// Input waits for the inner session to take more.
    pub(crate) is_paused: bool,
    /// Something has been received.
    pub(crate) has_begun: bool,
    /// Name in the hello, until the handshake is complete.
    pub(crate) server_name: Option<String>,
    /// No more bytes will come.
    pub(crate) has_ended: bool,
    /// Output that was queued at the end of the last turn.
    queued: usize,
    pub(crate) pace: Pace,
    last_turn: Instant,
    /// Made with the first promise of the inner protocol that has to be waited for.
    pub(crate) alarm: Option<Arc<Alarm>>,
    /// Part of the file in front that other threads read.
    pub(crate) reading: Option<Arc<Reading>>,
    pub(crate) fetched: Option<Fetched>,
    statistics: Arc<Statistics>,
}

/// Part of the file in front that has been read, and the beginning of it that has been encrypted.
pub(crate) struct Fetched {
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: usize,
}

impl<P: Protocol> Connection<P> {
    pub(crate) fn new(
        layer: &Tls<P>,
        config: Arc<ServerConfig>,
        peer: Peer<'_>,
        limits: Limits,
        handshake_until: Instant,
        now: Now,
    ) -> Self {
        layer.statistics.opened();
        Self {
            engine: UnbufferedServerConnection::new(config).ok().map(|tls| Box::new(Engine::new(tls))),
            kernel: None,
            may_use_kernel: layer.kernel_support.is_some(),
            inner: Session::new(&layer.inner, peer, limits, now),
            phase: Phase::Handshake(handshake_until),
            is_retiring: false,
            is_paused: false,
            has_begun: false,
            server_name: None,
            has_ended: false,
            queued: 0,
            pace: Pace::default(),
            last_turn: now.instant,
            alarm: None,
            reading: None,
            fetched: None,
            statistics: layer.statistics(),
        }
    }

    /// Returns true if the inner protocol goes on while the server drains.
    pub(crate) fn drain(&mut self, layer: &Tls<P>) -> bool {
        self.phase == Phase::Open && self.inner.drain_streams(&layer.inner)
    }

    /// Moves bytes in both directions for as long as something moves.
    pub(crate) fn turn(&mut self, layer: &Tls<P>, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        // What the inner protocol may say before its own promise is settled goes before the layer's, too.
        let is_multiplexed = self.inner.is_multiplexed(&layer.inner);
        let awaited = if is_multiplexed { out.withdraw_promise() } else { None };
        let step = self.take_turn(layer, input, now, out);
        if let Some(reply) = awaited {
            out.restore_promise(reply);
            if self.is_held_up() {
                out.hold_input();
            }
        }
        step
    }

    fn take_turn(&mut self, layer: &Tls<P>, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        self.note_time(layer, now, out);
        if self.is_retiring && !self.inner.is_retiring() {
            self.inner.retire(&layer.inner, now);
        }
        let mut step = Step::open(0);
        scratch::lend_buffer(self.inner.outbox());
        step.flow = self.exchange(layer, input, &mut step, now, out).unwrap_or(Flow::Abort);
        scratch::take_back_buffer(self.inner.outbox());
        if self.phase == Phase::Over {
            step.consumed = input.len();
        }
        if P::PUSHES {
            out.follow_pushes(self.inner.outbox());
        }
        self.queued = self.queued_in(out);
        step
    }

    fn exchange(
        &mut self,
        layer: &Tls<P>,
        input: &[u8],
        step: &mut Step,
        now: Now,
        out: &mut Outbox,
    ) -> Result<Flow, Broken> {
        loop {
            self.send(layer, now, out)?;
            match self.receive(layer, &input[step.consumed..], step, now, out) {
                Received::Some => {}
                Received::Nothing => break,
                Received::Failed => return Ok(Flow::Linger),
            }
        }
        self.flow(layer, now, out)
    }

    /// Notes that no more bytes will come. Without a close_notify before it, what has arrived is a part of what was
    /// sent: the inner session answers the whole requests in it, and never sees the torn one as whole.
    pub(crate) fn end(&mut self, layer: &Tls<P>, now: Now, out: &mut Outbox) -> Flow {
        self.has_ended = true;
        let flow = self.flow(layer, now, out).unwrap_or(Flow::Abort);
        self.queued = self.queued_in(out);
        flow
    }

    /// Bytes of output that shrink when the peer takes some.
    fn queued_in(&self, out: &Outbox) -> usize {
        match self.kernel {
            Some(_) => usize::try_from(out.unsent_bytes()).unwrap_or(usize::MAX),
            None => out.held_bytes(),
        }
    }

    /// True if input has to wait for a promise.
    fn is_held_up(&self) -> bool {
        !self.inner.wants_read() && self.is_waiting() && !self.inner.has_ended()
    }

    /// Decides what becomes of the connection, once nothing more can be moved.
    fn flow(&mut self, layer: &Tls<P>, now: Now, out: &mut Outbox) -> Result<Flow, Broken> {
        if self.phase != Phase::Open {
            return Ok(Flow::Open);
        }
        let is_complete = !self.is_paused && (self.has_ended || self.is_closed_by_peer());
        if is_complete && !self.inner.has_ended() {
            self.inner.end_of_input();
            self.send(layer, now, out)?;
        }
        if self.is_held_up() {
            out.hold_input();
        }
        let inner = &mut self.inner;
        let flow = if inner.is_aborted() {
            return Err(Broken);
        } else if inner.is_awaiting_ack() {
            Flow::CloseAfterAck
        } else if inner.begin_lingering(now) {
            Flow::Linger
        } else if inner.is_done() {
            Flow::Close
        } else {
            return Ok(Flow::Open);
        };
        self.say_goodbye(out);
        Ok(flow)
    }

    pub(crate) fn is_closed_by_peer(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.is_closed_by_peer)
            || self.kernel.as_ref().is_some_and(|kernel| kernel.is_closed_by_peer())
    }

    /// True while a promise keeps the outer connection waiting for inner output.
    fn is_waiting(&self) -> bool {
        self.reading.is_some() || self.alarm.as_ref().is_some_and(|alarm| alarm.is_armed())
    }

    /// Queues close_notify, and lets nothing follow it.
    fn say_goodbye(&mut self, out: &mut Outbox) {
        self.phase = Phase::Over;
        if self.say_goodbye_by_kernel(out) {
            return;
        }
        if let Some(engine) = &mut self.engine {
            engine.say_goodbye(out);
        }
    }

    fn note_time(&mut self, layer: &Tls<P>, now: Now, out: &Outbox) {
        // A peer that takes its output is not idle. Turns may be for nothing, so that only this tells.
        if self.queued_in(out) < self.queued {
            self.inner.sent(now);
        }
        if now.instant.saturating_duration_since(self.last_turn) >= QUIET_AFTER && out.is_empty() {
            self.pace = Pace::default();
        }
        self.last_turn = now.instant;
        if self.phase == Phase::Open && self.inner.is_past_age(now) {
            self.inner.tick(&layer.inner, now, Uptake::all);
        }
    }

    pub(crate) fn deadline(&self, protocol: &P) -> Option<Instant> {
        match self.phase {
            Phase::Handshake(until) => Some(until),
            Phase::Open => self.inner.deadline(protocol),
            Phase::Over => None,
        }
    }

    pub(crate) fn expire(&mut self, layer: &Tls<P>, now: Now, out: &mut Outbox) -> Flow {
        if let Phase::Handshake(until) = self.phase {
            if until > now.instant {
                return Flow::Open;
            }
            layer.statistics.failed();
            return Flow::Abort;
        }
        // Nothing is queued, so that the last bytes of output have been taken: it is quiet since then, not before.
        if self.queued > 0 {
            self.queued = 0;
            self.inner.sent(now);
        }
        self.inner.tick(&layer.inner, now, Uptake::all);
        if self.phase == Phase::Open && self.inner.is_aborted() {
            // Idle for too long. Everything has been sent, so that this is an end like any other.
            self.say_goodbye(out);
            return Flow::Close;
        }
        let flow = self.send(layer, now, out).and_then(|()| self.flow(layer, now, out)).unwrap_or(Flow::Abort);
        self.queued = self.queued_in(out);
        flow
    }
}

impl<P: Protocol> Drop for Connection<P> {
    fn drop(&mut self) {
        self.statistics.closed();
    }
}
