//! CLIENT PAUSE, and scripts that take long: commands that wait, without a thread that waits with them.
//!
//! A connection whose command has to wait keeps its input and defers an empty reply. When that is fulfilled, the driver
//! offers the input again.

use std::{
    sync::atomic::{AtomicU8, Ordering},
    time::Instant,
};

use parking_lot::{Mutex, MutexGuard};
use proto::{Outbox, Promise};
use store::Pin;

/// Commands that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PauseMode {
    None,
    Writes,
    All,
}

/// Bits of the mode that are a [`PauseMode`].
const MODE: u8 = 3;
/// Bit of the mode that is set while the thread of scripts runs one.
const SCRIPT: u8 = 4;
/// Bit that is added when that has run for so long that commands are refused instead of waiting.
const BUSY: u8 = 8;
/// Bit that is added for good when the keys have been handed to another process.
const HANDED_OVER: u8 = 16;

/// The pause, and the connections that wait for its end.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// A [`PauseMode`], and the bits about scripts; read once per batch.
    mode: AtomicU8,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    until: Option<Instant>,
    waiting: Vec<Promise>,
}

impl Pause {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    #[inline]
    pub(crate) fn mode(&self) -> PauseMode {
        match self.mode.load(Ordering::Relaxed) & MODE {
            0 => PauseMode::None,
            1 => PauseMode::Writes,
            _ => PauseMode::All,
        }
    }

    /// True if a command may have to wait.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != 0
    }

    /// True while the thread of scripts runs one.
    pub(crate) fn has_script(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & SCRIPT != 0
    }

    /// Keeps the thread of scripts from beginning one while the pin is held, so that no lock has to be waited for until a
    /// script ends; `None` while it runs one.
    pub(crate) fn keep_scripts_out(&self) -> Option<Pin> {
        // In this order; see `Pin::synchronize`.
        let pin = Pin::new();
        (!self.has_script()).then_some(pin)
    }

    /// True while that script runs for longer than others wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & BUSY != 0
    }

    /// Makes all commands wait for a script.
    pub(crate) fn begin_script(&self) {
        // What follows must not be seen by a thread that has not seen this; see `store::Pin::synchronize`.
        self.mode.fetch_or(SCRIPT, Ordering::SeqCst);
    }

    /// True once another process has the keys: commands on them are forwarded to it.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & HANDED_OVER != 0
    }

    /// Has commands forwarded, those that wait since [`Pause::begin_script`] included. Nobody has the keys to himself here any
    /// more, and the fast paths stay closed.
    pub(crate) fn hand_over(&self) {
        let state = self.state();
        self.mode.fetch_or(HANDED_OVER, Ordering::SeqCst);
        Self::release(state);
    }

    /// Has commands refused instead, those that wait included.
    pub(crate) fn become_busy(&self) {
        let state = self.state();
        self.mode.fetch_or(BUSY, Ordering::SeqCst);
        Self::release(state);
    }

    /// Ends what [`Pause::begin_script`] has begun. True if connections have waited.
    pub(crate) fn end_script(&self) -> bool {
        let state = self.state();
        self.mode.fetch_and(MODE, Ordering::SeqCst);
        Self::release(state)
    }

    fn release(mut state: MutexGuard<'_, State>) -> bool {
        let waiting = std::mem::take(&mut state.waiting);
        drop(state); // Fulfilling a promise wakes a driver.
        let has_waited = !waiting.is_empty();
        waiting.into_iter().for_each(|promise| promise.fulfil(Outbox::default()));
        has_waited
    }

    /// Begins a pause. One that is under way becomes stricter or longer, never less so. The caller must see to it that
    /// [`Pause::end`] is called at that time.
    pub(crate) fn begin(&self, mode: PauseMode, until: Instant) {
        let mut state = self.state();
        state.until = state.until.max(Some(until));
        self.mode.fetch_or(mode as u8, Ordering::Relaxed);
    }

    /// Ends the pause, unless it has been prolonged beyond `now`. `None` ends it in any case.
    pub(crate) fn end(&self, now: Option<Instant>) {
        let mut state = self.state();
        if now.is_some_and(|now| state.until.is_some_and(|until| until > now)) {
            return;
        }
        self.mode.fetch_and(!MODE, Ordering::Relaxed);
        state.until = None;
        Self::release(state);
    }

    /// Makes a connection wait for the end. False if there is no pause any more.
    pub(crate) fn hold(&self, out: &mut Outbox) -> bool {
        let mut state = self.state();
        if !self.is_on() {
            return false;
        }
        state.waiting.push(out.defer());
        true
    }

    /// Number of connections that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pause_only_grows_and_ends_once() {
        let (pause, now) = (Pause::default(), Instant::now());
        let later = now + Duration::from_secs(9);
        assert!(!pause.hold(&mut Outbox::default()));
        pause.begin(PauseMode::All, now);
        pause.begin(PauseMode::Writes, later);
        let mut out = Outbox::default();
        assert!(pause.hold(&mut out) && out.has_pending_replies());
        pause.end(Some(now));
        assert_eq!((pause.mode(), pause.waiting()), (PauseMode::All, 1));
        pause.end(Some(later));
        assert_eq!((pause.mode(), pause.waiting()), (PauseMode::None, 0));
        assert!(out.front().is_none(), "an empty answer");
    }
}
