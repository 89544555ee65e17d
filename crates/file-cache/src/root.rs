//! The directory that the files are beneath, opened again when its path comes to mean another one.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, RwLock};
use sys::beneath::Root;

use crate::Revalidation;

/// Distance by which the times of two threads may differ, since each reads the clock once for a batch of events.
const CLOCK_SKEW_NS: u64 = 2_000_000_000;

/// Document root, and when its path was last known to mean it.
#[derive(Debug)]
pub(crate) struct LiveRoot {
    root: RwLock<Arc<Root>>,
    /// Time of the last check, in nanoseconds since the epoch.
    checked_ns: AtomicU64,
    /// Held by the one thread that checks.
    check: Mutex<()>,
}

/// Document root as of a check.
#[derive(Clone, Debug)]
pub struct CheckedRoot {
    root: Arc<Root>,
    checked_ns: u64,
}

impl CheckedRoot {
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Time at which its path was last known to mean it, in nanoseconds since the epoch.
    pub fn checked_ns(&self) -> u64 {
        self.checked_ns
    }
}

impl LiveRoot {
    pub(crate) fn new(root: Root) -> Self {
        Self { root: RwLock::new(Arc::new(root)), checked_ns: AtomicU64::new(0), check: Mutex::new(()) }
    }

    /// Returns the root, checked at most the interval ago, or by another thread right now. `forget` is called after it has
    /// been replaced, and after the clock was set back: what was made before that has dates in the future.
    pub(crate) fn get(&self, revalidation: Revalidation, now_ns: u64, forget: impl FnOnce()) -> CheckedRoot {
        let known = self.known();
        if revalidation.is_fresh_since(known.checked_ns, now_ns) {
            return known;
        }
        let Some(_check) = self.check.try_lock() else { return known };
        let new = known.root.reopen_if_replaced().map(Arc::new);
        let is_set_back = now_ns.saturating_add(CLOCK_SKEW_NS) < known.checked_ns;
        let should_forget = new.is_some() || is_set_back;
        if let Some(new) = new {
            tell_if_confined(&new);
            *self.root.write() = new;
        }
        if should_forget {
            forget();
        }
        self.checked_ns.store(now_ns, Ordering::Release);
        self.known()
    }

    fn known(&self) -> CheckedRoot {
        // The time first: it is that of this root or of an earlier one, never of a later one.
        let checked_ns = self.checked_ns.load(Ordering::Acquire);
        CheckedRoot { root: Arc::clone(&self.root.read()), checked_ns }
    }
}

/// Says what becomes of a directory that a confined process was not started with.
fn tell_if_confined(root: &Root) {
    let path = root.path().display();
    if root.is_brokered() {
        tracing::info!(
            "{path} is another directory now: until the next upgrade (SIGUSR2) another process opens its files (--sandbox)"
        );
    } else if root.is_refused() {
        tracing::warn!(
            "{path} is another directory now, which this process may not read: confined (--sandbox), it may after an upgrade (SIGUSR2)"
        );
    }
}
