//! A load in turns: it runs when it is told to, and rests when it is told to and nothing is outstanding.
//!
//! Two generators that take turns compare two servers within milliseconds of each other, and what each server has used can be
//! read exactly between two turns, as no request is under way then.

use std::{
    ops::ControlFlow,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use super::live::{LiveReading, LiveStats};

/// Order to the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOrder {
    /// A turn begins.
    Go,
    /// It ends; nothing more is sent.
    Hold,
}

/// Outcome of one turn, said when its last reply has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct TurnReport {
    /// Verified requests of the turn.
    pub ok: u64,
    pub failed: u64,
    /// Latencies, in microseconds.
    pub p50_us: f64,
    pub p99_us: f64,
}

/// Turns of all threads.
#[derive(Debug)]
pub struct Turns {
    orders: Mutex<Receiver<TurnOrder>>,
    reports: Sender<TurnReport>,
    is_open: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that rest.
    resting: usize,
    /// No more turns will come.
    is_over: bool,
}

impl Turns {
    /// Makes the turns that these orders ask for. They begin with a rest, and end with the orders.
    #[must_use]
    pub fn new(orders: Receiver<TurnOrder>, reports: Sender<TurnReport>) -> Self {
        Self {
            orders: Mutex::new(orders),
            reports,
            is_open: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    // Relaxed is enough: a thread that sees a turn begin or end a little later loses nothing, and the lock orders the rest.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Rests until a turn begins, or all are over.
    pub(crate) fn rest(&self) {
        let mut state = self.state.lock();
        state.resting += 1;
        self.changed.notify_all();
        while !self.is_open() && !state.is_over {
            self.changed.wait(&mut state);
        }
        state.resting -= 1;
    }

    /// Returns the next order; `Err` if there is none within `limit`, or if there will be none.
    fn next_order(&self, limit: Duration) -> Result<TurnOrder, RecvTimeoutError> {
        self.orders.lock().recv_timeout(limit)
    }

    fn open(&self) {
        let _state = self.state.lock();
        self.is_open.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.is_open.store(false, Ordering::Relaxed);
    }

    /// Ends all turns: who rests goes on, and finds that there is nothing left to do.
    pub(crate) fn end(&self) {
        self.state.lock().is_over = true;
        self.open();
    }

    /// Waits until so many threads rest, for a while. Returns true if they do.
    fn wait_for_rest(&self, threads: usize, limit: Duration) -> bool {
        let mut state = self.state.lock();
        if state.resting < threads {
            self.changed.wait_for(&mut state, limit);
        }
        state.resting >= threads
    }

    /// Says how a turn went. Nobody may listen any more.
    fn report(&self, report: TurnReport) {
        let _ = self.reports.send(report);
    }
}

/// Progress of a load in turns, as whoever carries the orders out sees it.
pub(crate) struct TurnProgress {
    /// Outcomes before the turn.
    before: LiveReading,
    is_closing: bool,
}

impl TurnProgress {
    pub(crate) fn new(live: &LiveStats) -> Self {
        Self { before: live.read(), is_closing: false }
    }

    /// Carries out the next order if there is one within `limit`, and reports a turn whose last reply has come to all of so many
    /// `threads`. `Break` when there are no more orders.
    pub(crate) fn step(&mut self, turns: &Turns, live: &LiveStats, threads: usize, limit: Duration) -> ControlFlow<()> {
        if self.is_closing && turns.wait_for_rest(threads, limit) {
            let reading = live.read();
            turns.report(reading.since(&self.before).turn());
            (self.before, self.is_closing) = (reading, false);
        }
        match turns.next_order(if self.is_closing { Duration::ZERO } else { limit }) {
            Ok(TurnOrder::Go) => turns.open(),
            Ok(TurnOrder::Hold) => {
                turns.close();
                self.is_closing = true;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if self.is_closing => {}
            Err(RecvTimeoutError::Disconnected) => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn threads_rest_between_turns_and_go_on_when_all_are_over() {
        let ((orders, received), (reports, _reports)) = (channel(), channel());
        let turns = Turns::new(received, reports);
        let limit = Duration::from_secs(20);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| (turns.rest(), turns.rest()))).collect();
            assert!((0..100).any(|_| turns.wait_for_rest(3, limit)));
            orders.send(TurnOrder::Go).expect("somebody listens");
            assert_eq!(turns.next_order(limit), Ok(TurnOrder::Go));
            assert_eq!(turns.next_order(Duration::ZERO), Err(RecvTimeoutError::Timeout));
            turns.end();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().expect("it ends"), ((), ())));
        });
        drop(orders);
        assert_eq!(turns.next_order(limit), Err(RecvTimeoutError::Disconnected));
    }
}
