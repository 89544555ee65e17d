//! The signal to every loop, task and thread of a driver to finish: a flag, and the wakers of those that sleep. By the same
//! way loops are asked for a sign of life.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
    task::Waker,
};

use parking_lot::Mutex;
use slab::Slab;

/// Shared by a server and the threads that may stop it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stage: AtomicU8,
    /// Number of the last question to all loops.
    question: AtomicU32,
    sleepers: Mutex<Slab<Sleeper>>,
}

#[derive(Debug)]
struct Sleeper {
    waker: Waker,
    /// Last question that a loop has answered.
    answered: Option<Arc<AtomicU32>>,
}

/// Stage of a server on its way to the end, which goes one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Serving,
    /// Another process accepts the connections to come: no more are accepted here, and those there are get their last replies
    /// ([`proto::Session::retire`]).
    Retiring,
    /// Requests that have been received are answered, and then all connections are closed.
    Draining,
}

/// Registration of a waker, which is woken at each new stage until this is dropped.
#[derive(Debug)]
pub struct Registration(Arc<Inner>, usize);

impl Shutdown {
    /// Begins the drain: drivers stop accepting, answer what has been received, and close.
    pub fn drain(&self) {
        self.advance(Stage::Draining);
    }

    /// Leaves the connections to come to another process that listens on the same sockets. The drain follows.
    pub fn retire(&self) {
        self.advance(Stage::Retiring);
    }

    fn advance(&self, stage: Stage) {
        self.0.stage.fetch_max(stage as u8, Ordering::Release);
        self.wake(|_| true);
    }

    fn wake(&self, is_meant: impl Fn(&Sleeper) -> bool) {
        let sleepers = self.0.sleepers.lock();
        let wakers: Vec<_> = sleepers
            .iter()
            .filter(|(_, sleeper)| is_meant(sleeper))
            .map(|(_, sleeper)| sleeper.waker.clone())
            .collect();
        drop(sleepers); // Waking may run a driver's own locks.
        wakers.into_iter().for_each(Waker::wake);
    }

    pub fn stage(&self) -> Stage {
        match self.0.stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Retiring,
            _ => Stage::Draining,
        }
    }

    pub fn is_draining(&self) -> bool {
        self.stage() == Stage::Draining
    }

    /// Registers a waker. Ask [`Shutdown::is_draining`] afterwards, or a drain in between is missed.
    pub fn register(&self, waker: Waker) -> Registration {
        self.insert(Sleeper { waker, answered: None })
    }

    /// Does the same for a loop that accepts connections or takes requests, and has to call [`Loop::turned`] in each turn.
    pub fn register_loop(&self, waker: Waker) -> Loop {
        let answered = Arc::new(AtomicU32::new(self.0.question.load(Ordering::Relaxed)));
        let registration = self.insert(Sleeper { waker, answered: Some(Arc::clone(&answered)) });
        Loop { registration, answered }
    }

    fn insert(&self, sleeper: Sleeper) -> Registration {
        Registration(Arc::clone(&self.0), self.0.sleepers.lock().insert(sleeper))
    }

    /// Asks every loop for a sign of life, and wakes those that wait: see [`Shutdown::count_silent_loops`].
    pub fn ask_loops(&self) {
        self.0.question.fetch_add(1, Ordering::Relaxed);
        self.wake(|sleeper| sleeper.answered.is_some());
    }

    /// Counts the loops that have made no turn since they were asked last.
    pub fn count_silent_loops(&self) -> usize {
        let question = self.0.question.load(Ordering::Relaxed);
        let sleepers = self.0.sleepers.lock();
        let loops = sleepers.iter().filter_map(|(_, sleeper)| sleeper.answered.as_ref());
        loops.filter(|answered| answered.load(Ordering::Relaxed) != question).count()
    }
}

/// Registration of a loop that is asked for signs of life.
#[derive(Debug)]
pub struct Loop {
    registration: Registration,
    answered: Arc<AtomicU32>,
}

impl Loop {
    /// Answers the last question, if there is a new one. Nobody else writes to what is read here, so it costs nothing.
    pub fn turned(&self) {
        let question = self.registration.0.question.load(Ordering::Relaxed);
        if self.answered.load(Ordering::Relaxed) != question {
            self.answered.store(question, Ordering::Relaxed);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.sleepers.lock().remove(self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_silent_until_its_next_turn() {
        let shutdown = Shutdown::default();
        let _connection = shutdown.register(Waker::noop().clone());
        let [first, second] = [0, 1].map(|_| shutdown.register_loop(Waker::noop().clone()));
        assert_eq!(shutdown.count_silent_loops(), 0);
        shutdown.ask_loops();
        first.turned();
        assert_eq!(shutdown.count_silent_loops(), 1);
        second.turned();
        assert_eq!(shutdown.count_silent_loops(), 0);
        shutdown.ask_loops();
        drop(second);
        assert_eq!(shutdown.count_silent_loops(), 1);
    }
}
