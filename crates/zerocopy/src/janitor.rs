//! Thread that does what no request asks for: eviction, release of detached files, the rate of requests.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use proto::Now;

use crate::Cache;

/// Longest and shortest time between two sweeps: at least once a second, and often enough for the idle time to be exact.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Sweeps a cache on a thread of its own, for as long as anyone else owns it.
///
/// # Errors
/// The thread cannot be started.
pub fn start_janitor(cache: &Arc<Cache>) -> io::Result<()> {
    let interval = (cache.options.idle_evict / 2).clamp(INTERVAL_MIN, INTERVAL_MAX);
    let cache = Arc::downgrade(cache);
    let run = move || {
        while let Some(cache) = cache.upgrade() {
            cache.sweep(Now { instant: Instant::now(), unix: sys::clock::unix_coarse() });
            drop(cache);
            thread::sleep(interval);
        }
    };
    thread::Builder::new().name("janitor".to_owned()).spawn(run).map(drop)
}
