//! The thread that does what no request asks for: eviction, burials, the rate of requests.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use proto::Now;

use crate::Cache;

/// How often it looks: at least once a second, and often enough for the idle time to mean something.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Looks after a cache on a thread of its own, for as long as there is somebody else who has it.
///
/// # Errors
/// There is no thread to be had.
pub fn look_after(cache: &Arc<Cache>) -> io::Result<()> {
    let interval = (cache.options.idle_evict / 2).clamp(INTERVAL_MIN, INTERVAL_MAX);
    let cache = Arc::downgrade(cache);
    let watch = move || {
        while let Some(cache) = cache.upgrade() {
            cache.sweep(Now { instant: Instant::now(), unix: sys::clock::unix_coarse() });
            drop(cache);
            thread::sleep(interval);
        }
    };
    thread::Builder::new().name("caretaker".to_owned()).spawn(watch).map(drop)
}
