use std::time::Duration;

use crate::Admission;

/// Limits of one connection. Those of memory and of waiting are finite.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest request a session buffers; a longer one ends the connection.
    pub request_bytes_max: usize,
    /// Output held in memory of a connection's own above which it is aborted. Producing stops well before, but a single
    /// reply may be long.
    pub output_bytes_max: usize,
    /// A peer that takes less than [`Limits::send_rate_min`] of its pending output for so long is gone.
    pub stall_max: Duration,
    /// Bytes per second, averaged over [`Limits::stall_max`], that a peer takes at least. One byte in that time is asked
    /// for in any case.
    pub send_rate_min: u64,
    /// Age from which the next reply is the last; `None`: a connection may live for ever.
    pub age_max: Option<Duration>,
    /// Rules about who may connect; `None`: everybody, and all peers speak for themselves.
    pub admission: Option<&'static Admission>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes_max: 1 << 20,
            output_bytes_max: 64 << 20,
            stall_max: Duration::from_secs(120),
            send_rate_min: 500,
            age_max: None,
            admission: None,
        }
    }
}
