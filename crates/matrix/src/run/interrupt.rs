//! Ctrl-C: the first one ends the run after the visit under way, the second one at once.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts {
    count: Arc<AtomicU32>,
}

impl Interrupts {
    /// Counts SIGINT and SIGTERM from now on.
    pub(crate) fn watch() -> Result<Self> {
        let interrupts = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals")?;
        let count = Arc::clone(&interrupts.count);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(interrupts)
    }

    /// End after the visit under way.
    pub(crate) fn are_pending(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Drop the visit under way.
    pub(crate) fn are_urgent(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 1
    }
}
