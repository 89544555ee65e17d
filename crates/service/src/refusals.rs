//! Log of the connections that sessions refuse.

use std::{
    fmt,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Interval at which refusals are logged.
const INTERVAL: Duration = Duration::from_secs(10);

/// Writes a refusal to the log; one in an interval, since whoever is refused may come again at once.
pub(crate) fn report(why: fmt::Arguments<'_>) {
    static REPORTED_AT: Mutex<Option<Instant>> = Mutex::new(None);
    let mut reported_at = REPORTED_AT.lock();
    if reported_at.is_none_or(|at| at.elapsed() > INTERVAL) {
        *reported_at = Some(Instant::now());
        drop(reported_at); // Whoever reads the log may be slow.
        tracing::warn!("{why}");
    }
}
