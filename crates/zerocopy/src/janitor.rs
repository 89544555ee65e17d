//! Thread that does what no request asks for: eviction, release of detached files, the rate of requests.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use proto::Now;

use crate::ZerocopyServer;

/// Longest and shortest time between two sweeps: at least once a second, and often enough for the idle time to be exact.
const INTERVAL_MAX: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Sweeps the caches of all hosts on a thread of its own, for as long as anyone else owns the server.
///
/// # Errors
/// The thread cannot be started.
pub fn start_janitor(server: &Arc<ZerocopyServer>) -> io::Result<()> {
    let idle_evict = server.hosts().default_host().site.cache().options.idle_evict;
    let interval = (idle_evict / 2).clamp(INTERVAL_MIN, INTERVAL_MAX);
    let server = Arc::downgrade(server);
    let run = move || {
        while let Some(server) = server.upgrade() {
            let now = Now { instant: Instant::now(), unix: sys::clock::unix_coarse() };
            server.hosts().all().iter().for_each(|host| host.site.cache().sweep(now));
            drop(server);
            thread::sleep(interval);
        }
    };
    thread::Builder::new().name("janitor".to_owned()).spawn(run).map(drop)
}
