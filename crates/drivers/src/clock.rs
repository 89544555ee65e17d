use std::time::Instant;

use proto::Now;

/// Returns the time, which is read once per batch of events.
pub fn now() -> Now {
    Now { instant: Instant::now(), unix: sys::clock::unix_coarse() }
}
