//! CLIENT PAUSE: commands that wait, without a thread that waits with them.
//!
//! A connection whose command has to wait keeps its input and is given a promise with nothing in it. When the promise
//! is kept, the driver offers the input again.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Instant,
};

use proto::{Outbox, Promise};

/// Which commands wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Paused {
    Nothing,
    Writes,
    All,
}

#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// A [`Paused`]; read once per batch.
    what: AtomicU8,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    until: Option<Instant>,
    waiting: Vec<Promise>,
}

impl Pause {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn what(&self) -> Paused {
        match self.what.load(Ordering::Relaxed) {
            0 => Paused::Nothing,
            1 => Paused::Writes,
            _ => Paused::All,
        }
    }

    /// A pause under way becomes stricter or longer, never less so. [`Pause::end`] is owed at that time.
    pub(crate) fn begin(&self, what: Paused, until: Instant) {
        let mut state = self.state();
        state.until = state.until.max(Some(until));
        self.what.store(what.max(self.what()) as u8, Ordering::Relaxed);
    }

    /// Ends the pause, unless it has been prolonged beyond `now`; `None`: in any case.
    pub(crate) fn end(&self, now: Option<Instant>) {
        let mut state = self.state();
        if now.is_some_and(|now| state.until.is_some_and(|until| until > now)) {
            return;
        }
        self.what.store(Paused::Nothing as u8, Ordering::Relaxed);
        state.until = None;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state); // Keeping a promise wakes a driver.
        waiting.into_iter().for_each(|promise| promise.fulfil(Outbox::default()));
    }

    /// Makes a connection wait for the end. False: there is no pause any more.
    pub(crate) fn hold(&self, out: &mut Outbox) -> bool {
        let mut state = self.state();
        if self.what() == Paused::Nothing {
            return false;
        }
        state.waiting.push(out.defer());
        true
    }

    /// Connections that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pause_grows_and_ends_once() {
        let (pause, now) = (Pause::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        assert!(!pause.hold(&mut Outbox::default()));
        pause.begin(Paused::All, now);
        pause.begin(Paused::Writes, later);
        let mut out = Outbox::default();
        assert!(pause.hold(&mut out) && out.has_pending_replies());
        pause.end(Some(now));
        assert_eq!((pause.what(), pause.waiting()), (Paused::All, 1));
        pause.end(Some(later));
        assert_eq!((pause.what(), pause.waiting()), (Paused::Nothing, 0));
        assert!(out.front().is_none(), "an empty answer");
    }
}
