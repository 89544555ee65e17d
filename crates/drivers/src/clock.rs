use std::time::Instant;

use proto::Now;

/// Read once per batch of events.
pub(crate) fn now() -> Now {
    Now { instant: Instant::now(), unix: sys::clock::unix_coarse() }
}
