use std::time::Duration;

/// Limits of one connection. Every one is finite.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest request a session buffers; a longer one ends the connection.
    pub request_bytes_max: usize,
    /// Output held in memory for a peer above which the connection is aborted. Producing stops well before.
    pub output_bytes_max: usize,
    /// A peer that takes no byte of its pending output for so long is gone.
    pub stall_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_bytes_max: 1 << 20, output_bytes_max: 64 << 20, stall_max: Duration::from_secs(30) }
    }
}
