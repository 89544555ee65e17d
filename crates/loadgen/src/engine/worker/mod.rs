//! One thread of the engine.
//!
//! A [`Worker`] is the loop over what the kernel reports. Its parts own their data and know nothing of each other: the
//! [`kernel`] moves bytes, by readiness or by completions; the [`dialer`] opens connections; the [`issuer`] decides
//! which requests are sent, and when; the [`recorder`] counts. `exchange.rs` is what the loop does with what arrives
//! (`multiplexed.rs` where replies come in any order), and `lifecycle.rs` what it does with a connection from its opening to its end.

mod connection;
mod dialer;
mod exchange;
mod issuer;
mod kernel;
mod lifecycle;
mod multiplexed;
mod pipeline;
mod recorder;
mod thread;

use std::{num::NonZeroU64, sync::mpsc::Sender};

use self::{
    connection::Connection,
    dialer::Dialer,
    issuer::Issuer,
    kernel::{Kernel, SocketId, Wakeup},
    recorder::StatsRecorder,
};
pub(super) use self::{
    recorder::{ThreadReport, merge_logs},
    thread::Thread,
};
use super::{error::EngineError, pace::Pacing, timeline::Slice, turns::Turns};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    protocol::{Answer, ClientProtocol},
};

/// One `recv` asks for this much.
const READ_BYTES: usize = 128 << 10;
/// Limits of the time between two searches for what has taken too long.
const TICK_MIN: Nanos = MILLISECOND;
const TICK_MAX: Nanos = 50 * MILLISECOND;
/// A tick that comes so much later than it should says that the thread was kept from running.
const DESCHEDULED_MIN: Nanos = 50 * MILLISECOND;

/// The loop of one thread, and its parts.
pub(super) struct Worker<'a, P: ClientProtocol> {
    thread: Thread<'a>,
    protocol: P,
    connections: Vec<Connection<P>>,
    kernel: Kernel,
    dialer: Dialer<'a>,
    issuer: Issuer<'a>,
    recorder: StatsRecorder<'a>,
    read_buffer: Box<[u8]>,
    /// Plain text of TLS records.
    plain: Vec<u8>,
    /// Results of one input of a multiplexed protocol.
    answers: Vec<Answer<P::Request>>,
    /// Limits for a reply: its last byte, and its first one.
    timeout: Nanos,
    first_byte_timeout: Nanos,
    /// Age at which a connection is given up.
    age_max: Nanos,
    /// Time between two searches for what has taken too long.
    tick: Nanos,
    next_tick: Nanos,
    /// The last tick was put off for the sake of replies that had arrived meanwhile.
    has_caught_up: bool,
}

impl<'a, P: ClientProtocol> Worker<'a, P> {
    /// Does everything that can fail or takes time, before the clock starts.
    pub(super) fn prepare(
        thread: Thread<'a>,
        mut protocol: P,
        slices: Sender<Box<Slice>>,
    ) -> Result<Self, EngineError> {
        let load = thread.load;
        load.pin.pin_to_one(thread.index).map_err(|why| EngineError::Pin { cpus: load.pin.clone(), why })?;
        // Best effort: the default slack of 50 µs would show in an open loop's latency.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (count, batches) = (thread.connections(), thread.batches());
        let reps = load.requestor.map(|requestor| requestor.reps);
        let lifetime = load.lifetime.requests;
        Ok(Self {
            kernel: Kernel::new(load.engine, load.pacing == Pacing::Closed)?,
            connections: (0..count)
                .map(|slot| Connection::new(slot, protocol.open(), batches, reps, lifetime))
                .collect(),
            age_max: load.lifetime.age.map_or(Nanos::MAX, clock::nanos),
            protocol,
            dialer: Dialer::new(&thread, count),
            issuer: Issuer::new(&thread),
            recorder: StatsRecorder::new(&thread, slices),
            read_buffer: vec![0; READ_BYTES].into_boxed_slice(),
            plain: Vec::new(),
            answers: Vec::new(),
            timeout: clock::nanos(load.timeouts.total),
            first_byte_timeout: load.timeouts.first_byte.map_or(Nanos::MAX, clock::nanos),
            tick: (clock::nanos(load.shortest_limit()) / 8).clamp(TICK_MIN, TICK_MAX),
            next_tick: 0,
            has_caught_up: false,
            thread,
        })
    }

    /// Runs until the limit is reached and nothing is outstanding, and says so by `at_end` while the connections are open.
    pub(super) fn run(mut self, at_end: impl FnOnce()) -> Result<ThreadReport<P>, EngineError> {
        let origin = self.thread.window.origin();
        self.issuer.start(&self.thread, origin);
        self.dialer.start(origin);
        self.next_tick = origin;
        let outcome = self.run_loop();
        at_end();
        outcome?;
        let opened = self.count_opened(clock::now());
        Ok(self.recorder.finish(self.protocol, self.issuer.was_abandoned(), opened))
    }

    fn run_loop(&mut self) -> Result<(), EngineError> {
        loop {
            if let Some(turns) = &self.thread.load.turns {
                self.keep_turns(turns);
            }
            let mut now = clock::now();
            self.recorder.note_edges(now);
            if now >= self.next_tick && !self.was_descheduled(now) {
                self.tick(now);
            }
            if self.issuer.is_finished(now) {
                return Ok(());
            }
            while let Some(slot) = self.dialer.next_of_ramp(now) {
                self.enqueue(slot);
            }
            self.end_pauses(now);
            if self.issuer.dials_on_schedule() {
                self.send_due(now);
            }
            if !self.issuer.is_held() {
                self.dial(now);
            }
            self.read_again();
            if self.issuer.sends_on_schedule() {
                now = clock::now();
                self.send_due(now);
            }
            self.wait(self.idle_time(now))?;
            self.recorder.publish();
        }
    }

    /// Sends nothing more when a turn is over, rests when nothing is outstanding, and goes on in the next turn.
    fn keep_turns(&mut self, turns: &Turns) {
        if !turns.is_open() {
            self.issuer.hold(true);
            if self.issuer.has_outstanding() {
                return;
            }
            self.recorder.publish();
            turns.rest();
        }
        if self.issuer.is_held() {
            self.issuer.hold(false);
            let now = clock::now();
            for slot in 0..self.connections.len() {
                if self.connections[slot].dial.is_open() {
                    self.refill(slot, now);
                }
            }
        }
    }

    /// Returns for how long nothing will happen by itself.
    fn idle_time(&self, now: Nanos) -> Nanos {
        if self.kernel.has_work() {
            return 0;
        }
        let dial = self.dialer.next_wake(now, || !self.has_enough_attempts());
        self.next_tick.min(dial).min(self.issuer.next_wake(now)).saturating_sub(now)
    }

    /// Sleeps until something happens, for `timeout` nanoseconds at most, and deals with it.
    fn wait(&mut self, timeout: Nanos) -> Result<(), EngineError> {
        let mut wakeup = self.kernel.wait(timeout)?;
        match &mut wakeup {
            Wakeup::Ready(events) => {
                for event in events.drain(..) {
                    self.on_ready(SocketId::from_token(event.data.u64()), event.flags);
                }
                self.send_coalesced();
            }
            Wakeup::Completed(done) => {
                for completion in done.drain(..) {
                    self.on_completion(completion);
                }
            }
        }
        self.kernel.put_back(wakeup);
        Ok(())
    }

    /// Returns true if this thread got no CPU for so long that replies may lie unread: it reads them before it blames
    /// the server for being late. Never twice in a row, or a thread that is always late would find nothing late.
    #[cold]
    fn was_descheduled(&mut self, now: Nanos) -> bool {
        self.has_caught_up = !self.has_caught_up && now - self.next_tick > DESCHEDULED_MIN;
        if self.has_caught_up {
            self.next_tick = now + self.tick;
        }
        self.has_caught_up
    }

    /// Looks for what has taken too long.
    fn tick(&mut self, now: Nanos) {
        self.next_tick = now + self.tick;
        self.dialer.close_deferred(&mut self.kernel);
        for slot in 0..self.connections.len() {
            self.check_deadlines(slot, now);
        }
        if self.issuer.is_overdue(now) {
            self.end_overdue(now);
        }
        self.abandon_if_unresponsive(now);
    }
}
